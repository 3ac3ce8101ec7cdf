#!/usr/bin/env python3
"""What people write wrong: configs, plans, clusters and flags. Each is one
message that names the place, the value and what is legal. The parser of configs
has tests of its own; here is the way through the tool."""
import json
import os
import unittest

from support import GOLDEN, LLAMA, PLAN, SHAPE, ToolTest

DEEP = "[" * 1000000
CLUSTER = {"version": 1, "nodes": 2, "devices_per_node": 2}


class BadInputTest(ToolTest):
    def compile_fails(self, parts, *flags, model=LLAMA, shape=SHAPE, code=1):
        self.expect_error(parts, "cleave", "compile", model, *shape, *flags,
                          "-o", "out", code=code)

    def test_configs(self):
        with open(os.path.join(LLAMA, "config.json")) as file:
            config = json.load(file)

        def fails(parts, content):
            self.write("config.json", content)
            for command in [["import"], ["compile", *SHAPE, "-o", "out"]]:
                self.expect_error(["config.json: "] + parts, "cleave",
                                  command[0], "config.json", *command[1:])

        text = json.dumps(config)
        for end in [0, 1, len(text) // 2, len(text) - 1]:
            fails(["not valid JSON"], text[:end])
        fails(["not valid JSON"], "hello")
        fails(["not valid JSON"], b"\x7fELF\0\xff")
        fails(["a config is a JSON object"], "[]")
        fails(["nested deeper than 64"], DEEP)
        fails(["nested deeper than 64"], '{"a":' * 1000000)
        fails(["16 MiB"], text + " " * (1 << 24))
        for value in [-1, 0, 10**9, 10**30, 1.5, "64", None, [], {}, True]:
            fails(['key "hidden_size"', "legal: an integer in 1.."],
                  dict(config, hidden_size=value))
        for key in ["hidden_size", "num_attention_heads", "num_hidden_layers",
                    "vocab_size", "intermediate_size"]:
            fails([f'key "{key}" is missing', "legal: "],
                  {k: v for k, v in config.items() if k != key})
        fails(['"hidden_size"', "65", "num_attention_heads", "8"],
              dict(config, hidden_size=65))
        fails(['"model_type"', '"mamba"', "supported are gpt2"],
              dict(config, model_type="mamba"))
        fails(['"hidden_act"', '"swish9"', "supported are gelu"],
              dict(config, hidden_act="swish9"))
        fails(['"rope_scaling.rope_type"', '"foo"', "supported are default"],
              dict(config, rope_scaling={"rope_type": "foo", "factor": 2}))

    def test_there_is_no_such_model(self):
        for path in ["none", "none/config.json", "."]:
            self.compile_fails(["No such file"], model=path)
        os.mkfifo(self.path("pipe"))
        self.compile_fails(["pipe: not a regular file"], model="pipe")

    def test_a_name_of_the_hub(self):
        """Every command that takes a model says how to get it."""
        plan = ["--seq-len", "16", "--global-batch", "4", "--cluster",
                "h100-sxm:8"]
        commands = [["import"], ["compile", *SHAPE, "-o", "out"],
                    ["train", *SHAPE, "--", "--data", "x", "--steps", "1"], ["plan", *plan],
                    ["estimate", *plan],
                    ["explain", "--plan", "plan.json", *plan[4:]]]
        self.run_tool("cleave", "plan", os.path.join(LLAMA, "config.json"),
                      *plan, "-o", "plan.json")
        for command, *flags in commands:
            self.expect_error(
                ["Qwen/Qwen3-0.6B: No such file", "config.json",
                 "hf download Qwen/Qwen3-0.6B config.json --local-dir "
                 "Qwen3-0.6B", '--include "*.safetensors*"'],
                "cleave", command, "Qwen/Qwen3-0.6B", *flags)
        # Paths, and what no shell should be given.
        os.mkdir(self.path("Qwen"))
        for name in ["Qwen/Qwen3-0.6B", "a/b/c", "a/", "/a", "./a", "-a/b",
                     "a;b/c", "a/c.json", "gpt2"]:
            done = self.start("cleave", "import", "--", name)
            self.assertEqual(done.returncode, 1)
            self.assertNotIn("hf download", done.stderr)

    def test_positions_are_as_many_as_the_config_says(self):
        self.compile_fails(["positions"], model=os.path.join(GOLDEN, "gpt2"),
                           shape=["--seq-len", "4096", "--global-batch", "4"])

    def test_numbers_on_the_command_line(self):
        for flag in ["--dp", "--tp", "--micro-batch"]:
            for value in ["0", "-1", "x", "1.5", "", "2147483648", "9" * 30]:
                self.compile_fails([f'{flag}: "{value}" is not an integer in '
                                    "1..2147483647"], flag, value, code=2)
        for flag in ["--seq-len", "--global-batch"]:
            for value in ["0", "-1", "x", "2147483648"]:
                shape = list(SHAPE)
                shape[shape.index(flag) + 1] = value
                self.compile_fails([f'{flag}: "{value}"', "1..2147483647"],
                                   shape=shape, code=2)
        for value in ["-1", "4", "x"]:
            self.compile_fails(["--zero: ", value, "{0,1,2,3}"], "--zero", value,
                               code=2)
        for flag in ["--lr", "--min-lr", "--weight-decay", "--clip"]:
            for value in ["nan", "inf", "-1", "x"]:
                self.compile_fails([f'{flag}: "{value}" is not a finite number '
                                    "of at least 0"], flag, value, code=2)
        for flag in ["--beta1", "--beta2"]:
            for value in ["-0.1", "1", "nan"]:
                self.compile_fails([f'{flag}: "{value}"', "below 1"], flag,
                                   value, code=2)
        self.compile_fails(['--eps: "0"', "above 0"], "--eps", "0", code=2)
        for flag in ["--warmup-steps", "--decay-steps", "--stable-steps"]:
            self.compile_fails([f'{flag}: "-1"', "0..2147483647"], flag, "-1",
                               code=2)
        self.compile_fails(["--stable-steps 3", "wsd"], "--stable-steps", "3",
                           code=2)

    def test_sizes_that_no_memory_has(self):
        self.compile_fails(["2^63 bytes"],
                           shape=["--seq-len", "2147483647", "--global-batch",
                                  "2147483647"])

    def test_names_on_the_command_line(self):
        for flag, value, legal in [
                ("--lr-schedule", "step", "{constant,cosine,linear,wsd}"),
                ("--dtype", "f16", "{f32,bf16}"),
                ("--dump-after-stage", "emit", "{grad,plan,recompute,")]:
            self.compile_fails([flag, value, legal], flag, value, code=2)
        self.compile_fails(["--fast"], "--fast", code=2)
        self.compile_fails(["extra"], "extra", code=2)
        self.expect_error(['unknown command "build"', "cleave --help"],
                          "cleave", "build", code=2)
        self.expect_error("subcommand is required", "cleave", code=2)
        for command in ["import", "compile", "train", "parity", "inspect"]:
            self.expect_error([f"see cleave {command} --help"], "cleave",
                              command, code=2)
        self.expect_error("expects --data and --steps after --", "cleave",
                          "train", LLAMA, *SHAPE, code=2)

    def test_layouts_that_do_not_divide(self):
        def fails(parts, *flags, **options):
            self.compile_fails(parts, *flags, code=2, **options)

        gqa = os.path.join(GOLDEN, "llama3-gqa-tied")
        fails(["--tp 3: attention heads (8)", "3 ways",
               "legal degrees are 1, 2, 4, 8"], "--tp", "3")
        fails(["--tp 4: key-value heads (2)", "4 ways",
               "legal degrees are 1, 2"], "--tp", "4", model=gqa)
        fails(["--tp 2: sequence length (15)", "legal degrees are 1, 3, 5"],
              "--tp", "2", "--sequence-parallel",
              shape=["--seq-len", "15", "--global-batch", "4"])
        fails(["--dp 3: global batch 4", "legal degrees are 1, 2, 4"], "--dp",
              "3")
        fails(["--micro-batch 3: global batch 4", "micro-batch 3 x dp 1 = 3"],
              "--micro-batch", "3")

    def test_plans(self):
        def fails(parts, plan, *flags, model=LLAMA, code=1):
            self.write("plan.json", plan)
            self.compile_fails(parts, "--plan", "plan.json", *flags,
                               model=model, code=code)

        def changed(**keys):
            return dict(PLAN, **keys)

        def axes(*sizes):
            return [{"name": name, "size": size}
                    for name, size in zip(["dp", "tp"], sizes)]

        for content in ["", "{", "hello", json.dumps(PLAN)[:-1]]:
            fails(["plan.json: not valid JSON"], content)
        for content in [DEEP, '{"mesh":' * 1000000]:
            fails(["plan.json: nested deeper than 64"], content)
        fails(["plan.json: expects an object"], "[]")
        fails(['unknown key "zero"', "legal keys are version, cleave, layout, mesh"],
              changed(zero=1))
        fails(['unknown key "dims.experts"', "legal keys are batch"],
              changed(dims={"experts": ["dp"]}))
        fails(['unknown key "keep.weights"', "legal keys are optimizer"],
              changed(keep={"weights": ["dp"]}))
        fails(['"version"', "got 1", "expects 2"], changed(version=1))
        fails(['"version": expects 2, but it is missing'],
              {"mesh": axes(2, 2)})
        fails(['"mesh"'], {"version": 2})
        fails(['"mesh": excludes "layout"'], changed(layout={"tp": 2}))
        fails(['"layout": unknown key "tpp", expects one of tp, cp'],
              {"version": 2, "layout": {"tpp": 2}})
        fails(['"layout": key "zero": value 4: expects'],
              {"version": 2, "layout": {"zero": 4}})
        fails(['"layout": expects an object'], {"version": 2, "layout": 3})
        fails(['"layout": cp 2: what is compiled has cp=1 so far'],
              {"version": 2, "layout": {"cp": 2}})
        fails(['"layout": global batch 4', "dp 3"],
              {"version": 2, "layout": {"dp": 3}})
        fails(['"model": expects a text, but it is missing'],
              {"version": 2, "layout": {"dp": 2}, "seq_len": 16})
        fails(['"mesh"'], changed(mesh={}))
        fails(['"mesh.size"', "got 0"], changed(mesh=axes(0, 2)))
        fails(["at most 2147483647 ranks"], changed(mesh=axes(65536, 65536)))
        fails(['"dp"', "once"], changed(mesh=axes(2) + axes(2)))
        fails(['"mesh"', "letters, digits and _"],
              changed(mesh=[{"name": "d p", "size": 2}]))
        fails(['"micro_batches"', "got 0"], changed(micro_batches=0))
        fails(['"micro_batches"', 'got "2"'], changed(micro_batches="2"))
        for key in ["dims", "keep"]:
            for value in [[], None, 3, "dp"]:
                fails([f'"{key}"', "expects an object"], changed(**{key: value}))
        fails(['"dims.batch"', 'got "pp"', '["dp"=2, "tp"=2]'],
              changed(dims={"batch": ["pp"]}))
        fails(['"dims.batch"', "a list of mesh axes"], changed(dims={"batch": "dp"}))
        fails(['"dims.batch"', "each axis once"],
              changed(dims={"batch": ["dp", "dp"]}))
        fails(['axis "tp" splits both "hidden" and "heads"'],
              changed(dims={"heads": ["tp"], "hidden": ["tp"]}))
        # Right for another model, or for another batch.
        gqa = os.path.join(GOLDEN, "llama3-gqa-tied")
        fails(["plan.json: key-value heads (2)", "legal degrees are 1, 2"],
              changed(mesh=axes(1, 4)), model=gqa)
        fails(["plan.json: hidden size (64)", "3 ways"],
              changed(mesh=axes(1, 3), dims={"hidden": ["tp"]}))
        fails(["plan.json: head size (8)", "3 ways"],
              changed(mesh=axes(1, 3), dims={"head_dim": ["tp"]}))
        fails(["plan.json: global batch 4", "3 micro-batches"],
              changed(micro_batches=3))
        fails(["plan.json: samples of a micro-batch (1)", "2 ways"],
              changed(micro_batches=4))
        fails(["--micro-batch 2: the plan's 2 micro-batches of 2 ranks make it "
               "1"], PLAN, "--micro-batch", "2", code=2)
        fails(["--dp excludes --plan"], PLAN, "--dp", "2", code=2)
        self.compile_fails(["none: No such file"], "--plan", "none")
        self.compile_fails([".: not a regular file"], "--plan", ".")

    def test_clusters(self):
        def fails(parts, content, code=1):
            self.write("cluster.json", content)
            self.compile_fails(["cluster.json"] + parts, "--dp", "4",
                               "--cluster", "cluster.json", code=code)

        for content in ["", "{", "hello"]:
            fails(["not valid JSON"], content)
        fails(["nested deeper than 64"], DEEP)
        fails(["expects an object"], "3")
        fails(['unknown key "gpus"', "legal keys are version, name"],
              dict(CLUSTER, gpus=8))
        for value in [0, -1, "2", 1.5, None, 1 << 40]:
            fails(['"nodes"', "an integer in 1.."], dict(CLUSTER, nodes=value))
        fails(['"threads_per_device"', "got 4096", "1..1024"],
              dict(CLUSTER, threads_per_device=4096))
        for cpu in ["foo", "", 3, "pentium", "x86-64"]:
            fails(['"cpu"', "AVX2 and FMA"], dict(CLUSTER, cpu=cpu))
        fails(['"version"'], dict(CLUSTER, version=2))
        fails(['"version": expects 1, but it is missing'], {"nodes": 4})
        fails(['"device.name": expects a text, but it is missing'],
              dict(CLUSTER, device={}))
        fails(['"device": expects an object or one of a100-40', "got \"h1\""],
              dict(CLUSTER, device="h1"))
        for wrong in ["h100-sxm", "h100-sxm:0", "h100-sxm:x", "z9:4"]:
            self.compile_fails([f"--cluster {wrong}: "], "--cluster", wrong,
                               code=2)
        self.compile_fails(["--cluster local:0", "between 1 and 1024"],
                           "--cluster", "local:0", code=2)
        self.compile_fails(["--cluster local:2 has 2 ranks", "4 ranks"], "--dp",
                           "4", "--cluster", "local:2", code=2)
        self.compile_fails(["none: No such file"], "--cluster", "none")


if __name__ == "__main__":
    unittest.main()
