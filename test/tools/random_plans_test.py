#!/usr/bin/env python3
"""Random models in random layouts of the planner's space: each compiles, and
trains to what one rank trains to.

CLEAVE_PLANS=1000 runs so many and counts them (the default takes some 40
seconds), CLEAVE_PLAN_SEED=N the one that a failure names.
"""
import collections
import json
import math
import os
import random
import struct
import unittest

from support import DATA, ToolTest, make_safetensors

STEPS = 3
RUN = ["--tokens", "tokens", "--seed", "3"]
V_SHAPED = ["zb-v", "dualpipe-v"]
SCHEDULES = ["gpipe", "1f1b", "1f1b-eager", "interleaved", "zb-h1",
             "zb-h2", "zb-v", "dualpipe-v"]
ORDERS = ["tp-cp-dp-pp", "tp-cp-pp-dp", "tp-dp-cp-pp", "tp-dp-pp-cp",
          "tp-pp-cp-dp", "tp-pp-dp-cp"]
MODULES = ["norms", "attention", "output", "up", "activation", "down"]
# Of a hand-written plan, which the planner has no price for.
OTHER_MODULES = [*MODULES, "qkv", "residual"]


def draw_model(draw, seq_len):
    """A config.json. Weights are large, so that every part of a layer matters
    to the loss."""
    family = draw.choice(["gpt2", "gpt_neox", "llama", "mistral", "qwen2",
                          "qwen3", "olmo2", "phi3", "gemma", "granite",
                          "starcoder2", "opt"])
    heads = draw.choice([1, 2, 3, 4, 4, 6, 8, 8])
    head_dim = draw.choice([4, 8, 8, 12, 16])
    hidden = heads * head_dim
    config = {
        "model_type": family, "vocab_size": draw.randint(40, 260),
        "num_hidden_layers": draw.randint(1, 10), "hidden_size": hidden,
        "num_attention_heads": heads, "initializer_range": 0.1,
        "intermediate_size": draw.choice([21, 24, 32, 40, 48, 64, 80, 96]),
        "max_position_embeddings": seq_len + draw.choice([0, 1, 40]),
        "tie_word_embeddings": draw.random() < 0.5}

    def flip(*names):
        for name in names:
            config[name] = draw.random() < 0.5

    if family in ("gpt2", "opt"):
        gelu = draw.choice(["gelu", "gelu_new", "gelu_fast", "relu", "silu"])
        config["activation_function"] = gelu
    if family == "gpt2":
        config["n_inner"] = config.pop("intermediate_size")
        flip("scale_attn_weights", "scale_attn_by_inverse_layer_idx")
    elif family == "opt":
        config["ffn_dim"] = config.pop("intermediate_size")
        config["init_std"] = config.pop("initializer_range")
        config["pad_token_id"] = 1
        config["word_embed_proj_dim"] = draw.choice([hidden, 20])
        flip("do_layer_norm_before", "enable_bias")
    elif family == "gpt_neox":
        config["rotary_pct"] = draw.choice([0.25, 0.5, 1])
        if head_dim * config["rotary_pct"] % 2 != 0:
            config["rotary_pct"] = 1
        flip("use_parallel_residual", "attention_bias")
    else:
        config["num_key_value_heads"] = draw.choice(
            [kv for kv in range(1, heads + 1) if heads % kv == 0])
        config["pad_token_id"] = draw.choice([None, 0])
    if family in ("llama", "mistral", "qwen3", "gemma") \
            and draw.random() < 0.4:
        config["head_dim"] = draw.choice([6, 10, 16])
    if family in ("mistral", "phi3", "starcoder2"):
        config["sliding_window"] = draw.choice([None, 3, 8, 64])
    if family in ("qwen2", "qwen3"):
        flip("use_sliding_window")
        config["sliding_window"] = draw.choice([3, 8])
        config["max_window_layers"] = draw.randint(0, 10)
    if family in ("llama", "granite"):
        flip("mlp_bias")
    if family in ("llama", "qwen3", "olmo2", "gemma", "granite"):
        flip("attention_bias")
    if family == "starcoder2":
        flip("use_bias")
    if family == "granite":
        config.update(attention_multiplier=0.3, embedding_multiplier=3.0,
                      logits_scaling=2.0, residual_multiplier=0.4)
    return config


def draw_tokens(draw, vocab, shape):
    """Batches as a safetensors file, with targets that are ignored."""
    count = math.prod(shape)
    ignored = draw.choice([0, 0, 0.3])
    inputs = [draw.randrange(vocab) for _ in range(count)]
    targets = [-100 if i % math.prod(shape[1:]) and draw.random() < ignored
               else draw.randrange(vocab) for i in range(count)]
    header = {name: {"dtype": "I32", "shape": shape,
                     "data_offsets": [4 * count * i, 4 * count * (i + 1)]}
              for i, name in enumerate(["inputs", "targets"])}
    return make_safetensors(header, struct.pack(f"<{2 * count}i", *inputs,
                                                *targets))


def get_divisors(number):
    return [i for i in range(1, number + 1) if number % i == 0]


def draw_layout(draw, ranks, batch, layers):
    """A layout that may or may not be legal, by the planner's fields."""
    tp = draw.choice(get_divisors(ranks))
    pp = draw.choice(get_divisors(ranks // tp))
    dp = ranks // tp // pp
    layout = {"tp": tp, "dp": dp, "pp": pp,
              "micro_batch": draw.choice(get_divisors(batch))}
    if tp > 1:
        layout["sequence_parallel"] = draw.random() < 0.5
    if dp > 1:
        layout["zero"] = draw.randint(0, 3)
        if layout["zero"] > 0 and draw.random() < 0.4:
            layout["shard_group"] = draw.choice(get_divisors(dp))
    if draw.random() < 0.5:
        layout["order"] = draw.choice(ORDERS)
    chunks = 1
    if pp > 1:
        layout["pipeline_schedule"] = draw.choice(SCHEDULES)
        if layout["pipeline_schedule"] in V_SHAPED:
            chunks = 2
        elif layout["pipeline_schedule"] == "interleaved":
            chunks = draw.randint(2, 4)
        if chunks == 1 or draw.random() < 0.5 or layout[
                "pipeline_schedule"] not in V_SHAPED:
            layout["virtual_stages"] = chunks
        if draw.random() < 0.4:
            layout["first_blocks"] = draw.randint(0, 4)
            layout["last_blocks"] = draw.randint(0, 4)
            if pp * chunks == 2:
                layout["last_blocks"] = layers - layout["first_blocks"]
    if draw.random() < 0.5:
        layout["recompute"] = draw.choice(["selective", "full"])
        if layout["recompute"] == "selective":
            layout["recompute_modules"] = "+".join(
                draw.sample(MODULES, draw.randint(1, 3)))
            if draw.random() < 0.3:
                layout["recompute_modules"] = "pointwise"
        layout["recompute_blocks"] = draw.randint(0, 3)
    return layout


def get_flags(layout):
    """What compile calls the fields of a layout."""
    flags = []
    for field, value in layout.items():
        flag = "--" + field.replace("_", "-")
        if field == "sequence_parallel":
            flags += [flag] if value else []
        else:
            flags += [flag, str(value)]
    return flags


def get_pins(layout):
    """The pins of plan that leave nothing but this layout, as estimate shows
    it. Of axes of one rank the order says nothing."""
    if 1 in (layout["dp"], layout["pp"]):
        layout = {key: layout[key] for key in layout if key != "order"}
    return [part for field, value in layout.items()
            for part in ("--pin", f"{field.replace('_', '-')}={value}".replace(
                "True", "true").replace("False", "false"))]


def rewrite_by_hand(plan):
    """The same plan as a person may write it: other names, and no axes of one
    rank."""
    names = {axis["name"]: f"{axis['name'][0]}_{i}"
             for i, axis in enumerate(plan["mesh"]) if axis["size"] > 1}
    plan = dict(plan, mesh=[{"name": names[axis["name"]], "size": axis["size"]}
                            for axis in plan["mesh"] if axis["name"] in names])
    for key in ("dims", "keep"):
        plan[key] = {name: [names[axis] for axis in axes if axis in names]
                     for name, axes in plan[key].items()}
    if "pipeline" in plan:
        plan["pipeline"] = dict(plan["pipeline"],
                                axis=names[plan["pipeline"]["axis"]])
    return plan


def draw_other_plan(draw, plan, layers):
    """Of a plan one that no flags give: any layers on the stages, any modules
    of so many layers."""
    plan = dict(plan, recompute=draw.sample(OTHER_MODULES, draw.randint(1, 4)),
                recompute_blocks=draw.randint(1, layers))
    if "pipeline" in plan:
        old = plan["pipeline"]
        size, = [axis["size"] for axis in plan["mesh"]
                 if axis["name"] == old["axis"]]
        cuts = sorted(draw.sample(range(layers + 1),
                                  size * old["virtual_stages"] - 1))
        plan["pipeline"] = {
            **{key: old[key] for key in ("axis", "schedule", "virtual_stages")},
            "layers": [b - a for a, b in zip([0, *cuts], [*cuts, layers])]}
    return plan


class RandomPlansTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.write_local()
        self.counts = collections.Counter()

    def draw_case(self, seed):
        """Writes a model, and draws shape, ranks and a layout that the planner
        prices."""
        draw = self.draw = random.Random(seed)
        while True:
            seq_len = draw.choice([6, 8, 12, 12, 15, 16])
            batch = draw.choice([1, 2, 3, 4, 6, 8, 8, 12, 12, 16])
            ranks = draw.choice([1, 2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 8])
            self.config = draw_model(draw, seq_len)
            self.layers = self.config["num_hidden_layers"]
            self.write("model.json", self.config)
            self.shape = ["--seq-len", str(seq_len), "--global-batch",
                          str(batch)]
            self.planned = ["model.json", *self.shape, "--cluster",
                            f"local:{ranks}"]
            rows = [draw_layout(draw, ranks, batch, self.layers)
                    for _ in range(60)]
            self.write("rows", "".join(json.dumps(row) + "\n"
                                       for row in rows))
            done = self.start("cleave", "estimate", *self.planned, "--batch",
                              "rows", env=self.env)
            self.assertIn(done.returncode, [0, 1], done.stderr)
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            legal = [(row, line) for row, line
                     in zip(rows, lines, strict=True) if "error" not in line]
            # Pipelines have the most that can go wrong.
            pipelines = [pair for pair in legal if pair[0]["pp"] > 1]
            if pipelines and draw.random() < 0.7:
                legal = pipelines
            if legal:
                break
        self.row, self.priced = draw.choice(legal)
        self.write("tokens", draw_tokens(draw, self.config["vocab_size"],
                                         [STEPS, batch, seq_len]))
        self.build = ["cleave", "compile", "model.json", *self.shape, "-q",
                      *draw.choice([[], [], ["--optimizer", "sgd"],
                                    ["--optimizer", "muon"]])]
        self.is_checked = draw.random() < 0.1

    def train(self, name, *flags):
        """Losses and gradient norms."""
        self.losses(f"./{name}", *RUN, *flags)
        steps = self.lines("losses.jsonl")
        self.assertEqual(len(steps), STEPS)
        return [(step["loss"], step["grad_norm"]) for step in steps]

    def check_trained(self, name, what):
        got = self.train(name)
        for (loss, norm), (one_loss, one_norm) in zip(got, self.one,
                                                      strict=True):
            self.assertLessEqual(abs(loss - one_loss), 1e-5 * one_loss,
                                 f"{what}: {got} {self.one}")
            self.assertLessEqual(abs(norm - one_norm), 1e-4 * one_norm,
                                 f"{what}: {got} {self.one}")
        self.counts[what] += 1
        return got

    def is_in_space(self):
        """Whether the planner finds the layout, then in plan.json. It has not
        all layouts that have a price."""
        done = self.start("cleave", "plan", *self.planned, "--runnable",
                          *get_pins(self.priced["layout"]), "-o", "plan.json",
                          env=self.env)
        if done.returncode != 0:
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, r"\Acleave: error: no layout of "
                             r"[^\n]*\n\Z")
        return done.returncode == 0

    def estimate(self, *flags):
        return json.loads(self.run_tool("cleave", "estimate", *self.planned,
                                        *flags, "--json", env=self.env))

    def check_case(self):
        flags = get_flags(self.row)
        is_planned = self.is_in_space()
        if is_planned:
            self.assertEqual(self.estimate("--plan", "plan.json")
                             ["step_time_s"], self.priced["step_time_s"])
        by_plan = is_planned and self.draw.random() < 0.5
        done = self.start(*self.build, *(["--check"] if self.is_checked else
                                         []), "-o", "train",
                          *(["--plan", "plan.json"] if by_plan else flags))
        if done.returncode != 0 and not is_planned:
            # The planner prices heads of keys that ranks have copies of.
            self.assertRegex(done.stderr, r"\A(cleave: note: [^\n]*\n)*"
                             r"cleave: error: [^\n]*--tp \d+: key-value heads "
                             r"[^\n]*legal degrees are [^\n]*\n\Z")
            self.assertEqual(done.returncode, 2)
            self.counts["refused"] += 1
            return
        self.assertEqual(done.returncode, 0, done.stderr)
        self.run_tool(*self.build, "--micro-batch", "1", "-o", "one")
        self.one = self.train("one")
        got = self.check_trained("train", "pipelines" if self.row["pp"] > 1
                                 else "others")
        if self.draw.random() < 0.3:
            self.check_by_hand(got)
        if self.draw.random() < 0.2:
            self.check_best()
        if self.draw.random() < 0.5:
            self.check_aside(got, ["--plan", "plan.json"] if by_plan
                             else flags)

    def check_aside(self, got, layout):
        """The same with communication in streams of its own."""
        self.run_tool(*self.build, *layout, "--overlap", "always", "-o",
                      "aside")
        self.assertEqual(self.train("aside", "--serial"), got)
        self.assertEqual(self.train("aside", "--stream-delays", "7"), got)
        self.counts["with streams"] += 1

    def check_by_hand(self, got):
        """The program's own plan, as a person may write it, and another."""
        plan = rewrite_by_hand(json.loads(self.run_tool(
            "cleave", "inspect", "train", "--json"))["plan"])
        if not plan["mesh"]:
            return
        self.write("hand.json", plan)
        self.run_tool(*self.build, "--plan", "hand.json", "-o", "hand")
        self.assertEqual(self.check_trained("hand", "by hand"), got)
        self.assertEqual(self.estimate("--plan", "hand.json")["step_time_s"],
                         self.priced["step_time_s"])
        plan = draw_other_plan(self.draw, plan, self.layers)
        self.write("other.json", plan)
        self.run_tool(*self.build, "--plan", "other.json", "-o", "other")
        self.check_trained("other", "other plans")

    def check_best(self):
        """What the planner likes best."""
        pins = ["--pin", "pp>1"] if self.row["pp"] > 1 else []
        # No layout with heads that are not copied may be left.
        pins += ["--pin", f"tp={self.row['tp']}"]
        self.run_tool("cleave", "plan", *self.planned, "--runnable", *pins,
                      "-o", "best.json", env=self.env)
        self.run_tool(*self.build, "--plan", "best.json", "-o", "best")
        self.check_trained("best", "best plans")
        self.estimate("--plan", "best.json")

    def check_cases(self, default):
        """As many as the environment says."""
        seed = os.environ.get("CLEAVE_PLAN_SEED")
        count = int(os.environ.get("CLEAVE_PLANS", default))
        for seed in [int(seed)] if seed else range(count):
            self.draw_case(seed)
            with self.subTest(seed=seed, model=json.dumps(self.config),
                              shape=" ".join(self.shape),
                              flags=" ".join(get_flags(self.row))):
                self.check_case()
        if "CLEAVE_PLANS" in os.environ:
            print(dict(self.counts))

    def test_every_plan_trains_as_one_rank(self):
        self.check_cases(16)


if __name__ == "__main__":
    unittest.main()
