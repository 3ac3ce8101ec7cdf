#!/usr/bin/env python3
"""Makes a reference folder for `cleave parity` from a HuggingFace model.

Needs torch, transformers, safetensors and numpy. Runs the model on the CPU in
float32 with eager attention and no dropout, and writes config.json,
model.safetensors, case.json and golden.safetensors (docs/formats.md).

usage: make_reference.py MODEL_DIR OUTPUT_DIR [--batch N] [--seq-len N]
                         [--steps N] [--seed N]

MODEL_DIR has a config.json and, unless --random, its weights. Tokens are drawn
at random: 3 of 4 from a small set, so that there is something to learn.
"""
import argparse
import json
import math
import os
import shutil
import sys

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

try:
    from transformers.core_model_loading import revert_weight_conversion
except ImportError:  # transformers 4: the model has the checkpoint's names
    def revert_weight_conversion(model, tensors):
        return tensors

LR, MIN_LR, WARMUP, BETAS, EPS, DECAY, CLIP = (
    2e-3, 2e-4, 5, (0.9, 0.95), 1e-8, 0.1, 1.0)


def learning_rate(step, steps):
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    done = (step - WARMUP) / max(steps - WARMUP, 1)
    return MIN_LR + (LR - MIN_LR) / 2 * (1 + math.cos(math.pi * done))


def load_model(args):
    config = AutoConfig.from_pretrained(args.model)
    for name in ("resid_pdrop", "embd_pdrop", "attn_pdrop", "attention_dropout",
                 "hidden_dropout", "classifier_dropout", "dropout"):
        if hasattr(config, name):
            setattr(config, name, 0.0)
    options = dict(attn_implementation="eager", dtype=torch.float32)
    if args.random:
        torch.manual_seed(args.seed)
        model = AutoModelForCausalLM.from_config(config, **options)
    else:
        model = AutoModelForCausalLM.from_pretrained(args.model, config=config,
                                                     **options)
    return model.float().train()


def checkpoint_tensors(model):
    """Name in the checkpoint -> parameter; tied weights once."""
    seen, named = {}, {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if id(parameter) not in seen:
            seen[id(parameter)] = name
            named[name] = parameter
    # The model may have names of its own for what its checkpoints store.
    return revert_weight_conversion(model, named)


def loss_of(model, inputs, targets):
    logits = model(input_ids=inputs.long(), use_cache=False).logits.float()
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), targets.long().reshape(-1),
        ignore_index=-100)
    return loss, logits


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("output")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq-len", type=int, default=48)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--random", action="store_true",
                        help="draw the weights instead of reading them")
    args = parser.parse_args()

    model = load_model(args)
    named = checkpoint_tensors(model)
    vocab = model.config.vocab_size
    rng = np.random.default_rng(args.seed)
    shape = (args.steps, args.batch, args.seq_len + 1)
    few = rng.integers(0, min(vocab, 64), shape)
    tokens = np.where(rng.random(shape) < 0.75, few,
                      rng.integers(0, vocab, shape)).astype(np.int32)
    inputs = torch.from_numpy(tokens[:, :, :-1].copy())
    targets = torch.from_numpy(tokens[:, :, 1:].copy())

    os.makedirs(args.output, exist_ok=True)
    shutil.copy(os.path.join(args.model, "config.json"), args.output)
    save_file({name: p.detach().clone().contiguous()
               for name, p in named.items()},
              os.path.join(args.output, "model.safetensors"),
              metadata={"format": "pt"})

    groups = [{"params": [p for p in named.values() if p.dim() >= 2],
               "weight_decay": DECAY},
              {"params": [p for p in named.values() if p.dim() < 2],
               "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS)
    golden = {"inputs": inputs, "targets": targets}
    losses, norms = [], []
    for step in range(args.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args.steps)
        optimizer.zero_grad()
        loss, logits = loss_of(model, inputs[step], targets[step])
        loss.backward()
        if step == 0:
            golden["logits"] = logits.detach().clone()
            golden["loss"] = loss.detach().reshape(1).clone()
            for name, parameter in named.items():
                golden["grad." + name] = parameter.grad.detach().clone()
        losses.append(loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_(
            list(named.values()), CLIP).item())
        optimizer.step()
    golden["trajectory.loss"] = torch.tensor(losses, dtype=torch.float64)
    golden["trajectory.grad_norm"] = torch.tensor(norms, dtype=torch.float64)
    save_file(golden, os.path.join(args.output, "golden.safetensors"))
    with open(os.path.join(args.output, "case.json"), "w") as file:
        json.dump({"model_type": model.config.model_type,
                   "batch": args.batch, "seq": args.seq_len,
                   "optimizer": {"lr": LR, "min_lr": MIN_LR,
                                 "warmup_steps": WARMUP, "betas": list(BETAS),
                                 "eps": EPS, "weight_decay": DECAY,
                                 "clip_grad_norm": CLIP, "steps": args.steps}},
                  file, indent=1)
    print(f"{args.output}: loss {losses[0]:.4f} -> {losses[-1]:.4f}")


if __name__ == "__main__":
    sys.exit(main())
