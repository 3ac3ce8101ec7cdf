#!/usr/bin/env python3
"""What people ask of the planner that it cannot do, or not at once: each is one
message that names the flag and what is legal, and no flag is ignored."""
import json
import os
import random
import unittest

from support import DATA, GOLDEN, TOOLS, ToolTest
from support import LLAMA as GOLDEN_LLAMA

LLAMA = os.path.join(DATA, "configs", "llama-3-8b.json")
WORK = ["--seq-len", "4096", "--global-batch", "64"]
PLAN = ["cleave", "plan", LLAMA, "--cluster", "h100-sxm:16", *WORK]
ESTIMATE = ["cleave", "estimate", *PLAN[2:]]


class PlannerTest(ToolTest):
    def test_flags_that_exclude_each_other(self):
        for flags in [["--top", "2"], ["--objective", "memory"],
                      ["-o", "front.json"], ["--report", "front.html"]]:
            self.expect_error(["--front", "excludes", flags[0]], *PLAN,
                              "--front", "3", *flags, code=2)
        self.write("rows", "{}\n")
        self.run_tool(*PLAN, "-o", "plan.json")
        for flags in [["--tp", "8"], ["--pipeline-schedule", "1f1b"],
                      ["--sequence-parallel"]]:
            for file in [["--batch", "rows"], ["--plan", "plan.json"]]:
                self.expect_error([file[0], "excludes", flags[0]], *ESTIMATE,
                                  *file, *flags, code=2)
        for flags in [["--trace", "t.json"], ["--plan", "plan.json"]]:
            self.expect_error(["--batch", "excludes", flags[0]], *ESTIMATE,
                              "--batch", "rows", *flags, code=2)
        self.expect_error("unknown option --schedule; ", *ESTIMATE,
                          "--schedule", "1f1b", code=2)
        self.expect_error(["-o and --report", "-"], *PLAN, "-o", "-",
                          "--report", "-", code=2)
        self.expect_error(["--memory-headroom", "--memory"], *PLAN,
                          "--memory-headroom", "3", "--memory", "60", code=2)

    def test_what_a_flag_cannot_be_is_wrong_usage(self):
        for command, flags, parts in [
                (PLAN, ["--pin", "tq=1"], ["--pin", "unknown field"]),
                (PLAN, ["--forbid", "tp"], ["--forbid", "FIELD=VALUE"]),
                (PLAN, ["--pin", "recompute-modules=none"], ["pointwise"]),
                (PLAN, ["--profile", "nemoo"], ["--profile", "nemo"]),
                (PLAN, ["--dtype", "fp4"], ["--dtype fp4", "h100"]),
                (PLAN, ["--tokens", "-1"], ["--tokens"]),
                (PLAN, ["--memory-headroom", "100"], ["--memory-headroom"]),
                (PLAN, ["--report", "r", "--objective", "cost"], ["--report"]),
                (ESTIMATE, ["--tp", "0"], ["--tp", "a whole number from 1"]),
                (ESTIMATE, ["--recompute", "some"], ["--recompute", "none"])]:
            self.expect_error(parts, *command, *flags, code=2)
        for flags in [[], ["--params", "1e9", "--flops", "1e20", "--days",
                           "3"]]:
            self.expect_error("--flops", "cleave", "size", *flags, code=2)

    def test_degrees_that_do_not_divide_are_told_the_legal_ones(self):
        legal = "1, 2, 4, 8"
        for flags in [["--tp", "3"], ["--tp", "16"], ["--cp", "3"],
                      ["--pp", "5"], ["--dp", "6"]]:
            self.expect_error([f"{flags[0][2:]} {flags[1]}",
                               "legal degrees are " + legal], *ESTIMATE,
                              *flags)
        self.expect_error(["micro-batch 3", "legal are 1, 2, 4"], *ESTIMATE,
                          "--micro-batch", "3")
        self.expect_error(["--pin tp=3", "legal values of tp are " + legal],
                          *PLAN, "--pin", "tp=3")
        self.expect_error(["--pin pp=5", "legal values of pp are " + legal],
                          *PLAN, "--pin", "pp=5")

    def test_defaults_are_those_of_compile(self):
        def price(*flags):
            return json.loads(self.run_tool(*ESTIMATE, "--json", *flags))

        # All of a rank's 4 samples; with 2 stages of 8 samples 2 micro-batches.
        self.assertEqual(price()["layout"]["micro_batch"], 4)
        self.assertEqual(price("--pp", "2")["layout"]["micro_batch"], 4)
        self.assertEqual(price("--pp", "16")["layout"]["micro_batch"], 4)
        layout = price("--tp", "2", "--sequence-parallel")["layout"]
        self.assertTrue(layout["sequence_parallel"])
        self.assertEqual(
            price("--pp", "2", "--pipeline-schedule", "zb-v")["layout"]
            ["virtual_stages"], 2)
        self.write_local()
        plan = json.loads(self.run_tool(
            "cleave", "plan", GOLDEN_LLAMA, "--cluster", "local:2",
            "--seq-len", "16", "--global-batch", "4", "--json", env=self.env))
        self.assertEqual(plan["dtype"], "f32")
        self.assertEqual(json.loads(self.run_tool(*PLAN, "--json"))["dtype"],
                         "bf16")

    def test_headroom(self):
        limits = {}
        for flags in [[], ["--memory-headroom", "0"],
                      ["--memory-headroom", "20"]]:
            plan = json.loads(self.run_tool(*PLAN, *flags, "-o", "-"))
            memory = plan["memory_bytes"]
            limits[len(flags) and flags[1]] = plan["search"].get(
                "memory_limit", memory["device"]) / memory["device"]
            self.assertLessEqual(memory["total"], memory["device"])
        self.assertEqual([round(x, 9) for x in limits.values()],
                         [0.95, 1, 0.8])
        # What is between both fits one of them.
        text = self.run_tool(*ESTIMATE, "--zero", "1", "--micro-batch", "1",
                             "--json")
        total = json.loads(text)["memory_bytes"]
        share = 100 * (1 - total["total"] / total["device"])
        for more, fits in [(-1, True), (1, False)]:
            self.assertEqual(json.loads(self.run_tool(
                *ESTIMATE, "--zero", "1", "--micro-batch", "1", "--json",
                "--memory-headroom", str(share + more)))["fits"], fits)

    def test_profiles_restrict_what_is_planned(self):
        large = ["cleave", "plan",
                 os.path.join(DATA, "configs", "llama-3.1-70b.json"),
                 "--cluster", "h100-sxm:128", "--seq-len", "8192",
                 "--global-batch", "128", "--pin", "pp>1", "--json"]
        for profile, schedules in [("nemo", {"1f1b", "interleaved"}),
                                   ("megatron-core", {"1f1b", "interleaved"}),
                                   ("deepspeed", {"1f1b"})]:
            plan = json.loads(self.run_tool(*large, "--profile", profile,
                                            "--top", "5"))
            layouts = [each["layout"] for each in plan["top"]]
            for layout in layouts:
                self.assertIn(layout["pipeline_schedule"], schedules)
                self.assertLess(layout["zero"], 2)
            self.assertEqual(len({tuple(layout[key] for key in (
                "tp", "cp", "dp", "pp", "ep", "expert_tp",
                "pipeline_schedule"))
                for layout in layouts}), 5)
            self.expect_error(["--pin pipeline-schedule=zb-v", f"profile {profile}",
                               "it has schedules 1f1b"], *large, "--profile",
                              profile, "--pin",
                              "pipeline-schedule=zb-v")
        self.expect_error(["--pin pp>1", "profile pytorch-fsdp",
                           "schedules none"], *large, "--profile",
                          "pytorch-fsdp")

    def test_nothing_is_shown_of_progress_but_on_a_terminal(self):
        done = self.start(*PLAN, "--front", "3")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        shown = self.run_in_terminal(*PLAN, "--front", "3")
        self.assertIn("front: 1 of 3 searches, ", shown)

    def run_in_terminal(self, *command):
        """What it writes to stderr if that is one."""
        import pty
        import subprocess
        master, slave = pty.openpty()
        with subprocess.Popen(
                [os.path.join(TOOLS, command[0]), *command[1:]],
                stdout=subprocess.DEVNULL, stderr=slave) as process:
            os.close(slave)
            shown = b""
            while True:
                try:
                    part = os.read(master, 4096)
                except OSError:  # the other side is closed
                    break
                if not part:
                    break
                shown += part
            self.assertEqual(process.wait(), 0)
        os.close(master)
        return shown.decode()

    def test_a_ledger_goes_on_after_an_illegal_row(self):
        row = {"id": "r", "source": "s", "gpu": "H100", "num_gpus": 16,
               "layers": 32, "hidden": 4096, "heads": 32, "ffn": 14336,
               "seq_len": 2048, "gbs": 64, "mbs": 1, "tp": 2, "pp": 4,
               "step_time_s": 1.0}
        self.write("rows.json", [
            dict(row, schedule="ZB-V"), dict(row, schedule="ZB-V", vpp=1),
            dict(row, schedule="ZB-V", vpp=3), dict(row, schedule="ZB-1p",
                                                    vpp=2),
            dict(row, num_gpus=20), dict(row, experts=8, topk=2, moe_ffn=64,
                                         ep=2, arch_notes="first 33 layers "
                                         "dense"), 5, row])
        done = self.start("cleave", "ledger", "rows.json", "--rows", "--json")
        self.assertEqual(done.returncode, 1)
        rows = json.loads(done.stdout)["rows"]
        self.assertEqual(["predicted_s" in each for each in rows],
                         [True] * 2 + [False] * 5 + [True])
        for each, part in zip(rows[2:7], ["zb-v has 2 virtual stages",
                                          "zb-h1 does not have 2",
                                          '"num_gpus": value 20',
                                          "32 layers", "expects an object"]):
            self.assertIn(part, each["error"], each)
            self.assertIn("cleave: error: " + each["error"], done.stderr)
        self.assertEqual(json.loads(done.stdout)["total"]["illegal"], 5)

    def test_each_why_not_is_a_question(self):
        self.run_tool(*PLAN, "-o", "plan.json")
        explain = ["cleave", "explain", LLAMA, "--plan", "plan.json",
                   "--cluster"]
        text = self.run_tool(*explain, "h100-sxm:16", "--why-not", "tp=8",
                             "--why-not", "pp=2,tp=1")
        for asked in ["tp=8", "pp=2, tp=1"]:
            self.assertRegex(text, f"(?m)^why not +{asked}$")
        self.expect_error(['the plan is for devices "h100-sxm", not '
                           '"a100-80"'], *explain, "a100-80:16")
        self.expect_error("the plan is for 16 devices, not 8", *explain,
                          "h100-sxm:8")
        self.expect_error("--why-not", *explain, "h100-sxm:16", "--why-not",
                          "tq=1", code=2)

    def test_estimate_prices_a_plan(self):
        """One of plan -o says again what plan said; of another model, cluster,
        software or batch it is refused."""
        cost = ["--objective", "cost", "--pin", "tp>=2"]
        narrow = ["--moments", "bf16"]
        for flags in [[], ["--pin", "pp=2"], cost, narrow]:
            plan = json.loads(self.run_tool(*PLAN, *flags, "-o", "plan.json",
                                            "--json"))
            self.assertEqual(plan.get("moments"),
                             "bf16" if flags == narrow else None)
            priced = json.loads(self.run_tool(
                *ESTIMATE, *(narrow if flags == narrow else []), "--plan",
                "plan.json", "--json"))
            for key in priced:
                self.assertEqual(priced[key], plan[key], key)
        self.run_tool("cleave", "explain", LLAMA, "--cluster", "h100-sxm:16",
                      "--plan", "plan.json")
        self.run_tool(*PLAN, "--pin", "pp=2", "-o", "plan.json")
        self.run_tool(*ESTIMATE, "--plan", "plan.json", "--trace", "t.json")
        self.assertIn("traceEvents", json.loads(self.read("t.json")))
        text = self.read("plan.json").decode()
        self.assertEqual(
            self.run_tool(*ESTIMATE, "--plan", "plan.json"),
            self.start(*ESTIMATE, "--plan", "-", stdin=None,
                       input=text).stdout)
        other = os.path.join(DATA, "configs", "mixtral-8x7b.json")
        larger = os.path.join(DATA, "configs", "llama-3.1-70b.json")
        for model, cluster, work, flags, part in [
                (other, "h100-sxm:16", WORK, [], 'for a model of type "llama", '
                 'not "mixtral"'),
                (larger, "h100-sxm:16", WORK, [], "it is of other sizes"),
                (LLAMA, "a100-80:16", WORK, [], 'for devices "h100-sxm", not '
                 '"a100-80"'),
                (LLAMA, "h100-sxm:8", WORK, [], "for 16 devices, not 8"),
                (LLAMA, "h100-sxm:16", WORK, ["--profile", "nemo"],
                 'for profile "cleave", not "nemo"'),
                (LLAMA, "h100-sxm:16", WORK, ["--dtype", "fp8"],
                 "for --dtype bf16, not fp8"),
                (LLAMA, "h100-sxm:16", WORK, ["--moments", "bf16"],
                 "for --moments f32, not bf16"),
                (LLAMA, "h100-sxm:16", ["--seq-len", "2048", *WORK[2:]], [],
                 "for --seq-len 4096, not 2048"),
                (LLAMA, "h100-sxm:16", [*WORK[:2], "--global-batch", "32"], [],
                 "for --global-batch 64, not 32")]:
            self.expect_error(["plan.json: ", part], "cleave", "estimate",
                              model, "--cluster", cluster, *work, *flags,
                              "--plan", "plan.json")
        self.expect_error(["none", "No such file"], *ESTIMATE, "--plan", "none")

    def test_estimate_prices_what_compile_takes(self):
        self.write_local()
        shape = ["--seq-len", "16", "--global-batch", "4"]
        layout = ["--dp", "2", "--tp", "2", "--zero", "1",
                  "--sequence-parallel", "--micro-batch", "1"]
        shown = json.loads(self.run_tool(
            "cleave", "compile", GOLDEN_LLAMA, *shape, *layout, "--json", "-o",
            "train"))
        self.write("plan.json", shown["plan"])
        estimate = ["cleave", "estimate", GOLDEN_LLAMA, *shape, "--cluster"]
        self.assertEqual(
            self.run_tool(*estimate, "local:4", "--plan", "plan.json", "--json",
                          env=self.env),
            self.run_tool(*estimate, "local:4", *layout, "--json",
                          env=self.env))
        self.expect_error(["plan.json: tp 2", "there are 8 devices"], *estimate,
                          "local:8", "--plan", "plan.json", env=self.env)
        del shown["plan"]["dims"]["vocab"]
        self.write("plan.json", shown["plan"])
        self.expect_error(['plan.json: keys "mesh", "dims"'], *estimate,
                          "local:4", "--plan", "plan.json", env=self.env)

    def test_a_recipe_is_held_against_the_explained_plan(self):
        self.run_tool(*PLAN, "-o", "plan.json")
        run = {"version": 1, "seq_len": 4096, "global_batch": 64,
               "dtype": "bf16", "moments": "f32", "plan": "plan.json"}
        commands = [["cleave", "explain", LLAMA, "--cluster", "h100-sxm:16",
                     "--recipe", "run.json"]]
        commands.append(["cleave", "estimate", *commands[0][2:]])
        for command in commands:
            self.write("run.json", run)
            self.run_tool(*command)
            for key, value in [("seq_len", 2048), ("global_batch", 128),
                               ("dtype", "fp8"), ("moments", "bf16")]:
                self.write("run.json", dict(run, **{key: value}))
                flag = "--" + key.replace("_", "-")
                self.expect_error(
                    [f"plan.json: the plan is for {flag} {run[key]}, not "
                     f"{value}"], *command)
                # Flags go before the file.
                self.run_tool(*command, flag, str(run[key]))

    def test_one_and_many(self):
        self.write("nodes.json", {
            "version": 1, "device": "h100-sxm", "nodes": 4,
            "devices_per_node": 1,
            "levels": [{"size": 1, "link": "nvlink4"},
                       {"size": 0, "link": "ib-ndr400"}]})
        self.expect_error("tp 2 does not divide the 1 device of a node;",
                          "cleave", "estimate", LLAMA, "--cluster",
                          "nodes.json", *WORK, "--tp", "2")
        with open(LLAMA) as file:
            config = json.load(file)
        self.write("config.json", dict(config, num_hidden_layers=1))
        self.expect_error("pp 2 is more than 1 block;", "cleave", "estimate",
                          "config.json", *PLAN[3:], "--pp", "2")
        text = self.run_tool("cleave", "plan", GOLDEN_LLAMA, "--cluster",
                             "h100-sxm:1", "--seq-len", "16", "--global-batch",
                             "1", "--report", "-")
        self.assertIn("1 device<", text)

    def test_a_runnable_plan_is_one_that_compile_takes(self):
        """Of all small models on up to 8 ranks; a seeded sample of them, or
        all with CLEAVE_RUNNABLE=all."""
        self.write_local()
        cases = [(name, ranks, batch, seq)
                 for name in sorted(os.listdir(GOLDEN))
                 if os.path.isdir(os.path.join(GOLDEN, name))
                 for ranks in range(1, 9) for batch in [1, 2, 6, 8]
                 for seq in [12, 15]]
        if os.environ.get("CLEAVE_RUNNABLE") != "all":
            cases = random.Random(5).sample(cases, 48)
        written = 0
        for name, ranks, batch, seq in cases:
            model = os.path.join(GOLDEN, name)
            shape = ["--seq-len", str(seq), "--global-batch", str(batch)]
            done = self.start("cleave", "plan", model, "--cluster",
                              f"local:{ranks}", *shape, "--runnable", "-o",
                              "plan.json", env=self.env)
            shown = f"{name} {ranks} {batch} {seq}: {done.stderr}"
            if done.returncode != 0:
                self.assertEqual(done.returncode, 1, shown)
                self.assertRegex(done.stderr, "cleave: error: .*(global batch|"
                                 "no layout|--runnable)", shown)
                self.assertFalse(os.path.exists(self.path("plan.json")))
                continue
            written += 1
            self.run_tool("cleave", "compile", model, *shape, "--dtype", "f32",
                          "--plan", "plan.json", "-q", "-o", "train")
            os.remove(self.path("plan.json"))
        self.assertGreater(written, len(cases) // 4)
        self.assertLess(written, len(cases))

    def test_runnable_says_what_compile_would(self):
        self.write_local()
        for model, cluster, flags, parts in [
                ("configs/mixtral-8x7b.json", "local:2", [],
                 ["cleave compile does not take this model"]),
                ("golden/gpt2", "local:1", ["--seq-len", "4096"],
                 ["positions"]),
                ("golden/llama3-gqa-tied", "local:4", ["--pin", "tp=4"],
                 ["--pin tp=4", "key-value heads (2)",
                  "legal degrees are 1, 2"])]:
            shape = ["--global-batch", "8"]
            if "--seq-len" not in flags:
                shape += ["--seq-len", "16"]
            self.expect_error(parts, "cleave", "plan",
                              os.path.join(DATA, model), "--cluster", cluster,
                              *shape, *flags, "--runnable", "-o", "plan.json",
                              env=self.env, code=1 if "--pin" in flags else 2)

    def test_a_plan_to_stdout_beside_a_report(self):
        text = self.run_tool(*PLAN, "-o", "-", "--report", "report.html")
        self.assertEqual(json.loads(text)["devices"], 16)
        self.assertIn(b"</html>", self.read("report.html"))
        text = self.run_tool(*PLAN, "--report", "-", "-o", "plan.json")
        self.assertIn("</html>", text)
        self.assertEqual(json.loads(self.read("plan.json"))["devices"], 16)

    def test_calibrate_asks_for_its_file_first(self):
        self.write("file", "")
        for output in ["missing/local.json", "file/local.json", "."]:
            self.expect_error([output], "cleave", "calibrate", "-o", output)
        env = dict(os.environ, CLEAVE_CACHE="")
        self.expect_error(["CLEAVE_CACHE is empty", "--output"], "cleave",
                          "calibrate", env=env)
        self.expect_error("CLEAVE_CACHE is empty", "cleave", "plan", LLAMA,
                          *WORK, "--cluster", "local:4", env=env)

    def test_calibrate_of_a_gpu_that_is_none(self):
        command = ["cleave", "calibrate", "-o", "gpu.json", "--cluster"]
        for preset, expected in [
                ("local:2", "expects local, or a preset and a number"),
                ("h400:1", "expects local, or a preset and a number"),
                ("", "expects local, or a preset and a number"),
                ("h200", "expects NAME:COUNT"),
                ("a100-80:8", "expects NVIDIA GPUs of sm_90 or later")]:
            self.expect_error([f"--cluster {preset}: ", expected], *command,
                              preset, code=2)
        # Its file is the user's to name: local.json is a CPU's.
        self.expect_error("--output", "cleave", "calibrate", "--cluster",
                          "h200:1", code=2)
        if not os.path.exists("/proc/driver/nvidia"):
            self.expect_error("this machine has no CUDA driver "
                              "(libcuda.so.1)", *command, "h200:1")

    def test_an_empty_value_is_not_the_default(self):
        for flag, legal in [("--tp", "a whole number"), ("--zero", "0 to 3"),
                            ("--pipeline-schedule", "one of gpipe")]:
            self.expect_error([flag, 'value ""', legal], *ESTIMATE, flag, "",
                              code=2)

    def test_memory(self):
        for value in ["nan", "inf", "-inf", "0", "-1", "all", ""]:
            for command in [PLAN, ESTIMATE]:
                self.expect_error(["--memory", f'"{value}"',
                                   "a finite number above 0"], *command,
                                  "--memory", value, code=2)
        text = self.run_tool(*ESTIMATE, "--memory", "20.5")
        self.assertIn("of 20.5 GB that may be used of 85.9 GB on the fullest "
                      "device", text)
        self.assertIn("does not fit", text)

    def test_sequences_longer_than_the_model_is_for(self):
        for model, most in [("llama-3-8b", 8192), ("gpt2", 1024),
                            ("mixtral-8x7b", 32768)]:
            for length in [most, 2 * most]:
                done = self.start(
                    "cleave", "plan",
                    os.path.join(DATA, "configs", model + ".json"),
                    "--cluster", "h100-sxm:64", "--seq-len", str(length),
                    "--global-batch", "64")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(
                    done.stderr, "" if length == most else
                    f"cleave: note: sequences of {length} tokens are longer "
                    f"than the {most} positions that the model is for\n")

    def test_modules_of_no_selection(self):
        for recompute in [[], ["--recompute", "full"]]:
            self.expect_error(["recompute_modules", "recompute selective"],
                              *ESTIMATE, "--recompute-modules", "norms",
                              *recompute, code=2)
        self.write("rows", '{"zero": 1, "recompute": "selective", '
                   '"recompute_modules": "norms"}\n')
        row = json.loads(self.run_tool(*ESTIMATE, "--batch", "rows"))
        self.assertEqual(row["layout"]["recompute_modules"], "norms")

    def test_the_own_profile_on_devices_of_other_kernels(self):
        cluster = ["--cluster", "v100-32:16"]
        plan = self.run_tool("cleave", "plan", LLAMA, *cluster, *WORK, "-o",
                             "plan.json")
        text = self.run_tool("cleave", "explain", LLAMA, *cluster, "--plan",
                             "plan.json")
        self.assertEqual(text.splitlines()[0], plan.splitlines()[0])
        # Others fall back as well, as the ledger does.
        done = self.start("cleave", "plan", LLAMA, *cluster, *WORK,
                          "--profile", "nemo")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "cleave: note: v100-32 has no attention "
                         'kernel "cudnn", which profile nemo is of: priced '
                         'with "flash1"\n')


if __name__ == "__main__":
    unittest.main()
