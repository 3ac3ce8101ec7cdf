#!/usr/bin/env python3
"""--device cuda of several processes, on the CUDA machine that is made of
software (test/cuda): NCCL's collectives and messages between them.

CLEAVE_SEEDS=170 test/tools/nccl_test.py NcclTest.test_pipelines runs each
pipeline in so many orders."""
import os
import re
import shutil
import unittest

from support import LLAMA, MPIRUN, ROOT, TOOLS, ToolTest, make_dataset

SIMULATE = os.path.join(TOOLS, "..", "test", "cuda", "simulate")
# Whose gathered activations and gradients are packed in several sizes.
TINY = os.path.join(ROOT, "examples", "tiny-llama")
RUN = ["--data", "data", "--log-every", "0"]
# Which leaves the others so many seconds once a rank has died.
PATIENT_MPIRUN = [*MPIRUN[:-1], "2"]


@unittest.skipUnless(os.environ.get("CLEAVE_MPIRUN"), "no Open MPI here")
class NcclTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.write("data", "".join(chr(32 + i * i % 95) for i in range(999)))

    def compile_for(self, ranks, *flags, **options):
        self.ranks = str(ranks)
        self.compile("train", "--cluster", f"h200:{ranks}", "--overlap",
                     "always", *flags, **{"model": LLAMA, **options})

    def command(self, count, *arguments, machine=(), steps=3):
        """For so many processes, of which each has a GPU of its own. The third
        step launches what the second one captured."""
        return ["-np", str(count), SIMULATE, "--devices", self.ranks,
                "--threads", "1", *machine, "--", "./train", *RUN, "--steps",
                str(steps), "--device", "cuda", *arguments]

    def simulate(self, *arguments, machine=(), steps=3, launcher=MPIRUN,
                 **options):
        return self.start(*launcher,
                          *self.command(self.ranks, *arguments, machine=machine,
                                        steps=steps), **options)

    def expect_same_bits(self, seeds, *arguments):
        self.run_tool("./train", *RUN, "--steps", "3", "--device", "cpu",
                      "--dump-outputs", "cpu")
        for seed in seeds:
            done = self.simulate("--dump-outputs", "cuda", *arguments,
                                 machine=["--seed", str(seed)])
            self.assertEqual(done.returncode, 0, done.stderr)
            # Nothing was refused, and nothing went wrong.
            self.assertNotIn("simulated ", done.stderr.replace(
                "CUDA is simulated on", ""))
            self.assertTrue(self.read("cuda") == self.read("cpu"),
                            f"seed {seed}")

    def test_layouts(self):
        for model, flags in [
                (TINY, ["--dp", "2", "--tp", "2", "--zero", "1",
                        "--sequence-parallel"]),
                (LLAMA, ["--dp", "4", "--zero", "3", "--dtype", "f32"])]:
            with self.subTest(flags=flags):
                self.compile_for(4, *flags, model=model)
                self.expect_same_bits([1, 2])

    def test_pipelines(self):
        """What a rank sends in one stream its peer receives in another."""
        seeds = int(os.environ.get("CLEAVE_SEEDS", "2"))
        for ranks, flags in [
                (4, ["--pp", "2", "--dp", "2", "--micro-batch", "1"]),
                (4, ["--pp", "2", "--tp", "2", "--sequence-parallel",
                     "--pipeline-schedule", "zb-v"]),
                (8, ["--pp", "2", "--tp", "2", "--dp", "2", "--zero", "1",
                     "--micro-batch", "1"])]:
            with self.subTest(flags=flags):
                self.compile_for(ranks, *flags)
                self.expect_same_bits(range(1, 1 + seeds))

    def test_one_stream(self):
        self.compile_for(2, "--dp", "2", "--zero", "2")
        self.expect_same_bits([1], "--serial")

    def test_failures_in_flight(self):
        """All communicators end, though a graph has operations of them and some
        are behind others: else the machine would find a deadlock."""
        self.compile_for(4, "--dp", "2", "--tp", "2", "--zero", "1")
        for operation in [2, 60]:
            done = self.simulate(steps=6, machine=[
                "--fault", f"nccl-error@{operation}"])
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, "error: rank [0-3]: step [0-5]: among "
                             "ranks .*, for instruction .* or a later one: an "
                             "operation of NCCL in flight failed at .*: remote "
                             "process exited.*; another rank, or its machine, "
                             "has ended")
            self.assertNotIn("deadlock", done.stderr)
            self.assertNotIn("would wait for ever", done.stderr)

    def test_failure_of_one_gpu(self):
        """While rank 0 chooses algorithms, as libraries are warmed up, as a
        step runs, and in a graph. Its rank waits for nobody, and the other one
        does not wait for it."""
        self.compile_for(2, "--dp", "2")
        for rank, operation in (0, 20), (1, 5), (1, 400), (1, 900):
            faults = [["--fault", f"ecc@{operation}"] if rank == each else []
                      for each in range(2)]
            done = self.start(
                *MPIRUN, *self.command(1, steps=9, machine=faults[0]), ":",
                *self.command(1, steps=9, machine=faults[1]))
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, f"error: rank {rank}: .*"
                             "CUDA_ERROR_ECC_UNCORRECTABLE")
            for said in "in vain", "for ever", "watchdog":
                self.assertNotIn(said, done.stderr)

    def test_a_failure_is_said_once(self):
        """Under a launcher that leaves the others time to see that the rank has
        gone: NCCL does, and the watchdog, and neither knows why."""
        self.compile_for(3, "--dp", "3", shape=["--seq-len", "16",
                                                "--global-batch", "3"])
        for operation in 5, 400:
            commands = []
            for rank in range(3):
                fault = ["--fault", f"ecc@{operation}"] if rank == 1 else []
                commands += [":", *self.command(1, steps=9, machine=fault)]
            done = self.start(*PATIENT_MPIRUN, *commands[1:])
            self.assertNotEqual(done.returncode, 0)
            said = re.findall("^error: .*", done.stderr, re.MULTILINE)
            self.assertEqual(len(said), 1, done.stderr)
            self.assertRegex(said[0], "rank 1: .*CUDA_ERROR_ECC_UNCORRECTABLE")

    def test_failure_of_one_host(self):
        """Between two steps: of a rank whose file is not the one that rank 0
        has looked through. The other rank is in a collective, and ends it."""
        self.compile_for(2, "--dp", "2")
        size, block, blocks = 8 << 20, 1 << 16, 18  # bytes
        index, right = make_dataset([size // 2], tokens=[7] * (size // 2))
        wrong = bytearray(b"\xff" * size)
        # As ranks compare files: by blocks of them.
        last = size - block
        for i in range(blocks):
            begin = last // (blocks - 1) * i + last % (blocks - 1) * i // (
                blocks - 1)
            wrong[begin:begin + block] = right[begin:begin + block]
        for folder, tokens in ("0", right), ("1", bytes(wrong)):
            os.mkdir(self.path(folder))
            os.link(self.path("train"), self.path(os.path.join(folder, "train")))
            self.write(os.path.join(folder, "data.idx"), index)
            self.write(os.path.join(folder, "data.bin"), tokens)
        command = self.command(1)
        done = self.start(*MPIRUN, "-wdir", self.path("0"), *command, ":",
                          "-wdir", self.path("1"), *command)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "error: rank 1: data.bin: token .* 65535")
        for said in "in vain", "for ever", "watchdog":
            self.assertNotIn(said, done.stderr)

    def test_failure_behind_another(self):
        """Rank 0 cannot write its metrics, so all end behind the step, which
        they save first; meanwhile the GPU of rank 1 fails, which rank 0 would
        wait for."""
        self.compile_for(2, "--dp", "2", "--zero", "1")
        arguments = ["--metrics", "/dev/full", "--save", "saved"]

        def run(*machine):
            return self.start(
                *MPIRUN, *self.command(1, *arguments), ":",
                *self.command(1, *arguments, machine=machine))

        done = run("--log", "operations")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "error: rank 0: /dev/full: cannot write")
        self.assertIn("saved saved/step-00000001", done.stdout)
        shutil.rmtree(self.path("saved"))
        last = len(self.read("operations").splitlines())
        done = run("--fault", f"ecc@{last}")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr,
                         "error: rank 1: .*CUDA_ERROR_ECC_UNCORRECTABLE")
        for said in "in vain", "for ever", "watchdog":
            self.assertNotIn(said, done.stderr)

    def test_choice_of_attention_that_is_none_on_one_rank(self):
        self.compile_for(2, "--dp", "2")
        command = self.command(1)
        done = self.start(*MPIRUN, *command, ":", "-np", "1", "env",
                          "CLEAVE_ATTENTION=best", *command[2:])
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "error: rank 1: the environment variable "
                         'CLEAVE_ATTENTION is "best"')

    def test_id_that_cannot_be_made(self):
        self.compile_for(2, "--dp", "2")
        done = self.simulate(machine=["--fault", "nccl-id"])
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr,
                         "error: rank [01]: .*no socket interface found")

    def test_what_fails_on_all_ranks_is_said_once(self):
        self.compile_for(2, "--dp", "2")
        for machine, part in [
                (["--fault", "arch=80"], "compiled for sm_90, cannot be loaded"),
                (["--fault", "memory=20000"], "the arena takes"),
                (["--fault", "nccl-old"], "NCCL 2.10 is too old, expects 2.18 "
                 "or later: install a newer one"),
                (["--fault", "old-driver"], "the CUDA driver is too old"),
                (["--devices", "1"], "this machine has 1 GPU, and")]:
            done = self.simulate(machine=machine)
            self.assertEqual(done.returncode, 1, done.stderr)
            said = re.findall("^error: .*", done.stderr, re.MULTILINE)
            self.assertEqual(len(said), 1, done.stderr)
            self.assertIn(part, said[0])

    def test_id_that_never_comes(self):
        """The rank that makes it hangs, or is dead: the watchdog of the others
        says so once, and what to do."""
        self.compile_for(2, "--dp", "2")
        for fault, said in [
                ("nccl-id-hangs", "rank 0 hangs for .* in connecting GPUs by "
                 "NCCL; rank 1 waits for it in connecting GPUs by NCCL.*; "
                 "NCCL_DEBUG=WARN says what NCCL waits for"),
                ("nccl-id-dies", "rank 0 has died: .* in connecting GPUs by "
                 "NCCL; rank 1 waits for it in connecting GPUs by NCCL.*; the "
                 r"kernel's log \(dmesg\)")]:
            done = self.simulate("--watchdog", "2", launcher=PATIENT_MPIRUN,
                                 machine=["--fault", fault], timeout=60,
                                 env={**os.environ, "CLEAVE_JOIN_SECONDS": "4"})
            self.assertNotEqual(done.returncode, 0)
            errors = [line for line in done.stderr.splitlines()
                      if line.startswith("error: ")]
            self.assertEqual(len(errors), 1, done.stderr)
            self.assertRegex(errors[0], said)


if __name__ == "__main__":
    unittest.main()
