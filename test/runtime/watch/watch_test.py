#!/usr/bin/env python3
"""Ranks that fall ill in all ways, a few of each; campaign.py has many."""
import os
import signal
import subprocess
import tempfile
import time
import unittest

from ranks import (HUNG, LAUNCH, MPIRUN, PLACES, Run, check, get_group,
                   get_message, is_alive, wait_gone)

# Seconds. What is left of it once a rank is accused, a fifth, is for a machine
# that stalls meanwhile.
LIMIT = 4.0


class WatchTest(unittest.TestCase):
    def find(self, backend, what, where, rank, message=None, **settings):
        with self.subTest(backend=backend, what=what, where=where, rank=rank):
            run = Run(backend, what=what, where=where, rank=rank,
                      watchdog=LIMIT, save_every=3 if where == "save" else 0,
                      **settings)
            ill = run.wait_ill()
            code = run.wait(LIMIT + 30)
            wrong, _, _ = check(run, LIMIT, ill, code,
                                message or get_message(what, where, rank))
            self.assertEqual(wrong, "", run.err)
            return code

    def expect_healthy(self, run, timeout=100):
        code = run.wait(timeout)
        self.assertEqual((code, run.err, run.wait_gone()), (0, "", []))


class LocalTest(WatchTest):
    def test_a_healthy_run_ends_well(self):
        self.expect_healthy(Run("local", steps=300, watchdog=1, save_every=99))

    def test_a_kernel_that_hangs(self):
        for rank in 0, 3:
            self.assertEqual(self.find("local", "hang", "compute", rank), HUNG)

    def test_a_thread_that_is_stopped(self):
        self.assertEqual(self.find("local", "freeze", "compute", 1), HUNG)
        self.assertEqual(self.find("local", "freeze", "collective", 2), HUNG)

    def test_a_collective_left_out(self):
        self.find("local", "skip", "compute", 2,
                  r"watchdog: rank 2 has not come for .* to a collective; "
                  r"is in .* barrier .*; ranks 0 and 3 wait for it, rank 0 in "
                  + PLACES["collective"].format(group=get_group(0)))

    def test_saving_and_loading_may_take_their_time(self):
        for where in "save", "load":
            run = Run("local", what="hang", where=where, rank=1, patient=4,
                      watchdog=1, save_every=3)
            ill = run.wait_ill()
            code = run.wait(30)
            self.assertEqual(code, HUNG, run.err)
            self.assertRegex(run.errors()[0], "rank 1 hangs for .* in "
                             + ("saving" if where == "save" else "loading"))
            self.assertGreater(run.said - ill, 3)
            self.assertLess(run.said - ill, 4)

    def test_a_failure_is_no_hang(self):
        run = Run("local", what="leave", rank=2, watchdog=1)
        self.assertEqual(run.wait(30), 1)
        self.assertEqual(run.errors(), ["rank 2: it has left"])

    def test_no_watchdog(self):
        run = Run("local", what="hang", watchdog=0, dp=1, tp=1)
        self.assertTrue(run.wait_ill())
        time.sleep(3)
        self.assertIsNone(run.process.poll())
        run.kill()
        run.wait(1)

    def test_a_pause_of_the_whole_process(self):
        run = Run("local", steps=400, watchdog=1)
        for _ in range(3):
            time.sleep(0.3)
            run.process.send_signal(signal.SIGSTOP)
            time.sleep(3)
            run.process.send_signal(signal.SIGCONT)
        self.expect_healthy(run)


@unittest.skipUnless(MPIRUN, "no Open MPI here")
class MpiTest(WatchTest):
    def test_a_healthy_run_ends_well(self):
        self.expect_healthy(Run("mpi", steps=100, watchdog=LIMIT))

    def test_a_process_that_is_stopped(self):
        """The exit code is the watchdog's, and the stopped process ends."""
        self.assertEqual(self.find("mpi", "stop", "compute", 0), HUNG)
        self.assertEqual(self.find("mpi", "stop", "collective", 2), HUNG)
        self.assertEqual(self.find("mpi", "stop", "save", 3), HUNG)

    def test_a_process_that_is_killed(self):
        """The exit code is mpirun's, for the signal."""
        self.find("mpi", "kill", "compute", 3)
        self.find("mpi", "kill", "collective", 0)

    def test_a_thread_that_is_stopped(self):
        self.assertEqual(self.find("mpi", "freeze", "collective", 1), HUNG)

    def test_a_kernel_that_hangs(self):
        self.assertEqual(self.find("mpi", "hang", "compute", 0), HUNG)

    def test_a_failure_is_told_once(self):
        run = Run("mpi", what="leave", rank=2, watchdog=LIMIT)
        self.assertNotEqual(run.wait(60), 0)
        self.assertEqual(run.errors(), ["rank 2: it has left"])
        self.assertEqual(run.wait_gone(), [])

    def test_short_pauses_are_no_fault(self):
        """Half of the limit, of any rank, one after the other."""
        run = Run("mpi", steps=400, watchdog=LIMIT)
        while len(ranks := run.find_ranks()) < run.world:
            time.sleep(0.05)
        time.sleep(0.5)
        for i in range(5):
            try:
                os.kill(ranks[i % len(ranks)], signal.SIGSTOP)
                time.sleep(LIMIT / 2)
                os.kill(ranks[i % len(ranks)], signal.SIGCONT)
            except ProcessLookupError:
                break
        self.expect_healthy(run)


class TcpTest(WatchTest):
    """Without a launcher that ends the others when one has ended."""

    def test_a_healthy_run_ends_well(self):
        self.expect_healthy(Run("tcp", steps=100, watchdog=LIMIT))

    def test_a_process_that_is_killed(self):
        self.find("tcp", "kill", "compute", 3)
        self.find("tcp", "kill", "collective", 0)

    def test_a_kernel_that_hangs(self):
        self.assertEqual(self.find("tcp", "hang", "compute", 2), HUNG)

    def test_a_failure_is_told_once(self):
        run = Run("tcp", what="leave", rank=2, watchdog=LIMIT)
        self.assertNotEqual(run.wait(60), 0)
        self.assertEqual(run.errors(), ["rank 2: it has left"])
        self.assertEqual(run.wait_gone(), [])


class TrainTest(unittest.TestCase):
    """The executable's own main: the option, the message, the exit code."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.data = os.path.join(folder.name, "text")
        with open(self.data, "wb") as file:
            file.write(b"\1" * 100)
        self.command = [os.environ["CLEAVE_TOY_TRAIN"], "--data", self.data,
                        "--steps", "1000000000", "--log-every", "0",
                        "--peak-gflops", "1", "--lr", "0", "--watchdog"]

    def run_toy(self, *flags, prefix=(), **options):
        process = subprocess.Popen(
            [*prefix, *self.command, *flags],
            env={**os.environ, "TOY_DP": "2"}, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            **options)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        return process

    @unittest.skipUnless(MPIRUN, "no Open MPI here")
    def test_a_rank_of_mpirun_is_stopped(self):
        process = self.run_toy(str(LIMIT), prefix=[*LAUNCH, "-np", "2"])
        deadline = time.monotonic() + 60
        while len(ranks := self.find_children(process.pid)) < 2:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        time.sleep(3)  # until it trains
        os.kill(ranks[1], signal.SIGSTOP)
        self.assertEqual(process.wait(60), HUNG)
        self.assertRegex(process.stderr.read(),
                         r"(?m)^error: watchdog: rank [01] has said nothing "
                         r"for .* waits for it in .* over dp of ranks 0 and 1; "
                         r"the kernel's log \(dmesg\) of its host may say why")
        self.assertEqual(wait_gone(lambda: list(filter(is_alive, ranks))), [])

    def find_children(self, parent):
        with open(f"/proc/{parent}/task/{parent}/children",
                  encoding="ascii") as file:
            return [int(child) for child in file.read().split()]

    def test_what_it_does_not_take(self):
        for bad in "-1", "nan", "inf", "soon", "0.5":
            process = self.run_toy(bad)
            self.assertEqual(process.wait(30), 2)
            self.assertIn("--watchdog", process.stderr.read())


if __name__ == "__main__":
    unittest.main()
