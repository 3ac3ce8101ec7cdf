#!/usr/bin/env python3
"""Programs as IR, and IR as executables: what a compilation wrote comes back as
it was, and what somebody changed runs, or is refused."""
import json
import os
import re
import unittest

from support import GOLDEN, LLAMA, SHAPE, ToolTest, make_dataset

GPT2 = os.path.join(GOLDEN, "gpt2")
LAYOUTS = [
    (LLAMA, []),
    (LLAMA, ["--dp", "2", "--tp", "2", "--sequence-parallel",
             "--zero", "3", "--overlap", "always", "--keep-gradients"]),
    (GPT2, ["--pp", "2", "--dp", "2", "--micro-batch", "1", "--dtype", "bf16",
            "--pipeline-schedule", "zb-h1", "--overlap", "always"]),
    (GPT2, ["--tp", "2", "--micro-batch", "2", "--keep-logits"]),
]


class AssembleTest(ToolTest):
    def compile(self, output, model, *flags):
        return self.run_tool("cleave", "compile", model, *SHAPE, *flags, "-o",
                             output)

    def read_ir(self, executable, name="step.mlir"):
        self.run_tool("cleave-translate", "--program-to-exec",
                      "--mlir-print-debuginfo", executable, "-o", name)
        return self.read(name).decode()

    def assemble(self, text, *flags, output="changed"):
        self.write("changed.mlir", text)
        return self.start("cleave", "assemble", "changed.mlir", "-o", output,
                          *flags)

    def assertRefused(self, text, words, *flags):
        done = self.assemble(text, *flags)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(words, done.stderr, done.stderr)
        self.assertNotIn("changed", self.list())

    def test_programs_come_back(self):
        """Byte for byte: the whole executable, kernels included."""
        for model, flags in LAYOUTS:
            with self.subTest(flags=flags):
                self.compile("train", model, "-q", *flags)
                self.read_ir("train")
                self.run_tool("cleave", "assemble", "step.mlir", "-o", "again")
                self.assertTrue(self.read("train") == self.read("again"))
                # A program in a file of its own says the same.
                self.run_tool("cleave-translate", "--exec-to-program",
                              "step.mlir", "-o", "program")
                self.read_ir("program", "again.mlir")
                self.assertTrue(self.read("step.mlir")
                                == self.read("again.mlir"))

    def test_the_order_of_sums_comes_back(self):
        """Ranks along an axis that splits neither samples nor heads compute the
        same attention, and the program says so."""
        self.write("copies.json", {
            "version": 2, "mesh": [{"name": "tp", "size": 2}],
            "dims": {"intermediate": ["tp"]}})
        for flags, order in [(["--tp", "2"], "false"),
                             (["--plan", "copies.json"], "true")]:
            self.compile("train", LLAMA, "-q", *flags)
            text = self.read_ir("train")
            self.assertEqual(set(re.findall(r"fixed_order = (\w+)", text)),
                             {order})
            self.run_tool("cleave", "assemble", "step.mlir", "-o", "again")
            self.assertTrue(self.read("train") == self.read("again"))

    def test_every_stage_goes_on(self):
        """From the IR of any stage to the executable that compile made."""
        for model, flags in LAYOUTS:
            dump = self.compile("train", model, "-q", *flags, "--dump-locations",
                                "--dump-after-stage", "all")
            stages = re.split(r"^// after stage (\w+)\n", dump, flags=re.M)[1:]
            self.assertEqual(stages[::2],
                             ["grad", "plan", "recompute", "place", "partition",
                              "pipeline", "kernels", "overlap", "memory"])
            overlap = ["--overlap", "always"] if "--overlap" in flags else []
            for stage, text in zip(stages[::2], stages[1::2]):
                with self.subTest(flags=flags, stage=stage):
                    done = self.assemble(text, "--after-stage", stage, *overlap,
                                         output="again")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertTrue(self.read("train") == self.read("again"))

    def test_the_plan_is_the_ir_s(self):
        """What a person makes of dist.plan is what ranks do; of a step without one
        the stage chooses it for the cluster."""
        dump = self.compile("train", LLAMA, "-q", "--dp", "2", "--tp", "1",
                            "--micro-batch", "1", "--dump-locations",
                            "--dump-after-stage", "grad")
        self.assertEqual(dump.count('name = "dp", size = 2'), 1)
        whole = re.compile(r"^module attributes {dist\.plan = .*} {$", re.M)
        self.assertEqual(len(whole.findall(dump)), 1)
        self.assertRefused(re.sub(r"micro_batches = \d+ : i64",
                                  "micro_batches = 3 : i64", dump, count=1),
                           "the plan has 3 micro-batches", "--after-stage",
                           "grad")
        for change, cluster, ranks in (
                (('name = "tp", size = 1', 'name = "tp", size = 2'), "local", 4),
                ((whole.search(dump)[0], "module {"), "h100-sxm:4", 4)):
            with self.subTest(ranks=ranks, cluster=cluster):
                done = self.assemble(dump.replace(*change), "--after-stage",
                                     "grad", "--cluster", cluster)
                self.assertEqual(done.returncode, 0, done.stderr)
                shown = json.loads(self.run_tool("cleave", "inspect", "changed",
                                                 "--json"))
                self.assertEqual(shown["ranks"], ranks)

    def test_a_change_runs(self):
        self.compile("train", LLAMA, "-q", "--lr", "0.001",
                     "--lr-schedule", "constant")
        text = self.read_ir("train")
        self.assertEqual(text.count(" lr = 1.000000e-03 : f64"), 1)
        done = self.assemble(text.replace(" lr = 1.000000e-03 : f64",
                                          " lr = 0.0 : f64"))
        self.assertEqual(done.returncode, 0, done.stderr)
        index, tokens = make_dataset([300, 700])
        self.write("set.idx", index)
        self.write("set.bin", tokens)
        trained, changed = (self.losses("./" + name, "--data", "set",
                                        "--steps", "3")
                            for name in ("train", "changed"))
        self.assertEqual(trained[0], changed[0])
        self.assertNotEqual(trained[1:], changed[1:])

    def test_broken_ir_is_refused(self):
        self.compile("train", LLAMA, "-q", "--dp", "2", "--overlap", "always",
                     "--zero", "3")
        text = self.read_ir("train")
        self.assertRefused(re.sub(r"exec.workload[^\n]*\n", "", text),
                           "expects an exec.workload")
        self.assertRefused(text.replace(" at ", " ", 1), "changed.mlir")
        # A wait that is left out.
        self.assertIn("waits = [", text)
        self.assertRefused(re.sub(r", waits = \[[\d, ]*\]", "", text, count=1),
                           "does not wait for")
        self.assertRefused(text.replace("seq_len = 16", "seq_len = 0"),
                           "changed.mlir: ")
        self.assertRefused(text.replace("global_batch = 4", "global_batch = 8"),
                           "tokens")
        self.assertRefused("module {", "changed.mlir:1:")

    def test_what_is_no_program_is_refused(self):
        self.write("text", "no program")
        for path, words in (("text", "error: text: is not an ELF file"),
                            ("absent", "'absent': No such file")):
            done = self.start("cleave-translate", "--program-to-exec", path)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr, done.stderr)
        self.expect_error(["absent.mlir", "No such file"], "cleave", "assemble",
                          "absent.mlir", "-o", "changed")


if __name__ == "__main__":
    unittest.main()
