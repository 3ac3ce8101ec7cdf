#!/usr/bin/env python3
"""What `cleave plan` says of a layout, beside the program that is compiled for
it: seconds of a step beside the simulation of its instructions, and memory
beside its arena. Of random layouts of real models.

usage: agreement.py CLEAVE [--plans N] [--seed N] [--profile P] [--verbose]

Programs are compiled for CPUs so far; both are priced on H100s. Of arenas the
workspaces of CPU kernels are left out, which the planner's GPUs do not have.
Prints a line for each plan, and the median and the worst of all.
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


class Refused(Exception):
    pass


def run_json(*command):
    """What a command prints; 3 is the exit code of what does not fit."""
    done = run(*command)
    if done.returncode not in (0, 3):
        raise Refused(done.stderr.strip().split("\n")[-1])
    return json.loads(done.stdout)


class Drawn:
    """A layout that the planner prices and the compiler takes: what is planned,
    what is compiled and what is simulated. Refused if it is not legal."""

    def __init__(self, draw, cleave, profile, folder):
        self.model = draw.choice(sorted(MODELS))
        path = os.path.join(CONFIGS, self.model + ".json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        layers = config.get("num_hidden_layers") or config.get("n_layer")
        ranks = draw.choice([1, 2, 4, 8, 8, 16, 32])
        batch = draw.choice([8, 16, 32, 64])
        layout = draw_layout(draw, ranks, batch, layers)
        layout.pop("order", None)
        shape = ["--seq-len", str(draw.choice([1, 2]) *
                                  MODELS[self.model] // 2),
                 "--global-batch", str(batch)]
        dtype = draw.choice(["bf16", "bf16", "f32"])
        self.flags = [*shape, *get_flags(layout), "--dtype", dtype]
        gpus = ["--cluster", f"h100-sxm:{ranks}", "--profile", profile,
                "--json"]
        self.planned = run_json(cleave, "estimate", path, *gpus, *self.flags)
        cpus = os.path.join(folder, "cpus.json")
        with open(cpus, "w", encoding="utf-8") as file:
            json.dump({"version": 1, "nodes": max(ranks // 8, 1),
                       "devices_per_node": min(ranks, 8),
                       "threads_per_device": 1, "cpu": "x86-64-v3"}, file)
        executable = os.path.join(folder, "train")
        overlaps = profile != "cleave-cpu"
        self.compiled = run_json(
            cleave, "compile", path, *self.flags, "--cluster", cpus,
            "--overlap", "always" if overlaps else "never", "--json", "-o",
            executable)
        self.simulated = run_json(cleave, "estimate", executable, *gpus)

    def get_memory(self):
        """Bytes by category, as planned and of the largest arena."""
        planned = dict(self.planned["memory_bytes"])
        del planned["total"], planned["device"], planned["reserve"]
        arenas = {}
        for entry in self.compiled["memory"]:
            stage = arenas.setdefault(entry["stage"], {})
            stage[entry["category"]] = entry["bytes"]
        for arena in arenas.values():
            arena.pop("workspace", None)
        return planned, max(arenas.values(), key=lambda a: sum(a.values()))

    def get_seconds(self):
        """Seconds by term, as planned and of the simulated program: of it the
        mean of its stages."""
        terms = self.planned["time_s"]
        stages = self.simulated["stages"]

        def mean(key):
            return sum(stage[key] for stage in stages) / len(stages)

        return ({"compute": terms["compute"] + terms["optimizer"] +
                 terms["host"], "bubble": terms["bubble"],
                 "exposed": sum(terms[key] for key in (
                     "tensor", "context", "expert", "pipeline", "data"))},
                {"compute": mean("compute_s"), "bubble": mean("idle_s"),
                 "exposed": mean("exposed_s") + mean("waiting_s")})


def rank(values):
    """The place of each value in their order, of equal ones their mean."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    places = [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end < len(order) and values[order[end]] == values[order[at]]:
            end += 1
        for i in order[at:end]:
            places[i] = (at + end - 1) / 2
        at = end
    return places


def summarize(what, pairs):
    sizes = sorted(abs(plan / program - 1) for plan, program in pairs)
    text = (f"{what}: median {100 * statistics.median(sizes):.1f} %, 90 % "
            f"within {100 * sizes[len(sizes) * 9 // 10]:.1f} %, worst "
            f"{100 * sizes[-1]:.1f} %; {sum(size <= 0.03 for size in sizes)} "
            f"of {len(sizes)} within 3 %")
    if len(pairs) > 1:
        correlation = statistics.correlation(*map(rank, zip(*pairs)))
        text += f"; rank correlation {correlation:.4f}"
    print(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cleave")
    parser.add_argument("--plans", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", default="cleave-cpu",
                        help="what the software does: cleave-cpu has nothing "
                        "beside anything else, and cleave overlaps")
    parser.add_argument("--verbose", action="store_true",
                        help="by category and term, and what is not legal")
    options = parser.parse_args()
    cleave = os.path.abspath(options.cleave)
    steps, peaks = [], []
    seed = options.seed
    with tempfile.TemporaryDirectory() as folder:
        while len(steps) < options.plans:
            seed += 1
            try:
                drawn = Drawn(random.Random(seed), cleave, options.profile,
                              folder)
            except Refused as refused:
                if options.verbose:
                    print("# refused:", refused)
                continue
            memory, seconds = drawn.get_memory(), drawn.get_seconds()
            steps.append((drawn.planned["step_time_s"],
                          drawn.simulated["step_time_s"]))
            peaks.append(tuple(sum(each.values()) for each in memory))
            print("step {:6.3f}  {:9.4f} {:9.4f} s   memory {:6.3f}  {:8.3f} "
                  "{:8.3f} GB  ".format(
                      steps[-1][0] / steps[-1][1], *steps[-1],
                      peaks[-1][0] / peaks[-1][1], *(peak / 1e9 for peak
                                                     in peaks[-1])),
                  drawn.model, *drawn.flags, flush=True)
            if options.verbose:
                for name, (plan, program), digits in (
                        ("s ", seconds, 4),
                        ("GB", ({k: v / 1e9 for k, v in each.items()}
                                for each in memory), 3)):
                    print("  ", name, "plan   ",
                          {k: round(v, digits) for k, v in plan.items()})
                    print("  ", name, "program",
                          {k: round(v, digits) for k, v in program.items()})
    print(f"{len(steps)} plans from seed {options.seed}, profile "
          f"{options.profile}")
    summarize("step", steps)
    summarize("memory", peaks)


if __name__ == "__main__":
    main()
