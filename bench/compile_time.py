#!/usr/bin/env python3
"""Times `cleave compile`: GPT-2 124M, Llama-3.1-8B under several layouts, the
same layout on 8 and on 4,096 ranks, and the same model in 1 to 16 stages. Best of
N runs, wall clock. Beside it the size of the executable, and the arena of a rank
(of stages, the largest) and its ratio to the bound that liveness gives (target
1.02).

usage: compile_time.py CLEAVE [RUNS]
"""
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def measure(cleave, model, flags, runs):
    """Returns the best time in seconds; of the executable, the largest arena,
    in bytes, and the largest ratio of one to its lower bound."""
    times = []
    with tempfile.TemporaryDirectory() as folder:
        train = os.path.join(folder, "train")
        command = [cleave, "compile", os.path.join(HERE, "models", model), "-q",
                   "-o", train, *flags.split()]
        for _ in range(runs):
            start = time.perf_counter()
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            times.append(time.perf_counter() - start)
        size = os.path.getsize(train)
        report = subprocess.run([cleave, "inspect", train], check=True,
                                capture_output=True, text=True).stdout
    arenas = re.findall(
        r"^arena +(?:stage \d+: )?(\d+) bytes a rank, lower bound (\d+)",
        report, re.MULTILINE)
    return (min(times), size, max(int(arena) for arena, _ in arenas),
            max(int(arena) / int(bound) for arena, bound in arenas))


def main():
    cleave = sys.argv[1]
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    llama = "--seq-len 4096 --global-batch "
    sharded = "--tp 2 --zero 3 --sequence-parallel"
    staged = llama + "64 --micro-batch 1 --dp 2 --pp "
    on_8 = f"{llama}8 --micro-batch 2 --dp 4 {sharded}"
    on_4096 = f"{llama}4096 --micro-batch 2 --dp 2048 {sharded}"
    stages = {count: f"{staged}{count}" for count in (1, 2, 4, 8, 16)}
    rows = [("gpt2", flags, 5) for flags in (
        "--seq-len 64 --global-batch 4", "--seq-len 1024 --global-batch 8")]
    rows += [("llama-3.1-8b", flags, 10) for flags in (
        llama + "8 --tp 8", llama + "8 --dp 8 --zero 3",
        f"{llama}64 --micro-batch 1 --dp 4 {sharded}", on_8, on_4096,
        staged + "4 --tp 2 --zero 1 --pipeline-schedule 1f1b",
        staged + "4 --tp 2 --zero 2 --pipeline-schedule interleaved "
        "--virtual-stages 2 --recompute selective "
        "--recompute-modules norms+activation",
        staged + "4 --tp 2 --zero 3 --pipeline-schedule zb-h1 "
        "--recompute full --recompute-blocks 2",
        staged + "4 --tp 2 --zero 1 --pipeline-schedule zb-v "
        "--sequence-parallel",
        staged + "4 --tp 2 --pipeline-schedule dualpipe-v --recompute full",
        *stages.values())]
    print("model\tflags\tseconds\ttarget\tMB\tarena MiB\tarena / bound")
    measured = {}
    for model, flags, target in rows:
        seconds, size, arena, ratio = measure(cleave, model, flags, runs)
        measured[flags] = seconds, size
        print(f"{model}\t{flags}\t{seconds:.2f}\t{target}\t{size / 1e6:.2f}\t"
              f"{arena / 2**20:.1f}\t{ratio:.5f}", flush=True)

    def compare(a, b):
        return "seconds {:.2f}, size {:.2f}".format(
            *(x / y for x, y in zip(measured[a], measured[b], strict=True)))

    print("4,096 ranks / 8 ranks:", compare(on_4096, on_8), "(target 1.10)")
    print("16 stages / 1 stage:", compare(stages[16], stages[1]))


if __name__ == "__main__":
    main()
