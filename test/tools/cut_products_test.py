#!/usr/bin/env python3
"""Products and collectives in parts: over a link on which that pays, tensor
parallelism with and without sequence parallelism trains as one rank does, has the
bits that it has serially, and the meaning of its model."""
import json
import unittest

from support import GOLDEN, ToolTest, make_dataset

SHAPE = ["--seq-len", "16", "--global-batch", "8"]
STEPS = 3
RUN = ["--data", "set", "--steps", str(STEPS)]
FAMILIES = ["llama-mha", "gpt2"]
LAYOUTS = [
    (2, ["--tp", "2"]),
    (2, ["--tp", "2", "--sequence-parallel"]),
    (4, ["--tp", "4", "--sequence-parallel", "--micro-batch", "4"]),
    (4, ["--tp", "4", "--micro-batch", "4"]),
    (4, ["--tp", "2", "--dp", "2", "--zero", "3", "--sequence-parallel",
         "--recompute", "full"]),
]


class CutProductsTest(ToolTest):
    def setUp(self):
        super().setUp()
        index, tokens = make_dataset([300, 50, 650])
        self.write("set.idx", index)
        self.write("set.bin", tokens)

    def build(self, family, ranks, flags):
        """Over a link that takes as long as the products of the smallest model:
        so that parts pay. Returns what the compiler says of it."""
        self.write("cluster.json", {
            "version": 1, "nodes": 1, "devices_per_node": ranks,
            "threads_per_device": 1,
            "levels": [{"size": 0, "link": {
                "base": "shared-memory", "name": "slow",
                "bandwidth": {"value": 1e9, "unit": "byte/s",
                              "source": "test"}}}]})
        done = self.start("cleave", "compile", f"{GOLDEN}/{family}", *SHAPE,
                          *flags, "--cluster", "cluster.json", "--remarks",
                          "-o", "train")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def count(self, opcode):
        program = json.loads(self.run_tool("cleave", "inspect", "train",
                                           "--json"))
        return sum(instruction["opcode"] == opcode
                   for instruction in program["instructions"])

    def test_layouts_train_as_one_rank(self):
        for family in FAMILIES:
            self.build(family, 1, [])
            want = self.losses("./train", *RUN)
            for ranks, flags in LAYOUTS:
                with self.subTest(family=family, flags=" ".join(flags)):
                    self.build(family, ranks, [*flags, "--overlap", "never"])
                    products = self.count("Gemm")
                    said = self.build(family, ranks, [
                        *flags, "--overlap", "always", "--check"])
                    self.assertRegex(said, r" instructions in \d parts: ")
                    self.assertGreater(self.count("Gemm"), products)
                    got = self.losses("./train", *RUN, "--serial")
                    self.assertEqual(len(got), STEPS)
                    for loss, expected in zip(got, want, strict=True):
                        self.assertLess(abs(loss - expected), 1e-5 * expected)
                    self.assertEqual(got, self.losses(
                        "./train", *RUN, "--stream-delays", "7"))
                    # Parts of buffers come back from a program as they were.
                    self.run_tool("cleave-translate", "--program-to-exec",
                                  "--mlir-print-debuginfo", "train", "-o",
                                  "step.mlir")
                    self.assertIn(" from ", self.read("step.mlir").decode())
                    self.run_tool("cleave", "assemble", "step.mlir", "-o",
                                  "again")
                    self.assertEqual(self.read("train"), self.read("again"))


    def test_parts_mean_what_the_whole_did(self):
        """In f64, of the program itself and not of a smaller one."""
        for family in FAMILIES:
            for ranks, flags in LAYOUTS:
                with self.subTest(family=family, flags=" ".join(flags)):
                    self.build(family, ranks, [*flags, "--overlap", "never"])
                    self.write("kernels.mlir", self.run_tool(
                        "cleave", "compile", f"{GOLDEN}/{family}", *SHAPE,
                        *flags, "-q", "--dump-after-stage", "kernels", "-o",
                        "train"))
                    done = self.start(
                        "cleave-opt", "--check-meaning", "kernels.mlir",
                        "--cleave-cut-products=mode=always "
                        "cluster=cluster.json", "-o", "parts.mlir")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertRegex(done.stderr, r" instructions in \d parts: ")


if __name__ == "__main__":
    unittest.main()
