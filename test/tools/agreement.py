"""Layouts as the planner prices them beside the programs that are compiled for
them: seconds of a step beside the simulation of its instructions, memory beside
its arena."""
import json
import os
import random
import statistics
import subprocess

from random_plans_test import draw_layout, get_flags

HERE = os.path.dirname(os.path.abspath(__file__))

CONFIGS = os.path.join(HERE, "../data/configs")
MODELS = {"gpt2": 512, "gpt2-xl": 1024, "llama-3.2-1b": 2048,
          "llama-3.1-8b": 4096, "mistral-7b-v0.1": 4096, "gemma-2b": 2048,
          "qwen3-0.6b": 2048, "olmo-2-1124-7b": 2048, "llama-2-13b": 2048}

CPU = "x86-64-v3"


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8")


class Refused(Exception):
    pass


def run_checked(*command):
    """What a command prints; 3 is the exit code of what does not fit."""
    done = run(*command)
    if done.returncode not in (0, 3):
        raise Refused(done.stderr.strip().split("\n")[-1])
    return done.stdout


def run_json(*command):
    return json.loads(run_checked(*command))


def assemble_for(run, compile, cluster, kernels, executable):
    """What `compile`, a command, makes for CPUs, with the streams of a cluster
    of GPUs, on which it is priced. `run` gives what a command prints; `kernels`
    is a file that is written on the way."""
    with open(kernels, "w", encoding="utf-8") as file:
        file.write(run(*compile, "--dump-after-stage", "kernels",
                       "--dump-locations"))
    run(compile[0], "assemble", kernels, "--after-stage", "kernels",
        "--cluster", cluster, "--overlap", "always", "--cpu", CPU, "-q", "-o",
        executable)


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
                       "threads_per_device": 1, "cpu": CPU}, file)
        executable = os.path.join(folder, "train")
        compile = [cleave, "compile", path, *self.flags, "--cluster", cpus,
                   "-q", "-o", executable]
        if profile == "cleave-cpu":
            run_checked(*compile, "--overlap", "never")
        else:
            assemble_for(run_checked, compile, f"h100-sxm:{ranks}",
                         os.path.join(folder, "kernels.mlir"), executable)
        self.compiled = run_json(cleave, "inspect", executable, "--json")
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


def draw_plans(count, seed, cleave, profile, folder, refuse=lambda why: None):
    """So many legal layouts, of the seeds behind this one; `refuse` is told why
    others are not."""
    drawn, why = 0, ""
    for each in range(seed + 1, seed + 101 + 20 * count):
        if drawn == count:
            return
        try:
            plan = Drawn(random.Random(each), cleave, profile, folder)
        except Refused as refused:
            why = str(refused)
            refuse(why)
            continue
        drawn += 1
        yield plan
    if drawn < count:
        raise Refused(f"most layouts are refused, the last: {why}")


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


class Agreement:
    """Of pairs of what is planned and what is compiled."""

    def __init__(self, pairs):
        self.errors = sorted(abs(plan / program - 1)
                             for plan, program in pairs)
        self.median = statistics.median(self.errors)
        self.most = self.errors[len(self.errors) * 9 // 10]  # of 90 %
        self.near = sum(error <= 0.03 for error in self.errors)
        self.correlation = (statistics.correlation(
            *map(rank, zip(*pairs))) if len(pairs) > 1 else 1)

    def __str__(self):
        return (f"median {100 * self.median:.1f} %, 90 % within "
                f"{100 * self.most:.1f} %, worst "
                f"{100 * self.errors[-1]:.1f} %; {self.near} of "
                f"{len(self.errors)} within 3 %; rank correlation "
                f"{self.correlation:.4f}")
