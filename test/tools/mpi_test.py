#!/usr/bin/env python3
"""What cleave compile wrote, under mpirun."""
import os
import re
import signal
import subprocess
import time
import unittest

from support import LLAMA, ToolTest, make_dataset

MPIRUN = [os.environ.get("CLEAVE_MPIRUN", ""), "--allow-run-as-root",
          "--oversubscribe", "--bind-to", "none"]


@unittest.skipUnless(os.environ.get("CLEAVE_MPIRUN"), "no Open MPI here")
class MpiTest(ToolTest):
    def setUp(self):
        super().setUp()
        index, tokens = make_dataset([1000])
        self.write("set.idx", index)
        self.write("set.bin", tokens)
        self.compile("train", "--dp", "2", "--zero", "2")
        self.run = ["./train", "--data", "set", "--steps", "3"]

    def test_processes_compute_what_threads_do(self):
        """Bit for bit."""
        threads = self.losses(*self.run)
        self.assertEqual(self.losses(*MPIRUN, "-np", "2", *self.run), threads)

    def test_a_wrong_number_of_ranks(self):
        for ranks in ["1", "3"]:
            done = self.start(*MPIRUN, "-np", ranks, *self.run)
            self.assertNotEqual(done.returncode, 0)
            said = re.findall("^error: .*", done.stderr, re.M)
            self.assertEqual(len(said), 1, done.stderr)
            self.assertRegex(said[0], f"started {ranks} rank.* compiled for 2")

    def test_killing_one_rank_ends_all(self):
        process = subprocess.Popen(
            [*MPIRUN, "-np", "2", "./train", "--data", "set", "--steps",
             "100000000", "--log-every", "0", "--metrics", "out.jsonl"],
            cwd=self.folder, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        try:
            ranks = self.wait_for_ranks()
            os.kill(ranks[0], signal.SIGKILL)
            self.assertNotEqual(process.wait(timeout=60), 0)
        finally:
            process.kill()
        deadline = time.monotonic() + 30
        while self.find_ranks():
            self.assertLess(time.monotonic(), deadline, "a rank lives on")
            time.sleep(0.05)

    def wait_for_ranks(self):
        """The processes of both ranks, once they train."""
        deadline = time.monotonic() + 60
        while True:
            ranks = self.find_ranks()
            if len(ranks) == 2 and "out.jsonl" in self.list() \
                    and self.read("out.jsonl"):
                return ranks
            self.assertLess(time.monotonic(), deadline, "never started")
            time.sleep(0.05)

    def find_ranks(self):
        """Ids of processes that run this test's executable."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{name}/exe") == os.path.realpath(
                        self.path("train")):
                    found.append(int(name))
            except OSError:
                continue
        return found


if __name__ == "__main__":
    unittest.main()
