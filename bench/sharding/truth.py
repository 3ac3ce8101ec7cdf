#!/usr/bin/env python3
"""What chosen placements are priced at, beside what the simulator says of the program
that is compiled from them.

usage: truth.py CLEAVE CONFIGS [--cases N] [--seed S]

CLEAVE is the tool, CONFIGS a folder of config.json files. Draws N cases of a model, a
number of ranks with the constants of an H100, eight of a node, a layout, a sequence
length and a number of micro-batches, and compiles each with placements by cost. Prints
a line for each: priced over simulated where nothing overlaps, and where it may; the
share of communication; the case. Then the median and the largest of either error, and
how many are within 3 %.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, os.pardir, "planner")]
from recipes import MODELS, REMARK  # noqa: E402
from sweep import make_cluster  # noqa: E402

def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", check=False)
    return done.returncode, done.stdout, done.stderr


def draw_case(draw):
    ranks = draw.choice([8, 16, 64])
    tp = draw.choice([1, 2, 4, 8])
    dp = ranks // tp
    micro_batches = draw.choice([1, 2, 4])
    return {"model": draw.choice(MODELS), "ranks": ranks, "dp": dp, "tp": tp,
            "seq_len": draw.choice([1024, 2048, 4096]),
            "micro_batches": micro_batches, "samples": dp * micro_batches}


def measure(cleave, configs, folder, case):
    """Priced and simulated seconds, without and with overlap, and the priced
    ones of reshards; or what was wrong."""
    cluster = make_cluster(folder, case["ranks"])
    train = os.path.join(folder, "train")
    simulated = []
    for overlap in ["never", "auto"]:
        code, _, error = run(
            [cleave, "compile", os.path.join(configs, case["model"] + ".json"),
             "--cluster", cluster, "--dp", str(case["dp"]), "--tp",
             str(case["tp"]), "--seq-len", str(case["seq_len"]),
             "--global-batch", str(case["samples"]), "--micro-batch", "1",
             "--dtype", "bf16", "--placements", "auto", "--overlap", overlap,
             "--remarks", "-q", "-o", train])
        priced = REMARK.search(error)
        if code != 0 or not priced:
            return error.splitlines()[-1]
        code, text, error = run([cleave, "estimate", train, "--cluster", cluster,
                                 "--json"])
        if code != 0:
            return error.splitlines()[-1]
        simulated.append(json.loads(text)["step_time_s"])
    return float(priced[1]) / 1e6, float(priced[2]) / 1e6, simulated


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cleave")
    parser.add_argument("configs")
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    errors = [[], []]
    print("alone\toverlapped\treshards\tcase")
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.cases):
            case = draw_case(draw)
            words = (f"{case['model']} {case['ranks']} ranks dp {case['dp']} "
                     f"tp {case['tp']} seq {case['seq_len']}, "
                     f"{case['micro_batches']} x {case['dp']} samples")
            found = measure(options.cleave, options.configs, folder, case)
            if isinstance(found, str):
                print(f"\t\t\t{words}: {found}", flush=True)
                continue
            seconds, reshards, simulated = found
            ratios = [seconds / each for each in simulated]
            for own, ratio in zip(errors, ratios, strict=True):
                own.append(abs(ratio - 1))
            print(f"{ratios[0]:.4f}\t{ratios[1]:.4f}\t{reshards / seconds:.3f}\t"
                  f"{words}", flush=True)
    for name, own in zip(["alone", "overlapped"], errors, strict=True):
        print(f"{name}: {len(own)} cases, median error "
              f"{100 * statistics.median(own):.2f} %, largest "
              f"{100 * max(own):.1f} %, {sum(each <= 0.03 for each in own)} "
              f"within 3 %")


if __name__ == "__main__":
    main()
