#!/usr/bin/env python3
"""`cleave plan` of every published config on four clusters: none may crash or
take more than 2 s; each fits or says why not.

usage: sweep.py CLEAVE [CONFIG.json ...] [--json]

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
import time

ROOT = os.path.normpath(os.path.join(os.path.dirname(__file__), "..", ".."))
CLUSTERS = ["h100-sxm:8", "h100-sxm:512", "h100-sxm:16384", "gb200-nvl72:72"]
SEQUENCES = 2048
LIMIT = 2  # seconds


def get_length(path):
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config = config.get("text_config", config)
    lengths = [config[key] for key in
               ("max_position_embeddings", "n_positions", "max_seq_len",
                "max_sequence_length") if isinstance(config.get(key), int)]
    return min([4096, *lengths])


def plan(cleave, path, cluster):
    """What became of one; `crashed` is anything but a plan or one line of
    error."""
    length = get_length(path)
    begin = time.perf_counter()
    try:
        done = subprocess.run(
            [cleave, "plan", path, "--cluster", cluster, "--seq-len",
             str(length), "--global-batch", str(SEQUENCES), "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
            timeout=300)
    except subprocess.TimeoutExpired:
        return {"length": length, "seconds": 300, "crashed": True,
                "text": "more than 300 s"}
    row = {"length": length, "seconds": time.perf_counter() - begin,
           "crashed": False}
    if done.returncode == 0:
        found = json.loads(done.stdout)
        row["layout"] = found["layout"]
        row["text"] = (f"{found['step_time_s']:.4g} s, "
                       f"{100 * found['mfu']:.1f} % MFU, "
                       f"{found['memory_bytes']['total'] / 1e9:.1f} GB"
                       + ("" if found["fits"] else ", does not fit"))
        return row
    lines = done.stderr.splitlines()
    row["text"] = lines[-1] if lines else f"exit code {done.returncode}"
    row["crashed"] = not (done.returncode == 1 and len(lines) == 1 and
                          "error: " in lines[0])
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cleave")
    parser.add_argument("configs", nargs="*")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    paths = args.configs or sorted(
        path for path in glob.glob(os.path.join(ROOT, "test", "data", "configs",
                                                "*.json"))
        if os.path.basename(path) != "expected-counts.json")
    rows = []
    for path in paths:
        for cluster in CLUSTERS:
            name = os.path.basename(path).removesuffix(".json")
            row = {"model": name, "cluster": cluster,
                   **plan(args.cleave, path, cluster)}
            rows.append(row)
            if not args.json:
                print(name, cluster, row["length"], f"{row['seconds']:.2f}",
                      row["text"], sep="\t", flush=True)
    crashed = [row for row in rows if row["crashed"]]
    slow = [row for row in rows if row["seconds"] > LIMIT]
    slowest = max(rows, key=lambda row: row["seconds"])
    if args.json:
        json.dump(rows, sys.stdout, indent=1)
        print()
    else:
        planned = sum("layout" in row for row in rows)
        print(f"{len(rows)} plans: {planned} found, "
              f"{len(rows) - planned - len(crashed)} refused, "
              f"{len(crashed)} crashed, {len(slow)} over {LIMIT} s; slowest "
              f"{slowest['seconds']:.2f} s: {slowest['model']} on "
              f"{slowest['cluster']}")
    return int(bool(crashed or slow))


if __name__ == "__main__":
    sys.exit(main())
