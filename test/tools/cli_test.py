#!/usr/bin/env python3
"""What all command lines have in common: versions, help, exit codes, what is
said of misspelt words, and standard streams that are full or closed."""
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest

from support import LLAMA, ROOT, SHAPE, TOOLS, ToolTest, find_section

COMMANDS = ["import", "compile", "train", "export", "parity", "inspect",
            "ledger", "size", "plan", "estimate", "explain", "calibrate"]
PASS_TOOLS = ["cleave-opt", "cleave-translate", "cleave-lsp-server"]
VERSION = r"0\.1 \(commit ([0-9a-f]{7,}(-dirty)?|unknown), LLVM \d+\.\d+\.\d+\)\n"
with open(os.path.join(ROOT, "runtime", "program",
                       "Envelope.h")) as header:
    FORMAT = re.search(r"programVersion = (\d+);", header.read()).group(1)
PLANNED = ["plan", LLAMA, "--cluster", "h100-sxm:8", *SHAPE]


def close_output():
    os.close(1)


def close_all():
    os.closerange(0, 3)


class CommandLineTest(ToolTest):
    def test_versions_are_of_one_build(self):
        self.compile("train")
        shown = set()
        for tool in ["cleave", *PASS_TOOLS, "./train"]:
            text = self.run_tool(tool, "--version")
            name, _, version = text.partition(" ")
            self.assertRegex(version, r"\A" + VERSION + r"\Z", tool)
            self.assertEqual(name, "cleave" if tool == "./train" else tool)
            shown.add(version)
        self.assertEqual(len(shown), 1, shown)

    def test_inspect_names_the_version_of_an_executable(self):
        self.compile("train")
        version = self.run_tool("./train", "--version").partition(" ")[2][:-1]

        def inspect():
            shown = json.loads(self.run_tool("cleave", "inspect", "train",
                                             "--json"))
            text = self.run_tool("cleave", "inspect", "train")
            return shown.get("cleave"), text.partition("\nmesh ")[0]

        self.assertEqual(inspect(), (version, f"program of format version {FORMAT}\n"
                                     f"made by       cleave {version}"))
        # Of what made it, not of what reads it; and it is data from a file.
        executable = bytearray(self.read("train"))
        offset, size = find_section(executable, ".cleave.version")
        self.assertGreater(size, len(version))
        executable[offset:offset + 5] = b"9\n9\x1b\0"
        self.write("train", bytes(executable))
        self.assertEqual(inspect(), ("9\n9\x1b",
                                     f"program of format version {FORMAT}\n"
                                     "made by       cleave 9\\x0a9\\x1b"))
        # Executables without it are read all the same.
        at = executable.rindex(b".cleave.version\0")
        executable[at:at + 2] = b".x"
        self.write("train", bytes(executable))
        self.assertEqual(inspect(), (None, f"program of format version {FORMAT}"))

    def test_plans_name_the_version(self):
        self.run_tool("cleave", *PLANNED, "-o", "plan.json")
        plan = json.loads(self.read("plan.json"))
        self.assertEqual(f"cleave {plan['cleave']}\n",
                         self.run_tool("cleave", "--version"))
        # It is for people: a plan of another build, or of none, is a plan.
        for other in ["0.0 (commit unknown, LLVM 1.0.0)", None]:
            plan["cleave"] = other
            if other is None:
                del plan["cleave"]
            self.write("other.json", plan)
            self.run_tool("cleave", "explain", LLAMA, "--cluster",
                          "h100-sxm:8", "--plan", "other.json")

    def test_help_fits_the_terminal(self):
        self.compile("train")
        commands = [["cleave"], ["./train"]] + [["cleave", command]
                                                for command in COMMANDS]
        for command in commands:
            texts = []
            for columns, width in [("", 80), ("wide", 80), ("0", 80),
                                   ("50", 50), ("80", 80), ("132", 132),
                                   ("100000", 100000)]:
                text = self.run_tool(*command, "--help",
                                     env=dict(os.environ, COLUMNS=columns))
                for line in text.splitlines():
                    self.assertLessEqual(len(line), width, line)
                texts.append(text.split())
            # Nothing is lost or said twice, though words may be cut at commas.
            for words in texts:
                self.assertEqual("".join(words), "".join(texts[-1]), command)

    def test_misspelt_words(self):
        for word, meant in [("plann", "plan"), ("complie", "compile"),
                            ("Train", "train"), ("estimte", "estimate")]:
            self.expect_error(f'"{word}"; did you mean {meant}?', "cleave",
                              word, code=2)
        self.expect_error('unknown command "frobnicate"; see cleave --help',
                          "cleave", "frobnicate", code=2)
        for flag, meant in [("--sequence-paralel", "--sequence-parallel"),
                            ("--mirco-batch=1", "--micro-batch"),
                            ("--lr-shedule", "--lr-schedule")]:
            self.expect_error([f"unknown option {flag.split('=')[0]}; did you "
                               f"mean {meant}?", "see cleave compile --help"],
                              "cleave", "compile", LLAMA, *SHAPE, "-o", "out",
                              flag, code=2)
        self.expect_error("unknown option --frobnicate; see", "cleave",
                          "compile", LLAMA, *SHAPE, "-o", "out",
                          "--frobnicate", code=2)

    def test_wrong_usage_is_exit_code_2(self):
        """What the command line says by itself, or says of files that are
        right; what is wrong with a file is 1."""
        compiles = ["compile", LLAMA, *SHAPE, "-o", "out"]
        self.write("rows", "{}\n")
        for command in [
                [], ["--frobnicate"], ["import"], ["import", LLAMA, "extra"],
                [*compiles, "--dp", "0"], [*compiles, "--tp", "3"],
                [*compiles, "--dp", "3"], [*compiles, "--micro-batch", "3"],
                [*compiles, "--zero", "4"], [*compiles, "--lr", "nan"],
                [*compiles, "--stable-steps", "2"],
                [*compiles, "--cluster", "local:0"],
                [*compiles, "--cluster", "local:2"],
                [*compiles, "--cluster", "h100-sxm"],
                [*compiles, "--json", "-q"],
                [*compiles, "--cp", "2"], ["train", LLAMA, *SHAPE],
                ["size", "--params", "x"], ["size", "--dtype", "fp8"],
                ["size", "--law", "hoffmann", "--params", "1B",
                 "--tokens-per-parameter", "3"],
                [*PLANNED, "--pin", "x=1"], [*PLANNED, "--pin", "tp"],
                [*PLANNED, "--profile", "x"],
                [*PLANNED, "-o", "-", "--report", "-"],
                [*PLANNED, "--report", "r", "--objective", "memory"],
                ["estimate", *PLANNED[1:], "--tp", "2", "--batch", "rows"],
                ["estimate", *PLANNED[1:], "--dtype", "f16"],
                ["explain", LLAMA, "--plan", "none"]]:
            done = self.start("cleave", *command)
            self.assertEqual(done.returncode, 2, f"{command}: {done.stderr}")
        for command in [["import", "none"], ["inspect", "none"],
                        ["ledger", "none"],
                        [*compiles, "--plan", "none"],
                        [*compiles, "--recipe", "none"],
                        [*compiles, "--cluster", "none"],
                        ["explain", LLAMA, "--plan", "none", "--cluster",
                         "h100-sxm:8"]]:
            done = self.start("cleave", *command)
            self.assertEqual(done.returncode, 1, f"{command}: {done.stderr}")
        self.assertEqual(self.list(), ["rows"])

    def test_wrong_usage_of_passes_is_exit_code_2(self):
        """What LLVM's parser of options does not take; other failures are 1."""
        self.write("bad.mlir", "what")
        self.write("good.mlir", "module {}")
        for tool in PASS_TOOLS:
            done = self.start(tool, "--frobnicate")
            self.assertEqual(done.returncode, 2, f"{tool}: {done.stderr}")
            self.assertIn("--frobnicate", done.stderr)
            self.assertEqual(self.start(tool, "--help").returncode, 0, tool)
        for command, code in [
                (["cleave-opt", "--verify-each=perhaps"], 2),
                (["cleave-opt", "good.mlir", "more.mlir"], 2),
                (["cleave-opt", "none"], 1), (["cleave-opt", "bad.mlir"], 1),
                (["cleave-opt", "good.mlir", "-o", "/dev/full"], 1),
                (["cleave-opt", "good.mlir"], 0),
                (["cleave-translate", "good.mlir"], 2),
                (["cleave-translate", "--kernels-to-ptx", "none"], 1),
                (["cleave-translate", "--kernels-to-ptx", "bad.mlir"], 1),
                (["cleave-translate", "--kernels-to-ptx", "good.mlir", "-o",
                  "/dev/full"], 1),
                (["cleave-lsp-server", "--log", "loud"], 2)]:
            done = self.start(*command)
            self.assertEqual(done.returncode, code, f"{command}: {done.stderr}")

    def test_what_programs_do_not_run_yet_is_named(self):
        compiles = ["cleave", "compile", LLAMA, *SHAPE, "-q", "-o", "out"]
        for flag, value, what in [
                ("--cp", "2", "context parallelism"),
                ("--cp-kind", "ring", "context parallelism"),
                ("--ep", "2", "expert parallelism")]:
            self.expect_error(
                [f"{flag}: programs have no {what} yet", f'got "{value}"'],
                *compiles, flag, value, code=2)
            self.expect_error([f'{flag}: "many" is not '], *compiles, flag,
                              "many", code=2)
        self.run_tool(*compiles, "--pp", "1", "--cp", "1", "--ep", "1",
                      "--recompute", "none", "--pipeline-schedule", "1f1b",
                      "--shard-group", "0", "--order", "tp-cp-dp-pp")
        self.expect_error(["--schedule: ", "--lr-schedule",
                           "--pipeline-schedule"], *compiles, "--schedule",
                          "cosine", code=2)
        # Every field of a layout is a flag of compile, if only to refuse it.
        self.write("rows", '{"none": 1}\n')
        row = json.loads(self.start(
            "cleave", "estimate", LLAMA, "--cluster", "h100-sxm:1", *SHAPE,
            "--batch", "rows").stdout)
        fields = re.search(r"(?:one of|are) (tp, .*)", row["error"])[1]
        for field in fields.split(", "):
            flag = "--" + field.replace("_", "-")
            # Some have no value of their own.
            done = self.start(*compiles, flag + "=many")
            self.assertIn(flag + " ", done.stderr.replace(":", " "))

    def test_a_full_standard_output(self):
        self.compile("train")
        commands = [["cleave", *command, "--help"]
                    for command in [[], *([name] for name in COMMANDS)]]
        commands += [[tool, "--version"]
                     for tool in ["cleave", *PASS_TOOLS, "./train"]]
        commands += [["cleave-opt", "--help"], ["cleave-translate", "--help"],
                     ["./train", "--help"],
                     ["cleave", "inspect", "train", "--json"],
                     ["cleave", "compile", LLAMA, *SHAPE, "-o", "train",
                      "--json"], ["cleave", *PLANNED]]
        for command in commands:
            with open("/dev/full", "w") as full:
                done = self.start(*command, stdout=full)
            self.assertEqual(done.returncode, 1, command)
            self.assertIn("No space left", done.stderr, command)

    def test_closed_standard_streams(self):
        """No file takes the number of a stream that the caller closed."""
        self.write("text", "abcdefgh" * 80)
        for close in [close_output, close_all]:
            self.start("cleave", "compile", LLAMA, *SHAPE, "-o", "train",
                       preexec_fn=close)
            self.assertEqual(self.read("train")[:4], b"\x7fELF")
            self.start("./train", "--data", "text", "--steps", "2",
                       "--dump-outputs", "dump", "--metrics", "m.jsonl",
                       preexec_fn=close)
            size = int.from_bytes(self.read("dump")[:8], "little")
            self.assertIn("loss", json.loads(self.read("dump")[8:8 + size]))
            self.assertEqual(len(self.lines("m.jsonl")), 2)
            for name, command in [
                    ("plan.json", ["cleave", *PLANNED, "-o", "plan.json"]),
                    ("m.mlir", ["cleave", "import", LLAMA, "-o", "m.mlir"]),
                    ("o.mlir", ["cleave-opt", "m.mlir", "-o", "o.mlir"])]:
                self.start(*command, preexec_fn=close)
                again = self.read(name)
                self.run_tool(*command)
                self.assertEqual(self.read(name), again, name)

    def test_compile_and_inspect_as_json(self):
        flags = ["--dp", "2", "--tp", "2", "--zero", "1"]
        shown = json.loads(self.compile("train", *flags, "--json"))
        self.assertEqual(shown.pop("executable"), "train")
        self.assertGreater(shown.pop("seconds"), 0)
        inspected = json.loads(self.run_tool("cleave", "inspect", "train",
                                             "--json"))
        self.assertEqual(shown, inspected)
        self.assertEqual((shown["ranks"], shown["seq_len"],
                          shown["global_batch"], shown["micro_batches"]),
                         (4, 16, 4, 1))
        self.assertEqual(sum(row["bytes"] for row in shown["memory"]),
                         shown["arena_bytes"])
        # One stage, and no axis whose coordinate it is.
        self.assertEqual(shown["stage_axis"], [])
        self.assertEqual(
            shown["stages"],
            [{key: shown[key] for key in
              ["arena_bytes", "lower_bound_bytes", "update_run"]}])
        for name in ["memory", "states", "outputs", "instructions",
                     "segments", "runs"]:
            self.assertEqual({each["stage"] for each in shown[name]}, {0})
        with open(os.path.join(LLAMA, "config.json")) as file:
            self.assertEqual(shown["model"], json.load(file))
        # The plan compiles to the same bytes.
        self.compile("again", "--plan", self.write("plan.json", shown["plan"]))
        self.assertEqual(self.read("train"), self.read("again"))
        # As many of each as the text has, and of the same sizes.
        text = self.run_tool("cleave", "inspect", "train")
        for name in ["states", "outputs", "kernels", "instructions"]:
            part = text.split(f"\n{name}\n")[1].split("\n\n")[0].splitlines()
            header = 0 if name == "instructions" else 1
            rows = [line for line in part[header:]
                    if not line.endswith(":")]  # a segment's name
            self.assertEqual(len(rows), len(shown[name]), name)
        weight = next(state for state in shown["states"]
                      if state["name"] == "model.embed_tokens.weight"
                      and state["role"] == "parameter")
        self.assertEqual(weight["dims"][0][0], "tp")
        self.assertEqual(weight["logical"], [331, 64])
        self.assertEqual(weight["shape"], [332, 64])
        gemm = next(each for each in shown["instructions"]
                    if each["opcode"] == "Gemm")
        self.assertEqual(gemm["parameters"]["type_a"], "f32")
        self.assertEqual(gemm["flops"], 2 * gemm["parameters"]["m"]
                         * gemm["parameters"]["n"] * gemm["parameters"]["k"])

    def test_one_and_many(self):
        self.assertIn(": 1 rank ", self.compile("one"))
        self.assertIn(", 1 micro-batch, ", self.compile("one"))
        text = self.compile("two", "--dp", "2", "--micro-batch", "1")
        self.assertIn(": 2 ranks ", text)
        self.assertIn(", 2 micro-batches, ", text)


class SummaryTest(ToolTest):
    """tools/scripts/summarize_run.py on the metrics of a run."""
    SCRIPT = os.path.join(ROOT, "tools", "scripts",
                          "summarize_run.py")
    STEP = {"seconds": 0.5, "collective_seconds": 0.1, "rank_losses": [1, 2],
            "tokens_per_s": 128.0, "mfu": 0.1, "phases": {"forward": 0.5},
            "high_water_bytes": 4096, "arena_bytes": 4096}

    def summarize(self, losses, *flags):
        self.write("m.jsonl", "".join(
            json.dumps(dict(self.STEP, step=step, loss=loss)) + "\n"
            for step, loss in enumerate(losses)))
        return self.start(sys.executable, self.SCRIPT, "m.jsonl", *flags)

    def test_a_run_that_learns(self):
        done = self.summarize([3.0, 2.0], "--require-falling")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("3.0000 at first, 2.0000 at last", done.stdout)

    def test_a_run_whose_loss_is_not_a_number(self):
        for loss in [None, float("nan"), float("inf")]:
            for losses, step in [([3.0, loss, loss], 1), ([loss, 3.0], 0)]:
                done = self.summarize(losses)
                self.assertEqual(done.returncode, 1)
                self.assertEqual(
                    done.stderr,
                    f"m.jsonl: the loss is not a number at step {step}\n")


class TrainTest(ToolTest):
    """cleave train becomes the executable."""

    def setUp(self):
        super().setUp()
        self.write("text", "abcdefgh" * 80)

    def test_what_is_missing_is_named(self):
        train = ["cleave", "train", LLAMA, *SHAPE]
        for arguments, parts in [
                ([], ["--data and --steps after --"]),
                (["--"], ["--data and --steps after --"]),
                (["--", "--data", "text"], ["expects --steps after --"]),
                (["--", "--steps", "3"], ["expects --data after --"]),
                (["--data", "text"], ["--data", "goes after --"]),
                (["--save=x", "--", "--steps", "3"],
                 ["--save", "goes after --"])]:
            self.expect_error(parts, *train, *arguments, code=2)
        self.assertIn("--metrics", self.run_tool(*train, "--", "--help"))

    def test_exit_codes_are_the_executables(self):
        train = ["cleave", "train", LLAMA, *SHAPE, "-q", "--"]
        for arguments, code in [(["--data", "text", "--steps", "1"], 0),
                                (["--data", "none", "--steps", "1"], 1),
                                (["--data", "text", "--steps", "0"], 2)]:
            done = self.start(*train, *arguments)
            self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(self.list(), ["text"])

    def test_signals_reach_the_executable(self):
        for number in [signal.SIGTERM, signal.SIGINT, signal.SIGKILL]:
            started = subprocess.Popen(
                [os.path.join(TOOLS, "cleave"), "train", LLAMA, *SHAPE, "-q",
                 "--", "--data", "text", "--steps", "1000000", "--metrics",
                 "m.jsonl", "--log-every", "0"], cwd=self.folder,
                start_new_session=True, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE)
            deadline = time.time() + 60
            while time.time() < deadline and not (
                    os.path.exists(self.path("m.jsonl"))
                    and self.read("m.jsonl")):
                time.sleep(0.05)
            os.kill(started.pid, number)
            started.communicate(timeout=60)
            # By the signal, or the code of a run that was stopped.
            self.assertIn(started.returncode,
                          [-number] + [3] * (number != signal.SIGKILL))
            # Nobody of its session goes on, and nothing is left behind.
            with self.assertRaises(ProcessLookupError):
                os.killpg(started.pid, 0)
            os.remove(self.path("m.jsonl"))
        self.assertEqual(self.list(), ["text"])


class RecipeTest(ToolTest):
    RUN = {"version": 1, "seq_len": 16, "global_batch": 4, "dp": 2,
           "micro_batch": 1, "data": ["text"], "steps": 3, "seed": 7,
           "metrics": "m.jsonl", "log_every": 0, "threads": 1,
           "transport": "local", "peak_gflops": 1}

    def setUp(self):
        super().setUp()
        self.write("text", "abcdefgh" * 80)
        self.write("more", "hgfedcba" * 80)

    def train(self, recipe, *flags):
        self.write("recipe.json", recipe)
        self.run_tool("cleave", "train", LLAMA, "--recipe", "recipe.json",
                      "-q", *flags)
        return [step["loss"] for step in self.lines("m.jsonl")]

    def test_a_recipe_is_a_whole_command(self):
        self.compile("train", "--dp", "2", "--micro-batch", "1")
        flags = ["--steps", "3", "--seed", "7", "--threads", "1"]
        alone = self.losses("./train", "--data", "text", *flags)
        self.assertEqual(self.train(self.RUN), alone)
        both = self.losses("./train", "--data", "text", "more", *flags)
        self.assertNotEqual(both, alone)
        self.assertEqual(self.train(dict(self.RUN, data=["text", "more"])),
                         both)
        self.assertEqual(self.train(dict(self.RUN, data="text")), alone)
        # What is given goes before what the file says, on either side of --.
        for given in [["--data", "text", "more"], ["--data=text",
                                                   "--data=more"]]:
            self.assertEqual(self.train(self.RUN, "--", *given), both)
        self.assertEqual(self.train(self.RUN, "--", "--steps", "2"), alone[:2])
        self.assertNotEqual(self.train(self.RUN, "--", "--seed=8"), alone)
        self.assertEqual(len(self.train(dict(self.RUN, tokens="none"), "--",
                                        "--data", "text")), 3)

    def test_a_layout_is_one_decision(self):
        compiles = ["cleave", "compile", LLAMA, "--recipe", "recipe.json",
                    "-o", "out"]
        plan = {"version": 2, "mesh": [{"name": "tp", "size": 4}],
                "dims": {"heads": ["tp"], "kv_heads": ["tp"]}}
        self.write("plan.json", plan)
        self.write("recipe.json", dict(self.RUN, tp=2, zero=1,
                                       sequence_parallel=True))
        self.assertIn('["dp"=2, "tp"=2], 2 micro', self.run_tool(*compiles))
        self.assertIn('["dp"=2, "tp"=4]', self.run_tool(*compiles, "--tp", "4"))
        self.assertIn('["tp"=4], 1', self.run_tool(*compiles, "--plan",
                                                   "plan.json"))
        estimate = json.loads(self.run_tool(
            "cleave", "estimate", LLAMA, "--recipe", "recipe.json",
            "--cluster", "h100-sxm:4", "--json"))["layout"]
        self.assertEqual([estimate[key] for key in
                          ["dp", "tp", "zero", "sequence_parallel",
                           "micro_batch"]],
                         [2, 2, 1, True, 1])
        self.write("rows", '{"tp": 4}\n')
        self.assertEqual(json.loads(self.run_tool(
            "cleave", "estimate", LLAMA, "--recipe", "recipe.json", "--batch",
            "rows", "--cluster", "h100-sxm:4"))["layout"]["tp"], 4)
        planned = {"version": 1, "seq_len": 16, "global_batch": 4,
                   "plan": "plan.json"}
        self.write("recipe.json", planned)
        self.assertIn('["tp"=4], 1', self.run_tool(*compiles))
        self.assertIn('["dp"=2, "tp"=1]', self.run_tool(*compiles, "--dp", "2"))
        # Not all of a price's dims are split by this one.
        estimate = ["cleave", "estimate", LLAMA, "--recipe", "recipe.json",
                    "--cluster", "h100-sxm:4"]
        self.expect_error(['plan.json: keys "mesh"'], *estimate)
        self.assertIn("tp 4, ", self.run_tool(*estimate, "--tp", "4"))
        self.run_tool(*estimate, "--batch", "rows")
        self.write("recipe.json", dict(planned, tp=4))
        self.expect_error(['key "tp": excludes "plan"'], *compiles)
        self.write("recipe.json", dict(self.RUN, pp=2))
        self.assertIn('["pp"=2, ', self.run_tool(*compiles))
        self.write("recipe.json", dict(self.RUN, cp=2))
        self.expect_error("--cp: programs have no context parallelism yet",
                          *compiles, code=2)
        self.write("recipe.json", dict(self.RUN, schedule="cosine"))
        self.expect_error(['key "schedule"', '"lr_schedule"',
                           '"pipeline_schedule"'], *compiles)

    def test_the_planner_checks_what_it_ignores(self):
        self.run_tool("cleave", *PLANNED, "-o", "plan.json")
        for command in [PLANNED, ["estimate", LLAMA, "--cluster", "h100-sxm:4",
                                  *SHAPE],
                        ["explain", LLAMA, "--cluster", "h100-sxm:8", "--plan",
                         "plan.json"]]:
            self.write("recipe.json", {
                key: value for key, value in self.RUN.items()
                if key not in ("dp", "micro_batch", "seq_len", "global_batch")})
            self.run_tool("cleave", *command, "--recipe", "recipe.json")
            for key, bad in [("steps", 0), ("data", []), ("save", 3),
                             ("keep", 0), ("transport", "nccl")]:
                self.write("recipe.json", {"version": 1, key: bad})
                self.expect_error(f'recipe.json: key "{key}": expects ',
                                  "cleave", *command, "--recipe",
                                  "recipe.json")


if __name__ == "__main__":
    unittest.main()
