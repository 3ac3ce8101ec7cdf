#!/usr/bin/env python3
"""A training run by its PTX, on the interpreter of test/cuda/ptx, beside the
same run on the CPU: sums have another order, so losses are near, not equal."""
import os
import unittest

from support import GOLDEN, LLAMA, TOOLS, ToolTest

SIMULATE = os.path.join(TOOLS, "..", "test", "cuda", "simulate")
RUN = ["--data", "data", "--steps", "3", "--peak-gflops", "1"]
GPT2 = os.path.join(GOLDEN, "gpt2")  # with biases


class CudaPtxTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.write("data", "".join(chr(32 + i * i % 95) for i in range(999)))

    def take_losses(self):
        steps = self.lines("metrics.jsonl")
        os.remove(self.path("metrics.jsonl"))
        return [(step["rank_losses"], step["grad_norm"]) for step in steps]

    def expect_near(self, tolerance, *flags, ranks=1, model=LLAMA, seeds=(1,)):
        self.compile("train", "--cluster", f"h200:{ranks}", *flags, model=model)
        self.run_tool("./train", *RUN, "--device", "cpu", "--metrics",
                      "metrics.jsonl")
        expected = self.take_losses()
        self.assertEqual(len(expected), 3)
        for seed in seeds:
            done = self.start(SIMULATE, "--engine", "ptx", "--threads", "1",
                              "--seed", str(seed), "--", "./train", *RUN,
                              "--device", "cuda", "--metrics", "metrics.jsonl")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("simulated CUDA", done.stderr, done.stderr)
            for (losses, norm), (want, want_norm) in zip(self.take_losses(),
                                                         expected):
                for loss, other in zip(losses, want):
                    self.assertAlmostEqual(loss, other, delta=tolerance)
                self.assertLess(abs(norm - want_norm),
                                10 * tolerance * (1 + want_norm))

    def test_f32(self):
        self.expect_near(1e-5, "--dtype", "f32", seeds=(1, 2))

    def test_bf16(self):
        self.expect_near(5e-3, "--dtype", "bf16", seeds=(1, 2))

    def test_biases(self):
        for dtype, tolerance in ("f32", 1e-5), ("bf16", 5e-3):
            self.expect_near(tolerance, "--dtype", dtype, model=GPT2)

    def test_moments_in_bf16(self):
        for optimizer in "adamw", "sgd", "lion", "muon":
            with self.subTest(optimizer=optimizer):
                self.expect_near(2e-5, "--dtype", "f32", "--moments", "bf16",
                                 "--optimizer", optimizer)

    def test_layouts(self):
        for ranks, flags in [
                (4, ["--dp", "2", "--tp", "2", "--zero", "1",
                     "--sequence-parallel", "--micro-batch", "1"]),
                (4, ["--dp", "4", "--zero", "3"]),
                (2, ["--pp", "2", "--micro-batch", "1"])]:
            with self.subTest(flags=flags):
                self.expect_near(5e-3, *flags, ranks=ranks)


if __name__ == "__main__":
    unittest.main()
