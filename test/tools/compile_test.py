#!/usr/bin/env python3
"""cleave compile and inspect: layouts by flags and by files, what is shown of
a compilation, and that nothing but the input decides the bytes."""
import itertools
import json
import os
import re
import unittest

from support import GOLDEN, LLAMA, PLAN, ROOT, SHAPE, ToolTest, find_section


# The flags that PLAN stands for.
FLAGS = ["--dp", "2", "--tp", "2", "--zero", "2", "--sequence-parallel",
         "--micro-batch", "1"]


class CompileTest(ToolTest):
    def program(self, name):
        executable = self.read(name)
        offset, size = find_section(executable, ".cleave.program")
        return executable[offset:offset + size]

    def test_inspect_shows_every_view(self):
        self.compile("train", *FLAGS)
        text = self.run_tool("cleave", "inspect", "train")
        for view in ["mesh          dp=2 x tp=2, 4 ranks",
                     "batch         4 sequences of 16 tokens, 2 micro-batches",
                     "\nmemory at the peak\n", "\nstates\n", "\noutputs\n",
                     "\nkernels\n", "\ninstructions\n", "\nplan\n",
                     "model.embed_tokens.weight", "reduce_scatter"]:
            self.assertIn(view, text)

    def test_the_shown_memory_adds_up(self):
        self.compile("train", *FLAGS)
        text = self.run_tool("cleave", "inspect", "train")
        arena = int(re.search(r"^arena +(\d+) bytes", text, re.M)[1])
        table = text.split("\nmemory at the peak\n")[1].split("\n\n")[0]
        rows = re.findall(r"^ +(\d+) +[\d.]+%", table, re.M)
        self.assertEqual(sum(map(int, rows)), arena)

    def test_a_plan_file_is_the_same_as_its_flags(self):
        self.compile("flags", *FLAGS)
        self.compile("plan", "--plan", self.write("plan.json", PLAN))
        self.assertEqual(self.program("flags"), self.program("plan"))
        self.assertEqual(self.read("flags"), self.read("plan"))

    def test_a_recipe_is_the_same_as_its_flags(self):
        recipe = {"version": 1, "seq_len": 16, "global_batch": 4,
                  "dtype": "bf16", "lr": 1e-3, "min_lr": 1e-4,
                  "lr_schedule": "wsd", "warmup_steps": 2, "stable_steps": 5,
                  "decay_steps": 9, "beta1": 0.8, "beta2": 0.9, "eps": 1e-6,
                  "weight_decay": 0.2, "clip": 0.5}
        flags = {f"--{key.replace('_', '-')}": str(value)
                 for key, value in recipe.items() if key != "version"}
        self.write("recipe.json", recipe)
        self.compile("file", "--recipe", "recipe.json", shape=[])
        self.compile("flags", *itertools.chain(*flags.items()), shape=[])
        self.assertEqual(self.read("file"), self.read("flags"))
        # Each key has an effect, and a flag goes before it, on either side.
        others = {"--seq-len": "8", "--global-batch": "8", "--dtype": "f32",
                  "--lr-schedule": "cosine", "--stable-steps": "0"}
        for flag, value in flags.items():
            other = [flag, others.get(flag, str(float(value) / 2)
                                      if "steps" not in flag and flag not in
                                      others else "3")]
            if flag == "--lr-schedule":  # only wsd has stable steps
                other += ["--stable-steps", "0"]
            self.compile("after", "--recipe", "recipe.json", *other, shape=[])
            self.compile("before", *other, "--recipe", "recipe.json", shape=[])
            self.assertEqual(self.read("after"), self.read("before"), flag)
            self.assertEqual(self.read("after") == self.read("file"), False,
                             flag)

    def test_the_shown_plan_compiles_to_the_same(self):
        self.compile("flags", *FLAGS)
        shown = self.run_tool("cleave", "inspect", "flags")
        plan, _ = json.JSONDecoder().raw_decode(shown.split("\nplan\n")[1])
        self.assertEqual(plan, PLAN)
        self.compile("again", "--plan", self.write("shown.json", plan))
        self.assertEqual(self.read("flags"), self.read("again"))

    def test_work_that_no_flag_says(self):
        """Sequences of the model's length, a micro-batch for each rank, and a
        note that says so; what a search was for goes before that."""
        def work_of(*flags):
            done = self.start("cleave", "compile", LLAMA, "-o", "train", *flags)
            self.assertEqual(done.returncode, 0, done.stderr)
            shown = self.run_tool("cleave", "inspect", "--json", "train")
            work = json.loads(shown)
            return work["seq_len"], work["global_batch"], done.stderr

        with open(os.path.join(LLAMA, "config.json")) as file:
            longest = json.load(file)["max_position_embeddings"]
        length = min(longest, 1024)
        note = "cleave: note: as no flag says otherwise: "
        for flags, samples in [([], 1), (["--cluster", "h200:4", "--dp", "2",
                                          "--tp", "2"], 4),
                               (["--dp", "2", "--pp", "2", "--micro-batch", "3"],
                                12)]:
            self.assertEqual(work_of(*flags)[:2], (length, samples))
            self.assertIn(f"{note}--seq-len {length}, --global-batch {samples}\n",
                          work_of(*flags)[2])
        self.assertIn(f"{note}--seq-len {length}\n",
                      work_of("--global-batch", "2")[2])
        self.assertNotIn(note, work_of("-q")[2])
        self.assertNotIn(note, work_of(*SHAPE)[2])
        self.run_tool("cleave", "plan", LLAMA, "--cluster", "h100-sxm:4", *SHAPE,
                      "--runnable", "-o", "found.json")
        length, samples, said = work_of("--plan", "found.json")
        self.assertEqual([str(length), str(samples)], [SHAPE[1], SHAPE[3]])
        self.assertNotIn(note, said)
        # By hand, of which the compilation itself checks the micro-batches.
        by_dims = {"version": 2, "mesh": [{"name": "dp", "size": 2}],
                   "micro_batches": 4, "dims": {"batch": ["dp"]}}
        by_degrees = {"version": 2, "layout": {"dp": 2, "micro_batch": 4}}
        for plan in by_dims, by_degrees:
            self.write("plan.json", plan)
            self.assertEqual(work_of("--plan", "plan.json")[1], 8)

    def test_what_the_planner_found_compiles(self):
        pins = ["tp=2", "zero=2", "sequence-parallel=true", "cp=1", "pp=1", "shard-group=0",
                "recompute=none"]
        plan = ["cleave", "plan", LLAMA, "--cluster", "h100-sxm:4", *SHAPE,
                *itertools.chain(*(["--pin", pin] for pin in pins)), "-o",
                "found.json"]
        self.run_tool(*plan, "--runnable")
        with open(self.path("found.json")) as file:
            found = json.load(file)
        self.compile("found", "--plan", "found.json", "--dtype", "bf16")
        self.compile("same", "--dp", "2", "--tp", "2", "--zero", "2",
                     "--sequence-parallel", "--micro-batch",
                     str(found["layout"]["micro_batch"]), "--dtype", "bf16")
        self.assertEqual(self.read("found"), self.read("same"))

    def test_the_planner_knows_the_memory(self):
        """What the planner predicts of a rank, on any device, against the
        arena that the compiler lays out."""
        with open(os.path.join(ROOT, "lib", "Ledger", "data", "profiles",
                               "cleave-cpu.json")) as file:
            profile = json.load(file)
        del profile["match"]
        self.write("profile.json", dict(profile, attention="flash2"))
        shapes = {"llama": ["--seq-len", "256", "--global-batch", "8"],
                  "gpt2": ["--seq-len", "128", "--global-batch", "16"]}
        for name, layout in itertools.product(shapes, [
                "--dp 1 --micro-batch 4", "--tp 2 --micro-batch 1",
                "--dp 2 --tp 2 --zero 1 --micro-batch 2",
                "--dp 2 --zero 2 --micro-batch 1",
                "--dp 4 --zero 3 --micro-batch 1",
                "--dp 2 --tp 2 --zero 3 --sequence-parallel --micro-batch 2"]):
            model = os.path.join(ROOT, "bench", "local", "models", name)
            self.compile("train", *layout.split(), model=model,
                         shape=shapes[name])
            shown = self.run_tool("cleave", "inspect", "train")
            arena = int(re.search(r"^arena +(\d+) bytes", shown, re.M)[1])
            flags = layout.split()
            ranks = 1
            for degree in ("--dp", "--tp"):
                if degree in flags:
                    ranks *= int(flags[flags.index(degree) + 1])
            memory = json.loads(self.run_tool(
                "cleave", "estimate", model, *shapes[name], *flags, "--dtype",
                "f32", "--cluster", f"a100-80:{ranks}", "--profile",
                "profile.json", "--json"))["memory_bytes"]
            predicted = memory["total"] - memory["reserve"]
            self.assertLess(abs(predicted / arena - 1), 0.06,
                            f"{name} {layout}: {predicted} of {arena}")

    def test_a_program_has_what_memory_its_device_has(self):
        """Placements by cost are such that the arena fits; a layout by flags is
        compiled as it is, and a warning says that it does not."""
        layout = ["--dp", "4", "--micro-batch", "2", "--overlap", "never"]
        model = os.path.join(ROOT, "bench", "local", "models", "llama")
        shape = ["--seq-len", "256", "--global-batch", "32"]
        reserve = 1.5e9

        def compile_with(memory, *flags):
            self.write("cluster.json", {
                "version": 1, "nodes": 1, "devices_per_node": 4,
                "device": {"base": "h100-sxm", "name": "small", "memory":
                           {"value": reserve + memory, "unit": "byte",
                            "source": "test"}},
                "levels": [{"size": 0, "link": "nvlink4"}]})
            done = self.start("cleave", "compile", model, "--cluster",
                              "cluster.json", *layout, *shape, *flags, "-o",
                              "train")
            self.assertEqual(done.returncode, 0, done.stderr)
            shown = self.run_tool("cleave", "inspect", "train")
            warnings = [line for line in done.stderr.splitlines()
                        if line.startswith("cleave: warning: ")]
            return (int(re.search(r"^arena +(\d+) bytes", shown, re.M)[1]),
                    warnings)

        most, warnings = compile_with(1e12, "--placements", "auto")
        self.assertEqual(warnings, [])
        for share in [0.8, 0.6, 0.5]:
            arena, warnings = compile_with(share * most, "--placements", "auto")
            self.assertEqual(warnings, [])
            self.assertLessEqual(arena, share * most)
        by_flags, warnings = compile_with(1e12)
        self.assertEqual(warnings, [])
        arena, warnings = compile_with(0.5 * by_flags)
        self.assertGreater(arena, 0.5 * by_flags)
        self.assertEqual(len(warnings), 1)
        self.assertIn("takes", warnings[0])
        self.assertIn("of a rank's memory, of which it may have", warnings[0])

    def test_what_the_runtime_refuses_is_not_compiled(self):
        most = str(2**31 - 1)
        self.expect_error(
            f'--dp {most}, --tp 1: ranks of the layout ["dp"={most}, "tp"=1]: got {most}, at most '
            "1048576 are legal", "cleave", "compile", LLAMA, "--seq-len", "16",
            "--global-batch", most, "--dp", most, "-o", "train", code=2)

    def test_a_plan_may_leave_out_what_is_optional(self):
        plan = {"version": 2, "mesh": [{"name": "dp", "size": 2}],
                "dims": {"batch": ["dp"]}}
        self.compile("train", "--plan", self.write("plan.json", plan))
        text = self.run_tool("cleave", "inspect", "train")
        self.assertIn("1 micro-batch,", text)

    def test_axes_that_split_a_tensor_are_not_used_again(self):
        plan = dict(PLAN, keep={"optimizer": ["dp", "tp"],
                                "parameters": ["tp"]})
        self.compile("train", "--plan", self.write("plan.json", plan))

    def test_a_cluster_decides_threads_and_instructions(self):
        cluster = {"version": 1, "nodes": 2, "devices_per_node": 2,
                   "threads_per_device": 3, "cpu": "x86-64-v3"}
        self.write("cluster.json", cluster)
        self.compile("v3", *FLAGS, "--cluster", "cluster.json")
        text = self.run_tool("cleave", "inspect", "v3")
        self.assertIn("4 ranks of 3 threads", text)
        self.write("cluster.json", dict(cluster, cpu="x86-64-v4"))
        self.compile("v4", *FLAGS, "--cluster", "cluster.json")
        self.assertNotEqual(self.read("v3"), self.read("v4"))
        self.compile("local", *FLAGS, "--cluster", "local:4")

    def test_a_layout_for_gpus(self):
        """What is chosen is chosen for the GPUs, in bf16; where there is no code
        for them, a note says so."""
        def start(cluster, *flags):
            done = self.start("cleave", "compile", LLAMA, *SHAPE, "--cluster",
                              cluster, *flags)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done
        self.assertNotIn("note:", start("h100-sxm:4", "-o", "gpus").stderr)
        self.assertIn("note: the layout, its collectives and streams are chosen for "
                      "a100-80:4; the executable runs on CPUs only",
                      start("a100-80:4", "-o", "older").stderr)
        self.assertEqual(start("a100-80:4", "-q", "-o", "quiet").stderr, "")
        start("h100-sxm:4", "--dtype", "bf16", "-q", "-o", "bf16")
        self.assertEqual(self.program("gpus"), self.program("bf16"))
        self.run_tool("cleave", "estimate", "gpus", "--cluster", "h100-sxm:4")

    def test_a_ptxas_that_is_missing(self):
        path = self.path("no-ptxas")
        self.expect_error(
            [f"{path}: no program that can be executed; CLEAVE_PTXAS names"],
            "cleave", "compile", LLAMA, *SHAPE, "--cluster", "h200:1", "-o",
            "train", env=dict(os.environ, CLEAVE_PTXAS=path))

    def test_a_ptxas_that_is_too_old(self):
        """The executable has PTX only, which a note says; what another ptxas
        says is an error."""
        def compile_with(said):
            self.write("ptxas", f"#!/bin/sh\necho \"{said}\" >&2\nexit 255\n")
            os.chmod(self.path("ptxas"), 0o755)
            return self.start(
                "cleave", "compile", LLAMA, *SHAPE, "--cluster", "h200:1", "-o",
                "train", env=dict(os.environ, CLEAVE_PTXAS=self.path("ptxas")))

        for said in [
                "ptxas fatal   : Value 'sm_90' is not defined for option "
                "'gpu-name'",
                "ptxas kernels.ptx, line 1; fatal   : Unsupported .version "
                "7.8; current version is '7.4'"]:
            done = compile_with(said)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(
                done.stderr, f"cleave: note: {self.path('ptxas')} is too old "
                "for sm_90, so the executable has no machine code but PTX, "
                "which the driver compiles when it starts; CLEAVE_PTXAS names "
                "another\n")
        done = compile_with("ptxas fatal   : Unresolved extern function")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ptxas refuses the kernels: ptxas fatal   : Unresolved",
                      done.stderr)

    def test_a_cluster_decides_collectives(self):
        # A sum over both axes: at once where all ranks are alike, inside of
        # nodes first where these are slow to reach.
        def compile_on(*levels):
            self.write("cluster.json", {
                "version": 1, "nodes": 2, "devices_per_node": 2,
                "levels": [{"size": size, "link": "shared-memory",
                            "oversubscription": slow}
                           for size, slow in levels]})
            return self.start(
                "cleave", "compile", LLAMA, *SHAPE, "--dp", "2", "--tp", "2",
                "--sequence-parallel", "--remarks", "--dump-after-stage",
                "partition", "-o", "train", "--cluster", "cluster.json")
        for levels, steps, at_once in [([(0, 1)], "1 step", True),
                                       ([(2, 1), (0, 1000)], "3 steps", False)]:
            done = compile_on(*levels)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, r"partial=\{dp, tp\} -> \[\{\}\] takes "
                             + steps + r", \d+\.\d us on cluster\.json "
                             r"\(shared-memory")
            self.assertEqual(bool(re.search(
                r'dist\.all_reduce .*axes \["dp", "tp"\]', done.stdout)), at_once)

    def test_compiling_again_gives_the_same_bytes(self):
        for name in ["one", "two"]:
            self.compile(name, *FLAGS, "--dtype", "bf16")
        self.assertEqual(self.read("one"), self.read("two"))

    def test_dtype_is_what_activations_have(self):
        for dtype in ["f32", "bf16"]:
            self.compile(dtype, "--dtype", dtype)
        sizes = {}
        for dtype in ["f32", "bf16"]:
            text = self.run_tool("cleave", "inspect", dtype)
            self.assertEqual("bf16" in text, dtype == "bf16")
            sizes[dtype] = int(
                re.search(r"^ +(\d+) .* activations$", text, re.M)[1])
        self.assertLess(sizes["bf16"], sizes["f32"])

    def test_each_stage_can_be_dumped(self):
        signs = {"grad": "xf.adamw", "place": "dist.reshard",
                 "partition": "dist.all_reduce", "kernels": "exec.kernel",
                 "memory": "arena_bytes"}
        whole = self.compile("train", "--dp", "2", "--dump-after-stage", "all")
        for stage, sign in signs.items():
            text = self.compile("train", "--dp", "2", "-q",
                                "--dump-after-stage", stage)
            self.assertTrue(text.startswith(f"// after stage {stage}\n"))
            self.assertEqual(text.count("// after stage"), 1)
            self.assertIn(sign, text)
            self.assertIn(text, whole)
            self.write("stage.mlir", text)
            self.run_tool("cleave-opt", "stage.mlir", "-o", "again.mlir")

    def test_remarks_name_the_decisions(self):
        command = ["cleave", "compile", LLAMA, *SHAPE, *FLAGS, "-o", "train"]
        self.assertEqual(self.start(*command).stderr, "")
        remarks = self.start(*command, "--remarks").stderr
        self.assertRegex(remarks, r"remark: .*partial=\{tp\} -> .* takes \d+ "
                                  r"steps?, \d+\.\d us on local \(")
        self.assertRegex(remarks, r"remark: .*arena of \d+ bytes")
        for line in remarks.splitlines():
            self.assertTrue(line.startswith("remark: "), line)

    def test_fusion_can_be_left_out(self):
        def count(*flags):
            text = self.compile("train", *flags)
            return int(re.search(r"(\d+) instructions", text)[1])
        self.assertLess(count(), count("--no-fusion"))

    def test_every_family_keeps_what_a_step_computes(self):
        layouts = itertools.cycle([
            ["--dp", "2", "--zero", "3", "--micro-batch", "1"],
            ["--tp", "2", "--dp", "2", "--sequence-parallel", "--dtype", "bf16"],
            ["--dp", "4", "--zero", "1", "--optimizer", "lion"],
            ["--tp", "2", "--no-fusion", "--optimizer", "sgd"],
            ["--dp", "2", "--tp", "2", "--zero", "2", "--optimizer", "muon"]])
        families = [path for path in sorted(os.listdir(GOLDEN))
                    if os.path.exists(f"{GOLDEN}/{path}/config.json")]
        self.assertGreater(len(families), 15)
        for name, layout in zip(families, layouts):
            with open(f"{GOLDEN}/{name}/config.json") as file:
                config = json.load(file)
            if config.get("num_key_value_heads") == 1 and "--tp" in layout:
                layout = ["--dp", "2"]
            text = self.run_tool("cleave", "compile", f"{GOLDEN}/{name}",
                                 *SHAPE, *layout, "--check", "-o", "train")
            self.assertRegex(text, r"^check: \d+ passes, each keeps what a step "
                             r'computes \(2 layers on \["dp"=\d, "tp"=\d\], '
                             r"\d micro-batch(es)?, in f64\)\n", name)
        self.assertEqual(
            self.run_tool("cleave", "compile", LLAMA, *SHAPE, "--check", "-q",
                          "-o", "train"), "")
        # Two layers on four virtual stages: the ends have none.
        text = self.run_tool("cleave", "compile", LLAMA, *SHAPE, "--check",
                             "--pp", "2", "--pipeline-schedule", "dualpipe-v",
                             "--micro-batch", "1", "-o", "train")
        self.assertIn('(2 layers on ["pp"=2, "dp"=1, "tp"=1], 3 micro-batches',
                      text)

    def test_quiet_is_quiet(self):
        self.assertEqual(self.compile("train", "-q"), "")
        self.assertEqual(self.list(), ["train"])

    def test_help_and_version(self):
        text = self.run_tool("cleave", "--help")
        for command in ["import", "compile", "train", "parity", "inspect"]:
            self.assertRegex(text, rf"\n  {command} ")
            self.assertIn("Usage:",
                          self.run_tool("cleave", command, "--help"))
        self.assertRegex(self.run_tool("cleave", "--version"), r"^cleave \d")


if __name__ == "__main__":
    unittest.main()
