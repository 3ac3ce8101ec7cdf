#!/usr/bin/env python3
"""Prints a summary of a run from the metrics that --metrics wrote.

usage: summarize_run.py METRICS.jsonl [--require-falling]
  --require-falling   exit code 1 unless the mean loss of the last tenth of
                      the steps is below that of the first
"""
import json
import math
import statistics
import sys


def format_bytes(count):
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def main():
    arguments = sys.argv[1:]
    require_falling = "--require-falling" in arguments
    paths = [a for a in arguments if a != "--require-falling"]
    if len(paths) != 1:
        sys.exit(__doc__)
    with open(paths[0], encoding="utf-8") as file:
        steps = [json.loads(line) for line in file]
    if not steps:
        sys.exit(f"{paths[0]}: no steps")

    losses = [step["loss"] for step in steps]
    for step in steps:
        # JSON has no such number: null in its place.
        if step["loss"] is None or not math.isfinite(step["loss"]):
            sys.exit(f"{paths[0]}: the loss is not a number at step "
                     f"{step['step']}")
    tenth = max(1, len(losses) // 10)
    first = statistics.mean(losses[:tenth])
    last = statistics.mean(losses[-tenth:])
    seconds = sum(step["seconds"] for step in steps)
    phases = {}
    for step in steps:
        for name, value in step.get("phases", {}).items():
            phases[name] = phases.get(name, 0) + value
    collectives = sum(step["collective_seconds"] for step in steps)

    print(f"steps       {len(steps)} in {seconds:.1f} s on "
          f"{len(steps[0]['rank_losses'])} ranks")
    print(f"loss        {losses[0]:.4f} at first, {last:.4f} at last "
          f"(mean of {tenth} steps); {last / math.log(2):.2f} bits a token")
    print(f"tokens/s    {statistics.median(s['tokens_per_s'] for s in steps):,.0f}"
          f" (median)")
    if mfu := statistics.median(step["mfu"] for step in steps):
        print(f"MFU         {100 * mfu:.1f} %")
    print(f"memory      {format_bytes(steps[-1]['high_water_bytes'])} a rank; "
          f"planned {format_bytes(steps[-1]['arena_bytes'])}")
    print("seconds     " + ", ".join(f"{name} {value:.1f}"
                                     for name, value in phases.items())
          + f"; {collectives:.1f} of these in collectives")
    if require_falling and not last < first:
        sys.exit(f"loss does not fall: {first:.4f} at first, {last:.4f} at "
                 "last")


if __name__ == "__main__":
    main()
