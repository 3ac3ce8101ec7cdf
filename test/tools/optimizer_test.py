#!/usr/bin/env python3
"""Optimizers other than the default and as well: what they do to the weights,
by their papers and in f64; that layouts agree; flags, recipes, checkpoints."""
import json
import math
import os
import operator
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


class OptimizerTest(ToolTest):
    def setUp(self):
        super().setUp()
        index, tokens = make_dataset([300, 50, 650])
        self.write("set.idx", index)
        self.write("set.bin", tokens)

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

    def test_state_is_what_the_optimizer_keeps(self):
        moments = {}
        for optimizer in OPTIMIZERS:
            self.build("train", optimizer)
            program = json.loads(self.run_tool("cleave", "inspect", "--json",
                                               "train"))
            sizes = {"parameter": 0, "moment1": 0, "moment2": 0, "constant": 0}
            for state in program["states"]:
                sizes[state["role"]] += state["bytes"]
            self.assertEqual(sizes["moment1"], sizes["parameter"])
            moments[optimizer] = sizes["moment2"] / sizes["parameter"]
        # Of muon, embedding and head, 331 x 64 each, and five norms.
        others = 2 * 331 * 64 + 5 * 64
        matrices = 2 * (4 * 64 * 64 + 3 * 176 * 64)
        self.assertEqual(moments, {"adamw": 1, "sgd": 0, "lion": 0,
                                   "muon": others / (others + matrices)})

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
        self.write("recipe.json", {"version": 1, "optimizer": "adam"})
        self.expect_error(['"optimizer"', "adamw, sgd, lion, muon"], *command,
                          "--recipe", "recipe.json")


if __name__ == "__main__":
    unittest.main()
