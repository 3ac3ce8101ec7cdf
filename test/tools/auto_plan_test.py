#!/usr/bin/env python3
"""cleave compile and train where the planner chooses the layout: all of it, or what
flags leave open."""
import json
import os
import unittest

from support import LLAMA, SHAPE, ToolTest, make_dataset

# Steps of a run of the model, and how far apart losses of layouts may be.
RUN = ["--data", "set", "--steps", "5", "--seed", "3"]
CLOSE = 1e-5


class AutoPlanTest(ToolTest):
    def setUp(self):
        super().setUp()
        device = self.write_local()
        self.cluster = {"version": 1, "device": device, "nodes": 1,
                        "devices_per_node": 4, "threads_per_device": 1,
                        "levels": [{"size": 0, "link": "nvlink4"}]}
        self.write("cluster.json", self.cluster)
        index, tokens = make_dataset([300, 50, 650])
        self.write("set.idx", index)
        self.write("set.bin", tokens)
        self.on = ["--cluster", "cluster.json"]

    def inspect(self, name):
        return json.loads(self.run_tool("cleave", "inspect", name, "--json"))

    def test_a_cluster_alone_is_planned_for(self):
        text = self.compile("train", *self.on)
        for part in ["proof ", "binds ", "4 ranks"]:
            self.assertIn(part, text, text)
        # The best, and a header and three others, each with what it takes more.
        self.assertEqual(self.inspect("train")["ranks"], 4)
        self.compile("one", "--micro-batch", "1")
        for got, want in zip(self.losses("./train", *RUN),
                             self.losses("./one", *RUN), strict=True):
            self.assertLess(abs(got - want), CLOSE * want)

    def test_what_is_chosen_is_what_plan_finds(self):
        self.compile("train", *self.on, "--write-plan", "chosen.json")
        self.run_tool("cleave", "plan", LLAMA, *SHAPE, *self.on, "--runnable",
                      "--top", "4", "-o", "found.json")
        self.assertEqual(self.read("chosen.json"), self.read("found.json"))
        self.compile("again", *self.on, "--plan", "chosen.json")
        self.assertEqual(self.read("train"), self.read("again"))

    def test_flags_pin(self):
        for number, flags in enumerate([
                ["--tp", "2"], ["--pp", "2"], ["--zero", "3", "--dp", "4"],
                ["--tp", "4", "--sequence-parallel"],
                ["--pp", "2", "--pipeline-schedule", "1f1b-eager"],
                ["--recompute", "full", "--micro-batch", "1"]]):
            with self.subTest(flags=" ".join(flags)):
                plan = f"{number}.json"
                self.compile("train", *self.on, "--auto", *flags, "-q",
                             "--write-plan", plan)
                layout = json.loads(self.read(plan))["layout"]
                for flag, value in zip(flags, flags[1:] + [""]):
                    key = flag[2:].replace("-", "_")
                    if flag.startswith("--"):
                        got = layout[key]
                        self.assertEqual(
                            got, value if isinstance(got, str) else
                            got if got is True else int(value), layout)
                self.assertEqual(self.inspect("train")["ranks"], 4)

    def test_flags_without_auto_are_all_of_a_layout(self):
        self.expect_error(["--cluster cluster.json has 4 ranks", "2 ranks",
                           "--auto plans for all"], "cleave", "compile", LLAMA,
                          *SHAPE, *self.on, "--tp", "2", "-o", "out", code=2)

    def test_train_plans_too(self):
        self.run_tool("cleave", "train", LLAMA, *SHAPE, *self.on, "-q", "-o",
                      "train", "--", *RUN, "--log-every", "0")
        self.assertEqual(self.inspect("train")["ranks"], 4)

    def test_what_cannot_be_planned(self):
        def fails(parts, *flags, code=2):
            self.expect_error(parts, "cleave", "compile", LLAMA, *SHAPE, *flags,
                              "-o", "out", code=code)

        fails(["--auto: --cluster local does not say", "local:N"], "--auto")
        fails(["--write-plan: expects --auto"], "--write-plan", "p.json")
        fails(["--plan excludes --auto"], "--auto", "--plan", "p.json")
        fails(["--stages: excludes --auto", "--first-blocks"], "--auto",
              "--pp", "2", "--stages", "1,1", *self.on)
        fails(["satisfies --tp 3", "legal values of tp are 1, 2, 4"], "--auto", "--tp",
              "3", *self.on, code=1)
        fails(["missing/p.json: No such file"], "--write-plan",
              "missing/p.json", *self.on, code=1)
        # Constants that no cluster without a device has.
        self.write("bare.json", {"version": 1, "nodes": 1,
                                 "devices_per_node": 4})
        fails(["bare.json", '"device"'], "--auto", "--cluster", "bare.json",
              code=1)
        fails(["--cluster bare.json has 4 ranks", "--auto plans for all"],
              "--cluster", "bare.json")
        # Memory that nothing fits.
        self.cluster["device"]["memory"] = {"value": 1e5, "unit": "byte",
                                            "source": "test"}
        self.write("small.json", self.cluster)
        fails(["nothing fits", "the smallest layout"], "--cluster",
              "small.json", code=1)


if __name__ == "__main__":
    unittest.main()
