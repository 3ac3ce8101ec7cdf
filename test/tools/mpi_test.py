#!/usr/bin/env python3
"""What cleave compile wrote, under mpirun."""
import os
import re
import signal
import subprocess
import time
import unittest

from support import LLAMA, MPIRUN, SHAPE, ToolTest, make_dataset


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

    def start_each(self, *ranks, **options):
        """A context of mpirun's for each rank: its own command line."""
        command = list(MPIRUN)
        for rank, each in enumerate(ranks):
            command += ([":"] if rank else []) + ["-np", "1", *each]
        done = self.start(*command, **options)
        return done.returncode, re.findall("^error: .*", done.stderr, re.M)

    def assert_named(self, parts, *ranks, **options):
        """Said once, before the first step, and without waiting for ever."""
        code, said = self.start_each(*ranks, **options)
        self.assertNotEqual(code, 0, said)
        self.assertEqual(len(said), 1, said)
        for part in parts:
            self.assertIn(part, said[0], said)
        for name in self.list():
            self.assertFalse(name.startswith("out"), name)

    def test_ranks_of_other_options_are_named(self):
        """Each option that one rank has and the other has not, or otherwise."""
        for flag, value in [
                ("--seed", "1"), ("--lr", "0.5"), ("--min-lr", "1e-9"),
                ("--warmup-steps", "1"), ("--decay-steps", "9"),
                ("--threads", "1"), ("--log-every", "3"),
                ("--peak-gflops", "2"), ("--save", "out.save"),
                ("--metrics", "out.metrics"), ("--trace", "out.trace"),
                ("--trace-steps", "3"), ("--dump-outputs", "out.dump"),
                ("--init", LLAMA)]:
            value = f"{value}"
            shown = float(value) if re.fullmatch(r"[\d.e-]+", value) else value
            for odd in range(2):
                ranks = [self.run, self.run]
                ranks[odd] = [*self.run, flag, value]
                code, said = self.start_each(*ranks)
                self.assertNotEqual(code, 0, said)
                self.assertEqual(len(said), 1, said)
                found = re.search(rf'{flag} is "(.*?)" on rank 1, but "(.*?)" '
                                  r"on rank 0", said[0])
                self.assertTrue(found, said)
                given = found[2 - odd]
                if isinstance(shown, float):
                    given = float(given)
                self.assertEqual(given, shown)
                self.assertEqual([name for name in self.list()
                                  if name.startswith("out")], [])

    def test_ranks_of_other_steps_are_named(self):
        longer = [*self.run[:-1], "5"]
        self.assert_named(['--steps is "5" on rank 1, but "3" on rank 0'],
                          self.run, longer)
        self.assert_named(['--steps is "3" on rank 1, but "5" on rank 0'],
                          longer, self.run)

    def test_ranks_of_other_programs_are_named(self):
        for flags in [["--dp", "2", "--zero", "1"], ["--dp", "2"],
                      ["--tp", "2"], ["--dp", "3"], [],
                      ["--dp", "2", "--zero", "2", "--lr", "0.5"]]:
            self.compile("other", *flags, shape=["--seq-len", "16",
                                                 "--global-batch", "6"]
                         if "3" in flags else SHAPE)
            other = ["./other", *self.run[1:]]
            for ranks in [(self.run, other), (other, self.run)]:
                self.assert_named(["the program's checksum is", "on rank 1",
                                   "on rank 0"], *ranks)

    def test_ranks_of_other_data_are_named(self):
        """Other paths, and one path with other content on each host."""
        index, tokens = make_dataset([1000], tokens=[3] * 1000)
        os.mkdir(self.path("host"))
        for folder in ["", "host/"]:
            self.write(folder + "other.idx", index)
            self.write(folder + "other.bin", tokens)
        self.write("host/set.idx", self.read("set.idx"))
        self.write("host/set.bin", tokens)
        other = [each.replace("set", "other") for each in self.run]
        self.assert_named(['--data is "other" on rank 1, but "set" on rank 0'],
                          self.run, other)
        here = [os.path.abspath(self.path("train")), *self.run[1:]]
        self.assert_named(
            ["the content of set.bin is", "on rank 1, but", "on rank 0"],
            here, ["-wdir", self.path("host"), *here])
        self.assert_named(["rank 1: none: cannot open"], self.run,
                          [each.replace("set", "none") for each in self.run])
        # Weights to start from, likewise.
        for folder in ["", "host/"]:
            os.mkdir(self.path(folder + "init"))
            for name in ["config.json", "model.safetensors"]:
                with open(os.path.join(LLAMA, name), "rb") as file:
                    content = bytearray(file.read())
                if folder and name == "model.safetensors":
                    content[-1] ^= 1
                self.write(folder + "init/" + name, bytes(content))
        self.write("host/set.bin", self.read("set.bin"))
        here += ["--init", "init"]
        self.assert_named(["the content of init/model.safetensors is"],
                          here, ["-wdir", self.path("host"), *here])

    def test_one_rank_of_wrong_usage_is_heard(self):
        """By itself, though rank 0 has nothing to say."""
        for flags, part in [(["--bogus"], "--bogus"),
                            (["--lr", "x"], "--lr"),
                            (["--transport", "local"],
                             '--transport is "local" on rank')]:
            for odd in range(2):
                ranks = [self.run, self.run]
                ranks[odd] = [*self.run, *flags]
                self.assert_named([part], *ranks)
            self.assert_named([part], *[[*self.run, *flags]] * 2)

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
