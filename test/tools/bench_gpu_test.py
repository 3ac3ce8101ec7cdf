#!/usr/bin/env python3
"""bench/gpu on the CUDA machine that is made of software, so that nothing of it
is tried for the first time where a GPU is."""
import json
import os
import sys
import unittest

from support import TOOLS, ToolTest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
BENCH = os.path.join(ROOT, "bench", "gpu")
SIMULATE = os.path.join(TOOLS, "..", "test", "cuda", "simulate")


class BenchGpuTest(ToolTest):
    def test_small(self):
        models = ["tiny-gpt2", "tiny-llama"]
        self.run_tool(sys.executable, "-B", os.path.join(BENCH, "prepare"),
                      "--cleave", os.path.join(TOOLS, "cleave"), "--small",
                      "--out", "bench", "--limit", "500")
        self.run_tool(sys.executable, "-B", os.path.join(BENCH, "run"),
                      "--bench", "bench", "--small", "--launcher", SIMULATE,
                      "--out", "results", "--name", "small", "--parts",
                      "tests,goldens,steps,profile", "--models",
                      ",".join(models), "--test", "true")
        results = json.loads(self.read("results/small.json"))
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
        text = self.read("results/small.md").decode()
        self.assertIn("no figure below is a GPU's", text)
        self.assertIn("ms, for h100-sxm:1.", text)
        self.assertIn("| predicted | predicted / time |", text)
        self.assertIn("| GPU waits for the host |", text)
        self.assertNotIn(self.folder, text)


if __name__ == "__main__":
    unittest.main()
