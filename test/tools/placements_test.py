#!/usr/bin/env python3
"""Random models on random meshes, with placements that are chosen by cost: each
trains to what one rank trains to.

CLEAVE_PLACEMENTS=200 runs so many and counts them (the default takes half a
minute), CLEAVE_PLACEMENT_SEED=N the one that a failure names.
"""
import collections
import json
import os
import random
import unittest

from random_plans_test import (MODULES, STEPS, draw_model, draw_tokens,
                               get_divisors)
from support import GOLDEN, LLAMA, SHAPE, ToolTest

# Slow ones keep ranks apart, fast ones let them share.
LINKS = ["ethernet-100x4", "ib-ndr400", "nvlink4", "nvlink5-nvl72"]


class PlacementsTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.counts = collections.Counter()

    def write_machine(self, draw, ranks):
        """A machine that nobody has: its choices are to be unlike those of
        today's. Of CPUs, or of GPUs, beside whose compute all collectives run.
        Returns its name."""
        device = self.write_local()
        slower = 10 ** draw.uniform(0, 5)
        for unit in device["matrix"].values():
            unit["peak"]["value"] /= slower
        device["memory_bandwidth"]["value"] /= slower
        link = draw.choice(LINKS)
        if draw.random() < 0.5:
            self.counts["of GPUs"] += 1
            del device["cores"]
            self.write("gpus.json", {
                "version": 1, "device": device, "devices_per_node": ranks,
                "levels": [{"size": 0, "link": link}]})
            return "gpus.json"
        self.write("cleave/local.json", {
            "version": 1, "device": device,
            "levels": [{"size": 0, "link": link, "shared_link": link}]})
        return f"local:{ranks}"

    def train(self, name):
        self.losses(f"./{name}", "--tokens", "tokens", "--seed", "3")
        steps = self.lines("losses.jsonl")
        self.assertEqual(len(steps), STEPS)
        return [(step["loss"], step["grad_norm"]) for step in steps]

    def check_case(self, seed):
        draw = random.Random(seed)
        seq_len = draw.choice([6, 8, 12, 15, 16])
        ranks = draw.choice([2, 3, 4, 4, 6, 8, 8])
        dp = draw.choice(get_divisors(ranks))
        batch = dp * draw.choice([1, 2, 3, 4])
        config = draw_model(draw, seq_len)
        config["num_hidden_layers"] = draw.randint(1, 5)
        self.write("model.json", config)
        self.write("tokens", draw_tokens(draw, config["vocab_size"],
                                         [STEPS, batch, seq_len]))
        cluster = self.write_machine(draw, ranks)
        build = ["cleave", "compile", "model.json", "--seq-len", str(seq_len),
                 "--global-batch", str(batch), "-q",
                 *draw.choice([[], [], ["--optimizer", "sgd"],
                               ["--optimizer", "muon"]])]
        pp = draw.choice([1, 1] + [degree for degree in get_divisors(ranks // dp)
                                   if degree <= config["num_hidden_layers"]])
        layout = ["--dp", str(dp), "--pp", str(pp), "--tp", str(ranks // dp // pp),
                  "--cluster", cluster, "--dtype", "f32", "--micro-batch",
                  str(draw.choice(get_divisors(batch // dp)))]
        if pp > 1:
            layout += ["--pipeline-schedule",
                       draw.choice(["1f1b", "gpipe", "1f1b-eager", "zb-h1"])]
        if draw.random() < 0.3:
            layout += ["--recompute", "selective", "--recompute-modules",
                       "+".join(draw.sample(MODULES, draw.randint(1, 3)))]
        if draw.random() < 0.3:
            layout += ["--overlap", "always"]
        check = ["--check"] if draw.random() < 0.2 else []
        done = self.start(*build, *layout, *check, "--placements", "auto",
                          "-o", "train", env=self.env, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.run_tool(*build, "--micro-batch", "1", "-o", "one")
        got, want = self.train("train"), self.train("one")
        for (loss, norm), (one_loss, one_norm) in zip(got, want, strict=True):
            self.assertLessEqual(abs(loss - one_loss), 1e-5 * one_loss,
                                 f"{got} {want}")
            self.assertLessEqual(abs(norm - one_norm), 1e-4 * one_norm,
                                 f"{got} {want}")
        self.counts["checked" if check else "trained"] += 1
        self.counts["with a pipeline"] += pp > 1

    def test_bad_input(self):
        self.write_local()
        build = ["cleave", "compile", LLAMA, *SHAPE, "-o", "train"]
        for code, parts, *flags in [
                (2, ["--placements", "{plan,auto}"], "--placements", "best"),
                (1, "this machine was not measured", "--placements", "auto",
                 "--dp", "2")]:
            env = dict(self.env)
            if code == 1:
                env["CLEAVE_CACHE"] = self.path("empty")
            self.expect_error(parts, *build, *flags, code=code, env=env)

    def test_a_layout_as_tactics(self):
        """What flags say of placements, written as tactics and read again; with
        biases, which a product that is split by rows cannot add."""
        self.write_local()
        build = ["cleave", "compile", os.path.join(GOLDEN, "gpt2"), *SHAPE, "-q"]
        layout = ["--dp", "2", "--tp", "2", "--cluster", "local:4"]
        self.run_tool(*build, *layout, "--sequence-parallel", "--zero", "3",
                      "--write-tactics", "flags.tactics", "-o", "recipe",
                      env=self.env)
        self.assertEqual(
            self.read("flags.tactics").decode(),
            'split "batch" over dp\nsplit "heads" over tp\n'
            'split "intermediate" over tp\nsplit "kv_heads" over tp\n'
            'split "vocab" over tp\nsplit "sequence" over tp\n'
            "keep optimizer over dp\nkeep gradients over dp\n"
            "keep parameters over dp\n")
        done = self.start(*build, *layout, "--tactics", "flags.tactics",
                          "--remarks", "--check", "-o", "train", env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        for line, text in enumerate(
                self.read("flags.tactics").decode().splitlines(), 1):
            self.assertIn(f"flags.tactics:{line}:1: {text}: of", done.stderr)
        self.run_tool(*build, "-o", "one", env=self.env)
        self.write("tokens", draw_tokens(random.Random(1), 101, [STEPS, 4, 16]))
        want = self.train("one")
        for name in ["recipe", "train"]:
            for got, expected in zip(self.train(name), want, strict=True):
                self.assertLessEqual(abs(got[0] - expected[0]),
                                     1e-5 * expected[0], name)
                self.assertLessEqual(abs(got[1] - expected[1]),
                                     1e-4 * expected[1], name)

    def test_bad_tactics(self):
        self.write_local()
        build = ["cleave", "compile", LLAMA, *SHAPE, "-o", "train", "--dp", "2",
                 "--cluster", "local:2"]
        for code, text, part, *flags in [
                (2, "", "excludes --placements plan", "--placements", "plan"),
                (1, "split heads over dp", "a.tactics:1: expects a dim's name in "
                 'quotes, got "heads over dp"'),
                (1, "\nsplit \"head\" over dp", 'a.tactics:2: no tensor has a '
                 'dim "head"; there are batch, sequence, vocab, hidden'),
                (1, 'split "heads" over pp', 'no axis "pp"; it has dp, tp'),
                (1, 'layers 7: split "heads" over dp',
                 "a.tactics:1: is for no op")]:
            self.write("a.tactics", text)
            self.expect_error(part, *build, *flags, "--tactics", "a.tactics",
                              code=code, env=self.env)
        self.expect_error("b.tactics: No such file or directory", *build,
                          "--tactics", "b.tactics", env=self.env)

    def test_random_placements_train_as_one_rank(self):
        count = int(os.environ.get("CLEAVE_PLACEMENTS", "12"))
        seeds = range(count)
        if "CLEAVE_PLACEMENT_SEED" in os.environ:
            seeds = [int(os.environ["CLEAVE_PLACEMENT_SEED"])]
        for seed in seeds:
            with self.subTest(seed=seed):
                self.check_case(seed)
        if len(seeds) >= 12:
            print(dict(self.counts))
            self.assertGreater(self.counts["trained"], len(seeds) / 3)


if __name__ == "__main__":
    unittest.main()
