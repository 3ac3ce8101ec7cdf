#!/usr/bin/env python3
"""Random models in random layouts on the CUDA machine that is made of software
(test/cuda): all ranks on one GPU, in the bits of the CPU's ranks.

CLEAVE_PLANS=300 runs so many, each with CLEAVE_SEEDS=4 orders of the machine,
and counts them (the default takes some 40 seconds); CLEAVE_PLAN_SEED=N is the
plan that a failure names.
"""
import os
import unittest

import random_plans_test
from random_plans_test import get_flags
from support import TOOLS

SIMULATE = os.path.join(TOOLS, "..", "test", "cuda", "simulate")


class CudaPlansTest(random_plans_test.RandomPlansTest):
    test_every_plan_trains_as_one_rank = None  # is random_plans_test's

    def read_steps(self, command):
        """What each step's numbers are, bit by bit."""
        self.losses(*command)
        return [[step[key] for key in ("loss", "grad_norm", "rank_losses")]
                for step in self.lines("losses.jsonl")]

    def check_case(self):
        ranks = self.row["tp"] * self.row["dp"] * self.row["pp"]
        flags = [*get_flags(self.row), "--dtype",
                 self.draw.choice(["f32", "bf16"]), "--overlap",
                 self.draw.choice(["auto", "always", "never"])]
        done = self.start(*self.build, "--cluster", f"h200:{ranks}", *flags,
                          "-o", "train")
        if done.returncode != 0:
            # The planner prices heads of keys that ranks have copies of.
            self.assertRegex(done.stderr, "--tp .*: key-value heads")
            self.counts["refused"] += 1
            return
        run = ["./train", *random_plans_test.RUN, "--transport", "local"]
        expected = self.read_steps([*run, "--device", "cpu"])
        for _ in range(int(os.environ.get("CLEAVE_SEEDS", "1"))):
            seed = self.draw.randrange(1 << 31)
            got = self.read_steps([SIMULATE, "--seed", str(seed), *run,
                                   "--device", "cuda"])
            self.assertEqual(got, expected, f"{flags}, simulate --seed {seed}")
            self.counts["runs"] += 1
        self.counts["pipelines" if self.row["pp"] > 1 else "others"] += 1

    def test_every_plan_has_the_bits_of_cpus(self):
        self.check_cases(12)


if __name__ == "__main__":
    unittest.main()
