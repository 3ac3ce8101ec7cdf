#!/usr/bin/env python3
"""What chosen placements are priced at, beside what the simulator says of the program
that is compiled from them.

usage: truth.py CLEAVE CONFIGS [--cases N] [--seed S] [--micro-batches M] [--recipes]

CLEAVE is the tool, CONFIGS a folder of config.json files. Draws N cases of a model, a
number of H100, eight of a node, a layout, a sequence length and a number of
micro-batches (M if that is given), and compiles each with placements by cost: once with
communication in the rank's own stream, once with streams. Prints a line for each: priced over simulated
without streams, and with them; the share of communication that the first has, and what
streams save of the step; the bytes that are in use at most, as the choice counts them,
over those of the first program; the case. Then the median and the largest of each error,
and how many are within 3 %. With --recipes, a number behind the fifth: what the
best recipe takes by the simulator, with streams, over what the choice does; recipes are
ZeRO 0 to 3, with and without sequence parallelism, of those that fit into the device.
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
from recipes import MODELS, REMARK, load_device  # noqa: E402

IN_USE = re.compile(r"remark: .*; ([\d.]+) MB in use at most")
BESIDE = re.compile(r"remark: .*; ([\d.]+) us with collectives beside compute")


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", check=False)
    return done.returncode, done.stdout, done.stderr


def draw_case(draw, given):
    ranks = draw.choice([8, 16, 64])
    tp = draw.choice([1, 2, 4, 8])
    dp = ranks // tp
    drawn = draw.choice([1, 2, 4])
    micro_batches = given or drawn
    return {"model": draw.choice(MODELS), "ranks": ranks, "dp": dp, "tp": tp,
            "seq_len": draw.choice([1024, 2048, 4096]),
            "micro_batches": micro_batches, "samples": dp * micro_batches}


def simulate(cleave, configs, folder, case, flags):
    """Seconds and bytes of a rank by the simulator, and what compile said; or
    what was wrong."""
    cluster = f"h100-sxm:{case['ranks']}"
    train = os.path.join(folder, "train")
    code, _, said = run(
        [cleave, "compile", os.path.join(configs, case["model"] + ".json"),
         "--cluster", cluster, "--dp", str(case["dp"]), "--tp",
         str(case["tp"]), "--seq-len", str(case["seq_len"]),
         "--global-batch", str(case["samples"]), "--micro-batch", "1",
         *flags, "--remarks", "-q", "-o", train])
    if code != 0:
        return said.splitlines()[-1]
    code, text, error = run([cleave, "estimate", train, "--cluster", cluster,
                             "--json"])
    if code != 0:
        return error.splitlines()[-1]
    found = json.loads(text)
    return (found["step_time_s"],
            max(stage["arena_bytes"] for stage in found["stages"]), said)


def measure(cleave, configs, folder, case, overlap):
    """Priced and simulated seconds, the priced ones of reshards, and bytes that
    were thought to be in use over those of the program; or what was wrong."""
    found = simulate(cleave, configs, folder, case,
                     ["--placements", "auto", "--overlap", overlap])
    if isinstance(found, str):
        return found
    seconds, arena, said = found
    priced = REMARK.search(said)
    beside = BESIDE.search(said)
    return (float((beside or priced)[1]) / 1e6, seconds, float(priced[2]) / 1e6,
            float(IN_USE.search(said)[1]) * 1e6 / arena)


def get_best_recipe(cleave, configs, folder, case):
    """Seconds by the simulator; nothing if none fits."""
    best = None
    device = load_device(os.path.dirname(cleave), "h100-sxm")
    room = device["memory"]["value"] - device["reserve"]["value"]
    for zero in range(4) if case["dp"] > 1 else [0]:
        for split in [[], ["--sequence-parallel"]] if case["tp"] > 1 else [[]]:
            found = simulate(cleave, configs, folder, case,
                             ["--zero", str(zero), *split])
            if not isinstance(found, str) and found[1] <= room and \
                    (best is None or found[0] < best):
                best = found[0]
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cleave")
    parser.add_argument("configs")
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--micro-batches", type=int)
    parser.add_argument("--recipes", action="store_true")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    errors, memory, recipes = [[], []], [], []
    print("alone\toverlapped\treshards\tsaved\tmemory\t"
          + ("best recipe\t" if options.recipes else "") + "case")
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.cases):
            case = draw_case(draw, options.micro_batches)
            words = (f"{case['model']} {case['ranks']} ranks dp {case['dp']} "
                     f"tp {case['tp']} seq {case['seq_len']}, "
                     f"{case['micro_batches']} x {case['dp']} samples")
            alone, overlapped = [
                measure(options.cleave, options.configs, folder, case, overlap)
                for overlap in ["never", "auto"]]
            wrong = [each for each in [alone, overlapped] if isinstance(each, str)]
            if wrong:
                print(f"\t\t\t\t\t{words}: {wrong[0]}", flush=True)
                continue
            ratios = [priced / simulated
                      for priced, simulated, *_ in [alone, overlapped]]
            memory.append(abs(alone[3] - 1))
            for own, ratio in zip(errors, ratios, strict=True):
                own.append(abs(ratio - 1))
            beside_recipe = ""
            if options.recipes:
                best = get_best_recipe(options.cleave, options.configs, folder,
                                       case)
                beside_recipe = "none fits\t"
                if best:
                    recipes.append(best / overlapped[1])
                    beside_recipe = f"{recipes[-1]:.4f}\t"
            print(f"{ratios[0]:.4f}\t{ratios[1]:.4f}\t{alone[2] / alone[0]:.3f}\t"
                  f"{1 - overlapped[1] / alone[1]:.3f}\t{alone[3]:.3f}\t"
                  f"{beside_recipe}{words}",
                  flush=True)
    for name, own in zip(["alone", "overlapped", "memory"], [*errors, memory],
                         strict=True):
        print(f"{name}: {len(own)} cases, median error "
              f"{100 * statistics.median(own):.2f} %, largest "
              f"{100 * max(own):.1f} %, {sum(each <= 0.03 for each in own)} "
              f"within 3 %")
    if recipes:
        print(f"best recipe over choice: {min(recipes):.4f} to {max(recipes):.4f}, "
              f"median {statistics.median(recipes):.4f}; "
              f"{sum(each < 1 for each in recipes)} of {len(recipes)} choices worse")


if __name__ == "__main__":
    main()
