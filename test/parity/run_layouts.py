#!/usr/bin/env python3
"""Trains each model for 20 steps under every layout of up to 8 ranks (dp, tp,
ZeRO stage, sequence parallelism, micro-batches), as threads and, for a sample,
as MPI processes, and compares each step's loss with that of one rank.

usage: run_layouts.py CLEAVE MODELS_FOLDER [--parts N]

With --parts, one of N parts of each model's layouts as threads, another one of each
model; neighbours, which differ in little, are in different parts.
"""
import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

BOUND = 1e-5          # relative, of each loss
STEPS, SEQ, BATCH = 20, 16, 32
DEGREES = (1, 2, 4, 8)


def layouts():
    for dp, tp, micro in itertools.product(DEGREES, DEGREES, (1, 2, 4)):
        if dp * tp > 8:
            continue
        for zero in range(4) if dp > 1 else (0,):
            for sequence in (False, True) if tp > 1 else (False,):
                yield dp, tp, zero, sequence, micro


def compile_flags(dp, tp, zero, sequence, micro):
    flags = ["--dp", dp, "--tp", tp, "--zero", zero, "--micro-batch",
             BATCH // dp // micro]
    return [str(flag) for flag in flags] + (
        ["--sequence-parallel"] if sequence else [])


class Runner:
    def __init__(self, cleave, model, folder):
        self.cleave, self.model, self.folder = cleave, model, folder
        self.data = os.path.join(folder, "data.txt")
        with open(self.data, "w") as file:
            file.write(("The quick brown fox jumps over the lazy dog; "
                        "pack my box with five dozen liquor jugs. ") * 300)

    def losses(self, flags, launcher=()):
        train = os.path.join(self.folder, "train")
        metrics = os.path.join(self.folder, "metrics.jsonl")
        check([self.cleave, "compile", self.model, "--seq-len", str(SEQ),
               "--global-batch", str(BATCH), "--lr", "2e-3", "-q", "-o", train,
               *flags])
        check([*launcher, train, "--data", self.data, "--steps", str(STEPS),
               "--log-every", "0", "--metrics", metrics, "--peak-gflops", "1"])
        with open(metrics) as file:
            return [json.loads(line)["loss"] for line in file]


def check(command):
    """Runs a command; once more if mpirun of Open MPI 4 says of processes that have
    ended well, without a PID, that they have not: a race of its own, which one of
    a thousand runs of any program meets (open-mpi/ompi issue 7833)."""
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True)
        if not ("with PID 0 on" in done.stderr and
                "exiting improperly" in done.stderr):
            break
    if done.returncode != 0:
        raise RuntimeError(" ".join(command) + "\n" + done.stderr)


def deviation(losses, reference):
    if len(losses) != STEPS or len(reference) != STEPS:
        return float("inf")
    return max(abs(a - b) / abs(b) for a, b in zip(losses, reference))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cleave")
    parser.add_argument("models")
    parser.add_argument("--parts", type=int, default=1)
    options = parser.parse_args()
    failures, runs, worst = 0, 0, (0.0, "")
    mpirun = shutil.which("mpirun")
    for part, name in enumerate(sorted(os.listdir(options.models))):
        with tempfile.TemporaryDirectory() as folder:
            runner = Runner(options.cleave, os.path.join(options.models, name),
                            folder)
            reference = runner.losses([])
            assert reference[-1] < reference[0], "the reference does not learn"
            jobs = [(layout, ()) for layout in itertools.islice(
                layouts(), part % options.parts, None, options.parts)]
            if mpirun:
                launcher = (mpirun, "--allow-run-as-root", "--oversubscribe",
                            "--bind-to", "none", "-np", "4")
                jobs += [((2, 2, 3, True, 2), launcher),
                         ((4, 1, 2, False, 1), launcher),
                         ((1, 4, 0, True, 1), launcher)]
            for layout, launcher in jobs:
                label = "%s dp=%d tp=%d zero=%d sp=%d micro-batches=%d%s" % (
                    name, *layout, " mpi" if launcher else "")
                runs += 1
                start = time.time()
                try:
                    value = deviation(runner.losses(compile_flags(*layout),
                                                    launcher), reference)
                except RuntimeError as error:
                    print(f"FAIL {label}: {error}", flush=True)
                    failures += 1
                    continue
                worst = max(worst, (value, label))
                ok = value <= BOUND
                failures += not ok
                print(f"{'ok  ' if ok else 'FAIL'} {label}: {value:.1e} "
                      f"({time.time() - start:.1f} s)", flush=True)
    print(f"largest deviation {worst[0]:.2e} ({worst[1]})")
    print(f"{runs - failures} of {runs} layouts hold")
    sys.exit(1 if failures or runs < 200 // options.parts else 0)


if __name__ == "__main__":
    main()
