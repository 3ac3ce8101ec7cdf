#!/usr/bin/env python3
"""cleave-opt, cleave-translate and cleave-lsp-server: every pass and stage that
--help lists runs alone, on what the passes before it wrote."""
import json
import os
import re
import unittest

from support import LLAMA, PLAN, SHAPE, ToolTest

# In the order in which the stages run them.
STAGES = {
    "grad": ["build-step", "verify-step"],
    "recompute": ["recompute", "verify-step"],
    "place": ["expand-cross-entropy", "place-tensors", "verify-placements",
              "verify-step"],
    "partition": ["insert-collectives", "keep-copies", "block-shards",
                  "verify-placements",
                  "verify-step", "localize"],
    "pipeline": ["cut-stages", "verify-stages"],
    "kernels": ["expand-composites", "lower-to-exec", "verify-kernels"],
    "overlap": ["cut-turn", "cut-products", "join-pieces", "overlap", "add-waits",
                "verify-order"],
    "memory": ["plan-memory", "add-waits", "verify-memory", "verify-order"],
}

# In no stage.
ALONE = {"choose-placements", "choose-plan", "price-placements"}


class OptTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.run_tool("cleave", "import", LLAMA, "--seq-len", "16", "--batch",
                      "2", "-o", "model.mlir")

    def opt(self, source, *flags):
        """`source` after the passes, which also read back what they wrote."""
        self.write("in.mlir", source)
        return self.run_tool("cleave-opt", "in.mlir", "--verify-roundtrip",
                             *flags)

    def listed(self, prefix):
        """What --help lists under a name that begins so."""
        text = self.run_tool("cleave-opt", "--help")
        return set(re.findall(rf"^ +--{prefix}([\w-]+) ", text, re.M))

    def test_every_pass_and_stage_runs_alone(self):
        passes = {name for each in STAGES.values() for name in each}
        self.assertEqual(self.listed("cleave-"), passes | ALONE |
                         {"stage-" + name for name in [*STAGES, "plan"]})
        text = self.read("model.mlir").decode()
        # This one needs to know where, if nobody has decided yet.
        self.write("in.mlir", self.opt(text, "--cleave-stage-grad"))
        done = self.start("cleave-opt", "in.mlir", "--cleave-stage-plan")
        self.assertEqual(done.returncode, 1)
        self.assertIn("error: expects a dist.plan, or the option cluster",
                      done.stderr[:200])
        planned = self.opt(self.read("in.mlir").decode(),
                           "--cleave-choose-plan=cluster=h100-sxm:2")
        self.assertEqual(self.opt(planned, "--cleave-stage-plan"), planned)
        for stage, names in STAGES.items():
            before = text
            for name in names:
                text = self.opt(text, "--cleave-" + name)
            whole = self.opt(before, "--cleave-stage-" + stage)
            self.assertEqual(text, whole, stage)
            # Nothing is recomputed or cut unless a plan says so, and nothing
            # runs aside on threads.
            self.assertEqual(text == before, stage in
                             ("recompute", "pipeline", "overlap"), stage)
        self.assertIn("arena_bytes", text)

    def test_every_pass_is_in_the_reference(self):
        """docs/passes has a heading for each, as --help has."""
        docs = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                            "..", "..", "docs", "passes")
        found = set()
        for name in os.listdir(docs):
            with open(os.path.join(docs, name)) as file:
                found |= set(re.findall(r"^### `-cleave-([\w-]+)`",
                                        file.read(), re.M))
        self.assertEqual(
            found, ALONE | {name for each in STAGES.values() for name in each})

    def test_place_reads_a_plan(self):
        self.write("plan.json", PLAN)
        model = self.run_tool("cleave", "import", LLAMA, "--seq-len", "16",
                              "--batch", "2", "--pad-vocab", "332")
        step = "--cleave-build-step=micro-batches=2"
        text = self.opt(model, step, "--cleave-expand-cross-entropy",
                        "--cleave-place-tensors=plan=plan.json",
                        "--cleave-stage-partition")
        self.assertIn("dist.all_reduce", text)
        done = self.start("cleave-opt", "model.mlir", "--cleave-stage-grad",
                          "--cleave-place-tensors=plan=none.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("none.json: No such file", done.stderr)
        self.write("in.mlir", model)
        done = self.start("cleave-opt", "in.mlir", "--cleave-stage-grad",
                          "--cleave-place-tensors=plan=plan.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("plan.json: the plan has 2 micro-batches, the step 1",
                      done.stderr)

    def test_stages_go_by_the_plan_in_the_ir(self):
        """A step of which only the IR is known, planned, cut and recomputed,
        still computes what it did."""
        self.run_tool("cleave", "import", LLAMA, "--seq-len", "16", "--batch",
                      "2", "--pad-vocab", "332", "-o", "padded.mlir")
        done = self.start(
            "cleave-opt", "padded.mlir", "--check-meaning",
            "--cleave-build-step=micro-batches=2",
            "--cleave-choose-plan=cluster=h100-sxm:4 pin=tp=2,pp=2,"
            "recompute=full",
            *["--cleave-stage-" + name for name in list(STAGES)[1:5]], "-o",
            "stages.mlir")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = self.read("stages.mlir").decode()
        self.assertIn('dist.plan = {dims = {', text)
        self.assertIn("func.func @stage_1", text)
        self.assertIn("recomputed = true", text)
        self.assertIn("dist.all_reduce", text)

    def test_place_reads_what_the_planner_found(self):
        """As compile --plan does, which also knows the model's type."""
        pins = ["tp=2", "cp=1", "pp=1", "shard-group=0", "recompute=none"]
        self.run_tool("cleave", "plan", LLAMA, "--cluster", "h100-sxm:4",
                      *SHAPE, "--dtype", "f32", "-o", "found.json",
                      *(word for pin in pins for word in ["--pin", pin]))
        with open(self.path("found.json")) as file:
            found = json.load(file)
        micro = found["layout"]["micro_batch"] * found["layout"]["dp"]
        model = self.run_tool("cleave", "import", LLAMA, "--seq-len", "16",
                              "--batch", str(micro), "--pad-vocab", "332")
        flags = [f"--cleave-build-step=micro-batches={4 // micro}",
                 "--cleave-expand-cross-entropy",
                 "--cleave-place-tensors=plan=found.json"]
        text = self.opt(model, *flags, "--cleave-verify-placements")
        self.assertIn("dist.reshard", text)
        self.write("found.json", dict(found, seq_len=32))
        done = self.start("cleave-opt", "in.mlir", *flags)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the plan is for --seq-len 32, not 16", done.stderr)

    def test_a_pass_that_is_out_of_place_says_so(self):
        """None crashes on the IR of another stage."""
        passes = {name for each in STAGES.values() for name in each}
        done = self.run_tool("cleave-opt", "model.mlir", "--cleave-stage-grad",
                             "--cleave-stage-place", "--cleave-stage-partition",
                             "--cleave-stage-kernels")
        self.write("exec.mlir", done)
        self.write("empty.mlir", "module {}")
        for name in sorted(passes):
            for source in ["model.mlir", "exec.mlir", "empty.mlir"]:
                done = self.start("cleave-opt", source, "--cleave-" + name)
                self.assertIn(done.returncode, [0, 1],
                              f"{name} {source}: {done.stderr[:500]}")
                self.assertEqual(done.returncode == 1, "error: " in done.stderr)

    def test_a_stage_takes_no_options(self):
        done = self.start("cleave-opt", "model.mlir",
                          "--cleave-stage-grad=lr=1")
        self.assertNotEqual(done.returncode, 0)

    def test_kernels_translate_to_each_target(self):
        text = self.opt(self.read("model.mlir").decode(),
                        *[f"--cleave-stage-{stage}" for stage in STAGES])
        # Kernels alone: what is between the states and the program.
        kernels = re.findall(r"^  exec\.kernel .*?^  \}$", text, re.M | re.S)
        self.assertGreater(len(kernels), 10)
        self.write("kernels.mlir", "\n".join(kernels))
        signs = {"llvm-ir": "define internal void @", "ptx": ".target sm_90"}
        for target, sign in signs.items():
            self.assertIn(sign, self.run_tool(
                "cleave-translate", f"--kernels-to-{target}", "kernels.mlir"))
        self.run_tool("cleave-translate", "--kernels-to-object",
                      "--cpu=x86-64-v3", "kernels.mlir", "-o", "kernels.o")
        self.assertEqual(self.read("kernels.o")[:4], b"\x7fELF")
        listed = self.run_tool("cleave-translate", "--help")
        self.assertEqual(set(re.findall(r"--(kernels-to-[\w-]+)", listed)),
                         {"kernels-to-llvm-ir", "kernels-to-ptx",
                          "kernels-to-object", "kernels-to-cubin"})
        done = self.start("cleave-translate", "--kernels-to-object",
                          "--cpu=pentium", "kernels.mlir")
        self.assertEqual(done.returncode, 1)
        self.assertIn('error: expects an x86-64 CPU with AVX2 and FMA, got '
                      '"pentium"', done.stderr.split("\n")[0])

    def test_the_language_server_knows_our_dialects(self):
        def message(**content):
            text = json.dumps({"jsonrpc": "2.0", **content})
            return f"Content-Length: {len(text)}\r\n\r\n{text}"
        document = {"uri": "test:///broken.mlir", "languageId": "mlir",
                    "version": 1,
                    "text": 'dist.mesh @m [#dist.axis<"a" = 0>]\n'}
        done = self.start(
            "cleave-lsp-server", stdin=None, input=message(
                id=0, method="initialize",
                params={"processId": 1, "rootUri": "", "capabilities": {}})
            + message(method="textDocument/didOpen",
                      params={"textDocument": document})
            + message(id=1, method="shutdown", params=None)
            + message(method="exit"))
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = [json.loads(part) for part in
                   re.split(r"Content-Length: \d+\s+", done.stdout)[1:]]
        by_id = {each["id"]: each for each in answers if "id" in each}
        self.assertIn("capabilities", by_id[0]["result"])
        self.assertIsNone(by_id[1]["result"])
        shown = [each["params"]["diagnostics"] for each in answers
                 if each.get("method") == "textDocument/publishDiagnostics"]
        self.assertIn("to have a size of at least 1", json.dumps(shown))


if __name__ == "__main__":
    unittest.main()
