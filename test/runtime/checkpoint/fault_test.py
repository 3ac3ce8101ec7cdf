#!/usr/bin/env python3
"""A kill, or an error, at every file operation of a run that saves: what is
there afterwards is whole, and the run goes on from the newest of it to the same
end.

usage: fault_test.py [--every N] [--ranks N]
                     [--kinds kill,ENOSPC,EIO,short,memory]
  --every N   only each N-th operation (default 1: all of them)

Reads CLEAVE_TOY_TRAIN, a toy's executable, and CLEAVE_FAULT_SHIM, the library
to preload, from the environment.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

STEPS = 8
ARGUMENTS = ["--steps", str(STEPS), "--seed", "1", "--lr", "0.5",
             "--log-every", "0", "--peak-gflops", "1"]


class Run:
    def __init__(self, ranks):
        parent = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.folder = tempfile.mkdtemp(prefix="cleave-fault-", dir=parent)
        self.text = os.path.join(self.folder, "text")
        self.save = os.path.join(self.folder, "save")
        self.export = os.path.join(self.folder, "export")
        with open(self.text, "wb") as file:
            file.write(bytes(7 * i * i % 13 for i in range(2000)))
        self.environment = dict(os.environ, TOY_DP=str(ranks))

    def start(self, *arguments, **fault):
        environment = dict(self.environment)
        if fault:
            environment.update({"LD_PRELOAD": os.environ["CLEAVE_FAULT_SHIM"],
                                "FAULT_FOLDER": self.save, **fault})
        return subprocess.run(
            [os.environ["CLEAVE_TOY_TRAIN"], "--data", self.text, *ARGUMENTS,
             "--save", self.save, "--save-every", "1", "--keep", "2",
             "--resume", *arguments],
            env=environment, capture_output=True, text=True, timeout=60)

    def clean(self):
        shutil.rmtree(self.save, ignore_errors=True)
        shutil.rmtree(self.export, ignore_errors=True)

    def read_export(self):
        with open(os.path.join(self.export, "model.safetensors"), "rb") as file:
            return file.read()

    def get_steps(self):
        """The steps that a checkpoint is named for."""
        names = os.listdir(self.save) if os.path.isdir(self.save) else []
        return [int(name[5:]) for name in names if name.startswith("step-")]


class NotReached(Exception):
    """A run of several ranks may need an operation less than the one that
    counted them: which rank waits for which differs."""


def check(run, kind, at, expected):
    """One fault; what is wrong, or None."""
    run.clean()
    count_file = os.path.join(run.folder, "count")
    broken = run.start(FAULT_KIND=kind, FAULT_AT=str(at),
                       FAULT_COUNT=count_file)
    if broken.returncode == 0:
        with open(count_file) as file:
            if int(file.read()) < at:
                raise NotReached
    if kind == "kill" and broken.returncode != -9:
        return f"was not killed: {broken.returncode} {broken.stderr}"
    if kind != "kill" and broken.returncode not in (0, 1):
        return f"ended with {broken.returncode}: {broken.stderr}"
    if broken.returncode == 1 and "error: " not in broken.stderr:
        return "failed without a message"
    steps = run.get_steps()
    # An error, unlike a kill, costs at most the save that it hit.
    if kind != "kill" and broken.returncode == 0 and STEPS not in steps:
        return f"said that all is well and saved {steps}"
    resumed = run.start("--export", run.export)
    if resumed.returncode != 0 or "warning" in resumed.stderr:
        return f"did not resume: {resumed.stderr}"
    origin = re.search(r"goes on from .*step-(\d+)", resumed.stdout)
    if (int(origin[1]) if origin else None) != max(steps, default=None):
        return f"of {steps}, resumed from {origin and origin[0]}"
    if run.read_export() != expected:
        return f"ended with other weights, from {steps}"
    left = [name for name in os.listdir(run.save) if name.startswith(".")]
    return f"left {left}" if left else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--kinds", default="kill,ENOSPC,EIO,short,memory")
    parser.add_argument("--ranks", type=int, default=1)
    options = parser.parse_args()
    run = Run(options.ranks)
    try:
        count_file = os.path.join(run.folder, "count")
        whole = run.start("--export", run.export, FAULT_KIND="none",
                          FAULT_AT="-1", FAULT_COUNT=count_file)
        if whole.returncode != 0:
            sys.exit(f"the unbroken run failed: {whole.stderr}")
        expected = run.read_export()
        with open(count_file) as file:
            operations = int(file.read())
        failures = points = missed = 0
        for kind in options.kinds.split(","):
            for at in range(1, operations + 1, options.every):
                points += 1
                try:
                    wrong = check(run, kind, at, expected)
                except NotReached:
                    missed += 1
                    continue
                if wrong:
                    failures += 1
                    print(f"{kind} at operation {at}: {wrong}")
        print(f"{operations} file operations, {points} faults: "
              f"{points - failures - missed} as promised, {missed} not "
              f"reached, {failures} failed")
    finally:
        shutil.rmtree(run.folder)
    few = options.ranks > 1 and missed * 100 <= points or missed == 0
    sys.exit(1 if failures or not few or operations < 100 else 0)


if __name__ == "__main__":
    main()
