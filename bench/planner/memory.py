#!/usr/bin/env python3
"""The memory that `cleave plan` counts for a layout, beside the arena of the
program that is compiled for it: of random layouts of real models.

usage: memory.py CLEAVE [--plans N] [--seed N] [--verbose]

Programs are compiled for CPUs so far; of their arenas the workspaces of CPU
kernels are left out, which the planner's GPUs do not have. Prints a line for
each plan, and the median and the worst of all.
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
sys.path.insert(0, os.path.join(HERE, "../../test/tools"))
os.environ.setdefault("CLEAVE_TOOLS", "")
from random_plans_test import draw_layout, get_flags  # noqa: E402

CONFIGS = os.path.join(HERE, "../../test/data/configs")
MODELS = {"gpt2": 512, "gpt2-xl": 1024, "llama-3.2-1b": 2048,
          "llama-3.1-8b": 4096, "mistral-7b-v0.1": 4096, "gemma-2b": 2048,
          "qwen3-0.6b": 2048, "olmo-2-1124-7b": 2048, "llama-2-13b": 2048}


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8")


def draw_plan(draw, cleave, folder):
    """A layout that the planner prices and the compiler takes: the flags, what
    is planned and what is compiled; None if it is not legal."""
    model = draw.choice(sorted(MODELS))
    path = os.path.join(CONFIGS, model + ".json")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    layers = config.get("num_hidden_layers") or config.get("n_layer")
    ranks = draw.choice([1, 2, 4, 8, 8, 16, 32])
    batch = draw.choice([8, 16, 32, 64])
    layout = draw_layout(draw, ranks, batch, layers)
    layout.pop("order", None)
    shape = ["--seq-len", str(draw.choice([1, 2]) * MODELS[model] // 2),
             "--global-batch", str(batch)]
    dtype = draw.choice(["bf16", "bf16", "f32"])
    flags = [*get_flags(layout), "--dtype", dtype]
    cpus = os.path.join(folder, "cpus.json")
    with open(cpus, "w", encoding="utf-8") as file:
        json.dump({"version": 1, "nodes": max(ranks // 8, 1),
                   "devices_per_node": min(ranks, 8), "threads_per_device": 1,
                   "cpu": "x86-64-v3"}, file)
    planned = run(cleave, "estimate", path, *shape, "--cluster",
                  f"h100-sxm:{ranks}", "--profile", "cleave-cpu", "--json",
                  *flags)
    if planned.returncode not in (0, 3):
        return model, flags, planned.stderr.strip().split("\n")[-1], None
    executable = os.path.join(folder, "train")
    compiled = run(cleave, "compile", path, *shape, *flags, "--cluster", cpus,
                   "--overlap", "never", "--json", "-o", executable)
    if compiled.returncode != 0:
        return model, flags, compiled.stderr.strip().split("\n")[-1], None
    return (model, [*shape, *flags], json.loads(planned.stdout),
            json.loads(compiled.stdout))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cleave")
    parser.add_argument("--plans", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true",
                        help="by category, and what is not legal")
    options = parser.parse_args()
    cleave = os.path.abspath(options.cleave)
    errors = []
    seed = options.seed
    with tempfile.TemporaryDirectory() as folder:
        while len(errors) < options.plans:
            seed += 1
            drawn = draw_plan(random.Random(seed), cleave, folder)
            if not drawn or drawn[3] is None:
                if options.verbose and drawn:
                    print("#", drawn[0], *drawn[1], "::", drawn[2])
                continue
            model, flags, planned, compiled = drawn
            memory = planned["memory_bytes"]
            plan = memory["total"] - memory["reserve"]
            arenas = {}
            for entry in compiled["memory"]:
                stage = arenas.setdefault(entry["stage"], {})
                stage[entry["category"]] = entry["bytes"]
            peak = max(arenas.values(), key=lambda stage: sum(stage.values()))
            arena = sum(peak.values()) - peak.get("workspace", 0)
            errors.append(plan / arena - 1)
            print(f"{plan / arena:6.3f}  {plan / 1e9:8.3f} {arena / 1e9:8.3f} "
                  f"GB  {model} {' '.join(flags)}", flush=True)
            if options.verbose:
                print("   plan", {k: round(v / 1e9, 3)
                                  for k, v in memory.items()})
                print("   arena", {k: round(v / 1e9, 3)
                                   for k, v in peak.items()})
    sizes = sorted(abs(error) for error in errors)
    print(f"{len(errors)} plans from seed {options.seed}: median "
          f"{100 * statistics.median(sizes):.1f} %, 90 % within "
          f"{100 * sizes[len(sizes) * 9 // 10]:.1f} %, worst "
          f"{100 * sizes[-1]:.1f} %; "
          f"{sum(error <= 0.03 for error in sizes)} within 3 %")


if __name__ == "__main__":
    main()
