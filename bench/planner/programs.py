#!/usr/bin/env python3
"""What `cleave plan` says of Llama-3.1-405B on 16,384 H100, beside what
`cleave estimate` says of the program that is compiled for that layout: by term.

usage: programs.py CLEAVE [SIMULATOR]

Programs are compiled for CPUs so far: the instructions are those, priced on the
GPUs. With the benchmark `simulator`, also how many of them a core simulates in
a second.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../test/tools"))
os.environ.setdefault("CLEAVE_TOOLS", "")
from agreement import CPU, assemble_for  # noqa: E402

CONFIG = os.path.join(HERE, "../../test/data/configs/llama-3.1-405b.json")
SHAPE = ["--seq-len", "8192", "--global-batch", "2048", "--dtype", "bf16"]
CLUSTER = ["--cluster", "h100-sxm:16384"]
CPUS = {"version": 1, "nodes": 2048, "devices_per_node": 8,
        "threads_per_device": 1, "cpu": CPU}
# What compile calls the fields of a layout, as estimate's JSON has them.
FLAGS = ["tp", "pp", "dp", "zero", "micro_batch", "virtual_stages",
         "first_blocks", "last_blocks", "recompute", "recompute_blocks",
         "shard_group", "order"]


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE,
                          encoding="utf-8").stdout


def get_flags(layout):
    flags = ["--pipeline-schedule", layout["pipeline_schedule"]]
    for field in FLAGS:
        flags += ["--" + field.replace("_", "-"), str(layout[field])]
    if layout["recompute"] == "selective":
        modules = layout["recompute_modules"]
        flags += ["--recompute-modules", modules.replace(
            "pointwise", "norms+activation")]
    return flags + ["--sequence-parallel"] * layout["sequence_parallel"]


def main():
    cleave = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        def path(name):
            return os.path.join(folder, name)

        # Context parallelism does not compile yet.
        run(cleave, "plan", CONFIG, *SHAPE, *CLUSTER, "--pin", "cp=1", "-o",
            path("plan.json"))
        planned = json.loads(run(cleave, "estimate", CONFIG, *SHAPE, *CLUSTER,
                                 "--plan", path("plan.json"), "--json"))
        with open(path("cpus.json"), "w") as file:
            json.dump(CPUS, file)
        flags = get_flags(planned["layout"])
        begin = time.time()
        compile = [cleave, "compile", CONFIG, *SHAPE, *flags, "--cluster",
                   path("cpus.json"), "-q", "-o", path("train")]
        run(*compile, "--overlap", "always")
        print(f"compiled {' '.join(flags)} in {time.time() - begin:.1f} s, "
              f"{os.path.getsize(path('train')) / 1e6:.1f} MB")
        # Its streams are for the CPUs that it is compiled for: once more, with
        # those for the GPUs on which it is priced.
        assemble_for(run, compile, CLUSTER[1], path("kernels.mlir"),
                     path("train"))
        simulated = json.loads(run(cleave, "estimate", path("train"), *CLUSTER,
                                   "--json"))
        stages = simulated["stages"]

        def mean(key):
            return sum(stage[key] for stage in stages) / len(stages)

        terms = planned["time_s"]
        rows = [
            ("step", planned["step_time_s"], simulated["step_time_s"]),
            ("compute, optimizer, host", terms["compute"] +
             terms["optimizer"] + terms["host"], mean("compute_s")),
            ("exposed communication", sum(terms[key] for key in (
                "tensor", "context", "expert", "pipeline", "data")),
             mean("exposed_s") + mean("waiting_s")),
            ("bubble", terms["bubble"], mean("idle_s")),
            ("memory, GB", (planned["memory_bytes"]["total"] -
                            planned["memory_bytes"]["reserve"]) / 1e9,
             max(stage["arena_bytes"] for stage in stages) / 1e9)]
        print(f"{'':<26}{'plan':>9}{'program':>9}{'ratio':>8}   "
              "(s; of the program the mean of stages; memory of the fullest)")
        for name, plan, program in rows:
            print(f"{name:<26}{plan:>9.3f}{program:>9.3f}"
                  f"{plan / program:>8.3f}")
        if len(sys.argv) > 2:
            print(run(os.path.abspath(sys.argv[2]), path("train"),
                      CLUSTER[1]), end="")


if __name__ == "__main__":
    main()
