#!/usr/bin/env python3
"""--device cuda on the CUDA machine that is made of software (test/cuda): the
bits of --device cpu in every layout and order, and a clear end of a run whose
GPU fails.

CLEAVE_SEEDS=4 test/tools/cuda_test.py CudaTest.test_families runs each golden
model in each of the test's layouts, in so many orders."""
import collections
import itertools
import json
import os
import re
import unittest

from support import LLAMA, GOLDEN, TOOLS, ToolTest

SIMULATE = os.path.join(TOOLS, "..", "test", "cuda", "simulate")
# Three steps: one is run as it is, then captured and launched, and then launched
# again.
RUN = ["--data", "data", "--steps", "3", "--peak-gflops", "1"]
GPT2 = os.path.join(GOLDEN, "gpt2")  # with biases


class CudaTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.write("data", "".join(chr(32 + i * i % 95) for i in range(999)))
        self.training = RUN

    def compile_for(self, ranks, *flags, model=LLAMA):
        self.compile("train", "--cluster", f"h200:{ranks}", *flags, model=model)

    def simulate(self, *arguments, machine=()):
        """A run on the machine, to whose flags `machine` adds."""
        return self.start(SIMULATE, "--threads", "1", *machine, "--", "./train",
                          *self.training, "--device", "cuda", *arguments)

    def take_bits(self):
        """Of the last run: losses, gradient norms and which steps changed nothing,
        and trained weights."""
        steps = self.lines("metrics.jsonl")
        os.remove(self.path("metrics.jsonl"))
        return ([(step["rank_losses"], step["grad_norm"], step.get("skipped"))
                 for step in steps], self.read("weights/model.safetensors"))

    def run_to_bits(self, *arguments, machine=()):
        done = self.simulate("--metrics", "metrics.jsonl", "--export",
                             "weights", "--overwrite", *arguments,
                             machine=machine)
        self.assertEqual(done.returncode, 0, done.stderr)
        # Nothing was refused, and nothing went wrong.
        self.assertNotIn("simulated CUDA", done.stderr, done.stderr)
        return self.take_bits()

    def expect_same_bits(self, seeds=(1, 2), arguments=()):
        self.run_tool("./train", *self.training, "--device", "cpu", "--metrics",
                      "metrics.jsonl", "--export", "weights", "--overwrite")
        expected = self.take_bits()
        self.assertEqual(len(expected[0]),
                         int(self.training[self.training.index("--steps") + 1]))
        for seed in seeds:
            bits = self.run_to_bits(*arguments,
                                    machine=["--seed", str(seed)])
            self.assertEqual(bits[0], expected[0], f"seed {seed}")
            self.assertTrue(bits[1] == expected[1], f"weights, seed {seed}")
        return [skipped for _, _, skipped in expected[0]]

    def test_one_rank(self):
        self.compile_for(1)
        self.expect_same_bits(seeds=range(1, 7))

    def test_micro_batches_in_bf16(self):
        self.compile_for(1, "--micro-batch", "1", "--dtype", "bf16")
        self.expect_same_bits()

    def test_families(self):
        """Of which each has its own norms, biases, activations and windows."""
        layouts = [[], ["--tp", "2", "--sequence-parallel", "--overlap",
                        "always"],
                   ["--dp", "2", "--zero", "3", "--micro-batch", "1"],
                   ["--pp", "2", "--recompute", "full", "--micro-batch", "1",
                    "--dtype", "f32"]]
        families = sorted(name for name in os.listdir(GOLDEN)
                          if os.path.isdir(os.path.join(GOLDEN, name)))
        self.assertGreater(len(families), 15)
        is_whole = "CLEAVE_SEEDS" in os.environ
        cases = itertools.product(families, layouts) if is_whole \
            else zip(families, itertools.cycle(layouts))
        orders = int(os.environ.get("CLEAVE_SEEDS", "1"))
        for name, layout in cases:
            if name == "gemma" and "--tp" in layout:
                continue  # it has one head of keys
            with self.subTest(name=name, layout=layout):
                self.compile_for(2 if layout else 1, *layout,
                                 model=os.path.join(GOLDEN, name))
                self.expect_same_bits(seeds=range(1, orders + 1))

    def test_biases(self):
        for dtype in "f32", "bf16":
            self.compile_for(2, "--tp", "2", "--dtype", dtype, model=GPT2)
            self.expect_same_bits()

    def test_layouts(self):
        for ranks, flags in [
                (2, ["--dp", "2"]),
                (2, ["--tp", "2"]),
                (4, ["--dp", "2", "--tp", "2", "--zero", "1",
                     "--sequence-parallel", "--micro-batch", "1"]),
                (4, ["--dp", "4", "--zero", "2"]),
                (4, ["--dp", "4", "--zero", "3", "--dtype", "bf16"])]:
            with self.subTest(flags=flags):
                self.compile_for(ranks, *flags)
                self.expect_same_bits()

    def test_pipelines(self):
        for ranks, flags in [
                (2, ["--pp", "2", "--micro-batch", "1"]),
                (4, ["--pp", "2", "--tp", "2", "--sequence-parallel",
                     "--micro-batch", "2"])]:
            with self.subTest(flags=flags):
                self.compile_for(ranks, *flags)
                self.expect_same_bits()

    def test_other_ways_to_run(self):
        """One stream, and events around every instruction."""
        self.compile_for(2, "--dp", "2", "--zero", "1")
        self.expect_same_bits(seeds=[3], arguments=["--serial"])
        self.expect_same_bits(seeds=[3], arguments=["--trace", "trace.json"])
        self.assertIn("gemm", self.read("trace.json").decode())

    def test_bad_steps(self):
        """The device judges as the CPU does, and no bad step changes anything;
        whatever comes after it, the host had handed over before."""
        bad = ["--data", "data", "--peak-gflops", "1", "--skip-budget", "99",
               "--warmup-steps", "0"]
        for ranks, flags in [(1, ["--clip", "0"]),
                             (2, ["--dp", "2", "--zero", "1"])]:
            self.compile_for(ranks, *flags)
            # After one huge step nothing is a number.
            self.training = [*bad, "--steps", "4", "--lr", "1e30"]
            skipped = self.expect_same_bits()
            self.assertIsNone(skipped[0])
            self.assertTrue(all(skipped[1:]), skipped)
            # Some steps are above the mean, once it is known.
            self.training = [*bad, "--steps", "24", "--spike-sigmas", "1e-6",
                             "--lr", "1e-6"]
            skipped = self.expect_same_bits(seeds=[ranks])
            late = [bool(each) for each in skipped[16:]]
            self.assertIn(True, late)
            self.assertIn(False, late)

    def test_a_step_is_one_launch(self):
        """From the second one on, of a graph; tokens are copied before it."""
        for flags in [], ["--micro-batch", "1", "--zero", "1"]:
            self.compile_for(1, *flags)
            done = self.simulate(machine=["--log", "operations"])
            self.assertEqual(done.returncode, 0, done.stderr)
            operations = [line.split("\t")[1:] for line
                          in self.read("operations").decode().splitlines()]
            os.remove(self.path("operations"))
            launches = [where.split(":")[0] for where, _ in operations]
            graphs = [each for each in launches if each.startswith("graph")]
            counts = collections.Counter(graphs)
            self.assertEqual(set(counts), {"graph launch 1", "graph launch 2"})
            self.assertEqual(*counts.values())
            others = [name for where, name
                      in operations[launches.index("graph launch 1"):]
                      if not where.startswith("graph")]
            self.assertLessEqual(len(others), 2, others)
            for name in others:
                self.assertRegex(name, "^cuMemcpyHtoDAsync")

    def test_checkpoint_of_the_other_device(self):
        self.compile_for(1)
        self.run_tool("./train", *RUN, "--device", "cpu", "--metrics",
                      "metrics.jsonl", "--export", "weights", "--overwrite")
        expected = self.take_bits()
        self.assertEqual(
            self.simulate("--save", "saved", "--save-every", "2",
                          "--keep", "9").returncode, 0)
        done = self.start("./train", *RUN, "--device", "cpu", "--resume",
                          "saved/step-00000002", "--metrics", "metrics.jsonl",
                          "--export", "weights", "--overwrite")
        self.assertEqual(done.returncode, 0, done.stderr)
        losses, weights = self.take_bits()
        self.assertEqual(losses, expected[0][2:])
        self.assertTrue(weights == expected[1])

    def list_operations(self, machine=()):
        """Names of what the machine executes in a run, in order."""
        done = self.simulate(machine=[*machine, "--log", "operations"])
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.split("\t")
                 for line in self.read("operations").decode().splitlines()]
        os.remove(self.path("operations"))
        self.assertEqual([int(number) for number, _, _ in lines],
                         list(range(1, len(lines) + 1)))
        return [name for _, _, name in lines]

    def find_operations(self, pattern, machine=()):
        """The numbers that the machine counts such operations by."""
        return [number for number, name
                in enumerate(self.list_operations(machine), start=1)
                if re.match(pattern, name)]

    def test_neighbours_are_one_launch(self):
        """Updates by one kernel that follow each other, in each step."""
        self.compile_for(1, model=GPT2)
        updates = [name for name in self.list_operations()
                   if name.startswith("launch of adamw")]
        program = json.loads(self.run_tool("cleave", "inspect", "train",
                                           "--json"))
        kernels = [program["kernels"][each["parameters"]["kernel"]]
                   for each in program["instructions"]
                   if each["opcode"] == "Launch"
                   and each["category"] == "optimizer"]
        by_itself = [each["symbol"] for each in kernels
                     if each["symbol"].startswith("adamw")]
        names = set(by_itself)
        self.assertGreater(len(by_itself), len(names))
        self.assertEqual(collections.Counter(
            name.removeprefix("launch of ").removesuffix("_multi")
            for name in updates), dict.fromkeys(names, 3))

    def expect_end(self, fault, parts, *arguments):
        """One line that says what is wrong, beside what the machine says."""
        done = self.simulate(*arguments, machine=["--fault", fault])
        self.assertEqual(done.returncode, 1, f"{fault}: {done.stderr}")
        errors = [line for line in done.stderr.splitlines()
                  if not line.startswith(("simulate: ", "simulated CUDA: "))]
        self.assertEqual(len(errors), 1, f"{fault}: {done.stderr}")
        self.assertRegex(errors[0], r"\Aerror: ")
        for part in parts:
            self.assertIn(part, errors[0], f"{fault}: {done.stderr}")
        return done.stdout

    def test_machines_that_do_not_fit(self):
        self.compile_for(1)
        for fault, parts in [
                ("no-device", ["--device cuda: this machine has no CUDA "
                               "device", "`nvidia-smi`", "; --device cpu runs "
                               "the program without a GPU"]),
                ("old-driver", ["the CUDA driver is too old: it is of CUDA "
                                "11.0, expects 12.0 or later: install a newer "
                                "NVIDIA driver"]),
                ("arch=80", ["the program's code, compiled for sm_90, cannot "
                             "be loaded on ", "(sm_80)",
                             "a later GPU may run it"]),
                ("memory=1000000", ["the arena takes ", " bytes, and of the "
                                    "1000000 bytes of ", " too few: a smaller "
                                    "micro-batch", "cleave plan"]),
                ("memory=20000000", ["the workspace of ", " bytes, and of the "
                                     "20000000 bytes of ", " too few: "])]:
            self.expect_end(fault, parts)

    def test_no_driver(self):
        """Without the machine, on one that has no GPU."""
        if os.path.exists("/proc/driver/nvidia"):
            self.skipTest("this machine has a driver")
        self.compile_for(1)
        self.expect_error("--device cuda: this machine has no CUDA driver "
                          "(libcuda.so.1)", "./train", *RUN, "--device",
                          "cuda")

    FAILURES = [
        ("ecc", ["CUDA_ERROR_ECC_UNCORRECTABLE (214)", "memory errors that it "
                 "cannot correct", "from its last checkpoint"]),
        ("illegal", ["CUDA_ERROR_ILLEGAL_ADDRESS (700)", "a kernel failed on "
                     "the GPU", "--resume"]),
        ("timeout", ["CUDA_ERROR_LAUNCH_TIMEOUT (702)", "ran longer than this "
                     "machine lets one run", "take another GPU"]),
        ("gone", ["CUDA_ERROR_UNKNOWN (999)", "fallen off the bus (Xid 79",
                  "from its last checkpoint"])]

    def get_second_step(self, ranks):
        """The number of an operation in the midst of the second step."""
        lookups = self.find_operations(
            "launch of cleave_embedding_(bf16|f32)")
        self.assertEqual(len(lookups), 3 * ranks)
        return (lookups[2 * ranks - 1] + lookups[2 * ranks]) // 2

    def test_gpu_fails(self):
        """While it is got ready, and in the midst of training."""
        self.compile_for(1)
        late = self.get_second_step(1)
        for name, parts in self.FAILURES:
            output = self.expect_end(f"{name}@5", parts)
            self.assertNotIn("step", output)
            output = self.expect_end(f"{name}@{late}", parts)
            self.assertIn("step 1/3", output, output)
            self.assertTrue("step 3/3" not in output, output)

    def test_gpu_fails_in_an_update(self):
        """Which the host does not wait for, but for the first one: the run ends
        before the step behind it says its loss. The step itself says its own, if
        that was at the host before."""
        self.compile_for(1)
        updates = self.find_operations("launch of adamw")
        self.assertEqual(len(updates) % 3, 0)
        each = len(updates) // 3
        for fault, parts in self.FAILURES:
            for step in 1, 2, 3:
                output = self.expect_end(
                    f"{fault}@{updates[(step - 1) * each]}", parts)
                said = re.findall(r"^step (\d)/3", output, re.M)
                self.assertEqual(said, ["1", "2", "3"][:len(said)])
                self.assertIn(len(said),
                              [step - 1] if step == 1 else [step - 1, step])
                self.assertNotIn("3 steps in", output)

    def test_the_host_does_not_wait_for_an_update(self):
        """With a GPU that fails in the end of the second one, in some orders: the
        step has said its loss by then."""
        self.compile_for(1)
        said = set()
        for seed in map(str, range(1, 7)):
            order = ["--seed", seed]
            updates = self.find_operations("launch of adamw", order)
            late = updates[len(updates) // 3 * 2 - 1]
            done = self.simulate(machine=[*order, "--fault", f"ecc@{late}"])
            self.assertEqual(done.returncode, 1, done.stderr)
            said.add("step 2/3" in done.stdout)
            self.assertNotIn("step 3/3", done.stdout)
        self.assertIn(True, said)

    def test_gpu_of_several_ranks_fails(self):
        """All of them end, and one says why."""
        self.compile_for(4, "--dp", "2", "--tp", "2", "--zero", "1")
        late = self.get_second_step(4)
        for name, parts in self.FAILURES:
            output = self.expect_end(f"{name}@{late}", ["rank ", *parts])
            self.assertTrue("step 3/3" not in output, output)


if __name__ == "__main__":
    unittest.main()
