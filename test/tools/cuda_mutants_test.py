#!/usr/bin/env python3
"""Wrong programs on the CUDA machine that is made of software (test/cuda): what
the loader refuses does go wrong there, and what it takes has the CPU's bits.

Random models in random layouts with streams are compiled, and their programs
changed (test/mutants/WrongPrograms.cpp): waits, streams, lifetimes. The loader
says what it thinks of each. Then each runs on the machine, in the order of a
few seeds until one of them shows what is wrong, in an executable whose loader
believes in any order (test/mutants/UnverifiedOrder.cpp).

CLEAVE_PLANS=500 makes so many programs, CLEAVE_MUTANTS=3 mutants of each kind
of each, CLEAVE_SEEDS=5 tries so many orders of each, and four times as many
until one that should show does; CLEAVE_PLAN_SEED=N is the program of that
number. Prints a line for each mutant, tab-separated, and a summary by kind.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import unittest

import random_plans_test
from cuda_plans_test import SIMULATE
from random_plans_test import get_flags
from support import TOOLS

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "mutants"))
from wrong_programs import put_program  # noqa: E402

TESTS = os.path.join(TOOLS, "..", "test", "bin")
KINDS = ["a wait dropped", "a wait for another event",
         "an instruction in another stream", "two events exchanged",
         "a lifetime shortened", "a place taken away"]
# What becomes of mutants: those that load are no different; of some that are
# refused SeenRaces.h says why GPUs cannot show them, and some are none that
# could execute; the others are expected to show.
UNSEEN = ["loads", "workspace", "bucket", "stages", "no program"]
SHOWN = ["wrong bits", "fault", "deadlock", "hung"]
COLUMNS = [*UNSEEN, *SHOWN, "the same"]
# How a run ends, by what is said then.
ENDS = {"no program": r"^error: \./mutant: ",
        "deadlock": "deadlock|for ever|watchdog", "fault": "simulated CUDA: "}
LIMIT = 300  # seconds


class CudaMutantsTest(random_plans_test.RandomPlansTest):
    test_every_plan_trains_as_one_rank = None  # is random_plans_test's

    def compile_unverified(self, *flags):
        """An executable whose loader believes in any order: the compiler finds
        a linker's driver that says so."""
        os.makedirs(self.path("bin"), exist_ok=True)
        self.write("bin/c++", f"#!/bin/sh\nexec {shutil.which('c++')} "
                   f"-Wl,--whole-archive {TESTS}/libUnverifiedOrder.a "
                   "-Wl,--no-whole-archive \"$@\"\n")
        os.chmod(self.path("bin/c++"), 0o755)
        path = self.path("bin") + os.pathsep + os.environ["PATH"]
        return self.start(*self.build, *flags, "-o", "train",
                          env=dict(os.environ, PATH=path))

    def run_to_bits(self, *command):
        """What each step's numbers are, bit by bit, or how the run ended."""
        try:
            # The second step launches what it has captured.
            done = self.start(*command, *random_plans_test.RUN, "--transport",
                              "local", "--steps", "2", "--metrics",
                              "metrics.jsonl", "--log-every", "0",
                              "--peak-gflops", "1", timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return None, "hung"
        for end, said in ENDS.items():
            if re.search(said, done.stderr, re.MULTILINE):
                return None, end
        if done.returncode != 0:
            return None, "fault"
        return [[step[key] for key in ("loss", "grad_norm", "rank_losses")]
                for step in self.lines("metrics.jsonl")], None

    def simulate(self, executable, seed):
        return self.run_to_bits(
            SIMULATE, "--seed", str(seed), "--threads", "1", "--patience", "3",
            executable, "--device", "cuda")

    def try_mutant(self, program, orders):
        """How a mutant shows on the machine, and with which seed."""
        with open(program, "rb") as file:
            mutant = put_program(self.path("train"), file.read())
        self.write("mutant", bytes(mutant))
        os.chmod(self.path("mutant"), 0o755)
        for _ in range(orders):
            seed = self.draw.randrange(1 << 31)
            bits, end = self.simulate("./mutant", seed)
            if bits != self.right:
                return end or "wrong bits", seed
        return "the same", "-"

    def make_mutants(self):
        """What WrongPrograms lists of each, with the file of the program."""
        os.makedirs(self.path("mutants"), exist_ok=True)
        done = self.start(
            os.path.join(TESTS, "WrongPrograms"), "--all",
            *(part for kind in KINDS for part in ("--kind", kind)),
            os.environ.get("CLEAVE_MUTANTS", "1"), str(self.number), "mutants",
            "train")
        # Else one loads that has a race.
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in self.read("mutants/list.tsv").decode().splitlines():
            _, program, kind, change, refusal, races = line.split("\t")
            yield kind, change, refusal, races, self.path(program)

    def check_case(self):
        ranks = self.row["tp"] * self.row["dp"] * self.row["pp"]
        done = self.compile_unverified(
            "--cluster", f"h200:{ranks}", *get_flags(self.row), "--overlap",
            "always")
        if done.returncode != 0:
            # The planner prices heads of keys that ranks have copies of.
            self.assertRegex(done.stderr, "--tp .*: key-value heads")
            return
        self.right, end = self.run_to_bits("./train", "--device", "cpu")
        self.assertIsNone(end)
        self.assertEqual(self.simulate("./train", 1), (self.right, None))
        for kind, change, refusal, races, program in self.make_mutants():
            orders = int(os.environ.get("CLEAVE_SEEDS", "2"))
            shown, seed = self.try_mutant(
                program, orders * (4 if races in ("seen", "serial") else 1))
            self.counts[kind, races or "loads", shown] += 1
            print(self.number, kind, change, refusal or "loads", races, shown,
                  seed, sep="\t", flush=True)
            if not refusal:
                self.assertEqual(shown, "the same", f"{kind}: {change}: loads, "
                                 f"and has other bits with seed {seed}")

    def draw_case(self, seed):
        super().draw_case(seed)
        self.number = seed

    def test_what_is_refused_goes_wrong(self):
        self.check_cases(5)
        print("kind", *COLUMNS, sep="\t")
        totals = collections.Counter()
        for kind in KINDS:
            row = collections.Counter()
            for (of, races, shown), count in self.counts.items():
                if of == kind:
                    row[races if races in UNSEEN else shown] += count
            print(kind, *(row[column] for column in COLUMNS), sep="\t")
            totals += row
        print("all", *(totals[column] for column in COLUMNS), sep="\t")
        shown = sum(totals[column] for column in SHOWN)
        self.assertGreater(shown, 0)
        # Of a few mutants some may need more orders.
        most = 0.05 if "CLEAVE_PLANS" in os.environ else 0.3
        self.assertLessEqual(totals["the same"],
                             most * (shown + totals["the same"]))


if __name__ == "__main__":
    unittest.main()
