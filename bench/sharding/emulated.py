#!/usr/bin/env python3
"""Whether the placements that are priced lowest run fastest: two ranks on this machine,
a thread each, over emulated links of several speeds.

usage: emulated.py CLEAVE [--steps N]

Of each link and number of samples: the choice by cost, and of five other strategies,
each a few tactics and nothing else, the four that are priced lowest. All are
compiled without overlap and run serially. Prints a line for each case: what each takes,
measured, in milliseconds (priced in parentheses), the chosen one first; then the chosen
one's time over the fastest one's, and how much a second run of the chosen one differs
from the first. The median of the steps but the first. At the end, in how many cases
the chosen one is fastest, or slower by no more than the larger of 3 % and that
difference.
"""
import argparse
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, os.pardir)]
from overlap import Bench, get_shape  # noqa: E402
from recipes import REMARK  # noqa: E402

HEADS = ["heads", "kv_heads", "intermediate", "vocab"]
TENSOR = [f'split "{dim}" over dp' for dim in HEADS]
DATA = ['split "batch" over dp']
STRATEGIES = {
    "data": DATA,
    "zero-1": [*DATA, "keep optimizer over dp"],
    "zero-3": [*DATA, *(f"keep {kind} over dp" for kind in
                        ["optimizer", "gradients", "parameters"])],
    "tensor": TENSOR,
    "sequence": [*TENSOR, 'split "sequence" over dp'],
}
BANDWIDTHS = [1e8, 3e8, 1e9, 3e9, 1e10]  # byte/s
BATCHES = [2, 16]


class Emulated(Bench):
    def build(self, name, batch, lines):
        """Compiles a strategy; what it is priced at, in seconds."""
        tactics = []
        if lines:
            with open(self.path(f"{name}.tactics"), "w", encoding="utf-8") as file:
                file.write("\n".join([*lines, "split nothing else"]) + "\n")
            tactics = ["--tactics", f"{name}.tactics"]
        done = subprocess.run(
            [self.cleave, "compile", "config.json", *get_shape(batch), "--dp", "2",
             "--cluster", "cluster.json", "--overlap", "never", "--placements",
             "auto", *tactics, "--remarks", "-q", "-o", name], cwd=self.folder,
            check=True, stderr=subprocess.PIPE, encoding="utf-8")
        # Remarks about tactics come before it.
        return float(REMARK.findall(done.stderr)[-1][0]) / 1e6

    def run_case(self, bandwidth, batch):
        self.write_cluster(bandwidth)
        link = ["--serial", "--emulate-link", f"dp={bandwidth},0"]
        priced = {name: self.build(name, batch, lines)
                  for name, lines in {"chosen": [], **STRATEGIES}.items()}
        names = sorted(priced, key=lambda name: (name != "chosen", priced[name]))[:5]
        taken = {name: self.measure(*link, program=f"./{name}") for name in names}
        again = self.measure(*link, program="./chosen")
        noise = abs(again / taken["chosen"] - 1)
        ratio = min(again, taken["chosen"]) / min(taken.values())
        shown = "  ".join(f"{name} {1e3 * taken[name]:.1f} ({1e3 * priced[name]:.1f})"
                          for name in names)
        print(f"{bandwidth / 1e6:.0f}\t{batch}\t{ratio:.3f}\t{noise:.3f}\t{shown}",
              flush=True)
        return ratio <= 1 + max(noise, 0.03)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cleave")
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    print("MB/s\tsamples\tratio\tnoise\tms of a step, measured (priced)")
    with tempfile.TemporaryDirectory() as folder:
        bench = Emulated(options.cleave, folder, options.steps)
        good = [bench.run_case(bandwidth, batch) for bandwidth in BANDWIDTHS
                for batch in BATCHES]
    print(f"{sum(good)} of {len(good)}: the chosen one is fastest, or within noise")


if __name__ == "__main__":
    main()
