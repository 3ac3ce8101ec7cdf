#!/usr/bin/env python3
"""cleave compile --recompute: the losses of a run that keeps everything, with
less memory; plans; what is refused."""
import json
import re
import unittest

from support import GOLDEN, LLAMA, PLAN, SHAPE, ToolTest, make_dataset

RUN = ["--data", "set", "--seed", "3", "--steps", "4"]
WAYS = [["--recompute", "full"], ["--recompute", "selective"],
        ["--recompute", "full", "--recompute-blocks", "1"],
        ["--recompute", "selective", "--recompute-modules", "pointwise"],
        ["--recompute", "selective", "--recompute-modules",
         "norms+output+up+down"]]
LAYOUTS = [["--tp", "1"], ["--dp", "2", "--zero", "3", "--micro-batch", "1"],
           ["--dp", "2", "--tp", "2", "--zero", "2", "--sequence-parallel"]]


class RecomputeTest(ToolTest):
    def setUp(self):
        super().setUp()
        index, tokens = make_dataset([300, 50, 650])
        self.write("set.idx", index)
        self.write("set.bin", tokens)

    def build(self, model, *flags, shape=SHAPE):
        """Bytes of a rank's arena."""
        self.run_tool("cleave", "compile", model, *shape, "--lr", "0.01",
                      *flags, "-o", "train")
        text = self.run_tool("cleave", "inspect", "train", "--json")
        return json.loads(text)["arena_bytes"]

    def test_losses_are_those_without(self):
        for name in ["llama-mha", "gpt2", "olmo2"]:
            model = f"{GOLDEN}/{name}"
            for layout in LAYOUTS:
                self.build(model, *layout)
                expected = self.losses("./train", *RUN)
                self.assertGreater(len(expected), 3)
                for way in WAYS:
                    self.build(model, *layout, *way)
                    for got, want in zip(self.losses("./train", *RUN),
                                         expected, strict=True):
                        self.assertLess(abs(got - want), 2e-6 * want,
                                        f"{name} {layout} {way}")

    def test_less_is_kept(self):
        """The more is repeated, the less; a layer's worth for each layer."""
        shape = ["--seq-len", "256", "--global-batch", "8"]
        model = f"{GOLDEN}/llama-mha"
        none = self.build(model, shape=shape)
        pointwise = self.build(model, *WAYS[3], shape=shape)
        one = self.build(model, *WAYS[2], shape=shape)
        full = self.build(model, *WAYS[0], shape=shape)
        self.assertLess(pointwise, none)
        self.assertLess(full, one)
        self.assertLess(one, none)
        self.assertLess(full, pointwise)

    def test_a_plan_says_it_too(self):
        self.run_tool("cleave", "compile", LLAMA, *SHAPE, *WAYS[3],
                      "--recompute-blocks", "1", "-o", "flags")
        text = self.run_tool("cleave", "inspect", "flags", "--json")
        plan = json.loads(text)["plan"]
        self.assertEqual(plan["recompute"], ["norms", "activation"])
        self.assertEqual(plan["recompute_blocks"], 1)
        self.write("plan.json", plan)
        self.run_tool("cleave", "compile", LLAMA, *SHAPE, "--plan",
                      "plan.json", "-o", "plan")
        self.assertEqual(self.read("flags"), self.read("plan"))
        self.write("plan.json", {**plan, "recompute": ["norms", "head"]})
        self.expect_error(['plan.json: key "recompute": expects full, or of '
                           "norms, qkv", 'got "head"'], "cleave", "compile",
                          LLAMA, *SHAPE, "--plan", "plan.json", "-o", "plan")
        self.write("plan.json", {**plan, "recompute": "full"})
        self.expect_error(['key "recompute": expects a list', 'got "full"'], "cleave",
                          "compile", LLAMA, *SHAPE, "--plan", "plan.json",
                          "-o", "plan")

    def test_what_is_refused(self):
        command = ["cleave", "compile", LLAMA, *SHAPE, "-o", "train"]
        for flags, words in [
                (["--recompute", "selective", "--recompute-modules",
                  "attention+experts"],
                 ["--recompute-modules experts: ", "norms, attention"]),
                (["--recompute", "full", "--recompute-blocks", "9"],
                 ["--recompute-blocks 9: the model has 2 layers"]),
                (["--recompute-blocks", "1"],
                 ["--recompute-blocks 1: nothing recomputes"])]:
            self.expect_error(words, *command, *flags, code=2)
        self.write("plan.json", PLAN)
        for flags in WAYS[0], ["--recompute-modules", "up"], \
                ["--recompute-blocks", "1"]:
            self.expect_error([f"{flags[0]} excludes --plan"], *command, "--plan",
                              "plan.json", *flags, code=2)
        self.expect_error('--recompute: "some" is not one of none, selective, '
                          "full", *command, "--recompute", "some", code=2)


if __name__ == "__main__":
    unittest.main()
