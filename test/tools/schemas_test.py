#!/usr/bin/env python3
"""The JSON Schemas of docs/schemas and the readers of these files: both accept
every example and everything that the tools write, and both refuse a file once a
key of it is removed, is of another type, or is unknown."""
import copy
import glob
import json
import os
import re
import unittest

import jsonschema

from support import LLAMA, ROOT, TOOLS, ToolTest
from support import SHAPE as LLAMA_SHAPE

HARDWARE = os.path.join(ROOT, "lib", "Hardware", "data")
TINY = os.path.join(ROOT, "examples", "tiny-llama")
SIMULATE = os.path.join(TOOLS, "..", "test", "cuda", "simulate")
SHAPE = ["--seq-len", "64", "--global-batch", "15360"]


def load(*path):
    with open(os.path.join(*path)) as file:
        return json.load(file)


def get_schema(name, part=None):
    schema = load(ROOT, "docs", "schemas", name + ".schema.json")
    jsonschema.Draft202012Validator.check_schema(schema)
    if part:
        schema = {"$defs": schema["$defs"], "$ref": "#/$defs/" + part}
    return jsonschema.Draft202012Validator(schema)


def get_block(section):
    """The JSON example of a section of docs/formats.md."""
    with open(os.path.join(ROOT, "docs", "formats.md")) as file:
        text = file.read()
    body = text[text.index(f"## {section}\n"):].split("\n## ")[0]
    return [json.loads(block)
            for block in re.findall(r"```json\n(.*?)```", body, re.S)]


def get_paths(value, path=()):
    """The paths of all keys, through the first element of each array and the
    first of four collectives."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield path + (key,)
            if key not in ("reduce_scatter", "all_reduce", "all_to_all"):
                yield from get_paths(each, path + (key,))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield from get_paths(value[0], path + (0,))


def get_mutants(value):
    """(what, mutated): each key removed, of another type, or with another
    name."""
    for path in get_paths(value):
        def edit(change):
            mutant = copy.deepcopy(value)
            inside = mutant
            for step in path[:-1]:
                inside = inside[step]
            change(inside, path[-1])
            return mutant

        def rename(inside, key):
            inside[key + "_"] = inside.pop(key)

        yield f"no {path}", edit(lambda inside, key: inside.pop(key))
        yield f"{path} is null", edit(
            lambda inside, key: inside.update({key: None}))
        yield f"{path} is another", edit(rename)


def sample(validator, value):
    """(what, mutated, says): of a value's mutants those that the schema takes,
    which are few, and some 25 of the others; all of them with
    CLEAVE_SCHEMA_MUTANTS=all."""
    mutants = [(*mutant, validator.is_valid(mutant[1]))
               for mutant in get_mutants(value)]
    every = len(mutants) // 25 + 1
    # Of the three that each key has it is in turn another one.
    every += every % 3 == 0
    if os.environ.get("CLEAVE_SCHEMA_MUTANTS") == "all":
        every = 1
    return [mutant for i, mutant in enumerate(mutants)
            if mutant[2] or i % every == 0]


class SchemaTest(ToolTest):
    def check(self, validator, value, name):
        errors = [error.message for error in validator.iter_errors(value)]
        self.assertEqual(errors, [], name)

    def accepts(self, command, expected):
        """Whether a tool reads a file; what it says if not names the file."""
        result = self.start("cleave", *command)
        if result.returncode == 0:
            return True
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(expected, result.stderr, result.stderr)
        return False

    def check_agreement(self, validator, value, name, command, optional):
        """Schema and reader give the same verdict on every mutant. `optional`
        are keys that only some commands can do without."""
        verdicts = set()
        self.write(name, value)
        self.assertTrue(self.accepts(command, name), name)
        for what, mutant, says in sample(validator, value):
            if any(key in what for key in optional):
                continue
            self.write(name, mutant)
            self.assertEqual(self.accepts(command, name), says,
                             f"{name}: {what}: the schema says {says}")
            verdicts.add(says)
        self.assertEqual(verdicts, {True, False})

    def test_every_cluster_that_there_is(self):
        validator = get_schema("cluster")
        files = glob.glob(os.path.join(ROOT, "examples", "clusters", "*.json"))
        self.assertGreaterEqual(len(files), 3)
        for path in files + glob.glob(os.path.join(HARDWARE, "machines", "*")):
            self.check(validator, load(path), path)
        for value in get_block("cluster.json"):
            self.check(validator, value, "docs/formats.md")
            self.write("cluster.json", value)
            if "device" in value or "groups" in value:
                self.run_tool("cleave", "estimate", TINY, *SHAPE, "--cluster",
                              "cluster.json")
        for folder, part in [("devices", "whole_device"),
                             ("links", "whole_link")]:
            for path in glob.glob(os.path.join(HARDWARE, folder, "*")):
                self.check(get_schema("cluster", part), load(path), path)

    def test_names_are_those_of_the_built_in_files(self):
        definitions = load(ROOT, "docs", "schemas",
                           "cluster.schema.json")["$defs"]
        for part, folder in [("device", "devices"), ("link", "links")]:
            names = sorted(os.path.splitext(name)[0] for name
                           in os.listdir(os.path.join(HARDWARE, folder)))
            self.assertEqual(definitions[part]["then"]["enum"], names)
            self.assertEqual(
                definitions[part + "_change"]["properties"]["base"]["enum"],
                names)

    def test_fields_of_a_layout_are_those_of_estimate(self):
        layout = load(ROOT, "docs", "schemas",
                      "plan.schema.json")["$defs"]["layout"]["properties"]
        help_text = self.run_tool("cleave", "estimate", "--help",
                                  env=dict(os.environ, COLUMNS="1000"))
        fields = re.findall(r"--(\S+) (?:TEXT)? +(.*)",
                            help_text[help_text.index("\nLayout"):])
        self.assertEqual({name.replace("-", "_") for name, _ in fields}
                         - {"batch", "trace"}, set(layout))
        for name, meaning in fields:
            names = re.search("one of (.*)", meaning)
            if names and name != "sequence-parallel":
                self.assertEqual(layout[name.replace("-", "_")]["enum"],
                                 names[1].split(", "))

    def test_schema_and_reader_of_clusters_agree(self):
        validator = get_schema("cluster")
        device = load(HARDWARE, "devices", "h100-sxm.json")
        link = load(HARDWARE, "links", "nvlink4.json")
        # One of each kind is enough.
        device["matrix"] = {"bf16": device["matrix"]["bf16"]}
        device["attention"] = dict([device["attention"].popitem()])
        storage = {"value": 1e11, "unit": "byte/s", "source": "test"}
        command = ["estimate", TINY, *SHAPE, "--cluster", "cluster.json"]
        clusters = [
            {"version": 1, "name": "whole", "device": device, "nodes": 2,
             "devices_per_node": 4, "storage_bandwidth": storage,
             "levels": [{"size": 4, "link": link},
                        {"size": 0, "link": "ib-ndr400",
                         "oversubscription": 2}]},
            {"version": 1,
             "groups": [{"device": {"base": "h100-sxm",
                                    "memory": device["memory"],
                                    "matrix": {"bf16": {
                                        "peak":
                                        device["matrix"]["bf16"]["peak"]}}},
                         "nodes": 2, "devices_per_node": 4},
                        {"device": "a100-80", "devices_per_node": 8}],
             "levels": [{"size": 0,
                         "link": {"base": "ib-ndr400",
                                  "latency": link["latency"]}}]},
        ]
        for cluster in clusters:
            # What planning needs, but not compiling.
            self.check_agreement(validator, cluster, "cluster.json", command,
                                 ["('device',)", "('groups',)", "('levels',)"])

    def test_schema_and_reader_of_plans_agree(self):
        validator = get_schema("plan")
        for value in get_block("plan.json"):
            self.check(validator, value, "docs/formats.md")
            command = ["compile", LLAMA, *LLAMA_SHAPE, "--plan", "plan.json",
                       "-q", "-o", "train"]
            self.write("plan.json", value)
            self.assertTrue(self.accepts(command, "plan.json"))
            verdicts = set()
            for what, mutant, says in sample(validator, value):
                self.write("plan.json", mutant)
                done = self.start("cleave", *command)
                # A legal plan may still be none for this model.
                is_legal = not re.search(
                    r'unknown key|key "\S+": (value .*: )?expects|'
                    "got .*, expects", done.stderr)
                self.assertEqual(says, is_legal, what + done.stderr)
                verdicts.add(is_legal)
            self.assertEqual(verdicts, {True, False})

    def test_schema_and_reader_of_recipes_agree(self):
        validator = get_schema("recipe")
        command = ["plan", TINY, *SHAPE, "--cluster", "h100-sxm:8", "--recipe",
                   "recipe.json"]
        for value in [*get_block("recipe.json"), load(TINY, "recipe.json")]:
            self.check(validator, value, "recipe.json")
            self.check_agreement(validator, value, "recipe.json", command, [])
        # Every key is in an example, and every value has the same verdict.
        blocks = get_block("recipe.json")
        self.assertEqual(set().union(*blocks),
                         set(load(ROOT, "docs", "schemas",
                                  "recipe.schema.json")["properties"]))
        values = [-1, 0, 0.5, 1, 2.0, 1e12, "f32", "fp8", "wsd", "lion", "on",
                  "auto", "none", "even", "gpipe", "ring", "tp-pp-cp-dp",
                  "norms+up", "", True, False, [], ["a"], ["a", 1], {}]
        for i, (key, whole) in enumerate({key: block for block in blocks
                                          for key in block}.items()):
            says = [(value, validator.is_valid(dict(whole, **{key: value})))
                    for value in values]
            legal = [pair for pair in says if pair[1]]
            # Of the many illegal values each key gets others.
            illegal = [pair for pair in says if not pair[1]][i % 6::6]
            self.assertTrue(legal and illegal, key)
            for value, verdict in legal + illegal:
                self.write("recipe.json", dict(whole, **{key: value}))
                self.assertEqual(self.accepts(command, "recipe.json"), verdict,
                                 f"{key}: {value}: the schema says {verdict}")
        # A plan is a whole layout.
        for key, block in [("tp", 0), ("sequence_parallel", 0), ("order", 2)]:
            both = dict(blocks[1], **{key: blocks[block][key]})
            self.write("recipe.json", both)
            self.assertFalse(validator.is_valid(both))
            self.assertFalse(self.accepts(command, "recipe.json"))

    def test_schema_and_reader_of_profiles_agree(self):
        validator = get_schema("profile")
        folder = os.path.join(ROOT, "lib", "Ledger", "data", "profiles")
        for path in glob.glob(os.path.join(folder, "*.json")):
            self.check(validator, load(path), path)
        command = ["estimate", TINY, *SHAPE, "--cluster", "h100-sxm:8",
                   "--profile", "profile.json"]
        whole = load(folder, "megatron-a100.json")
        del whole["match"]
        whole.update(tensor=True, sequence_parallel=False,
                     zero_with_pipeline=[0])
        self.check_agreement(validator, whole, "profile.json", command, [])
        for key in ["schedules", "context", "zero", "zero_with_pipeline",
                    "tensor"]:
            verdicts = set()
            for bad in [[], [0], [4], [-1], [1.5], ["ring"], ["gpipe"],
                        ["zb"], [None], "1f1b", 1, None, True, {}]:
                mutant = dict(whole, **{key: bad})
                says = validator.is_valid(mutant)
                self.write("profile.json", mutant)
                self.assertEqual(self.accepts(command, "profile.json"), says,
                                 f"{key}: {bad}: the schema says {says}")
                verdicts.add(says)
            self.assertEqual(verdicts, {True, False}, key)

    def test_what_the_tools_write(self):
        plan = get_schema("plan")
        for flags in [["--cluster", "h100-sxm:8"],
                      ["--cluster", "gb200-nvl72:144", "--top", "3", "--pin",
                       "tp<=2", "--forbid", "pp>4", "--memory", "20"],
                      ["--cluster", "h100-sxm:8", "--pin",
                       "recompute=selective"],
                      ["--cluster", "b200:8", "--objective", "cost"],
                      ["--cluster", "b200:8", "--objective", "memory"]]:
            shape = ["--seq-len", "64", "--global-batch", "144"]
            self.run_tool("cleave", "plan", TINY, *shape, *flags, "-o",
                          "plan.json")
            written = json.loads(self.read("plan.json"))
            self.check(plan, written, str(flags))
            for what, mutant in get_mutants(written):
                if not re.match(
                        r"no .*'(cleave|top|pin|forbid|memory_limit)'", what):
                    self.assertFalse(plan.is_valid(mutant), what)
        # What explain needs of a plan, the schema asks for.
        self.run_tool("cleave", "plan", TINY, *SHAPE, "--cluster", "h100-sxm:8",
                      "-o", "plan.json")
        written = json.loads(self.read("plan.json"))
        command = ["explain", TINY, "--cluster", "h100-sxm:8", "--plan",
                   "plan.json"]
        refused = 0
        for what, mutant in get_mutants(written):
            self.write("plan.json", mutant)
            if not self.accepts(command, "plan.json"):
                refused += 1
                self.assertFalse(plan.is_valid(mutant), what)
        self.assertGreater(refused, 20)

    def test_what_calibrate_writes(self):
        self.run_tool("cleave", "calibrate", "-q", "-o", "local.json",
                      timeout=540)
        written = json.loads(self.read("local.json"))
        self.check(get_schema("cluster"), written, "calibrate")
        for dtype in "f32", "bf16":
            self.run_tool("cleave", "plan", TINY, *SHAPE, "--cluster",
                          "local.json", "--dtype", dtype)

    def test_what_calibrate_writes_of_a_gpu(self):
        """Of one that is made of software: what is measured says so."""
        done = self.start(SIMULATE, "--", os.path.join(TOOLS, "cleave"),
                          "calibrate", "--cluster", "h200:4",
                          "--largest-product", "4e7", "-o", "gpu.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("simulated CUDA:", done.stderr)
        written = json.loads(self.read("gpu.json"))
        self.check(get_schema("cluster"), written, "calibrate")
        device = written["device"]
        self.assertEqual(device["base"], "h200")
        constants = [device["memory_efficiency"]]
        for dtype in "f32", "bf16":
            self.assertEqual(set(device["matrix"][dtype]),
                             {"efficiency", "tile_startup", "launch",
                              "memory_efficiency"})
            constants += device["matrix"][dtype].values()
        for each in constants:
            self.assertGreater(each["value"], 0)
            self.assertIn("simulated GPU (no hardware)", each["source"])
        # Links and the rest are the preset's.
        preset = load(HARDWARE, "machines", "h200.json")
        self.assertEqual(written["levels"], preset["levels"])
        times = {}
        for cluster in "h200:4", "gpu.json":
            found = json.loads(self.run_tool(
                "cleave", "estimate", TINY, *SHAPE, "--cluster", cluster,
                "--json"))
            self.assertEqual(found["layout"]["dp"], 4)
            times[cluster] = found["step_time_s"]
        self.assertNotEqual(times["h200:4"], times["gpu.json"])


if __name__ == "__main__":
    unittest.main()
