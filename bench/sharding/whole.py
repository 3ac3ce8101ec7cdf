#!/usr/bin/env python3
"""What `cleave compile --placements auto` takes, plan, placements and executable, for
every held config on 8, 512 and 16,384 GPUs; or what it says where there is none.

usage: whole.py CLEAVE CONFIGS [--models NAMES] [--jobs N]

CLEAVE is the tool, CONFIGS a folder of config.json files, NAMES some of them, with
commas. A sequence is as long as the model takes, up to 8,192 tokens; there are two
samples for each GPU, up to 2,048. Prints a line for each model: seconds on each cluster,
or a number for what was said in place of an executable; what these numbers mean; how
many there were of each, and the slowest. With more than one job at a time, seconds are
those of a machine that does other things.
"""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import time

RANKS = [8, 512, 16384]
MOST_TOKENS, MOST_SAMPLES = 8192, 2048
LIMIT = 20


def get_length(config):
    """Tokens that the model takes, as its config names them."""
    for key in ["max_position_embeddings", "n_positions", "max_seq_len", "seq_length"]:
        if isinstance(config.get(key), int):
            return min(config[key], MOST_TOKENS)
    return 2048


def compile_model(cleave, path, ranks, folder):
    """Seconds, and what was said in place of an executable."""
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    train = os.path.join(folder, f"{os.path.basename(path)}-{ranks}")
    command = [cleave, "compile", path, "--cluster", f"h100-sxm:{ranks}",
               "--placements", "auto", "--seq-len", str(get_length(config)),
               "--global-batch", str(min(2 * ranks, MOST_SAMPLES)), "-q", "-o",
               train]
    start = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, encoding="utf-8", check=False)
    seconds = time.monotonic() - start
    if done.returncode == 0:
        os.remove(train)
        return seconds, None
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    said = next((line for line in lines if "error:" in line), lines[-1])
    # The same of several models, whatever their names, places and sizes are.
    said = said.replace(path, "MODEL")
    said = re.sub(r"loc\([^)]*\)|\S+\.mlir:\d+:\d+", "PLACE", said)
    return seconds, re.sub(r"(?<![\w.-])\d[\d,.]*", "N", said)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cleave")
    parser.add_argument("configs")
    parser.add_argument("--models", default="")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    names = sorted(
        name[:-5] for name in os.listdir(options.configs)
        if name.endswith(".json") and
        (name[:-5] in options.models.split(",") if options.models
         else name not in ["expected-counts.json", "read-keys.json"]))
    reasons, counts, slowest, late = {}, {}, (0, ""), 0
    print("\t".join(["model"] + [f"{ranks} GPUs" for ranks in RANKS]))
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        rows = [[pool.submit(compile_model, options.cleave,
                             os.path.join(options.configs, name + ".json"), ranks,
                             folder) for ranks in RANKS] for name in names]
        for name, row in zip(names, rows, strict=True):
            cells = []
            for ranks, each in zip(RANKS, row, strict=True):
                seconds, said = each.result()
                late += seconds > LIMIT
                slowest = max(slowest, (seconds, f"{name} on {ranks}"))
                if said is not None:
                    number = reasons.setdefault(said, len(reasons) + 1)
                    counts[number] = counts.get(number, 0) + 1
                cells.append(f"{seconds:.1f}" if said is None
                             else f"({number}) {seconds:.1f}")
            print("\t".join([name] + cells), flush=True)
    for said, number in reasons.items():
        print(f"({number})\t{counts[number]} times\t{said}")
    runs = len(names) * len(RANKS)
    print(f"{runs} runs: {runs - sum(counts.values())} executables, {late} took over "
          f"{LIMIT} s; slowest {slowest[0]:.1f} s, {slowest[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
