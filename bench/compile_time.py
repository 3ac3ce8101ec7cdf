#!/usr/bin/env python3
"""Times `cleave compile`: GPT-2 124M, Llama-3.1-8B under several layouts, and
the same layout on 8 and on 4,096 ranks. Best of N runs, wall clock.

usage: compile_time.py CLEAVE [RUNS]
"""
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def best(cleave, model, flags, runs):
    times = []
    with tempfile.TemporaryDirectory() as folder:
        command = [cleave, "compile", os.path.join(HERE, "models", model), "-q",
                   "-o", os.path.join(folder, "train"), *flags.split()]
        for _ in range(runs):
            start = time.perf_counter()
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            times.append(time.perf_counter() - start)
    return min(times)


def main():
    cleave = sys.argv[1]
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    rows = [
        ("gpt2", "--seq-len 1024 --global-batch 8", 5),
        ("llama-3.1-8b", "--seq-len 4096 --global-batch 8 --tp 8", 10),
        ("llama-3.1-8b", "--seq-len 4096 --global-batch 8 --dp 8 --zero 3", 10),
        ("llama-3.1-8b", "--seq-len 4096 --global-batch 64 --micro-batch 1 "
         "--dp 4 --tp 2 --zero 3 --sequence-parallel", 10),
        ("llama-3.1-8b", "--seq-len 4096 --global-batch 4096 --micro-batch 2 "
         "--dp 2048 --tp 2 --zero 3 --sequence-parallel", 10),
    ]
    print("model\tflags\tseconds\ttarget")
    seconds = []
    for model, flags, target in rows:
        seconds.append(best(cleave, model, flags, runs))
        print(f"{model}\t{flags}\t{seconds[-1]:.2f}\t{target}", flush=True)
    print(f"4,096 ranks / 8 ranks: {seconds[4] / seconds[3]:.2f} (target 1.10)")


if __name__ == "__main__":
    main()
