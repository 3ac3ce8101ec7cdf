#!/usr/bin/env python3
"""--device cuda on machines that lack something, and on GPUs that hang: one
line that says what is wrong and what to do, and no rank that goes on. The
machine is made of software (test/cuda); what fails as a GPU does is in
cuda_test.py."""
import json
import os
import shutil
import unittest

from support import MPIRUN, TOOLS, ToolTest

MACHINE = os.path.realpath(os.path.join(TOOLS, "..", "test", "cuda"))
SIMULATE = os.path.join(MACHINE, "simulate")
# A driver of which nothing but its name is CUDA's.
NO_DRIVER = os.path.join(TOOLS, "..", "test", "runtime", "cuda")
LIBRARIES = ["libcuda.so.1", "libcublasLt.so.13", "libnccl.so.2"]


class CudaErrorsTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.write("data", "".join(chr(32 + i * i % 95) for i in range(999)))

    def compile_for(self, ranks, *flags):
        self.compile("train", "--cluster", f"h200:{ranks}", *flags)

    def test_what_is_simulated_says_so(self):
        """In files that outlive the run's own lines, and where a fault that was
        wished did not come."""
        self.compile_for(1)
        done = self.start(*self.command(
            "--metrics", "metrics.jsonl", "--trace", "trace.json",
            machine=["--fault", "ecc@999999"]))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "(?m)^simulated CUDA: a fault was wished of "
                         "operation 999999, and this process executed [1-9]")
        name = "Cleave simulated GPU (no hardware)"
        for row in self.lines("metrics.jsonl"):
            self.assertIn(name, row["device"])
        labels = [event["args"]["labels"]
                  for event in json.loads(self.read("trace.json"))["traceEvents"]
                  if event["name"] == "process_labels"]
        self.assertEqual(len(labels), 1)
        self.assertIn(name, labels[0])
        shown = self.run_tool("cleave", "explain", "train", "--trace",
                              "trace.json", "--cluster", "h200:1")
        self.assertRegex(shown, r"measured .* on .*\(no hardware\)")
        self.expect_end(["--device: tpu not in {auto,cpu,cuda}"], "./train",
                        "--data", "data", "--steps", "1", "--device", "tpu")

    def break_library(self, *broken, **others):
        """The environment of a machine on which these cannot be loaded, and
        others have another's code; dots are underscores."""
        folder = self.path("machine")
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        for name in LIBRARIES:
            os.symlink(os.path.join(MACHINE, name), os.path.join(folder, name))
        for name, library in others.items():
            os.symlink(os.path.join(MACHINE, library),
                       os.path.join(folder, name.replace("_", ".")))
        for name in broken:
            # Whether the system has one or not, this is found first.
            if os.path.lexists(os.path.join(folder, name)):
                os.remove(os.path.join(folder, name))
            self.write(f"machine/{name}", "not a library")
        return dict(os.environ, CLEAVE_SIMULATED_MACHINE=folder)

    def command(self, *arguments, machine=(), steps=3):
        return [SIMULATE, "--threads", "1", *machine, "--", "./train", "--data",
                "data", "--steps", str(steps), "--device", "cuda",
                *arguments]

    def expect_end(self, parts, *command, **options):
        """An error, or the same of several ranks, that has all the parts,
        beside what the machine and a launcher say; returns what was printed
        before."""
        done = self.start(*command, **options)
        self.assertNotEqual(done.returncode, 0, done.stderr)
        errors = [line for line in done.stderr.splitlines()
                  if line.startswith("error: ")]
        self.assertTrue(errors, done.stderr)
        for error in errors:
            for part in parts:
                self.assertIn(part, error, done.stderr)
        return done.stdout

    def test_library_that_cannot_be_opened(self):
        self.compile_for(1)
        self.expect_end(
            ["cannot open libcublasLt.so.13 or libcublasLt.so.12", "install "
             "cuBLAS", "LD_LIBRARY_PATH"], *self.command(),
            env=self.break_library("libcublasLt.so.13", "libcublasLt.so.12"))

    def test_library_of_another_major_version(self):
        """Losses are those of the CPU all the same."""
        self.compile_for(1)
        losses = self.losses("./train", "--data", "data", "--steps", "3")
        env = self.break_library("libcublasLt.so.13",
                                 libcublasLt_so_12="libcublasLt.so.13")
        self.assertEqual(self.losses(*self.command(), env=env), losses)

    def test_driver_without_entry_points(self):
        self.compile_for(1)
        self.expect_end(
            ["the CUDA driver is too old: libcuda.so.1 has no cu", "expects "
             "one of CUDA 12.0 or later"], "./train", "--data", "data",
            "--steps", "3", "--device", "cuda",
            env=dict(os.environ, LD_LIBRARY_PATH=NO_DRIVER))

    def test_kernel_that_never_ends(self):
        """The watchdog says of which rank, and in which step."""
        for ranks, operation in (1, 3000), (4, 9000):
            with self.subTest(ranks=ranks):
                self.compile_for(ranks, "--dp", str(ranks))
                output = self.expect_end(
                    ["watchdog: rank", " 0", " hang", " step "], *self.command(
                        "--watchdog", "1", steps=99,
                        machine=["--fault", f"hang@{operation}"]))
                self.assertIn("step 1/99", output)

    @unittest.skipUnless(os.environ.get("CLEAVE_MPIRUN"), "no Open MPI here")
    def test_processes(self):
        """More of them than GPUs, one whose GPU is too small or hangs, and no
        NCCL."""
        self.compile_for(2, "--dp", "2")
        both = self.command(machine=["--devices", "2"])
        self.expect_end(
            ["rank 1: ", "this machine has 1 GPU, and this is its rank 1",
             "start at most one rank a GPU, or set LOCAL_RANK"],
            *MPIRUN, "-np", "2", *self.command(machine=["--devices", "1"]))
        self.expect_end(
            ["rank 1: the arena takes "], *MPIRUN, "-np", "1", *both, ":",
            "-np", "1", *self.command(machine=["--devices", "2", "--memory",
                                               "1000000"]))
        hangs = ["--watchdog", "1"]
        self.expect_end(
            ["watchdog: rank", " hang"], *MPIRUN, "-np", "1", *self.command(
                *hangs, steps=99, machine=["--devices", "2"]), ":",
            "-np", "1", *self.command(*hangs, steps=99, machine=[
                "--devices", "2", "--fault", "hang@900"]))
        self.expect_end(
            ["cannot open libnccl.so.2", "install NCCL"],
            *MPIRUN, "-np", "2", *both,
            env=self.break_library("libnccl.so.2"))


if __name__ == "__main__":
    unittest.main()
