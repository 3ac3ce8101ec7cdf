#!/usr/bin/env python3
"""Pipelines: what every layout trains to is what one rank trains to.

CLEAVE_LAYOUTS=all runs all layouts (some 1,600, 40 minutes on two cores), =N
every N-th; without it, every 60-th. Half of them have communication in streams
of its own, and give the bits that they give serially.
"""
import array
import itertools
import json
import math
import os
import unittest

from support import GOLDEN, MPIRUN, ToolTest, make_dataset, read_safetensors

STEPS = 20
RUN = ["--data", "set", "--seed", "3", "--steps", str(STEPS)]
FAMILIES = ["llama3-gqa-tied", "gpt2"]  # 8 layers of each
# Beside pp: what else cuts the step, and over how many ranks of a stage.
WAYS = {
    2: [[], ["--dp", "2"], ["--tp", "2"], ["--tp", "2", "--sequence-parallel"],
        ["--dp", "2", "--zero", "1"], ["--dp", "2", "--zero", "2"],
        ["--dp", "2", "--zero", "3"],
        ["--dp", "4", "--zero", "2", "--shard-group", "2"],
        ["--dp", "4", "--zero", "3", "--shard-group", "2"],
        ["--dp", "2", "--tp", "2", "--zero", "3", "--sequence-parallel"],
        ["--recompute", "full"],
        ["--dp", "2", "--zero", "1", "--recompute", "selective",
         "--recompute-modules", "norms+activation", "--recompute-blocks", "1"],
        ["--stages", "uneven"], ["--stages", "ends"],
        ["--dp", "2", "--zero", "2", "--order", "tp-cp-pp-dp"]],
    4: [[], ["--dp", "2"], ["--tp", "2"], ["--tp", "2", "--sequence-parallel"],
        ["--dp", "2", "--zero", "1"], ["--dp", "2", "--zero", "2"],
        ["--dp", "2", "--zero", "3"], ["--recompute", "full"],
        ["--stages", "uneven"]],
    8: [[], ["--recompute", "full"]],
}
# Fewer than stages, as many, more, and no multiple of them.
MICRO_BATCHES = {2: [1, 2, 4, 3], 4: [2, 4, 8, 5], 8: [3, 8, 16, 9]}
# Virtual stages of a stage, by schedule.
SCHEDULES = {"gpipe": 1, "1f1b": 1, "1f1b-eager": 1, "interleaved": 2,
             "zb-h1": 1, "zb-h2": 1, "zb-v": 2, "dualpipe-v": 2}
# Layers by virtual stages in all; the ends may have none but embedding or head.
STAGES = {"uneven": {2: "3,5", 4: "1,3,2,2"}, "ends": {2: "0,8", 4: "0,3,5,0"}}


def get_layouts():
    """Family, global batch, flags."""
    layouts = []
    for family, pp, schedule in itertools.product(FAMILIES, WAYS, SCHEDULES):
        chunks = SCHEDULES[schedule]
        if pp * chunks > 8:
            continue
        for way, count in itertools.product(WAYS[pp], MICRO_BATCHES[pp]):
            cut = STAGES.get(way[-1], {}) if way else {}
            if "--stages" in way and pp * chunks not in cut:
                continue
            way = [cut[pp * chunks] if flag in STAGES else flag
                   for flag in way]
            dp = int(way[way.index("--dp") + 1]) if "--dp" in way else 1
            layouts.append((family, count * dp, [
                "--pp", str(pp), "--pipeline-schedule", schedule,
                "--virtual-stages", str(chunks), "--micro-batch", "1", *way]))
    return layouts


def read_tensors(content):
    """Arrays of f32 by name."""
    header, data = read_safetensors(content)
    return {name: array.array("f", data[slice(*entry["data_offsets"])])
            for name, entry in header.items()
            if name != "__metadata__" and entry["dtype"] == "F32"}


def norm(values):
    return math.sqrt(math.fsum(x * x for x in values))


class PipelineTest(ToolTest):
    def setUp(self):
        super().setUp()
        index, tokens = make_dataset([300, 50, 650])
        self.write("set.idx", index)
        self.write("set.bin", tokens)
        self.expected = {}

    def make_model(self, family, layers=8):
        with open(f"{GOLDEN}/{family}/config.json") as file:
            config = json.load(file)
        config["n_layer" if "n_layer" in config else "num_hidden_layers"] = \
            layers
        return self.write(f"{family}.json", config)

    def build(self, family, batch, flags, output="train"):
        self.run_tool("cleave", "compile", self.make_model(family),
                      "--seq-len", "16", "--global-batch", str(batch), "--lr",
                      "0.001", "--keep-gradients", *flags, "-q", "-o", output)

    def train(self, *launcher, output="train", flags=()):
        """Losses, and what the first step computed, by name."""
        losses = self.losses(*launcher, f"./{output}", *RUN, *flags)
        self.run_tool(*launcher, f"./{output}", *RUN[:-1], "1", *flags,
                      "--dump-outputs", "dump", "--log-every", "0",
                      "--peak-gflops", "1")
        return losses, read_tensors(self.read("dump"))

    def get_expected(self, family, batch):
        """What one rank trains to."""
        if (family, batch) not in self.expected:
            self.build(family, batch, ["--micro-batch", "1"], "one")
            self.expected[family, batch] = self.train(output="one")
        return self.expected[family, batch]

    def check(self, got, want):
        """Losses within 1e-5, gradients within 2e-5 of their norm, or of a
        hundredth of the norm of all."""
        self.assertEqual(len(got[0]), STEPS)
        for loss, expected in zip(got[0], want[0], strict=True):
            self.assertLess(abs(loss - expected), 1e-5 * expected)
        grads = [name for name in want[1] if name.startswith("grad.")]
        self.assertGreater(len(grads), 20)
        whole = norm(x for name in grads for x in want[1][name])
        for name in grads:
            apart = norm(a - b for a, b in zip(got[1][name], want[1][name],
                                               strict=True))
            self.assertLess(apart, 2e-5 * max(norm(want[1][name]),
                                              1e-2 * whole), name)

    def test_every_layout_trains_as_one_rank(self):
        asked = os.environ.get("CLEAVE_LAYOUTS", "60")
        layouts = get_layouts()
        self.assertGreater(len(layouts), 600)
        every = 1 if asked == "all" else int(asked)
        for number, (family, batch, flags) in enumerate(layouts[::every]):
            # Every other one with communication in streams of its own.
            if number % 2:
                flags = [*flags, "--overlap", "always"]
            with self.subTest(family=family, flags=" ".join(flags)):
                want = self.get_expected(family, batch)
                self.build(family, batch, flags)
                if number % 2 == 0:
                    self.check(self.train(), want)
                    continue
                got = self.train(flags=["--serial"])
                self.check(got, want)
                self.assertEqual(got, self.train(
                    flags=["--stream-delays", str(number)]))

    def test_tied_gradients_meet_behind_the_last_micro_batch(self):
        """What stages send each other then is for no micro-batch, though one of
        them may run it beside its last."""
        family, batch = "llama3-gqa-tied", 4
        self.build(family, batch, ["--pp", "4", "--dp", "2", "--micro-batch",
                                   "1", "--overlap", "always"])
        self.check(self.train(), self.get_expected(family, batch))

    @unittest.skipUnless(os.environ.get("CLEAVE_MPIRUN"), "no MPI")
    def test_processes_give_the_bits_of_threads(self):
        for family, batch, flags in get_layouts()[7::211]:
            with self.subTest(family=family, flags=" ".join(flags)):
                self.build(family, batch, [*flags, "--overlap", "always"])
                ranks = json.loads(self.run_tool(
                    "cleave", "inspect", "train", "--json"))["ranks"]
                self.assertEqual(self.train(), self.train(
                    *MPIRUN, "-n", str(ranks)))

    def test_plans_of_one_stage_and_of_none(self):
        model = self.make_model("gpt2")
        command = ["cleave", "compile", model, "--seq-len", "16",
                   "--global-batch", "2", "--plan", "plan.json", "-o", "train"]
        plan = {"version": 2, "mesh": [{"name": "pp", "size": 1}]}
        for pipeline in {"axis": "pp"}, {"axis": "pp", "layers": [8]}:
            self.write("plan.json", {**plan, "pipeline": pipeline})
            self.run_tool(*command)
        os.remove(self.path("train"))
        for parts, more in [
                ("there is one, which has all",
                 {"pipeline": {"axis": "pp", "first_layers": 8,
                               "last_layers": 1}}),
                ('key "pipeline.axis": expects an axis of the mesh ["pp"=1], '
                 'got "stage"', {"pipeline": {"axis": "stage"}}),
                ('key "pipeline": got "layers" and "first_layers", expects',
                 {"pipeline": {"axis": "pp", "layers": [8], "first_layers": 8,
                               "last_layers": 0}}),
                ('key "recompute": expects what "recompute_blocks" says', {"recompute_blocks": 2})]:
            self.write("plan.json", {**plan, **more})
            self.expect_error(parts, *command)

    def test_what_is_refused(self):
        for parts, flags in [
                ("schedule zb-v has 2 virtual stages of a stage, got 1",
                 ["--pp", "2", "--pipeline-schedule", "zb-v",
                  "--virtual-stages", "1"]),
                ("schedule 1f1b has 1 virtual stage of a stage, got 2",
                 ["--pp", "2", "--virtual-stages", "2"]),
                ("the model has 8 layers, and each virtual stage but the first "
                 "and the last has at least one", ["--pp", "16"]),
                ("got 3, 4, expects 8 in all",
                 ["--pp", "2", "--stages", "3,4"]),
                ("expects one for each of the 2 virtual stages",
                 ["--pp", "2", "--stages", "3,4,1"]),
                ("--stages 8: expects --pp of at least 2", ["--stages", "8"]),
                ("--virtual-stages 2: expects --pp of at least 2",
                 ["--virtual-stages", "2"]),
                ("--first-blocks 3, --last-blocks 5: expects --pp of at least "
                 "2", ["--first-blocks", "3", "--last-blocks", "5"]),
                ("--first-blocks 3: expects --first-blocks and --last-blocks",
                 ["--pp", "2", "--first-blocks", "3"]),
                ("--shard-group 8: expects at most --dp",
                 ["--dp", "4", "--zero", "2", "--shard-group", "8"]),
                ("do not divide dp 4; legal sizes are 1, 2, 4",
                 ["--dp", "4", "--zero", "2", "--shard-group", "3"])]:
            self.expect_error(parts, "cleave", "compile",
                              self.make_model("gpt2"), "--seq-len", "16",
                              "--global-batch", "16", *flags, "-o", "none",
                              code=2)


if __name__ == "__main__":
    unittest.main()
