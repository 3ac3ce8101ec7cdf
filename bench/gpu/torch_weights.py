"""The weights of torch_step.py's model, from the safetensors of a HuggingFace
GPT-2 or Llama. Wants torch and nothing else."""
import glob
import json
import mmap
import os
import struct

import torch

TYPES = {"F32": torch.float32, "I32": torch.int32}


def map_safetensors(path):
    """Tensors by name, in memory that is the file's."""
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(
        data, dtype=TYPES[entry["dtype"]], offset=8 + size
        + entry["data_offsets"][0],
        count=(entry["data_offsets"][1] - entry["data_offsets"][0]) // 4)
        .view(entry["shape"]) for name, entry in header.items()}


def load_weights(model, shape, folder):
    """Sets every parameter of `model`, from every tensor of the folder."""
    tensors = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(folder),
                                              "model*.safetensors"))):
        tensors.update(map_safetensors(path))
    read = read_gpt2 if shape.kind == "gpt2" else read_llama
    weights = read(tensors.pop, shape)
    if not shape.tied:
        weights["head.weight"] = tensors.pop("lm_head.weight")
    if tensors:
        raise ValueError(f"{folder}: nothing takes " + ", ".join(tensors))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            weight = weights.pop(name)
            if weight.shape != parameter.shape:
                raise ValueError(f"{name}: expects {tuple(parameter.shape)}, "
                                 f"got {tuple(weight.shape)}")
            parameter.copy_(weight)
    if weights:
        raise ValueError(f"{folder}: no parameter is " + ", ".join(weights))


def disturb_weights(model, seed):
    """Changes every element as rounding to bf16 may: by a random share of
    itself of at most 2^-9, half of the largest that rounding makes."""
    device = next(model.parameters()).device
    generator = torch.Generator(device).manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            draws = torch.rand(parameter.shape, generator=generator,
                               device=device)
            parameter.mul_(1 + (2 * draws - 1) * 2**-9)


def read_gpt2(take, shape):
    """Matrices are there as [inputs, outputs]."""
    names = {"norm1": "ln_1", "attention.qkv": "attn.c_attn",
             "attention.out": "attn.c_proj", "norm2": "ln_2",
             "mlp.up": "mlp.c_fc", "mlp.down": "mlp.c_proj"}
    weights = {"embedding.weight": take("transformer.wte.weight"),
               "positions.weight": take("transformer.wpe.weight"),
               "norm.weight": take("transformer.ln_f.weight"),
               "norm.bias": take("transformer.ln_f.bias")}
    for i in range(shape.layers):
        for mine, theirs in names.items():
            for kind in "weight", "bias":
                tensor = take(f"transformer.h.{i}.{theirs}.{kind}")
                weights[f"blocks.{i}.{mine}.{kind}"] = (
                    tensor.t() if tensor.dim() == 2 else tensor)
    return weights


def read_llama(take, shape):
    """What is one matrix here may be several there, one below the other."""
    names = {"norm1": ["input_layernorm"],
             "attention.qkv": ["self_attn.q_proj", "self_attn.k_proj",
                               "self_attn.v_proj"],
             "attention.out": ["self_attn.o_proj"],
             "norm2": ["post_attention_layernorm"],
             "mlp.up": ["mlp.gate_proj", "mlp.up_proj"],
             "mlp.down": ["mlp.down_proj"]}
    weights = {"embedding.weight": take("model.embed_tokens.weight"),
               "norm.weight": take("model.norm.weight")}
    for i in range(shape.layers):
        for mine, theirs in names.items():
            weights[f"blocks.{i}.{mine}.weight"] = torch.cat(
                [take(f"model.layers.{i}.{name}.weight") for name in theirs])
    return weights
