#!/usr/bin/env python3
"""An op that Cleave has never seen, built outside of it as its page says, is
placed by cost and cut for a rank."""
import os
import subprocess
import unittest

from support import TOOLS, ToolTest

SOURCE = os.path.normpath(os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", ".."))
EXAMPLE = os.path.join(SOURCE, "examples", "out-of-tree-op")
BUILD = os.path.dirname(TOOLS)


class OutOfTreeTest(ToolTest):
    def setUp(self):
        super().setUp()
        for command in [["-G", "Ninja", "-S", EXAMPLE, "-B", "scan",
                         f"-DCLEAVE={SOURCE}", f"-DCLEAVE_BUILD={BUILD}"],
                        ["--build", "scan"]]:
            done = subprocess.run(["cmake", *command], cwd=self.folder,
                                  encoding="utf-8", stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, check=False)
            self.assertEqual(done.returncode, 0, done.stdout)
        self.opt = ["cleave-opt",
                    "--load-dialect-plugin=" + self.path("scan/libScan.so")]

    def test_an_op_of_a_plugin_is_placed(self):
        done = self.start(
            *self.opt, os.path.join(EXAMPLE, "layer.mlir"),
            "--cleave-choose-placements=cluster=h100-sxm:4 mesh=tp=4",
            "--cleave-verify-placements", "-o", "placed.mlir")
        self.assertEqual(done.returncode, 0, done.stderr)
        # By its rule, and at its cost: 5 times its 64 MiB at 3.35 TB/s, a
        # quarter of it.
        self.assertRegex(done.stderr, r"remark: splits h along \{tp\}; "
                         r"(2[5-9]|3[0-4])\.\d+ us")
        # Columns, then the scan, then rows.
        placed = self.read("placed.mlir").decode()
        self.assertIn("scan.linear %0, %1 : (tensor<1x4096x4096xf32, "
                      "#dist.on<@mesh, [{}, {}, {tp}]>>", placed)
        self.assertIn("partial = {tp}", placed)
        local = self.run_tool(*self.opt, "placed.mlir",
                              "--cleave-insert-collectives",
                              "--cleave-localize")
        self.assertIn("scan.linear %0, %1 : (tensor<1x4096x1024xf32>, "
                      "tensor<1x4096x1024xf32>) -> tensor<1x4096x1024xf32>",
                      local)
        self.assertIn("dist.reduce_scatter", local)

    def test_its_rule_is_checked(self):
        kind = "tensor<8x16x4xf32, #dist.on<@mesh, [{}, {x}, {}]>>"
        self.write("bad.mlir", f"""
            dist.mesh @mesh [#dist.axis<"x" = 4>]
            func.func @f(%x: {kind}) -> {kind} {{
              %h = scan.linear %x, %x : ({kind}, {kind}) -> {kind}
              return %h : {kind}
            }}""")
        done = self.start(*self.opt, "bad.mlir")
        self.assertEqual(done.returncode, 1)
        self.assertIn("a step needs the one before it", done.stderr)


if __name__ == "__main__":
    unittest.main()
