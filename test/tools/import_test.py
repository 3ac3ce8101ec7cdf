#!/usr/bin/env python3
"""cleave import: the summary against known totals, the graph, the output."""
import json
import math
import os
import unittest

from support import (DATA, GOLDEN, LLAMA, SHAPE, ToolTest,
                     read_safetensors)


class ImportTest(ToolTest):
    def test_summaries_have_the_published_totals(self):
        """The totals come from published checkpoints and from transformers."""
        totals = {}
        folder = os.path.join(DATA, "configs")
        with open(os.path.join(folder, "expected-counts.json")) as file:
            for name, known in json.load(file).items():
                path = os.path.join(folder, name + ".json")
                if known["parameters"] and os.path.exists(path):
                    totals[path] = known["parameters"]
        for case in sorted(os.listdir(GOLDEN)):
            path = os.path.join(GOLDEN, case)
            if os.path.isdir(path):
                with open(os.path.join(path, "case.json")) as file:
                    parameters = json.load(file).get("parameters")
                totals[path] = parameters or self.count_saved(path)
        checked = 0
        for path, parameters in totals.items():
            done = self.start("cleave", "import", path, "--summary")
            if "is not supported" in done.stderr:
                continue
            with self.subTest(path):
                self.assertEqual(done.returncode, 0, done.stderr)
                summary = json.loads(done.stdout)
                self.assertEqual(summary["parameters"], parameters)
                self.assertEqual(sum(math.prod(tensor["shape"])
                                     for tensor in summary["tensors"]),
                                 parameters)
            checked += 1
        self.assertGreaterEqual(checked, 15 + 20)

    def count_saved(self, case):
        """Elements of the weights, as transformers saves them."""
        with open(os.path.join(case, "model.safetensors"), "rb") as file:
            header, _ = read_safetensors(file.read())
        header.pop("__metadata__", None)
        return sum(math.prod(info["shape"]) for info in header.values())

    def test_a_folder_is_its_config(self):
        config = os.path.join(LLAMA, "config.json")
        self.assertEqual(self.run_tool("cleave", "import", LLAMA),
                         self.run_tool("cleave", "import", config))

    def test_the_graph_is_as_asked(self):
        text = self.run_tool("cleave", "import", LLAMA, "--seq-len", "24",
                             "--batch", "3", "--pad-vocab", "336", "--dtype",
                             "bf16")
        for part in ["tensor<3x24xi32>", "tensor<336x64xf32>",
                     "tensor<3x24x64xbf16>"]:
            self.assertIn(part, text)
        self.write("in.mlir", text)
        self.assertEqual(self.run_tool("cleave-opt", "in.mlir").rstrip(),
                         text.rstrip())

    def test_output_is_what_stdout_shows(self):
        text = self.run_tool("cleave", "import", LLAMA)
        self.assertEqual(
            self.run_tool("cleave", "import", LLAMA, "-o", "out.mlir"), "")
        self.assertEqual(self.read("out.mlir").decode(), text)
        self.assertEqual(self.list(), ["out.mlir"])

    def test_strict_refuses_keys_that_nobody_reads(self):
        with open(os.path.join(LLAMA, "config.json")) as file:
            config = json.load(file)
        self.write("config.json", dict(config, clip_qkv=8, merged_by="me"))
        for command in [["import", "config.json"],
                        ["compile", "config.json", *SHAPE, "-o", "train"]]:
            done = self.start("cleave", *command)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(
                [line for line in done.stderr.splitlines() if "keys" in line],
                ['cleave: note: keys that no code of "llama" reads are '
                 'ignored: "clip_qkv", "merged_by"; --strict refuses them'])
        os.remove(self.path("train"))
        for command in [["import", "config.json", "--strict"],
                        ["compile", "config.json", *SHAPE, "-o", "train",
                         "--strict"]]:
            self.expect_error(['config.json: key "clip_qkv": value 8 is read '
                               'by nobody'], "cleave", *command)
        self.run_tool("cleave", "import", LLAMA, "--strict")

    def test_names_an_unsupported_vocabulary(self):
        self.expect_error(["--pad-vocab 330", "331"], "cleave", "import", LLAMA,
                          "--pad-vocab", "330", code=2)


if __name__ == "__main__":
    unittest.main()
