#!/usr/bin/env python3
"""Compares the planner with this compiler's own runs on CPU ranks: calibrates
this machine, trains twelve layouts of two models, and prints the measured and
the predicted seconds of a step, their errors, and whether the order is right;
and the error of a rank's memory. Beside it what `cleave estimate` says of the
executable itself, instruction by instruction.

A measurement during which other processes used more than 3 % of the cores is
repeated. Layouts are measured in turn, round after round, so that a machine that changes
its speed changes all alike. A layout's time is the median over the rounds of
the median step.

usage: own_runs.py CLEAVE [--rounds N] [--steps N] [--lock FILE] [--json FILE]
"""
import argparse
import contextlib
import fcntl
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))

# Of each model: sequence length, global batch, and layouts.
RUNS = {
    "llama": (256, 8, [
        "--dp 1 --micro-batch 8",
        "--dp 1 --micro-batch 1",
        "--tp 2 --micro-batch 8",
        "--tp 2 --sequence-parallel --micro-batch 2",
        "--dp 2 --zero 3 --micro-batch 1",
        "--dp 2 --tp 2 --zero 1 --micro-batch 2",
    ]),
    "gpt2": (128, 16, [
        "--dp 1 --micro-batch 4",
        "--dp 2 --micro-batch 8",
        "--dp 2 --zero 2 --micro-batch 1",
        "--tp 2 --micro-batch 4",
        "--dp 4 --zero 3 --micro-batch 1",
        "--dp 2 --tp 2 --sequence-parallel --micro-batch 2",
    ]),
}


@contextlib.contextmanager
def alone(path):
    """Holds a lock that others who would disturb the measurement take too."""
    if not path:
        yield
        return
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def read_busy():
    """CPU seconds of all cores, of all processes and of hypervisors."""
    with open("/proc/stat") as file:
        fields = [int(field) for field in file.readline().split()[1:9]]
    user, nice, system, _, _, irq, softirq, steal = fields
    return (user + nice + system + irq + softirq + steal) / os.sysconf(
        "SC_CLK_TCK")


def is_idle():
    busy = read_busy()
    time.sleep(0.5)
    return read_busy() - busy < 0.02 * os.cpu_count()


def run_alone(command, lock, **options):
    """Runs a command, holding the lock, until nothing else ran beside it."""
    cores, deadline = os.cpu_count(), time.monotonic() + 1800
    while time.monotonic() < deadline:
        time.sleep(0.5)  # for those who wait for the lock
        with alone(lock):
            if not is_idle():
                continue
            busy, own, start = read_busy(), os.times(), time.monotonic()
            subprocess.run(command, check=True, **options)
            now, others = os.times(), read_busy() - busy
            seconds = time.monotonic() - start
        others -= (now.children_user + now.children_system
                   - own.children_user - own.children_system)
        share = others / cores / seconds
        if share < 0.06:
            return
        print(f"others used {100 * share:.0f} % of the cores: again",
              file=sys.stderr)
    sys.exit("own_runs.py: the machine is never idle")


def get_degrees(layout):
    words = layout.split()
    return {flag: int(words[words.index(flag) + 1])
            for flag in ("--dp", "--tp", "--micro-batch", "--zero")
            if flag in words}


class Run:
    def __init__(self, cleave, folder, name, layout):
        self.name, self.layout = name, layout
        self.seq, self.batch, _ = RUNS[name]
        self.cleave, self.folder = cleave, folder
        self.model = os.path.join(HERE, "models", name)
        self.program = os.path.join(folder, f"{name}-{layout}".replace(" ", ""))
        self.medians = []
        degrees = get_degrees(layout)
        self.ranks = degrees.get("--dp", 1) * degrees.get("--tp", 1)

    def compile(self):
        subprocess.run(
            [self.cleave, "compile", self.model, "--seq-len", str(self.seq),
             "--global-batch", str(self.batch), *self.layout.split(),
             "--cluster", f"local:{self.ranks}", "-q", "-o", self.program],
            check=True, stderr=subprocess.DEVNULL)

    def train(self, data, steps, lock):
        metrics = os.path.join(self.folder, "metrics.jsonl")
        run_alone([self.program, "--data", data, "--steps", str(steps),
                   "--metrics", metrics, "--log-every", "0"], lock,
                  stdout=subprocess.DEVNULL)
        with open(metrics) as file:
            steps = [json.loads(line) for line in file]
        # The first steps touch memory and wake cores.
        self.medians.append(
            statistics.median(step["seconds"] for step in steps[2:]))
        self.arena = steps[-1]["arena_bytes"]

    def estimate(self, environment):
        out = subprocess.run(
            [self.cleave, "estimate", self.model, "--seq-len", str(self.seq),
             "--global-batch", str(self.batch), "--dtype", "f32", "--cluster",
             f"local:{self.ranks}", *self.layout.split(), "--json"],
            check=True, capture_output=True, text=True, env=environment)
        self.estimated = json.loads(out.stdout)
        out = subprocess.run(
            [self.cleave, "estimate", self.program, "--cluster",
             f"local:{self.ranks}", "--json"],
            check=True, capture_output=True, text=True, env=environment)
        self.simulated = json.loads(out.stdout)

    measured = property(lambda self: statistics.median(self.medians))
    predicted = property(lambda self: self.estimated["step_time_s"])
    error = property(lambda self: self.predicted / self.measured - 1)
    program_error = property(lambda self: self.simulated["step_time_s"]
                             / self.measured - 1)
    memory_error = property(lambda self: self.estimated["memory_bytes"]["total"]
                            / self.arena - 1)
    # Half of what the rounds differ by: what cannot be told from chance.
    noise = property(lambda self: (max(self.medians) - min(self.medians))
                     / self.measured / 2)


def get_ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0] * len(values)
    for rank, index in enumerate(order):
        ranks[index] = rank
    return ranks


def get_spearman(xs, ys):
    a, b = get_ranks(xs), get_ranks(ys)
    n = len(a)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(a, b)) / (n * (n * n - 1))


def count_pairs(runs):
    """Pairs of one model that differ by more than their noise, and those of
    them that the prediction orders right."""
    pairs = right = 0
    for one, two in itertools.combinations(runs, 2):
        if one.name != two.name:
            continue
        difference = abs(one.measured - two.measured)
        if difference <= one.noise * one.measured + two.noise * two.measured:
            continue
        pairs += 1
        right += ((one.measured < two.measured)
                  == (one.predicted < two.predicted))
    return pairs, right


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cleave")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--lock", help="file to hold a lock of while measuring")
    parser.add_argument("--json", help="file for all numbers")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, XDG_CACHE_HOME=folder)
        data = os.path.join(folder, "data.txt")
        with open(data, "w") as file:
            file.write("how vexingly quick daft zebras jump " * 20000)
        runs = [Run(args.cleave, folder, name, layout)
                for name in RUNS for layout in RUNS[name][2]]
        for run in runs:
            run.compile()
        run_alone([args.cleave, "calibrate", "-q"], args.lock, env=environment)
        for _ in range(args.rounds):
            for run in runs:
                run.train(data, args.steps, args.lock)
        for run in runs:
            run.estimate(environment)

    print("model\tlayout\tmeasured ms\t+- %\tpredicted ms\terror %"
          "\tmemory error %\tprogram's error %")
    for run in runs:
        print(f"{run.name}\t{run.layout}\t{1e3 * run.measured:.1f}"
              f"\t{100 * run.noise:.1f}\t{1e3 * run.predicted:.1f}"
              f"\t{100 * run.error:+.1f}\t{100 * run.memory_error:+.1f}"
              f"\t{100 * run.program_error:+.1f}")
    errors = [abs(run.error) for run in runs]
    pairs, right = count_pairs(runs)
    print(f"median error {100 * statistics.median(errors):.1f} % (target 10), "
          f"worst {100 * max(errors):.1f} %")
    errors = [abs(run.program_error) for run in runs]
    print(f"of the program: median error {100 * statistics.median(errors):.1f} "
          f"% (target 5), worst {100 * max(errors):.1f} %")
    memory = statistics.median(abs(run.memory_error) for run in runs)
    print(f"memory of a rank: median error {100 * memory:.1f} %")
    for name in RUNS:
        of_model = [run for run in runs if run.name == name]
        rho = get_spearman([run.measured for run in of_model],
                           [run.predicted for run in of_model])
        print(f"{name}: Spearman {rho:.2f}")
    print(f"order: {right} of {pairs} pairs of a model whose times differ by "
          "more than their noise")
    if args.json:
        with open(args.json, "w") as file:
            json.dump([{"model": run.name, "layout": run.layout,
                        "measured_s": run.medians, "arena_bytes": run.arena,
                        "predicted": run.estimated,
                        "program": run.simulated} for run in runs], file,
                      indent=1)


if __name__ == "__main__":
    sys.exit(main())
