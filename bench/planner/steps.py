#!/usr/bin/env python3
"""Steps of large models on H100s, by `cleave estimate` of their executables: the
simulation of the compiled program's own instructions, of which none is run.

usage: steps.py CLEAVE [--before CLEAVE] [--only WORD]

Prints Markdown: seconds of the step, MFU, and the share of the step that ranks
wait for communication or are slowed down by it, in the mean over stages. With
--before, what another cleave's executables take, too. --only: layouts whose line
has this word.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

CONFIGS = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                       "../../test/data/configs")
OWN = "the planner's own"
# Model, GPUs, samples of a step, flags of a layout.
STEPS = [
    ("llama-3.1-8b", 8, 64,
     "--tp 8 --dp 1 --sequence-parallel --micro-batch 1"),
    ("llama-3.1-8b", 16, 64,
     "--tp 4 --dp 4 --sequence-parallel --micro-batch 1"),
    ("llama-3.1-70b", 512, 1024,
     "--tp 8 --pp 4 --dp 16 --sequence-parallel --micro-batch 1 "
     "--pipeline-schedule interleaved --virtual-stages 5 --zero 1"),
    ("llama-3.1-70b", 64, 512, OWN),
    ("llama-3.1-405b", 16384, 2048, OWN),
]


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE,
                          encoding="utf-8").stdout


def simulate(cleave, folder, model, gpus, batch, flags):
    path = os.path.join(folder, "train")
    cluster = ["--cluster", f"h100-sxm:{gpus}"]
    layout = [] if flags == OWN else flags.split()
    run(cleave, "compile", os.path.join(CONFIGS, model + ".json"), *cluster,
        "--seq-len", "8192", "--global-batch", str(batch), *layout, "-q", "-o",
        path)
    return json.loads(run(cleave, "estimate", path, *cluster, "--json"))


def get_cells(step):
    stages = step["stages"]
    waited = sum(stage["exposed_s"] + stage["waiting_s"] for stage in stages)
    share = waited / len(stages) / step["step_time_s"]
    return [f"{step['step_time_s']:.4g}", f"{100 * step['mfu']:.1f}",
            f"{100 * share:.1f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cleave")
    parser.add_argument("--before", metavar="CLEAVE")
    parser.add_argument("--only", default="", metavar="WORD")
    arguments = parser.parse_args()
    compilers = {"": arguments.cleave}
    if arguments.before:
        compilers = {"before: ": arguments.before, "after: ": arguments.cleave}
    for name, path in compilers.items():
        version = run(path, "--version").strip()
        print(f"{name}{version}", end="\n\n")
    columns = ["step, s", "MFU, %", "waited for communication, %"]
    head = [name + column for name in compilers for column in columns]
    print("| model | GPUs | samples | flags |", " | ".join(head), "|")
    print("|" + "---|" * (4 + len(head)), flush=True)
    for model, gpus, batch, flags in STEPS:
        row = f"| {model} | {gpus} | {batch} | {flags} |"
        if arguments.only not in row:
            continue
        cells = []
        for path in compilers.values():
            with tempfile.TemporaryDirectory() as folder:
                cells += get_cells(simulate(os.path.abspath(path), folder,
                                            model, gpus, batch, flags))
        print(row, " | ".join(cells), "|", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
