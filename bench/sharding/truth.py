#!/usr/bin/env python3
"""What chosen placements are priced at, beside what the simulator says of the program
that is compiled from them.

usage: truth.py CLEAVE CONFIGS [--cases N] [--seed S]

CLEAVE is the tool, CONFIGS a folder of config.json files. Draws N cases of a model, a
number of H100, eight of a node, a layout, a sequence length and a number of
micro-batches, and compiles each with placements by cost: once with communication in the
rank's own stream, once with streams. Prints a line for each: priced over simulated
without streams, and with them; the share of communication that the first has, and what
streams save of the step; the case. Then the median and the largest of either error, and
how many are within 3 %.
"""
import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from recipes import MODELS, REMARK  # noqa: E402

BESIDE = re.compile(r"remark: .*; ([\d.]+) us with collectives beside compute")


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


def measure(cleave, configs, folder, case, overlap):
    """Priced and simulated seconds, and the priced ones of reshards; or what was
    wrong."""
    cluster = f"h100-sxm:{case['ranks']}"
    train = os.path.join(folder, "train")
    code, _, error = run(
        [cleave, "compile", os.path.join(configs, case["model"] + ".json"),
         "--cluster", cluster, "--dp", str(case["dp"]), "--tp",
         str(case["tp"]), "--seq-len", str(case["seq_len"]),
         "--global-batch", str(case["samples"]), "--micro-batch", "1",
         "--placements", "auto", "--overlap", overlap, "--remarks", "-q",
         "-o", train])
    priced = REMARK.search(error)
    if code != 0 or not priced:
        return error.splitlines()[-1]
    beside = BESIDE.search(error)
    code, text, error = run([cleave, "estimate", train, "--cluster", cluster,
                             "--json"])
    if code != 0:
        return error.splitlines()[-1]
    return (float((beside or priced)[1]) / 1e6,
            json.loads(text)["step_time_s"], float(priced[2]) / 1e6)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cleave")
    parser.add_argument("configs")
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    errors = [[], []]
    print("alone\toverlapped\treshards\tsaved\tcase")
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.cases):
            case = draw_case(draw)
            words = (f"{case['model']} {case['ranks']} ranks dp {case['dp']} "
                     f"tp {case['tp']} seq {case['seq_len']}, "
                     f"{case['micro_batches']} x {case['dp']} samples")
            alone, overlapped = [
                measure(options.cleave, options.configs, folder, case, overlap)
                for overlap in ["never", "auto"]]
            wrong = [each for each in [alone, overlapped] if isinstance(each, str)]
            if wrong:
                print(f"\t\t\t\t{words}: {wrong[0]}", flush=True)
                continue
            ratios = [priced / simulated
                      for priced, simulated, _ in [alone, overlapped]]
            for own, ratio in zip(errors, ratios, strict=True):
                own.append(abs(ratio - 1))
            print(f"{ratios[0]:.4f}\t{ratios[1]:.4f}\t{alone[2] / alone[0]:.3f}\t"
                  f"{1 - overlapped[1] / alone[1]:.3f}\t{words}", flush=True)
    for name, own in zip(["alone", "overlapped"], errors, strict=True):
        print(f"{name}: {len(own)} cases, median error "
              f"{100 * statistics.median(own):.2f} %, largest "
              f"{100 * max(own):.1f} %, {sum(each <= 0.03 for each in own)} "
              f"within 3 %")


if __name__ == "__main__":
    main()
