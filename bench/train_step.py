#!/usr/bin/env python3
"""Times a training step of GPT-2 124M (batch 4 x 64 tokens, f32, forward,
backward, clip and AdamW) compiled by Cleave and, with --torch, the same step in
PyTorch, eager and compiled, in the same run.

usage: train_step.py CLEAVE [--steps N] [--torch]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH, SEQ = 4, 64


def time_cleave(cleave, steps):
    with tempfile.TemporaryDirectory() as folder:
        train = os.path.join(folder, "train")
        metrics = os.path.join(folder, "metrics.jsonl")
        data = os.path.join(folder, "data.txt")
        with open(data, "w") as file:
            file.write("how vexingly quick daft zebras jump " * 2000)
        subprocess.run([cleave, "compile", os.path.join(HERE, "models", "gpt2"),
                        "--seq-len", str(SEQ), "--global-batch", str(BATCH),
                        "-q", "-o", train], check=True,
                       stderr=subprocess.DEVNULL)
        subprocess.run([train, "--data", data, "--steps", str(steps),
                        "--metrics", metrics, "--log-every", "0"], check=True,
                       stdout=subprocess.DEVNULL)
        with open(metrics) as file:
            rows = [json.loads(line) for line in file]
    rows.sort(key=lambda row: row["seconds"])
    return rows[0]


def time_torch(steps, compiled):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    config = AutoConfig.from_pretrained(os.path.join(HERE, "models", "gpt2"))
    config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.0
    model = AutoModelForCausalLM.from_config(config).train()
    step_model = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4,
                                  weight_decay=0.1, betas=(0.9, 0.95))
    ids = torch.randint(0, config.vocab_size, (BATCH, SEQ))
    best = float("inf")
    for _ in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        step_model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        best = min(best, time.perf_counter() - start)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cleave")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--torch", action="store_true")
    args = parser.parse_args()
    row = time_cleave(args.cleave, args.steps)
    print(f"cleave\t{row['seconds']:.3f} s\t{row['tokens_per_s']:.0f} tokens/s"
          f"\tMFU {100 * row['mfu']:.1f} %\t(target 0.8 s)")
    if args.torch:
        for mode in "eager", "compiled":
            seconds = time_torch(args.steps, mode == "compiled")
            print(f"torch {mode}\t{seconds:.3f} s\t"
                  f"{seconds / row['seconds']:.2f} times as long")


if __name__ == "__main__":
    sys.exit(main())
