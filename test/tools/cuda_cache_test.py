#!/usr/bin/env python3
"""What one run finds of cuBLASLt's algorithms and a later one takes, on the CUDA
machine that is made of software (test/cuda)."""
import os
import unittest

from support import LLAMA, MPIRUN, TOOLS, ToolTest

SIMULATE = os.path.join(TOOLS, "..", "test", "cuda", "simulate")
RUN = ["--data", "data", "--steps", "2", "--device", "cuda", "--log-every", "0"]
DIGITS = 128  # of an algorithm


def compute_crc32c(text):
    crc = 0xFFFFFFFF
    for byte in text.encode():
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class CudaCacheTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.write("data", "".join(chr(32 + i * i % 95) for i in range(999)))

    def run_on_gpu(self, *machine, cache="cache", arguments=()):
        """What is said on stderr, but for the machine's own words."""
        env = dict(os.environ)
        env["CLEAVE_CACHE"] = cache and self.path(cache)
        self.done = self.start(SIMULATE, "--threads", "1", *machine, "--",
                               "./train", *RUN, *arguments, env=env)
        return [line for line in self.done.stderr.splitlines()
                if not line.startswith(("simulate: ", "simulated CUDA: "))]

    def expect_run(self, *said):
        """A run that ends well, and lines that have these words."""
        lines = self.run_on_gpu("--seed", "1", arguments=["--dump-outputs",
                                                          "outputs"])
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.assertEqual(len(lines), len(said), self.done.stderr)
        for line, words in zip(lines, said):
            self.assertIn(words, line)
        return self.read("outputs")

    def get_file(self):
        name, = os.listdir(self.path("cache"))
        return os.path.join("cache", name)

    def get_choices(self):
        lines = self.read(self.get_file()).decode().splitlines()
        return dict(line.split("\t") for line in lines[2:-1])

    def write_choices(self, choices):
        head = self.read(self.get_file()).decode().splitlines()[:2]
        text = "".join(line + "\n" for line in [
            *head, *("\t".join(item) for item in choices.items())])
        self.write(self.get_file(),
                   f"{text}crc32c {compute_crc32c(text):08x}\n")

    def test_a_later_run_has_no_trials(self):
        self.compile("train", "--cluster", "h200:1")
        # An operation of the first trials fails.
        fault = ["--fault", "ecc@20"]
        error, = self.run_on_gpu(*fault)
        self.assertIn("CudaProducts.cpp", error)
        self.assertFalse(os.path.exists(self.path("cache")))
        outputs = self.expect_run()
        choices = self.get_choices()
        self.assertGreater(len(choices), 4)
        for name, algorithm in choices.items():
            self.assertRegex(name, r"^\[\d+,\d+\](\^T)? x \[\d+,\d+\](\^T)?, "
                             r"\w+ -> \w+; workspace 33554432, aligned to 16, "
                             r"of 8$")
            self.assertRegex(algorithm, f"^[0-9a-f]{{{DIGITS}}}$")
        self.assertIn("cleave choices 1\ncuBLASLt 130100, ",
                      self.read(self.get_file()).decode())
        # The same one fails later.
        error, = self.run_on_gpu(*fault)
        self.assertTrue("CudaProducts.cpp" not in error, error)
        # Nothing is new, so nothing is written.
        before = os.stat(self.path(self.get_file())).st_ino
        self.assertTrue(self.expect_run() == outputs)
        self.assertEqual(os.stat(self.path(self.get_file())).st_ino, before)

    def test_another_program_adds_to_it(self):
        self.compile("train", "--cluster", "h200:1")
        self.expect_run()
        first = self.get_choices()
        self.compile("train", "--cluster", "h200:1", "--dtype", "bf16",
                     shape=["--seq-len", "8", "--global-batch", "4"])
        self.expect_run()
        both = self.get_choices()
        self.assertGreater(len(both), len(first))
        self.assertLessEqual(first.items(), both.items())

    def test_what_is_kept_is_what_is_used(self):
        """By both ranks of a stage; of an algorithm that expects addresses
        which are multiples of 2^40."""
        self.compile("train", "--cluster", "h200:2", "--tp", "2")
        self.expect_run()
        choices = self.get_choices()
        name, algorithm = next(iter(choices.items()))
        choices[name] = algorithm[:48] + f"{1 << 40:016x}" + algorithm[64:]
        self.write_choices(choices)
        error, = self.run_on_gpu()
        self.assertIn("cublasLtMatmul failed", error)
        self.assertIn("CUBLAS_STATUS_INVALID_VALUE", error)
        self.assertIn("is not aligned to 1099511627776 bytes",
                      self.done.stderr)

    def test_what_the_library_refuses(self):
        """Another product's algorithm, one that takes too much workspace, and
        what is none: all are chosen anew."""
        self.compile("train", "--cluster", "h200:1")
        outputs = self.expect_run()
        whole = self.get_choices()
        names = list(whole)
        changed = dict(whole)
        changed[names[0]] = whole[names[1]]
        changed[names[1]] = whole[names[1]][:32] + "f" * 16 + \
            whole[names[1]][48:]
        changed[names[2]] = "none"
        self.write_choices(changed)
        self.assertTrue(self.expect_run(
            f"cuBLASLt refuses 3 of {len(whole)} algorithms, which are chosen "
            "anew") == outputs)
        self.assertEqual(self.get_choices().keys(), whole.keys())
        self.expect_run()

    def test_a_damaged_file(self):
        self.compile("train", "--cluster", "h200:1")
        outputs = self.expect_run()
        whole = self.get_choices()
        for text in b"", b"{}\n", self.read(self.get_file())[:-30]:
            self.write(self.get_file(), text)
            self.assertTrue(self.expect_run("; it is not used, and is written "
                                            "anew") == outputs)
            self.assertEqual(self.get_choices().keys(), whole.keys())
        self.expect_run()

    def test_nothing_is_kept(self):
        self.compile("train", "--cluster", "h200:1")
        before = self.list()
        self.assertEqual(self.run_on_gpu(cache=""), [])
        self.assertEqual(self.list(), before)

    @unittest.skipUnless(os.environ.get("CLEAVE_MPIRUN"), "no Open MPI here")
    def test_first_ranks_of_stages_find_and_keep(self):
        """A folder for each rank, as on machines of their own."""
        self.compile("train", "--cluster", "h200:4", "--pp", "2", "--tp", "2",
                     "--micro-batch", "2")
        run = " ".join([SIMULATE, "--devices", "4", "--threads", "1", "--",
                        "./train", *RUN])
        command = [*MPIRUN, "-np", "4", "sh", "-c",
                   "CLEAVE_CACHE=cache$OMPI_COMM_WORLD_RANK exec " + run]
        for _ in range(2):
            self.run_tool(*command)
            kept = {name: os.listdir(self.path(name)) for name in self.list()
                    if name.startswith("cache")}
            # The mesh is pp x tp.
            self.assertEqual(sorted(kept), ["cache0", "cache2"])


if __name__ == "__main__":
    unittest.main()
