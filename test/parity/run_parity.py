#!/usr/bin/env python3
"""Runs every reference case, on one rank and under a few layouts, through
`cleave parity`, and fails if any deviation is over its bound. In bf16 only the
losses have one, BF16_BOUND.

usage: run_parity.py CLEAVE GOLDEN_FOLDER
"""
import json
import os
import subprocess
import sys

# Layouts beside one rank; each case gets those that its sizes allow.
LAYOUTS = [
    ["--dp", "2", "--tp", "2", "--zero", "3", "--sequence-parallel",
     "--micro-batch", "1"],
    ["--dp", "2", "--zero", "3", "--micro-batch", "1", "--dtype", "bf16"],
]
BF16_BOUND = 1e-2


def run(cleave, folder, flags):
    """Returns the deviations, or the text of the failure."""
    command = [cleave, "parity", folder, "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        rows = json.loads(done.stdout)["deviations"]
    except (ValueError, KeyError):
        return done.stderr.strip() or done.stdout.strip()
    for row in rows:
        if row["deviation"] is None:  # no number
            row["deviation"] = float("inf")
    if "bf16" not in flags:
        return rows
    rows = [row for row in rows if row["what"].endswith("loss")]
    for row in rows:
        row["bound"] = BF16_BOUND
        row["holds"] = row["deviation"] <= BF16_BOUND
    return rows


def legal(folder, flags):
    """Key-value heads and sequences must be split evenly."""
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    heads = config.get("num_key_value_heads",
                       config.get("num_attention_heads", config.get("n_head")))
    tp = int(flags[flags.index("--tp") + 1]) if "--tp" in flags else 1
    with open(os.path.join(folder, "case.json")) as file:
        seq = json.load(file)["seq"]
    return heads % tp == 0 and (
        "--sequence-parallel" not in flags or seq % tp == 0)


def main():
    cleave, golden = sys.argv[1:]
    cases = sorted(name for name in os.listdir(golden)
                   if os.path.isdir(os.path.join(golden, name)))
    worst, failures, runs = {}, 0, 0
    for case in cases:
        folder = os.path.join(golden, case)
        for flags in [[]] + LAYOUTS:
            if not legal(folder, flags):
                continue
            runs += 1
            result = run(cleave, folder, flags)
            label = case + (" " + " ".join(flags) if flags else "")
            if isinstance(result, str):
                print(f"FAIL {label}: {result}")
                failures += 1
                continue
            figures = []
            for row in result:
                figures.append(f"{row['what']} {row['deviation']:.1e}")
                if not row["holds"]:
                    figures[-1] += f" OVER {row['bound']:.0e} ({row['worst']})"
                what = row["what"] + (" in bf16" if "bf16" in flags else "")
                known = worst.get(what, (0, ""))
                worst[what] = max(known, (row["deviation"], label))
            ok = all(row["holds"] for row in result)
            failures += not ok
            print(("ok   " if ok else "FAIL ") + label + ": "
                  + ", ".join(figures), flush=True)
    for what, (value, label) in worst.items():
        print(f"largest {what}: {value:.2e} ({label})")
    print(f"{runs - failures} of {runs} runs hold")
    sys.exit(1 if failures or len(cases) < 12 else 0)


if __name__ == "__main__":
    main()
