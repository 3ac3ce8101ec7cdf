#!/usr/bin/env python3
"""Optimizers other than the default and as well: what they do to the weights,
by their papers and in f64; that layouts agree; flags, recipes, checkpoints;
moments that are kept in bf16."""
import json
import math
import os
import operator
import re
import struct
import unittest

from support import LLAMA, ToolTest, make_dataset, read_safetensors

SHAPE = ["--seq-len", "16", "--global-batch", "8"]
DATA = ["--data", "set", "--seed", "3"]
RUN = [*DATA, "--log-every", "0", "--peak-gflops", "1"]
LR, DECAY, CLIP = 0.004, 0.2, 0.5
RULE = ["--lr", str(LR), "--lr-schedule", "constant", "--weight-decay",
        str(DECAY), "--clip", str(CLIP)]
OPTIMIZERS = {"adamw": ["--beta1", "0.8", "--beta2", "0.9", "--eps", "1e-6"],
              "sgd": ["--momentum", "0.8"],
              "lion": ["--beta1", "0.8", "--beta2", "0.9"],
              "muon": ["--momentum", "0.8", "--beta1", "0.8", "--beta2", "0.9",
                       "--eps", "1e-6"]}
LAYOUTS = [["--dp", "2"], ["--tp", "2"], ["--micro-batch", "2"],
           ["--dp", "2", "--zero", "1"],
           ["--dp", "4", "--zero", "2", "--micro-batch", "1"],
           ["--dp", "8", "--zero", "3"],
           ["--dp", "2", "--tp", "2", "--zero", "1", "--sequence-parallel"],
           ["--dp", "2", "--tp", "4", "--zero", "3", "--micro-batch", "2"],
           ["--dp", "4", "--zero", "2", "--shard-group", "2"],
           ["--dp", "2", "--pp", "2", "--zero", "1", "--micro-batch", "2"]]


def read_tensors(content):
    """Name to numbers, of those in f32, and to shape."""
    header, data = read_safetensors(content)
    header.pop("__metadata__", None)
    values, shapes = {}, {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        if entry["dtype"] != "F32":
            continue
        values[name] = struct.unpack(f"<{(end - begin) // 4}f",
                                     data[begin:end])
        shapes[name] = entry["shape"]
    return values, shapes


def update(optimizer, t, w, state, g, decay):
    """One step, the t-th, of a weight under its clipped gradient: the weight,
    its state, and the uncertain part of the step: where a sign is one of
    rounding, both are right."""
    m, v = state
    if optimizer == "adamw":
        m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g * g
        step = (m / (1 - 0.8 ** t)) / (math.sqrt(v / (1 - 0.9 ** t)) + 1e-6)
        return w - LR * decay * w - LR * step, (m, v), 0
    if optimizer == "sgd":
        m = 0.8 * m + (g + decay * w)
        return w - LR * m, (m, 0), 0
    direction = 0.8 * m + 0.2 * g
    noise = 1e-5 * (abs(m) + abs(g))
    sign = (direction > 0) - (direction < 0)
    return (w - LR * (sign + decay * w), (0.9 * m + 0.1 * g, 0),
            2 * LR if 0 < abs(direction) < noise else 0)


def multiply(x, y):
    """x y^T, of lists of rows."""
    return [[sum(map(operator.mul, a, b)) for b in y] for a in x]


def transpose(x):
    return [list(column) for column in zip(*x)]


def orthogonalize(x):
    """Jordan's zeropower_via_newtonschulz5 (2024), in f64."""
    if len(x) > len(x[0]):
        return transpose(orthogonalize(transpose(x)))
    norm = math.sqrt(sum(each * each for row in x for each in row))
    x = [[each / norm for each in row] for row in x]
    for _ in range(5):
        once = multiply(x, x)
        twice = multiply(once, once)
        both = [[-4.7750 * a + 2.0315 * b for a, b in zip(p, q)]
                for p, q in zip(once, twice)]
        moved = multiply(both, transpose(x))
        x = [[3.4445 * a + b for a, b in zip(p, q)] for p, q in zip(x, moved)]
    return x


def is_hidden_matrix(name, shape):
    return len(shape) == 2 and "embed_tokens" not in name and \
        "lm_head" not in name


def update_matrix(shape, w, m, g, decay):
    """A step of Muon as "Muon is Scalable for LLM Training" (2025) has it."""
    rows, columns = shape
    m = [0.8 * old + new for old, new in zip(m, g)]
    nesterov = [new + 0.8 * old for old, new in zip(m, g)]
    o = orthogonalize([nesterov[i * columns:(i + 1) * columns]
                       for i in range(rows)])
    scale = 0.2 * math.sqrt(max(rows, columns))
    flat = [scale * each for row in o for each in row]
    return [a - LR * (b + decay * a) for a, b in zip(w, flat)], m


def round_to_bf16(x):
    """To nearest, ties to even."""
    bits, = struct.unpack("<I", struct.pack("<f", x))
    bits += 0x7FFF + (bits >> 16 & 1)
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0]


class OptimizerTest(ToolTest):
    def setUp(self):
        super().setUp()
        index, tokens = make_dataset([300, 50, 650])
        self.write("set.idx", index)
        self.write("set.bin", tokens)

    def read_states(self, folder, step):
        """The states of a checkpoint of one rank: by role and name, numbers of
        bf16 where it is a moment, of f32 where not."""
        folder = f"{folder}/step-{step:08}"
        shard, = json.loads(self.read(f"{folder}/manifest.json"))["shards"]
        content = self.read(f"{folder}/rank-00000.bin")
        states = {}
        for state in json.loads(content[shard["index_begin"]:])["states"]:
            data = content[state["begin"]:state["begin"] + state["bytes"]]
            if state["state"].startswith("moment"):
                # The upper halves of f32.
                data = b"".join(b"\0\0" + data[i:i + 2]
                                for i in range(0, len(data), 2))
            states[state["state"]] = struct.unpack(f"<{len(data) // 4}f", data)
        return states

    def build(self, name, optimizer, *flags):
        self.compile(name, "--optimizer", optimizer, *OPTIMIZERS[optimizer],
                     *RULE, *flags, shape=SHAPE)

    def test_weights_are_those_of_the_paper(self):
        """Three steps, each from the gradients that the run itself had."""
        for optimizer in OPTIMIZERS:
            self.build(optimizer, optimizer, "--keep-gradients")
            weights, _ = read_tensors(
                self.read(os.path.join(LLAMA, "model.safetensors")))
            state = {name: [(0.0, 0.0)] * len(w)
                     for name, w in weights.items()}
            slack = {name: [1e-6] * len(w) for name, w in weights.items()}
            for t in (1, 2, 3):
                folder = f"{optimizer}-{t}"
                self.run_tool(
                    f"./{optimizer}", *RUN, "--steps", str(t),
                    *(["--resume"] if t > 1 else ["--init", LLAMA]),
                    "--save", f"{optimizer}-save", "--export", folder,
                    "--dump-outputs", "outputs.safetensors")
                grads, _ = read_tensors(self.read("outputs.safetensors"))
                actual, shapes = read_tensors(
                    self.read(f"{folder}/model.safetensors"))
                self.assertEqual(set(actual), set(weights))
                norm = math.sqrt(sum(x * x for name in weights
                                     for x in grads["grad." + name]))
                factor = min(1, CLIP / (norm + 1e-6))
                self.assertLess(factor, 1, "nothing is clipped")
                for name, shape in shapes.items():
                    decay = DECAY if len(shape) > 1 else 0
                    rule = optimizer
                    if optimizer == "muon":
                        rule = "adamw"
                        if is_hidden_matrix(name, shape):
                            weights[name], m = update_matrix(
                                shape, weights[name],
                                [m for m, _ in state[name]],
                                [factor * g for g in grads["grad." + name]],
                                decay)
                            state[name] = [(each, 0) for each in m]
                            worst = max(abs(a - b) for a, b in
                                        zip(actual[name], weights[name]))
                            self.assertLess(worst, 1e-6, f"{t} {name}")
                            continue
                    steps = [update(rule, t, *each, factor * g, decay)
                             for *each, g in zip(weights[name], state[name],
                                                 grads["grad." + name])]
                    weights[name] = [step[0] for step in steps]
                    state[name] = [step[1] for step in steps]
                    slack[name] = [old + step[2] for old, step
                                   in zip(slack[name], steps)]
                    worst = max(abs(a - b) - s for a, b, s in
                                zip(actual[name], weights[name], slack[name]))
                    self.assertLess(worst, 0, f"{optimizer} {t} {name}")
            uncertain = sum(s > 1e-6 for each in slack.values() for s in each)
            self.assertLess(uncertain, 100, optimizer)

    def test_layouts_agree(self):
        """Losses and weights, but for the few of which Lion's direction, or the
        size of a step that AdamW makes beside Muon, is one of rounding: those
        are at most whole steps apart, of either sign."""
        steps = 3
        run = [*DATA, "--steps", str(steps), "--overwrite", "--export", "to"]
        for optimizer, most in [("sgd", 0), ("lion", 20), ("muon", 5)]:
            self.build("train", optimizer)
            losses = self.losses("./train", *run)
            weights, shapes = read_tensors(
                self.read("to/model.safetensors"))
            for flags in LAYOUTS:
                self.build("train", optimizer, *flags)
                for a, b in zip(self.losses("./train", *run), losses,
                                strict=True):
                    self.assertLess(abs(a - b), 1e-5 * b,
                                    f"{optimizer} {flags}")
                others, _ = read_tensors(self.read("to/model.safetensors"))
                self.assertEqual(set(others), set(weights))
                apart = [abs(a - b) for name in weights for a, b in
                         zip(others[name], weights[name], strict=True)
                         if abs(a - b) > 1e-6]
                self.assertLessEqual(len(apart), most, f"{optimizer} {flags}")
                self.assertLess(max(apart, default=0), 2.001 * LR * steps)
                if optimizer == "muon":
                    worst = max(abs(a - b) for name in weights
                                if is_hidden_matrix(name, shapes[name])
                                for a, b in zip(others[name], weights[name]))
                    self.assertLess(worst, 2e-7, f"{flags}")

    def test_moments_in_bf16(self):
        """Three steps, each from the state before: weights by moments that are
        not rounded, and the moments rounded."""
        keys = {"adamw": ("moment1", "moment2"), "sgd": ("momentum",),
                "lion": ("lion",), "muon": ("muon",)}
        for optimizer in OPTIMIZERS:
            self.build(optimizer, optimizer, "--moments", "bf16",
                       "--keep-gradients")
            saved = f"{optimizer}-save"
            before, inexact, unclear = None, 0, 0
            for t in (1, 2, 3):
                self.run_tool(
                    f"./{optimizer}", *RUN, "--steps", str(t),
                    *(["--resume"] if t > 1 else ["--init", LLAMA]),
                    "--save", saved, "--dump-outputs", "outputs.safetensors")
                grads, shapes = read_tensors(self.read("outputs.safetensors"))
                after = self.read_states(saved, t)
                if not before:
                    weights, _ = read_tensors(
                        self.read(os.path.join(LLAMA, "model.safetensors")))
                    before = {name: [0.0] * len(values)
                              for name, values in after.items()}
                    before.update(("parameter:" + name, values)
                                  for name, values in weights.items())
                norm, = grads["grad_norm"]
                exact = math.sqrt(sum(x * x for name in weights
                                      for x in grads["grad." + name]))
                self.assertLess(abs(norm - exact), 1e-5 * exact)
                factor = min(1, CLIP / (norm + 1e-6))
                for name in weights:
                    shape = shapes["grad." + name]
                    decay = DECAY if len(shape) > 1 else 0
                    rule = optimizer
                    if rule == "muon" and not is_hidden_matrix(name, shape):
                        rule = "adamw"
                    states = [f"moment{i + 1}:{name}/{key}"
                              for i, key in enumerate(keys[rule])]
                    w = before["parameter:" + name]
                    g = [factor * x for x in grads["grad." + name]]
                    olds = [before[state] for state in states]
                    if rule == "muon":
                        new, m = update_matrix(shape, w, olds[0], g, decay)
                        steps = [(a, (b,), 0) for a, b in zip(new, m)]
                    else:
                        v = olds[1] if len(olds) > 1 else [0.0] * len(w)
                        steps = [update(rule, t, *each, decay) for each
                                 in zip(w, zip(olds[0], v), g)]
                    worst = max(abs(a - b[0]) - b[2] for a, b in
                                zip(after["parameter:" + name], steps))
                    self.assertLess(worst, 1e-6, f"{optimizer} {t} {name}")
                    for i, state in enumerate(states):
                        self.assertEqual(len(after[state]), len(steps))
                        for x, step, old, new in zip(after[state], steps,
                                                     olds[i], g):
                            exact = step[1][i]
                            # What f32 loses may decide to which value.
                            part = new * new if i else new
                            noise = 1e-6 * (abs(old) + abs(part))
                            low = round_to_bf16(exact - noise)
                            high = round_to_bf16(exact + noise)
                            self.assertTrue(low <= x <= high,
                                            f"{optimizer} {t} {state}")
                            unclear += low != high
                            inexact += abs(x - exact) > noise
                before = after
            # Nearly all are rounded, and to the one value that is nearest.
            moments = sum(len(values) for name, values in after.items()
                          if name.startswith("moment"))
            self.assertGreater(inexact, 0.5 * 3 * moments, optimizer)
            self.assertLess(unclear, 0.01 * 3 * moments, optimizer)

    def test_layouts_agree_on_moments_in_bf16(self):
        """Where gradients differ in their last bits, a few moments are rounded
        to the other side, by which a step changes by some hundredths."""
        steps = 3
        run = [*DATA, "--steps", str(steps), "--overwrite", "--export", "to"]
        self.build("train", "adamw", "--moments", "bf16")
        losses = self.losses("./train", *run)
        weights, _ = read_tensors(self.read("to/model.safetensors"))
        for flags in LAYOUTS:
            self.build("train", "adamw", "--moments", "bf16", *flags)
            for a, b in zip(self.losses("./train", *run), losses, strict=True):
                self.assertLess(abs(a - b), 1e-5 * b, flags)
            others, _ = read_tensors(self.read("to/model.safetensors"))
            apart = [abs(a - b) for name in weights for a, b in
                     zip(others[name], weights[name], strict=True)
                     if abs(a - b) > 1e-6]
            self.assertLess(len(apart), 500, flags)
            self.assertLess(max(apart, default=0), 0.01 * LR * steps, flags)

    def test_a_run_with_moments_in_bf16_goes_on(self):
        """Bit by bit, and from another layout's checkpoint; not from one of
        moments in f32, nor the other way round."""
        split = ["--dp", "2", "--zero", "1"]
        export = ["--overwrite", "--export", "to"]
        for name, flags in [("one", []), ("two", split)]:
            self.build(name, "adamw", "--moments", "bf16", *flags)
            self.run_tool(f"./{name}", *RUN, "--steps", "4", *export)
            whole = self.read("to/model.safetensors")
            self.run_tool(f"./{name}", *RUN, "--steps", "2", "--save",
                          f"{name}-save")
            self.run_tool(f"./{name}", *RUN, "--steps", "4", "--resume",
                          f"{name}-save", *export)
            self.assertTrue(self.read("to/model.safetensors") == whole)
        weights, _ = read_tensors(whole)
        self.run_tool("./one", *RUN, "--steps", "4", "--resume", "two-save",
                      *export)
        others, _ = read_tensors(self.read("to/model.safetensors"))
        for name, values in weights.items():
            self.assertLess(max(map(abs, map(operator.sub, values,
                                             others[name]))), 0.1 * LR)
        self.build("wide", "adamw")
        self.run_tool("./wide", *RUN, "--steps", "2", "--save", "wide-save")
        for name, other, types in [
                ("wide", "one", "is BF16; the program expects F32"),
                ("one", "wide", "is F32; the program expects BF16")]:
            self.expect_error([f"{other}-save", "another model or optimizer",
                               "/moment1", types], f"./{name}", *RUN,
                              "--steps", "4", "--resume", f"{other}-save")

    def test_state_is_what_the_optimizer_keeps(self):
        for flags, share in [([], 1), (["--moments", "bf16"], 0.5)]:
            moments = {}
            for optimizer in OPTIMIZERS:
                self.build("train", optimizer, *flags)
                program = json.loads(self.run_tool("cleave", "inspect",
                                                   "--json", "train"))
                sizes = {"parameter": 0, "moment1": 0, "moment2": 0,
                         "constant": 0}
                for state in program["states"]:
                    sizes[state["role"]] += state["bytes"]
                self.assertEqual(sizes["moment1"], share * sizes["parameter"])
                moments[optimizer] = sizes["moment2"] / sizes["moment1"]
            # Of muon, embedding and head, 331 x 64 each, and five norms.
            others = 2 * 331 * 64 + 5 * 64
            matrices = 2 * (4 * 64 * 64 + 3 * 176 * 64)
            self.assertEqual(moments, {"adamw": 1, "sgd": 0, "lion": 0,
                                       "muon": others / (others + matrices)})
        # What a rank of two holds of both of adamw, by the report.
        for moments, mebibytes in [("f32", 4), ("bf16", 2)]:
            text = self.run_tool("cleave", "compile", LLAMA, *SHAPE, "--dp",
                                 "2", "--zero", "1", "--moments", moments,
                                 "-o", "train")
            found = float(re.search(r"optimizer state +([0-9.]+) MiB",
                                    text)[1])
            self.assertAlmostEqual(
                found, mebibytes * (others + matrices) / 2**20, delta=0.06)

    def test_a_checkpoint_is_of_its_optimizer(self):
        for optimizer in OPTIMIZERS:
            self.build(optimizer, optimizer)
            self.run_tool(f"./{optimizer}", *RUN, "--steps", "1", "--save",
                          f"{optimizer}-save")
        for optimizer, state in [("adamw", "/moment1"), ("sgd", "/momentum"),
                                 ("lion", "/lion"), ("muon", "/m")]:
            for other in OPTIMIZERS:
                if other != optimizer:
                    self.expect_error(["another model or optimizer", state],
                                      f"./{optimizer}", *RUN, "--steps",
                                      "2", "--resume", f"{other}-save")

    def test_flags_and_recipes(self):
        def program(name, *flags):
            self.compile(name, *flags, shape=SHAPE)
            return self.read(name)

        for optimizer, standard in [
                ("adamw", ["--beta1", "0.9", "--beta2", "0.95", "--eps",
                           "1e-8"]),
                ("sgd", ["--momentum", "0.9"]),
                ("lion", ["--beta1", "0.9", "--beta2", "0.99"]),
                ("muon", ["--momentum", "0.95", "--beta1", "0.9", "--beta2",
                          "0.95", "--eps", "1e-8"])]:
            said = ["--optimizer", optimizer]
            plain = program("plain", *said)
            self.assertEqual(program("said", *said, *standard), plain)
            recipe = {"version": 1, "optimizer": optimizer}
            for i in range(0, len(standard), 2):
                flag, value = standard[i], float(standard[i + 1]) / 2
                self.write("recipe.json",
                           dict(recipe, **{flag[2:]: value}))
                other = program("other", *said, flag, str(value))
                self.assertNotEqual(other, plain, flag)
                self.assertEqual(
                    program("file", "--recipe", "recipe.json"), other)
        self.assertEqual(program("none"), program("adamw", "--optimizer",
                                                  "adamw"))
        self.assertEqual(program("none"), program("f32", "--moments", "f32"))
        self.write("recipe.json", {"version": 1, "moments": "bf16"})
        self.assertEqual(program("file", "--recipe", "recipe.json"),
                         program("bf16", "--moments", "bf16"))
        self.assertNotEqual(program("none"), program("bf16", "--moments",
                                                     "bf16"))
        os.remove(self.path("none"))
        command = ["cleave", "compile", LLAMA, *SHAPE, "-o", "none"]
        for optimizer, flag, able in [
                ("sgd", "--beta1", "adamw, lion, muon"),
                ("sgd", "--eps", "adamw, muon"),
                ("lion", "--eps", "adamw, muon"),
                ("lion", "--momentum", "sgd, muon"),
                ("adamw", "--momentum", "sgd, muon")]:
            self.expect_error(
                f"{flag}: only --optimizer {able} has it, not {optimizer}",
                *command, "--optimizer", optimizer, flag, "0.5", code=2)
        self.expect_error(["--optimizer", "adamw", "sgd", "lion", "muon"], *command,
                          "--optimizer", "adam", code=2)
        self.expect_error(["--moments", "f32", "bf16"], *command,
                          "--moments", "f16", code=2)
        self.write("recipe.json", {"version": 1, "optimizer": "adam"})
        self.expect_error(['"optimizer"', "adamw, sgd, lion, muon"], *command,
                          "--recipe", "recipe.json")


if __name__ == "__main__":
    unittest.main()
