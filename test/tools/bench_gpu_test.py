#!/usr/bin/env python3
"""bench/gpu on the CUDA machine that is made of software, so that nothing of it
is tried for the first time where a GPU is."""
import json
import os
import shlex
import struct
import sys
import unittest

from support import ROOT, TOOLS, ToolTest

BENCH = os.path.join(ROOT, "bench", "gpu")
SIMULATE = os.path.join(TOOLS, "..", "test", "cuda", "simulate")
sys.path.insert(0, BENCH)
import trajectories  # noqa: E402


class BenchGpuTest(ToolTest):
    def prepare(self, *arguments):
        self.run_tool(sys.executable, "-B", os.path.join(BENCH, "prepare"),
                      "--cleave", os.path.join(TOOLS, "cleave"), "--small",
                      "--out", "bench", *arguments)

    def run_bench(self, *arguments):
        """What it found, and its exit code."""
        done = self.start(sys.executable, "-B", os.path.join(BENCH, "run"),
                          "--bench", "bench", "--small", "--launcher",
                          SIMULATE, "--out", "results", "--name", "small",
                          *arguments)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return json.loads(self.read("results/small.json")), done.returncode

    def test_small(self):
        models = ["tiny-gpt2", "tiny-llama"]
        self.prepare()
        results, code = self.run_bench(
            "--parts", "tests,goldens,steps,train,profile", "--models",
            ",".join(models), "--test", "true")
        self.assertEqual(code, 0)
        self.assertIsNone(results["tests"][0]["failed"])
        self.assertEqual(len(results["goldens"]), 4)
        for golden in results["goldens"]:
            self.assertIsNone(golden["failed"], golden)
            # The machine's engine is the CPU's own code.
            self.assertEqual(golden["loss"], 0, golden)
        self.assertEqual([model["name"] for model in results["models"]], models)
        for model in results["models"]:
            self.assertGreater(model["cleave"]["seconds"], 0)
            self.assertGreater(model["cleave"]["host_seconds"], 0)
            # What runs is what was priced, kind by kind.
            profile = model["profile"]
            self.assertGreater(len(profile["kinds"]), 10)
            for kind in profile["kinds"]:
                self.assertGreater(kind["predicted_seconds"], 0, kind)
            self.assertAlmostEqual(
                profile["predicted_seconds"],
                sum(kind["predicted_seconds"] for kind in profile["kinds"]))
            self.check_training(model["train"])
        self.assertTrue(any(what.startswith("PyTorch")
                            for what, _ in results["not_measured"]))
        text = self.read("results/small.md").decode()
        self.assertIn("### tiny-gpt2: 40 steps of 4 x 32 tokens", text)
        self.assertIn("no figure below is a GPU's", text)
        self.assertIn("ms, for h100-sxm:1.", text)
        self.assertIn("| predicted | predicted / time |", text)
        self.assertIn("| GPU waits for the host |", text)
        self.assertNotIn(self.folder, text)

    def check_training(self, train):
        self.assertIsNone(train["failed"])
        self.assertEqual(list(train["runs"]), ["weights", "Cleave", "CPU"])
        for run in train["runs"].values():
            self.assertIsNone(run["failed"])
        losses = train["runs"]["Cleave"]["losses"]
        self.assertEqual(len(losses), 40)
        self.assertLess(losses[-1], losses[0] - 0.5)
        # A learning rate of 0 left the weights as they were.
        self.assertEqual(train["runs"]["weights"]["losses"], losses[:1])
        # The machine's engine is the CPU's own code, whatever its threads.
        self.assertEqual([[each["peer"], each["what"], each["steps"],
                           each["difference"]]
                          for each in train["differences"]],
                         [["CPU", "loss", 10, 0],
                          ["CPU", "gradient norm", 10, 0]])

    def test_training_fails_beside_another_program(self):
        self.prepare("--models", "tiny-gpt2")
        manifest = json.loads(self.read("bench/manifest.json"))
        train = manifest["models"][0]["train"]
        self.run_tool(*shlex.split(train["cpu_command"]), "--beta1", "0.5")
        results, code = self.run_bench("--models", "tiny-gpt2", "--parts",
                                       "train")
        self.assertEqual(code, 1)
        self.assertRegex(results["models"][0]["train"]["failed"],
                         "^loss of 10 steps beside CPU's: .* over")

    def test_differences(self):
        run = {"losses": [4 - 0.01 * i for i in range(40)],
               "grad_norms": [1.0] * 40}
        self.assertEqual(
            [[each["peer"], each["what"], each["steps"], each["difference"]]
             for each in trajectories.compare(run, run, "CPU")],
            [["CPU", "loss", 20, 0], ["CPU", "gradient norm", 20, 0]])
        # What is no number is no agreement.
        for wrong in None, float("nan"):
            broken = {**run, "losses": [wrong] * 40}
            for pair in (run, broken), (broken, run), (broken, broken):
                loss, norm = trajectories.compare(*pair, "CPU")
                self.assertGreater(loss["difference"], loss["bound"])
                self.assertEqual(norm["difference"], 0)

    def test_differences_beside_a_spread(self):
        def move(start, factor):
            """Losses that are further away from some step on."""
            return {**run, "losses": [
                loss * (factor if i >= start else 1)
                for i, loss in enumerate(run["losses"])]}

        def compare(mine, *again):
            found = trajectories.compare(mine, {**run, "again": again},
                                         "PyTorch")
            self.assertEqual([[each["what"], each["steps"]] for each in found],
                             [["loss", 3], ["gradient norm", 3], ["loss", 20],
                              ["gradient norm", 20], ["mean loss", 40]])
            return [each["difference"] <= each["bound"] for each in found]

        run = {"losses": [4 - 0.01 * i for i in range(40)],
               "grad_norms": [1.0] * 40}
        self.assertEqual(compare(run, move(10, 1.002)), [True] * 5)
        # Nearly twice as far as the peer is from itself, and over that.
        self.assertEqual(compare(move(10, 1.0039), move(10, 1.002)), [True] * 5)
        self.assertEqual(compare(move(10, 1.0041), move(10, 1.002)),
                         [True, True, False, True, False])
        # The furthest of the peer's counts, wherever it is.
        for again in [1.0, 1.002], [1.002, 1.0]:
            self.assertEqual(compare(move(10, 1.0039), *(
                move(10, factor) for factor in again)), [True] * 5)
        # On the other side it is no further.
        self.assertEqual(compare(move(10, 0.9961), move(10, 1.002)), [True] * 5)
        # Late in the run only the mean sees it.
        self.assertEqual(compare(move(30, 1.01), move(10, 1.002)),
                         [True, True, True, True, False])
        # No spread excuses the first steps.
        self.assertEqual(compare(move(0, 1.001), move(0, 1.1)),
                         [False, True, True, True, True])
        # Nor is a peer that has no numbers far from itself.
        for wrong in None, float("nan"), float("inf"):
            again = {**run, "losses": run["losses"][:30] + [wrong] * 10}
            self.assertEqual(compare(move(30, 1.01), again),
                             [True, True, True, True, False])

    def test_batches(self):
        trajectories.write_batches(self.path("batches"), b"abcdefg", 2, 1, 3)
        data = self.read("batches")
        self.assertEqual(struct.unpack("<12i", data[-48:]), (
            *b"abc", *b"def", *b"bcd", *b"efg"))
        # The text begins again.
        trajectories.write_batches(self.path("batches"), b"abcdef", 2, 1, 3)
        data = self.read("batches")
        self.assertEqual(struct.unpack("<12i", data[-48:]), (
            *b"abc", *b"abc", *b"bcd", *b"bcd"))


if __name__ == "__main__":
    unittest.main()
