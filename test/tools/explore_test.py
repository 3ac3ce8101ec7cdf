#!/usr/bin/env python3
"""cleave explore: what it shows is what the compiler would choose, adds up, and
answers why."""
import json
import os
import re
import unittest
import xml.etree.ElementTree as tree

from report_test import Balance
from support import DATA, GOLDEN, LLAMA, ROOT, ToolTest

# A machine on which the small model's ops are not all but free.
STEP = ["explore", "model.json", "--cluster", "h100-sxm:4", "--mesh", "dp=2,tp=2",
        "--seq-len", "128", "--global-batch", "512", "--micro-batches", "2",
        "--dtype", "bf16"]
TACTICS = """split "batch" over dp
split "heads" over tp
split "intermediate" over tp
split "vocab" over tp
keep optimizer over dp
"""


def count_layers(kind):
    """Of a kind of layers; 1 of what is of no layer."""
    return kind.get("last_layer", 0) - kind.get("first_layer", 0) + 1


class ExploreTest(ToolTest):
    def setUp(self):
        super().setUp()
        with open(os.path.join(LLAMA, "config.json")) as file:
            self.write("model.json", {**json.load(file),
                                      "num_hidden_layers": 1})

    def explore(self, *flags):
        return self.run_tool("cleave", *STEP, *flags)

    def explore_json(self, *flags):
        return json.loads(self.explore("--json", *flags))

    def check_sums(self, strategy):
        moves = ops = 0
        for kind in strategy["kinds"]:
            layers = count_layers(kind)
            for op in kind["ops"]:
                ops += layers * op["seconds"]
                moves += layers * sum(
                    move["times"] * step["seconds"]
                    for move in op["moves"] for step in move["steps"])
        self.assertAlmostEqual(ops, strategy["compute_seconds"], delta=1e-9)
        self.assertAlmostEqual(ops + moves, strategy["seconds"], delta=1e-9)
        collectives = sum(each["seconds"] for each in strategy["collectives"])
        self.assertAlmostEqual(moves, collectives, delta=1e-9)
        self.assertAlmostEqual(sum(strategy["kept_bytes"].values()),
                               strategy["bytes"], delta=1)
        self.assertLessEqual(strategy["least_seconds"], strategy["seconds"])
        # Some of what is moved is beside compute.
        self.assertLess(strategy["beside_seconds"], strategy["seconds"])
        self.assertGreaterEqual(strategy["beside_seconds"],
                                strategy["compute_seconds"])

    def test_strategies_add_up(self):
        self.write("a.tactics", TACTICS)
        found = self.explore_json("--tactics", "a.tactics", "--front", "3",
                                  "--report", "front.html")
        self.assertIn("<h2>Less memory, more time</h2>",
                      self.read("front.html").decode())
        self.assertEqual(found["mesh"], "dp=2,tp=2")
        free, told, *front = found["strategies"]
        for strategy in found["strategies"]:
            self.check_sums(strategy)
        self.assertLessEqual(free["beside_seconds"], told["beside_seconds"])
        # On the front less memory takes more time, one after the other.
        self.assertGreater(len(front), 1)
        self.assertLessEqual(front[0]["seconds"], free["seconds"])
        for small, large in zip(front[1:], front):
            self.assertLess(small["bytes"], large["bytes"])
            self.assertGreater(small["seconds"], large["seconds"])
        # What the tactics say is what is done, and they are named.
        ops = {(op["op"], op.get("pass"), op.get("keeps")): op
               for kind in told["kinds"] for op in kind["ops"]}
        up = ops["xf.linear (layers.0.up)", "forward", None]
        self.assertIn("intermediate {tp}", up["splits"])
        self.assertIn("batch {dp}", up["splits"])
        self.assertEqual(up["held_by"],
                         'a.tactics:3, split "intermediate" over tp')

    def test_the_text(self):
        text = self.explore()
        self.assertRegex(text, r"\A1: chosen by cost: [\d.]+ ms a step; [\d.]+ ms "
                         r"with nothing beside compute, no choice takes less")
        self.assertIn("mesh dp=2,tp=2 of h100-sxm, 512 x 128 tokens in 2 "
                      "micro-batches", text)
        for name in ["attention", "up", "down", "norm1"]:
            self.assertRegex(text, rf"(?m)^  forward +{name} ")

    def test_nothing_beside_compute(self):
        text = self.explore("--overlap", "never")
        self.assertRegex(text, r"\A1: chosen by cost: [\d.]+ ms a step, no "
                         r"choice takes less")
        alone = self.explore_json("--overlap", "never")["strategies"][0]
        self.assertEqual(alone["beside_seconds"], alone["seconds"])
        for each in alone["collectives"]:
            self.assertAlmostEqual(each["exposed_seconds"], each["seconds"],
                                   delta=1e-12)
        beside = self.explore_json()["strategies"][0]
        self.assertLess(beside["beside_seconds"], alone["seconds"])
        self.assertGreaterEqual(beside["seconds"], alone["seconds"])

    def test_a_plan_with_a_pipeline(self):
        """Of one stage's mesh; the first of two stages keeps more micro-batches
        than there would be without."""
        def plan(pipeline, sizes):
            return json.dumps({
                "version": 2, "micro_batches": 4, **pipeline, "mesh": [
                    {"name": name, "size": size} for name, size in sizes]})
        with open(os.path.join(LLAMA, "config.json")) as file:
            self.write("two.json", {**json.load(file), "num_hidden_layers": 2})
        step = ["explore", "two.json", "--cluster", "h100-sxm:4", "--seq-len",
                "128", "--global-batch", "512", "--json"]
        self.write("pp.json", plan(
            {"pipeline": {"axis": "pp", "schedule": "gpipe"}},
            [("pp", 2), ("dp", 2)]))
        self.write("dp.json", plan({}, [("dp", 2)]))
        staged, flat = (
            json.loads(self.run_tool("cleave", *step, "--plan", file))
            for file in ["pp.json", "dp.json"])
        self.assertEqual(staged["mesh"], "pp=1,dp=2")
        self.assertEqual(staged["micro_batches"], 4)
        kept = [each["strategies"][0]["kept_bytes"] for each in [staged, flat]]
        # Half of the layers, four times as much of each.
        self.assertGreater(kept[0]["activations"], 1.5 * kept[1]["activations"])
        self.assertLess(kept[0]["optimizer"], kept[1]["optimizer"])
        self.expect_error(["--plan", "excludes", "--mesh"], "cleave", *step,
                          "--plan", "dp.json", "--mesh", "dp=2", code=2)

    def test_differences(self):
        self.write("a.tactics", TACTICS)
        text = self.explore("--tactics", "a.tactics", "--compare", "1,2")
        self.assertRegex(text, r"\Afrom chosen by cost \(.*\)\n"
                         r"to of a\.tactics \(.*\)\n")
        self.assertIn("intermediate {tp}", text)
        self.write("b.tactics", TACTICS)
        same = self.explore("--tactics", "a.tactics", "--tactics", "b.tactics",
                            "--compare", "2,3")
        self.assertTrue(same.endswith("no op differs\n"), same)
        found = self.explore_json("--tactics", "a.tactics", "--compare", "1,2")
        for each in found["differences"]:
            self.assertNotEqual(
                {**each["from"], "held_by": 0}, {**each["to"], "held_by": 0})

    def test_why(self):
        self.write("a.tactics", TACTICS)
        text = self.explore("--tactics", "a.tactics", "--op", "layers.0.up")
        forward = text.split("\n\n")[0]
        self.assertRegex(forward, r"\Axf.linear \(layers.0.up\), forward: "
                         r"splits batch {dp}, intermediate {tp}")
        self.assertIn('held by a.tactics:3, split "intermediate" over tp',
                      forward)
        # Others may be cheaper, since tactics hold them off.
        self.assertRegex(forward, r"(?m)^  batch {dp}, \S+ {tp} .* tactics$")
        free = self.explore("--op", "layers.0.up").split("\n\n")[0]
        self.assertNotIn("tactics", free)
        costs = [float(line.split()[-2]) for line in free.splitlines()[1:]
                 if re.match(r"  \w+ \{", line)]
        self.assertGreater(len(costs), 3)
        # Of what is chosen freely none is cheaper, and the next best is first.
        self.assertEqual(costs, sorted(costs))
        self.assertGreaterEqual(costs[0], 0)

    def test_the_page(self):
        self.write("a.tactics", TACTICS)
        self.explore("--tactics", "a.tactics", "--report", "page.html")
        text = self.read("page.html").decode()
        balance = Balance()
        balance.feed(text)
        self.assertEqual(balance.open, [])
        self.assertEqual(balance.references, [])
        self.assertEqual(len(balance.ids), len(set(balance.ids)))
        page = tree.fromstring(text.removeprefix("<!DOCTYPE html>"))
        headings = ["".join(each.itertext()) for each in page.iter("h2")]
        self.assertEqual(headings, ["1: chosen by cost", "2: of a.tactics"])
        drawn = 0
        for svg in page.iter("svg"):
            width, height = float(svg.get("width")), float(svg.get("height"))
            names = [text.text for text in svg.iter("text")
                     if text.get("class") == "node"]
            drawn += "attention" in names
            for box in svg.iter("rect"):
                x, y, w, h = (float(box.get(key))
                              for key in ["x", "y", "width", "height"])
                self.assertLessEqual(0, x)
                self.assertLessEqual(x + w, width)
                self.assertLessEqual(y + h, height)
        self.assertGreaterEqual(drawn, 4)
        moved = [each for each in page.iter("text")
                 if each.get("class") == "move"]
        self.assertTrue(any("all_reduce {tp}" in each.text
                            or "reduce_scatter {tp}" in each.text
                            for each in moved))
        again = self.explore("--tactics", "a.tactics", "--report", "-")
        self.assertEqual(again, text)

    def test_tactics_of_the_document(self):
        with open(os.path.join(ROOT, "docs", "sharding.md")) as file:
            text = file.read()
        block, = re.findall(r"```\n(# Megatron-LM.*?)```", text, re.S)
        self.write("doc.tactics", block)
        model = os.path.join(ROOT, "examples", "tiny-llama")
        text = self.run_tool(
            "cleave", "explore", model, *STEP[2:6], "--seq-len", "128",
            "--global-batch", "8", "--tactics", "doc.tactics", "--op",
            "layers.0.q")
        self.assertRegex(text, r"\(layers\.0\.q\), forward: splits .*, "
                         r"\[\{dp\}, \{\}, \{tp\}, \{\}\]\n")

    def test_layers_that_do_the_same_are_shown_once(self):
        """Two whose attention has a window, behind two without."""
        with open(os.path.join(GOLDEN, "qwen2", "config.json")) as file:
            config = json.load(file)
        config.pop("layer_types", None)
        config.update(num_hidden_layers=4, use_sliding_window=True,
                      sliding_window=64, max_window_layers=2,
                      max_position_embeddings=4096)
        self.write("window.json", config)
        explored = json.loads(self.run_tool(
            "cleave", "explore", "window.json", "--cluster", "h100-sxm:1",
            "--seq-len", "4096", "--global-batch", "8", "--overlap", "never",
            "--json"))
        strategy, = explored["strategies"]
        layers = [(kind["first_layer"], kind["last_layer"])
                  for kind in strategy["kinds"] if "first_layer" in kind]
        self.assertEqual(layers[0], (0, 1))
        self.assertEqual(layers[-1][1], 3)
        seconds = sum(count_layers(kind) * op["seconds"]
                      for kind in strategy["kinds"] for op in kind["ops"])
        self.assertAlmostEqual(seconds, strategy["compute_seconds"], delta=1e-9)

    def test_parameters_that_are_gathered(self):
        """In f32 what is held is what was moved."""
        self.write("a.tactics", 'split "batch" over dp\n'
                   "keep optimizer over dp\nsplit nothing else\n")
        command = ["cleave", *STEP[:-1], "f32", "--tactics", "a.tactics"]
        explored = json.loads(self.run_tool(*command, "--json"))
        strategy = explored["strategies"][1]
        held = sum(count_layers(kind) * op["bytes"]
                   for kind in strategy["kinds"] for op in kind["ops"]
                   if op.get("keeps") == "parameters")
        self.assertGreater(held, 0)
        self.assertAlmostEqual(held, strategy["kept_bytes"]["parameters"],
                               delta=1)
        text = self.run_tool(*command)
        self.assertRegex(text.split("\n2: ")[1],
                         r"parameters +self_attn\.q_proj\.weight .*all_gather")

    def test_what_does_not_fit_says_so(self):
        model = os.path.join(DATA, "configs", "llama-3.1-8b.json")
        for batch, is_enough in (16, True), (32, False):
            text = self.run_tool(
                "cleave", "explore", model, "--cluster", "h100-sxm:8", "--mesh",
                "dp=2,tp=4", "--seq-len", "4096", "--global-batch", str(batch))
            said = "too few: nothing was found that fits" in text
            self.assertEqual(said, not is_enough, text[:300])

    def test_bad_input(self):
        small = ["cleave", *STEP[:4], "--seq-len", "16", "--global-batch", "4"]
        self.write("a.tactics", 'split "heads" over xp\n')
        for code, part, *flags in [
                (2, "--mesh dp=8: has 8 ranks, --cluster h100-sxm:4 has 4",
                 "--mesh", "dp=8"),
                (2, "--micro-batches 3: expects a divisor of --global-batch 4",
                 "--micro-batches", "3"),
                (2, "--compare 3: expects numbers from 1 to 1", "--compare",
                 "1,3"),
                (2, "no op is called so; there are", "--op", "nothing.*"),
                (2, "--report -: writes to standard output, as --json and --op",
                 "--report", "-", "--json"),
                (1, 'a.tactics:1: the mesh has no axis "xp"; it has devices',
                 "--tactics", "a.tactics"),
                (1, "b.tactics: No such file or directory", "--tactics",
                 "b.tactics"),
                (1, "what is kept takes at least", "--memory", "0.0001")]:
            self.expect_error(part, *small, *flags, code=code)


if __name__ == "__main__":
    unittest.main()
