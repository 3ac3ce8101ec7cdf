#!/usr/bin/env python3
"""Times `cleave compile`: GPT-2 124M, Llama-3.1-8B under several layouts, and
the same layout on 8 and on 4,096 ranks. Best of N runs, wall clock. Beside it
the arena of a rank, as a ratio to the bound that liveness gives (target 1.02).

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
    """Returns the best time in seconds, the arena and its lower bound in bytes.
    """
    times = []
    with tempfile.TemporaryDirectory() as folder:
        train = os.path.join(folder, "train")
        command = [cleave, "compile", os.path.join(HERE, "models", model), "-q",
                   "-o", train, *flags.split()]
        for _ in range(runs):
            start = time.perf_counter()
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            times.append(time.perf_counter() - start)
        report = subprocess.run([cleave, "inspect", train], check=True,
                                capture_output=True, text=True).stdout
    arena, bound = re.search(r"^arena +(\d+) bytes a rank, lower bound (\d+)",
                             report, re.MULTILINE).groups()
    return min(times), int(arena), int(bound)


def main():
    cleave = sys.argv[1]
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    rows = [
        ("gpt2", "--seq-len 64 --global-batch 4", 5),
        ("gpt2", "--seq-len 1024 --global-batch 8", 5),
        ("llama-3.1-8b", "--seq-len 4096 --global-batch 8 --tp 8", 10),
        ("llama-3.1-8b", "--seq-len 4096 --global-batch 8 --dp 8 --zero 3", 10),
        ("llama-3.1-8b", "--seq-len 4096 --global-batch 64 --micro-batch 1 "
         "--dp 4 --tp 2 --zero 3 --sequence-parallel", 10),
        ("llama-3.1-8b", "--seq-len 4096 --global-batch 8 --micro-batch 2 "
         "--dp 4 --tp 2 --zero 3 --sequence-parallel", 10),
        ("llama-3.1-8b", "--seq-len 4096 --global-batch 4096 --micro-batch 2 "
         "--dp 2048 --tp 2 --zero 3 --sequence-parallel", 10),
    ]
    print("model\tflags\tseconds\ttarget\tarena MiB\tarena / bound")
    seconds = []
    for model, flags, target in rows:
        time_s, arena, bound = measure(cleave, model, flags, runs)
        seconds.append(time_s)
        print(f"{model}\t{flags}\t{time_s:.2f}\t{target}\t{arena / 2**20:.1f}"
              f"\t{arena / bound:.5f}", flush=True)
    print(f"4,096 ranks / 8 ranks: {seconds[-1] / seconds[-2]:.2f} "
          "(target 1.10)")


if __name__ == "__main__":
    main()
