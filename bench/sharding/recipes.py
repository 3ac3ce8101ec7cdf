#!/usr/bin/env python3
"""Placements chosen by cost beside those of recipes: what a step of a published
model takes with either, by the compiler's own count, on meshes of one to three axes,
where nothing runs beside anything else.

usage: recipes.py BUILD CONFIGS [--cases N] [--seed S] [--most-states N]

BUILD is the build's bin/, CONFIGS a folder of config.json files. Draws N cases of a
model, a cluster, a mesh, a sequence length and a number of micro-batches. A recipe is
one of every assignment of the axes to data and tensor parallelism, ZeRO 0 to 3, and
sequence parallelism or not; the best is that of the fewest seconds whose kept tensors
fit into a device; of the chosen ones no more is asked here. Prints a line for each
case: the ratio of best recipe and choice, either's milliseconds, what no choice takes
less than, seconds that the choice took; and a summary. Exit code 1 if a choice was
worse.
"""
import argparse
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

MODELS = ["llama-3.1-8b", "llama-2-7b", "mistral-7b-v0.1", "qwen2.5-7b",
          "qwen3-8b", "olmo-2-1124-7b", "phi-3-mini-4k-instruct", "gemma-2b",
          "granite-3.3-8b-instruct", "starcoder2-3b", "opt-6.7b",
          "pythia-12b", "gpt2-large", "llama-3.2-1b", "smollm2-360m"]
DEVICES = ["h100-sxm", "a100-80", "h200"]
RANKS = [2, 4, 8, 16, 64, 256, 512]
SEQ_LENS = [2048, 4096, 8192, 32768, 131072]  # where the model has as many
REMARK = re.compile(r"remark: ([\d.]+) us, ([\d.]+) of them in reshards; keeps "
                    r"([\d.]+) MB(?:; no choice takes less(?: than ([\d.]+) us)?"
                    r")?")


class Case:
    def __init__(self, options, draw, folder):
        self.options, self.folder = options, folder
        self.model = draw.choice(MODELS)
        self.device = draw.choice(DEVICES)
        ranks = draw.choice(RANKS)
        self.cluster = f"{self.device}:{ranks}"
        count = draw.choice([1, 2, 2, 3])
        self.sizes = draw.choice(list(get_factorings(ranks, count)))
        self.seq_len = draw.choice(SEQ_LENS)
        self.micro_batches = draw.choice([1, 2, 8])
        # Of a micro-batch: at least a sample for each few ranks.
        self.samples = max(1, ranks // draw.choice([1, 1, 2, 4, 8]))
        self.names = [f"a{i}" for i in range(len(self.sizes))]

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, tool, *arguments):
        done = subprocess.run(
            [os.path.join(self.options.build, tool), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
            check=False)
        return done.returncode, done.stderr

    def make(self):
        """The step, before it is placed; what was wrong with it."""
        code, error = self.run(
            "cleave", "import", f"{self.options.configs}/{self.model}.json",
            "--seq-len", str(self.seq_len), "--batch", str(self.samples),
            "--dtype", "bf16", "-o", self.path("model.mlir"))
        if code != 0:
            return error
        code, error = self.run(
            "cleave-opt", self.path("model.mlir"),
            f"--cleave-build-step=micro-batches={self.micro_batches}",
            "--cleave-expand-cross-entropy", "-o", self.path("step.mlir"))
        return error if code != 0 else None

    def get_recipes(self):
        for roles in itertools.product(["dp", "tp"], repeat=len(self.names)):
            dp = [name for name, role in zip(self.names, roles, strict=True)
                  if role == "dp"]
            tp = [name for name in self.names if name not in dp]
            for zero in range(4) if dp else [0]:
                for splits_sequence in [False, True] if tp else [False]:
                    dims = {"batch": dp, "vocab": tp, "heads": tp,
                            "kv_heads": tp, "intermediate": tp}
                    if splits_sequence:
                        dims["sequence"] = tp
                    yield {
                        "version": 2, "micro_batches": self.micro_batches,
                        "mesh": [{"name": name, "size": size} for name, size
                                 in zip(self.names, self.sizes, strict=True)],
                        "dims": dims,
                        "keep": {"optimizer": dp if zero > 0 else [],
                                 "gradients": dp if zero > 1 else [],
                                 "parameters": dp if zero > 2 else []}}

    def price(self, recipe):
        """Milliseconds and bytes, or nothing where it does not divide."""
        with open(self.path("plan.json"), "w", encoding="utf-8") as file:
            json.dump(recipe, file)
        code, text = self.run(
            "cleave-opt", self.path("step.mlir"),
            f"--cleave-place-tensors=plan={self.path('plan.json')}",
            f"--cleave-price-placements=cluster={self.cluster}", "-o",
            "/dev/null")
        found = REMARK.search(text)
        if code != 0 or not found:
            return None
        return float(found[1]) / 1e3, float(found[3]) * 1e6

    def choose(self, memory):
        """Milliseconds, the bound, and seconds that it took; or the error."""
        mesh = ",".join(f"{name}={size}" for name, size
                        in zip(self.names, self.sizes, strict=True))
        start = time.monotonic()
        code, text = self.run(
            "cleave-opt", self.path("step.mlir"),
            f"--cleave-choose-placements=cluster={self.cluster} mesh={mesh} "
            f"most-states={self.options.most_states} overlap=never "
            f"memory={memory:.0f}", "-o",
            "/dev/null")
        taken = time.monotonic() - start
        found = [match for match in map(REMARK.search, text.splitlines())
                 if match]
        if code != 0 or not found:
            return re.search(r"error: ([^\n]*)", text)[1]
        cost = float(found[-1][1]) / 1e3
        bound = float(found[-1][4]) / 1e3 if found[-1][4] else cost
        return cost, bound, taken


def get_factorings(number, count):
    if count == 1:
        yield (number,)
        return
    for size in range(2, number):
        if number % size == 0:
            for rest in get_factorings(number // size, count - 1):
                yield (size, *rest)


def load_device(build, device):
    path = os.path.join(build, "..", "..", "lib", "Hardware", "data",
                        "devices", f"{device}.json")
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("build")
    parser.add_argument("configs")
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most-states", type=int, default=64)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    ratios, gaps, worse, slowest = [], [], 0, 0
    print("ratio\tchosen ms\trecipe ms\tno less than\ttook s\tcase")
    with tempfile.TemporaryDirectory() as folder:
        while len(ratios) < options.cases:
            try:
                case = Case(options, draw, folder)
            except IndexError:  # so many ranks are no product of so many
                continue
            text = (f"{case.model} {case.cluster} "
                    f"{'x'.join(map(str, case.sizes))} seq {case.seq_len}, "
                    f"{case.micro_batches} x {case.samples} samples")
            error = case.make()
            if error:
                print(f"\t\t\t\t\t{text}: {error.strip()[-200:]}", flush=True)
                continue
            memory = load_device(options.build, case.device)["memory"]["value"]
            priced = [price for price in map(case.price, case.get_recipes())
                      if price and price[1] <= memory]
            chosen = case.choose(memory)
            if isinstance(chosen, str):
                print(f"\t\t{min(priced)[0] if priced else 'none fits'}\t\t\t"
                      f"{text}: {chosen}", flush=True)
                worse += bool(priced)
                continue
            cost, bound, taken = chosen
            slowest = max(slowest, taken)
            if not priced:
                print(f"\t{cost:.3f}\tnone fits\t{bound:.3f}\t{taken:.1f}\t"
                      f"{text}", flush=True)
                continue
            best = min(priced)[0]
            ratios.append(best / cost)
            gaps.append(cost / bound - 1)
            worse += cost > best * (1 + 1e-9)
            print(f"{best / cost:.3f}\t{cost:.3f}\t{best:.3f}\t{bound:.3f}\t"
                  f"{taken:.1f}\t{text}", flush=True)
    ratios.sort()
    gaps.sort()
    middle = len(ratios) // 2
    print(f"{len(ratios)} cases: {worse} worse than the best recipe, "
          f"{sum(ratio > 1.01 for ratio in ratios)} better by over 1 %; ratio "
          f"{ratios[0]:.3f} to {ratios[-1]:.3f}, median {ratios[middle]:.3f}; "
          f"above the bound by {100 * gaps[middle]:.1f} % at the median, "
          f"{100 * gaps[-1]:.1f} % at most; slowest {slowest:.1f} s")
    sys.exit(worse > 0)


if __name__ == "__main__":
    main()
