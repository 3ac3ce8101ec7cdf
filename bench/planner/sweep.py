#!/usr/bin/env python3
"""`cleave plan` of every published config on four clusters: none may crash or
take more than 2 s; each fits or says why not. With --compile, `cleave compile`,
which plans and writes the executable, on three: none may take more than 20 s; with
--placements auto it finds the placement of every tensor by cost, too.

usage: sweep.py CLEAVE [CONFIG.json ...] [--compile [--placements auto]] [--json]

Prints one tab-separated line each: model, cluster, sequence length, seconds of
the whole command, and the plan or the error; then crashes, slow ones and the
slowest. Sequences are of 4,096 tokens, or as long as the model allows; a step
has 2,048 of them. The exit code is 1 if one crashed or was slow.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.normpath(os.path.join(os.path.dirname(__file__), "..", ".."))
CLUSTERS = ["h100-sxm:8", "h100-sxm:512", "h100-sxm:16384", "gb200-nvl72:72"]
COMPILED = CLUSTERS[:3]
SEQUENCES = 2048
LIMIT, COMPILE_LIMIT = 2, 20  # seconds


def get_length(path):
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config = config.get("text_config", config)
    lengths = [config[key] for key in
               ("max_position_embeddings", "n_positions", "max_seq_len",
                "max_sequence_length") if isinstance(config.get(key), int)]
    return min([4096, *lengths])


def run(command, path, cluster, timeout=300):
    """What became of a command: its row, and what it printed; `crashed` is
    anything but success or one line of error."""
    length = get_length(path)
    begin = time.perf_counter()
    try:
        done = subprocess.run(
            [*command, path, "--cluster", cluster, "--seq-len", str(length),
             "--global-batch", str(SEQUENCES), "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
            timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"length": length, "seconds": timeout, "crashed": True,
                "text": f"more than {timeout} s"}, None
    row = {"length": length, "seconds": time.perf_counter() - begin,
           "crashed": False}
    if done.returncode == 0:
        return row, json.loads(done.stdout)
    # Notes may come before it.
    errors = [line for line in done.stderr.splitlines()
              if not line.startswith("cleave: note: ")]
    row["text"] = errors[-1] if errors else f"exit code {done.returncode}"
    row["crashed"] = not (done.returncode == 1 and len(errors) == 1 and
                          "error: " in errors[0])
    return row, None


def plan(cleave, path, cluster):
    row, found = run([cleave, "plan"], path, cluster)
    if found:
        row["layout"] = found["layout"]
        row["text"] = (f"{found['step_time_s']:.4g} s, "
                       f"{100 * found['mfu']:.1f} % MFU, "
                       f"{found['memory_bytes']['total'] / 1e9:.1f} GB"
                       + ("" if found["fits"] else ", does not fit"))
    return row


def compile(cleave, path, cluster, placements):
    with tempfile.TemporaryDirectory() as folder:
        written = os.path.join(folder, "plan.json")
        row, program = run(
            [cleave, "compile", "--dtype", "bf16", "--write-plan", written,
             "--placements", placements,
             "-o", os.path.join(folder, "train")], path, cluster)
        if program:
            with open(written, encoding="utf-8") as file:
                row["layout"] = json.load(file)["layout"]
            row["text"] = " ".join(
                f"{key}={value}" for key, value in row["layout"].items()
                if key in ("tp", "pp", "dp", "zero", "micro_batch",
                           "pipeline_schedule", "virtual_stages", "recompute"))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cleave")
    parser.add_argument("configs", nargs="*")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--placements", choices=["plan", "auto"], default="plan")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    paths = args.configs or sorted(
        path for path in glob.glob(os.path.join(ROOT, "test", "data", "configs",
                                                "*.json"))
        if os.path.basename(path) not in ("expected-counts.json",
                                          "read-keys.json"))
    clusters = COMPILED if args.compile else CLUSTERS
    limit = COMPILE_LIMIT if args.compile else LIMIT
    rows = []
    for path in paths:
        for cluster in clusters:
            name = os.path.basename(path).removesuffix(".json")
            row = {"model": name, "cluster": cluster,
                   **(compile(args.cleave, path, cluster, args.placements)
                      if args.compile else plan(args.cleave, path, cluster))}
            rows.append(row)
            if not args.json:
                print(name, row["cluster"], row["length"], f"{row['seconds']:.2f}",
                      row["text"], sep="\t", flush=True)
    crashed = [row for row in rows if row["crashed"]]
    slow = [row for row in rows if row["seconds"] > limit]
    slowest = max(rows, key=lambda row: row["seconds"])
    if args.json:
        json.dump(rows, sys.stdout, indent=1)
        print()
    else:
        planned = sum("layout" in row for row in rows)
        print(f"{len(rows)} runs: {planned} planned, "
              f"{len(rows) - planned - len(crashed)} refused, "
              f"{len(crashed)} crashed, {len(slow)} over {limit} s; slowest "
              f"{slowest['seconds']:.2f} s: {slowest['model']} on "
              f"{slowest['cluster']}")
    return int(bool(crashed or slow))


if __name__ == "__main__":
    sys.exit(main())
