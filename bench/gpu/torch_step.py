#!/usr/bin/env python3
"""Times training steps of a GPT-2 or a Llama in PyTorch, as its users tune them,
with the work of a Cleave executable's step; prints one line of JSON.

usage: torch_step.py --config CONFIG.json --seq-len T --global-batch G
                     [--micro-batch M] [--data PREFIX] [options]
       torch_step.py ... --follow METRICS.jsonl --weights DIR --tokens FILE
                     [--again N]
       torch_step.py --ceilings

A step is what Cleave's is by default: forward and backward over the
micro-batches, gradients clipped to a global norm of 1, AdamW (betas 0.9 and
0.95, eps 1e-8, decay 0.1 of matrices), cross-entropy in f32.

  precision mixed  f32 parameters, moments and gradients; products in bf16 by
                   autocast, and a residual stream in bf16, as Cleave's is
  precision bf16   parameters, moments and gradients in bf16 throughout: less
                   work and memory than Cleave's

What a user can do about speed is done: torch.compile of the whole model, one
product for queries, keys and values and one for both ways up of the MLP, a
vocabulary padded to a multiple of 64 (--pad-vocab 64), fused AdamW, no
synchronization between steps, losses read after the last one.

With --follow: losses and gradient norms of training as an executable of Cleave
did it that wrote METRICS.jsonl: from the weights, on the tokens, and with the
learning rate of each of its steps. Nothing is timed. With --again: those of N
more such trainings, each from weights changed as rounding to bf16 may change
them.

With --ceilings: what a copy and a matrix product reach on this device.
"""
import argparse
import array
import json
import math
import os
import statistics
import sys
import time
import traceback

import shapes

LR, MIN_LR, BETAS, EPS, DECAY, CLIP = 3e-4, 3e-5, (0.9, 0.95), 1e-8, 0.1, 1.0


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--ceilings", action="store_true")
    parser.add_argument("--config")
    parser.add_argument("--seq-len", type=int)
    parser.add_argument("--global-batch", type=int)
    parser.add_argument("--micro-batch", type=int)
    parser.add_argument("--steps", type=int, default=20, help="timed ones")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--data", help="prefix of a Megatron dataset; default: "
                        "random tokens")
    parser.add_argument("--follow", metavar="METRICS.jsonl")
    parser.add_argument("--weights", metavar="DIR", help="of --follow: what "
                        "an executable exported")
    parser.add_argument("--tokens", metavar="FILE", help="of --follow: "
                        "safetensors with inputs and targets [steps, batch, "
                        "seq]")
    parser.add_argument("--again", type=int, default=0, metavar="N",
                        help="of --follow: N times more, from weights changed "
                        "by a rounding")
    parser.add_argument("--attention", default="default",
                        choices=["default", "cudnn", "flash"])
    parser.add_argument("--gqa", default="auto", choices=["auto", "repeated"],
                        help="auto: the backend gets fewer heads of keys than "
                        "of queries if it takes them")
    parser.add_argument("--precision", default="mixed",
                        choices=["mixed", "bf16"])
    parser.add_argument("--compile", default="whole",
                        choices=["whole", "blocks", "none"])
    parser.add_argument("--mode", default="default",
                        choices=["default", "max-autotune-no-cudagraphs"])
    parser.add_argument("--pad-vocab", type=int, default=1,
                        help="pad the vocabulary to a multiple of it")
    parser.add_argument("--memory-budget", type=float, default=1.0,
                        help="share of activations that the compiler may keep")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    args = parser.parse_args()
    if not args.ceilings:
        for name in "config", "seq_len", "global_batch":
            if getattr(args, name) is None:
                parser.error(f"expects --{name.replace('_', '-')}")
        if args.follow and not (args.weights and args.tokens):
            parser.error("--follow expects --weights and --tokens")
        if args.again and not args.follow:
            parser.error("--again expects --follow")
        args.micro_batch = args.micro_batch or args.global_batch
        if args.global_batch % args.micro_batch:
            parser.error("--micro-batch does not divide --global-batch")
        if args.steps < 1 or args.warmup < 1:
            parser.error("expects --steps and --warmup of at least 1")
    return args


ARGS = parse_arguments()

import torch  # noqa: E402: --help does without
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import torch_weights  # noqa: E402


def describe_torch():
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda}
    if torch.cuda.is_available():
        versions["device"] = torch.cuda.get_device_name()
        versions["cudnn"] = torch.backends.cudnn.version()
    try:
        import triton
        versions["triton"] = triton.__version__
    except ImportError:
        pass
    return versions


#===------------------------------------------------------------------------===#
# Models
#===------------------------------------------------------------------------===#


class LayerNorm(nn.Module):
    """With its statistics in f32."""

    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.eps = eps

    def forward(self, x):
        return F.layer_norm(x.float(), x.shape[-1:], self.weight.float(),
                            self.bias.float(), self.eps).to(x.dtype)


class RMSNorm(nn.Module):
    """With its statistics in f32."""

    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * self.weight.float()).to(x.dtype)


def compute_rope(shape, seq_len, device):
    """Cosines and sines [seq, head dim] in f32, with Llama 3's scaling."""
    exponents = torch.arange(0, shape.head_dim, 2, device=device,
                             dtype=torch.float32) / shape.head_dim
    frequencies = 1.0 / (shape.rope_theta ** exponents)
    scaling = shape.rope_scaling
    if scaling:
        kind = scaling.get("rope_type", scaling.get("type"))
        if kind != "llama3":
            raise ValueError(f"expects rope scaling llama3, got {kind}")
        length = scaling["original_max_position_embeddings"]
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        turns = length * frequencies / (2 * math.pi)
        keep = ((turns - low) / (high - low)).clamp(0, 1)
        frequencies = frequencies * (keep + (1 - keep) / scaling["factor"])
    positions = torch.arange(seq_len, device=device, dtype=torch.float32)
    angles = torch.outer(positions, frequencies)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    """Of [batch, heads, seq, head dim], halves rotated against each other."""
    y = x.float()
    first, second = y.chunk(2, dim=-1)
    return (y * cos + torch.cat((-second, first), dim=-1) * sin).to(x.dtype)


class Attention(nn.Module):

    def __init__(self, shape, native_gqa):
        super().__init__()
        self.heads, self.kv_heads = shape.heads, shape.kv_heads
        self.head_dim = shape.head_dim
        self.native_gqa = native_gqa
        bias = shape.kind == "gpt2"
        self.sizes = [n * self.head_dim for n in (self.heads, self.kv_heads,
                                                  self.kv_heads)]
        self.qkv = nn.Linear(shape.hidden, sum(self.sizes), bias=bias)
        self.out = nn.Linear(self.sizes[0], shape.hidden, bias=bias)

    def forward(self, x, rope):
        batch, seq, _ = x.shape
        q, k, v = (part.view(batch, seq, -1, self.head_dim).transpose(1, 2)
                   for part in self.qkv(x).split(self.sizes, dim=-1))
        if rope is not None:
            q, k = rotate(q, *rope), rotate(k, *rope)
        out = attend(q, k, v, self.native_gqa)
        return self.out(out.transpose(1, 2).reshape(batch, seq, -1))


def attend(q, k, v, native_gqa):
    groups = q.shape[1] // k.shape[1]
    if groups > 1 and native_gqa:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                              enable_gqa=True)
    if groups > 1:
        k = k.repeat_interleave(groups, dim=1)
        v = v.repeat_interleave(groups, dim=1)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class GeluMLP(nn.Module):

    def __init__(self, shape):
        super().__init__()
        self.up = nn.Linear(shape.hidden, shape.intermediate)
        self.down = nn.Linear(shape.intermediate, shape.hidden)

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class GatedMLP(nn.Module):

    def __init__(self, shape):
        super().__init__()
        self.up = nn.Linear(shape.hidden, 2 * shape.intermediate, bias=False)
        self.down = nn.Linear(shape.intermediate, shape.hidden, bias=False)

    def forward(self, x):
        gate, up = self.up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class Block(nn.Module):

    def __init__(self, shape, native_gqa):
        super().__init__()
        norm, mlp = ((LayerNorm, GeluMLP) if shape.kind == "gpt2" else
                     (RMSNorm, GatedMLP))
        self.norm1 = norm(shape.hidden, shape.eps)
        self.attention = Attention(shape, native_gqa)
        self.norm2 = norm(shape.hidden, shape.eps)
        self.mlp = mlp(shape)

    def forward(self, x, rope):
        x = x + self.attention(self.norm1(x), rope)
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    """From ids to the mean cross-entropy."""

    def __init__(self, shape, seq_len, native_gqa, pad_vocab, device):
        super().__init__()
        vocab = math.ceil(shape.vocab / pad_vocab) * pad_vocab
        self.embedding = nn.Embedding(vocab, shape.hidden)
        self.positions = (nn.Embedding(shape.positions, shape.hidden)
                          if shape.kind == "gpt2" else None)
        self.blocks = nn.ModuleList(Block(shape, native_gqa)
                                    for _ in range(shape.layers))
        norm = LayerNorm if shape.kind == "gpt2" else RMSNorm
        self.norm = norm(shape.hidden, shape.eps)
        self.head = nn.Linear(shape.hidden, vocab, bias=False)
        self.has_rope = shape.kind == "llama"
        if self.has_rope:
            cos, sin = compute_rope(shape, seq_len, device)
            self.register_buffer("cos", cos, persistent=False)
            self.register_buffer("sin", sin, persistent=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=shape.std)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        if shape.tied:
            self.head.weight = self.embedding.weight

    def forward(self, ids, targets):
        x = self.embedding(ids)
        if self.positions is not None:
            x = x + self.positions.weight[:ids.shape[1]]
        # The residual stream is in bf16, whatever the parameters are.
        x = x.to(torch.bfloat16)
        rope = (self.cos, self.sin) if self.has_rope else None
        for block in self.blocks:
            x = block(x, rope)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(),
                               targets.reshape(-1))


#===------------------------------------------------------------------------===#
# Attention backends
#===------------------------------------------------------------------------===#


def choose_attention(name):
    """Leaves one backend on; of "default" all are as torch has them."""
    if name == "default" or ARGS.device == "cpu":
        return
    torch.backends.cuda.enable_flash_sdp(name == "flash")
    torch.backends.cuda.enable_cudnn_sdp(name == "cudnn")
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_math_sdp(False)


def probe_gqa(shape, seq_len):
    """Whether the backend takes fewer heads of keys than of queries, forward
    and backward, at the sizes that are timed."""
    if shape.heads == shape.kv_heads or ARGS.gqa == "repeated":
        return shape.heads == shape.kv_heads
    make = lambda heads: torch.randn(1, heads, seq_len, shape.head_dim,
                                     device=ARGS.device, dtype=torch.bfloat16,
                                     requires_grad=True)
    q, k, v = make(shape.heads), make(shape.kv_heads), make(shape.kv_heads)
    # Without a fused kernel torch would fall back to whole score matrices.
    math_was_on = torch.backends.cuda.math_sdp_enabled()
    torch.backends.cuda.enable_math_sdp(ARGS.device == "cpu")
    try:
        attend(q, k, v, native_gqa=True).sum().backward()
        if ARGS.device == "cuda":
            torch.cuda.synchronize()
        return True
    except RuntimeError as error:
        print(f"note: keys and values are repeated, as the backend refuses "
              f"fewer heads of them: {error}", file=sys.stderr)
        return False
    finally:
        torch.backends.cuda.enable_math_sdp(math_was_on)


def name_backend(shape, seq_len, native_gqa):
    """The backend that torch chooses at these sizes."""
    try:
        from torch.nn.attention import SDPBackend
        kv_heads = shape.kv_heads if native_gqa else shape.heads
        make = lambda heads: torch.empty(
            ARGS.micro_batch, heads, seq_len, shape.head_dim,
            device=ARGS.device, dtype=torch.bfloat16, requires_grad=True)
        choice = torch._fused_sdp_choice(
            make(shape.heads), make(kv_heads), make(kv_heads), is_causal=True,
            enable_gqa=kv_heads != shape.heads)
        for backend in SDPBackend.__members__.values():
            if int(backend.value) == int(choice):
                return backend.name
        return str(int(choice))
    except Exception as error:  # it is private, and only for the report
        return f"unknown ({type(error).__name__})"


#===------------------------------------------------------------------------===#
# Steps
#===------------------------------------------------------------------------===#


def load_batches(shape, count):
    """Inputs and targets [count, batch, seq] on the device."""
    size, seq = ARGS.global_batch, ARGS.seq_len
    if ARGS.data is None:
        stream = torch.randint(0, shape.vocab, (count * size * seq + 1,))
    else:
        with open(ARGS.data + ".idx", "rb") as file:
            code = file.read(18)[17]
        tokens = array.array({8: "H", 4: "i"}[code])
        with open(ARGS.data + ".bin", "rb") as file:
            tokens.frombytes(file.read())
        stream = torch.tensor(tokens, dtype=torch.int64)
    samples = (len(stream) - 1) // seq
    if samples < 1:
        raise ValueError(f"{ARGS.data}: expects more than {seq} tokens")
    chosen = torch.arange(count * size) % samples
    index = (chosen * seq).view(count, size, 1) + torch.arange(seq)
    return (stream[index].to(ARGS.device), stream[index + 1].to(ARGS.device))


def load_followed():
    """The learning rates of a run, and inputs and targets [steps, batch, seq]
    on the device."""
    with open(ARGS.follow, encoding="utf-8") as file:
        rates = [json.loads(line)["lr"] for line in file]
    tokens = torch_weights.map_safetensors(ARGS.tokens)
    inputs, targets = (tokens[name][:len(rates)].long().to(ARGS.device)
                       for name in ("inputs", "targets"))
    shape = (len(rates), ARGS.global_batch, ARGS.seq_len)
    if inputs.shape != shape:
        raise ValueError(f"{ARGS.tokens}: expects inputs {shape}, got "
                         f"{tuple(inputs.shape)}")
    return rates, inputs, targets


def compute_rates(count):
    """A cosine from LR to MIN_LR."""
    return [MIN_LR + (LR - MIN_LR) * 0.5 * (1 + math.cos(math.pi * i / count))
            for i in range(count)]


def make_optimizer(model):
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": [p for p in parameters if p.dim() >= 2],
               "weight_decay": DECAY},
              {"params": [p for p in parameters if p.dim() < 2],
               "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS, fused=True)


def compile_model(model):
    if ARGS.compile == "none":
        return model
    options = {"dynamic": False}
    if ARGS.mode != "default":
        options["mode"] = ARGS.mode
    if ARGS.memory_budget < 1:
        from torch._functorch import config
        config.activation_memory_budget = ARGS.memory_budget
    if ARGS.compile == "whole":
        return torch.compile(model, **options)
    for block in model.blocks:
        block.compile(**options)
    return model


class Trainer:

    def __init__(self, shape):
        choose_attention(ARGS.attention)
        native_gqa = probe_gqa(shape, ARGS.seq_len)
        self.backend = name_backend(shape, ARGS.seq_len, native_gqa)
        self.gqa = ("none" if shape.heads == shape.kv_heads else
                    "native" if native_gqa else "repeated")
        if ARGS.precision == "bf16":
            torch.set_default_dtype(torch.bfloat16)
        with torch.device(ARGS.device):
            self.raw = Model(shape, ARGS.seq_len, native_gqa, ARGS.pad_vocab,
                             ARGS.device)
        torch.set_default_dtype(torch.float32)
        if ARGS.follow:
            self.rates, self.inputs, self.targets = load_followed()
        else:
            total = ARGS.warmup + ARGS.steps
            self.rates = compute_rates(total)
            self.inputs, self.targets = load_batches(shape, total)
            self.optimizer = make_optimizer(self.raw)
        self.model = compile_model(self.raw)
        self.parameters = list(self.raw.parameters())
        self.micro_batches = ARGS.global_batch // ARGS.micro_batch

    def follow(self, shape, seed=None):
        """Losses and gradient norms of all steps, from the weights of --weights
        and fresh moments; of a rounding that `seed` draws, if there is one."""
        torch_weights.load_weights(self.raw, shape, ARGS.weights)
        if seed is not None:
            torch_weights.disturb_weights(self.raw, seed)
        self.optimizer = make_optimizer(self.raw)
        results = [self.step(i) for i in range(len(self.rates))]
        losses, norms = ([float(value) for value in column]
                         for column in zip(*results))
        return {"losses": losses, "grad_norms": norms}

    def step(self, number):
        """The loss and the gradients' norm, on the device."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.rates[number]
        total = 0.0
        for m in range(self.micro_batches):
            part = slice(m * ARGS.micro_batch, (m + 1) * ARGS.micro_batch)
            with torch.autocast(ARGS.device, dtype=torch.bfloat16,
                                enabled=ARGS.precision == "mixed"):
                loss = self.model(self.inputs[number, part],
                                  self.targets[number, part])
            loss = loss / self.micro_batches
            loss.backward()
            total = total + loss.detach()
        norm = nn.utils.clip_grad_norm_(self.parameters, CLIP, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return total, norm


def synchronize():
    if ARGS.device == "cuda":
        torch.cuda.synchronize()


def load_shape():
    with open(ARGS.config, encoding="utf-8") as file:
        return shapes.Shape(json.load(file))


def follow():
    start = time.perf_counter()
    shape = load_shape()
    trainer = Trainer(shape)
    synchronize()
    built = time.perf_counter()
    result = trainer.follow(shape)
    followed = time.perf_counter()
    if ARGS.again:
        result["again"] = [trainer.follow(shape, seed)
                           for seed in range(ARGS.again)]
        result["again_seconds"] = time.perf_counter() - followed
    return {**result, "backend": trainer.backend, "gqa": trainer.gqa,
            "precision": ARGS.precision, "compile": ARGS.compile,
            "build_seconds": built - start, "steps_seconds": followed - built}


def measure_steps():
    shape = load_shape()
    torch.manual_seed(0)
    start = time.perf_counter()
    trainer = Trainer(shape)
    synchronize()
    built = time.perf_counter()
    results = [trainer.step(0)]
    synchronize()
    compiled = time.perf_counter()
    results += [trainer.step(i) for i in range(1, ARGS.warmup)]
    synchronize()
    begin = time.perf_counter()
    if ARGS.device == "cuda":
        events = [torch.cuda.Event(enable_timing=True)
                  for _ in range(ARGS.steps + 1)]
        events[0].record()
        for i in range(ARGS.steps):
            results.append(trainer.step(ARGS.warmup + i))
            events[i + 1].record()
        synchronize()
        wall = time.perf_counter() - begin
        seconds = [a.elapsed_time(b) * 1e-3 for a, b in zip(events, events[1:])]
    else:
        seconds = []
        for i in range(ARGS.steps):
            begin_step = time.perf_counter()
            results.append(trainer.step(ARGS.warmup + i))
            seconds.append(time.perf_counter() - begin_step)
        wall = time.perf_counter() - begin
    losses = [float(loss) for loss, _ in results]
    median = statistics.median(seconds)
    tokens_per_s = ARGS.global_batch * ARGS.seq_len / median
    ordered = sorted(seconds)
    return {
        "seconds": median,
        "seconds_low": ordered[len(ordered) // 10],
        "seconds_high": ordered[-1 - len(ordered) // 10],
        "wall_seconds_per_step": wall / ARGS.steps,
        "tokens_per_s": tokens_per_s,
        "mfu": shape.compute_mfu(tokens_per_s, ARGS.seq_len),
        "peak_bytes": (torch.cuda.max_memory_allocated()
                       if ARGS.device == "cuda" else None),
        "reserved_bytes": (torch.cuda.max_memory_reserved()
                           if ARGS.device == "cuda" else None),
        "first_loss": losses[0], "last_loss": losses[-1],
        "first_grad_norm": float(results[0][1]),
        "steps": ARGS.steps, "global_batch": ARGS.global_batch,
        "micro_batch": ARGS.micro_batch, "seq_len": ARGS.seq_len,
        "attention": ARGS.attention, "backend": trainer.backend,
        "gqa": trainer.gqa, "precision": ARGS.precision,
        "compile": ARGS.compile, "mode": ARGS.mode,
        "pad_vocab": ARGS.pad_vocab, "memory_budget": ARGS.memory_budget,
        "parameters": sum(p.numel() for p in trainer.parameters),
        "build_seconds": built - start, "compile_seconds": compiled - built}


#===------------------------------------------------------------------------===#
# Ceilings
#===------------------------------------------------------------------------===#


def time_on_device(run, repeats):
    """Median seconds of `run`, by events."""
    for _ in range(3):
        run()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    events[0].record()
    for event in events[1:]:
        run()
        event.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) * 1e-3
                             for a, b in zip(events, events[1:]))


def measure_copy():
    """Byte/s, read and written."""
    count = 1 << 30  # 4 GiB of f32: far over the cache
    source = torch.empty(count, device=ARGS.device).normal_()
    target = torch.empty_like(source)
    return 2 * 4 * count / time_on_device(lambda: target.copy_(source), 20)


def measure_ceilings():
    """Random operands; the long product is what is left under the power cap."""
    device = ARGS.device
    result = {"copy_bytes_per_s": measure_copy()}
    n = 8192
    a, b = (torch.randn(n, n, device=device, dtype=torch.bfloat16)
            for _ in range(2))
    out = torch.empty_like(a)
    multiply = lambda: torch.matmul(a, b, out=out)
    result["matmul_flops_per_s"] = 2 * n**3 / time_on_device(multiply, 20)
    result["long_matmul_flops_per_s"] = 2 * n**3 / time_on_device(multiply,
                                                                  1500)
    return result


def main():
    if ARGS.device == "cuda" and not torch.cuda.is_available():
        print(json.dumps({"error": "torch sees no GPU"}))
        return 1
    try:
        result = (measure_ceilings() if ARGS.ceilings else
                  follow() if ARGS.follow else measure_steps())
        code = 0
    except torch.cuda.OutOfMemoryError as error:
        result = {"error": "out of memory: " + str(error).split("\n")[0]}
        code = 3
    except Exception as error:
        traceback.print_exc()
        result = {"error": f"{type(error).__name__}: "
                           f"{str(error).strip().splitlines()[:1]}"}
        code = 1
    result["versions"] = describe_torch()
    print(json.dumps(result), flush=True)
    return code


if __name__ == "__main__":
    code = main()
    # What compiles in the background has nothing left to do.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
