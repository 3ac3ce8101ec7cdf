#!/usr/bin/env python3
"""What cleave inspect says of an executable's code for GPUs: held to the rest of
what it says, to ptxas, to docs/gpus.md, and to files that are stripped or
damaged."""
import collections
import json
import os
import re
import shutil
import subprocess
import unittest

from support import GOLDEN, ROOT, ToolTest

GPT2 = os.path.join(GOLDEN, "gpt2")  # with biases
DOCS = os.path.join(ROOT, "docs", "gpus.md")


def find_ptxas():
    """As the compiler does."""
    home = os.environ.get("CUDA_HOME", "")
    for path in [os.environ.get("CLEAVE_PTXAS"),
                 os.path.join(home, "bin", "ptxas") if home else None,
                 shutil.which("ptxas"), "/usr/local/cuda/bin/ptxas"]:
        if path and os.access(path, os.X_OK):
            return path
    return None


def count_runs(shown):
    """How often a step executes each instruction, by stage and number."""
    counts = collections.Counter()
    segments = collections.defaultdict(list)
    for segment in shown["segments"]:
        segments[segment["stage"]].append(segment)
    for run in shown["runs"]:
        segment = segments[run["stage"]][run["segment"]]
        for number in range(segment["begin"], segment["end"]):
            counts[run["stage"], number] += 1
    return counts


def number_instructions(shown):
    """(stage, number within it) and each instruction."""
    numbers = collections.Counter()
    for each in shown["instructions"]:
        yield (each["stage"], numbers[each["stage"]]), each
        numbers[each["stage"]] += 1


class InspectCudaTest(ToolTest):
    def inspect(self, *flags, cluster, **options):
        self.compile("train", "--cluster", cluster, *flags, **options)
        return json.loads(self.run_tool("cleave", "inspect", "train", "--json"))

    def test_without_code_there_is_no_word_of_it(self):
        shown = self.inspect("--dp", "2", cluster="local:2")
        self.assertNotIn("cuda", shown)
        self.assertNotIn("CUDA", self.run_tool("cleave", "inspect", "train"))

    def check_counts(self, shown):
        """Streams, graphs and launches against the instructions."""
        cuda, counts = shown["cuda"], count_runs(shown)
        streams = collections.defaultdict(collections.Counter)
        launches = collections.Counter()
        for place, each in number_instructions(shown):
            times = counts[place]
            if not times:
                continue
            stream = place[0], each.get("stream", 0)
            streams[stream][each["opcode"]] += times
            if each["opcode"] == "Launch":
                launches[each["parameters"]["kernel"]] += times
        self.assertEqual({(each["stage"], each["stream"]): each["instructions"]
                          for each in cuda["streams"]}, dict(streams))
        for number, stage in enumerate(shown["stages"]):
            [graph] = [each for each in cuda["graphs"]
                       if each["stage"] == number]
            self.assertEqual(
                graph["instructions"],
                sum(sum(each.values()) for (where, _), each in streams.items()
                    if where == number))
            segments = [each for each in shown["segments"]
                        if each["stage"] == number]
            runs = [run for run in shown["runs"] if run["stage"] == number]
            self.assertEqual(
                graph["update_instructions"],
                sum(segments[run["segment"]]["end"]
                    - segments[run["segment"]]["begin"]
                    for run in runs[stage["update_run"]:]))
        generated = {each["symbol"]: each["launches"]
                     for each in cuda["kernels"]
                     if each["module"] == "generated"}
        self.assertEqual(generated, {each["symbol"]: launches[number]
                                     for number, each
                                     in enumerate(shown["kernels"])})

    def test_streams_graphs_and_launches(self):
        for cluster, flags in [
                ("h200:1", []),
                ("h200:4", ["--dp", "2", "--tp", "2", "--zero", "2",
                            "--sequence-parallel", "--micro-batch", "1"]),
                ("h200:4", ["--pp", "2", "--dp", "2", "--micro-batch", "1"])]:
            with self.subTest(flags=flags):
                self.check_counts(self.inspect(*flags, cluster=cluster))

    def test_the_example_of_the_docs(self):
        """docs/gpus.md shows what the command prints that it names; without a
        ptxas the lines on machine code are others, and are left out."""
        with open(DOCS) as file:
            text = file.read()
        end = text.index("```\nCUDA\n")
        command = text[text.rindex("`cleave compile", 0, end):end]
        words = command[1:command.index("`", 1)].split()
        shown = text[end:].split("```")[1].strip().splitlines()
        os.symlink(os.path.join(ROOT, "examples"), self.path("examples"))
        self.run_tool(*words, "-o", "train")
        printed = self.run_tool("cleave", "inspect", "train")
        printed = printed[printed.index("CUDA\n"):].split("\n\n")[0]
        printed = printed.strip().splitlines()
        if not find_ptxas():
            of_machine_code = r"code |registers |shared memory |local memory "
            shown, printed = ([line for line in lines
                               if not re.match(of_machine_code, line)]
                              for lines in (shown, printed))
        self.assertGreater(len(shown), 8)
        self.assertEqual(printed, shown)

    def test_libraries(self):
        """Which ones, and the versions of docs/gpus.md."""
        with open(DOCS) as file:
            table = file.read().split("| library |")[1].split("\n\n")[0]
        every = {"libcuda.so.1", "libcublasLt.so.13", "libcublasLt.so.12"}
        for cluster, dtype, more in [
                ("h200:1", "f32", set()),
                ("h200:1", "bf16", {"libcudnn.so.9"}),
                ("h200:2", "f32", {"libnccl.so.2"})]:
            shown = self.inspect("--dtype", dtype, "--dp", cluster[-1],
                                 cluster=cluster)
            libraries = shown["cuda"]["libraries"]
            self.assertEqual({name for each in libraries
                              for name in each["files"]}, every | more)
            for each in libraries:
                row = next(line for line in table.splitlines()
                           if f"| `{each['files'][0]}`" in line)
                for version in [each["oldest"]] if "oldest" in each else []:
                    self.assertIn(f"{version} or later", row)
                for version in each.get("wrong", []):
                    self.assertIn(version, row)
                self.assertEqual(each["optional"], "may be missing" in row)

    def test_gradients_that_are_never_cudnns(self):
        """Those that ranks compute on the same values: the program's fields and
        the words on the library."""
        self.write("copies.json", {
            "version": 2, "mesh": [{"name": "tp", "size": 2}],
            "dims": {"intermediate": ["tp"]}, "micro_batches": 2})
        words = r", and in any case (\d+) gradients a step that several ranks "
        for dtype in "f32", "bf16":
            for flags, fixed in [(["--dp", "2"], False), (["--tp", "2"], False),
                                 (["--plan", "copies.json"], True)]:
                shown = self.inspect("--dtype", dtype, *flags, cluster="h200:2")
                grads = {place: each
                         for place, each in number_instructions(shown)
                         if each["opcode"] == "AttentionGrad"}
                self.assertTrue(grads)
                for each in grads.values():
                    self.assertEqual(each["parameters"]["fixed_order"], fixed)
                counts = count_runs(shown)
                purpose = "".join(each["for"] for each
                                  in shown["cuda"]["libraries"]
                                  if each["files"] == ["libcudnn.so.9"])
                said = re.search(words, purpose)
                self.assertEqual(
                    int(said[1]) if said else 0,
                    sum(counts[place] for place in grads)
                    if fixed and dtype == "bf16" else 0)

    def test_the_runtimes_kernels(self):
        """Those of its instructions, in the type that it computes in."""
        for dtype, other in ("f32", "bf16"), ("bf16", "f32"):
            shown = self.inspect("--dtype", dtype, cluster="h200:1", model=GPT2)
            own = {each["symbol"]: each for each in shown["cuda"]["kernels"]
                   if each["module"] == "runtime"}
            for name in "attention", "attention_grad", "embedding":
                self.assertTrue(any(
                    symbol.startswith(f"cleave_{name}_{dtype}")
                    for symbol in own), name)
                self.assertFalse(any(
                    symbol.startswith(f"cleave_{name}_{other}")
                    for symbol in own), name)
            # Biases are f32, and cuBLASLt adds one of the product's type.
            self.assertEqual("cleave_convert_f32_bf16" in own, dtype == "bf16")
            opcodes = collections.Counter()
            for stream in shown["cuda"]["streams"]:
                opcodes.update(stream["instructions"])
            self.assertEqual(
                sum(each["launches"] for symbol, each in own.items()
                    if symbol.startswith("cleave_attention_grad_")),
                opcodes["AttentionGrad"])
            self.assertTrue(any(each["dynamic_shared_bytes"] > 0
                                for each in own.values()))

    def get_texts(self):
        """The modules of the executable `train`, as PTX."""
        return re.findall(rb"\n(\.version [^\0]*)\0", self.read("train"))

    def run_ptxas(self, text):
        """What ptxas says of a module's kernels."""
        ptxas = find_ptxas()
        if not ptxas:
            self.skipTest("no ptxas")
        self.write("module.ptx", text)
        return subprocess.run(
            [ptxas, "-v", "-arch=sm_90", "-o", "/dev/null", "module.ptx"],
            cwd=self.folder, capture_output=True, text=True, check=True).stderr

    def test_resources_are_what_ptxas_says(self):
        if not find_ptxas():
            self.skipTest("no ptxas")
        cuda = self.inspect("--dtype", "bf16", cluster="h200:1")["cuda"]
        says = {}
        used = {each["symbol"] + suffix for each in cuda["kernels"]
                for suffix in ("", "_multi")}
        texts = self.get_texts()
        self.assertEqual(len(texts), 2)
        for text, module in zip(sorted(texts, key=len),
                                sorted(cuda["modules"],
                                       key=lambda each: each["ptx_bytes"])):
            self.assertIn(f".version {module['ptx_version']}\n".encode(), text)
            self.assertEqual(module["cubin_chip"], "sm_90")
            self.assertIn(b".target sm_90\n", text)
            # Of the runtime's module, the kernels that this program has.
            head, *entries = re.split(rb"(?=\n\.visible \.entry )", text)
            said = self.run_ptxas(head + b"".join(
                entry for entry in entries
                if re.search(rb"\.entry (\w+)", entry)[1].decode() in used))
            for block in said.split("Compiling entry function ")[1:]:
                numbers = [re.search(pattern, block) for pattern in
                           (r"Used (\d+) registers", r"(\d+) bytes smem",
                            r"(\d+) bytes cumulative stack size")]
                says[block.split("'")[1]] = tuple(
                    int(number[1]) if number else 0 for number in numbers)
        # A kernel, and the one that does several launches of it.
        for each in cuda["kernels"]:
            symbol = each["symbol"]
            self.assertEqual(f"{symbol}_multi" in says, each["multi"], symbol)
            most = tuple(map(max, zip(says[symbol],
                                      says.get(f"{symbol}_multi", (0, 0, 0)))))
            self.assertEqual(
                (each["registers"], each["static_shared_bytes"],
                 each["local_bytes"]), most, symbol)
        self.assertTrue(any(each["multi"] for each in cuda["kernels"]))
        # None has a register in memory.
        for each in cuda["kernels"]:
            self.assertEqual(each["local_bytes"], 0, each["symbol"])
        # Some of each are not zero.
        self.assertTrue(any(each["static_shared_bytes"]
                            for each in cuda["kernels"]))

    def test_kernels_have_no_register_in_memory(self):
        """Those of the runtime, whichever of them a program has."""
        self.compile("train", "--cluster", "h200:1")
        said = self.run_ptxas(max(self.get_texts(), key=len))
        frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, "
                            r"(\d+) bytes spill loads", said)
        self.assertGreater(len(frames), 50)
        self.assertEqual(set(frames), {("0", "0", "0")}, said)

    def test_text(self):
        shown = self.inspect("--dp", "2", "--tp", "2", "--dtype", "bf16",
                             cluster="h200:4")
        text = self.run_tool("cleave", "inspect", "train")
        section = text.split("\nCUDA\n")[1].split("\n\n")[0]
        for pattern in [
                r"^code +generated kernels: PTX 8\.0 for sm_90 and later",
                r"^code +the runtime's kernels: PTX 7\.8 for sm_90 and later",
                r"^library +libcuda\.so\.1 12\.0 or later: everything",
                r"^library +libcublasLt\.so\.13 or libcublasLt\.so\.12: \d+ "
                r"matrix products a step$",
                r"^library +libcudnn\.so\.9 9\.6\.0 or later, not 9\.10\.0, .*"
                r", if there is one: attention",
                r"^library +libnccl\.so\.2 2\.18 or later: ",
                r"^graphs +1 launch a step: \d+ instructions, \d+ of them of "
                r"the update$",
                r"^stream 0 +.*\d+ Gemm",
                rf"^kernels +{len(shown['kernels'])} generated, \d+ of them "
                r"for several launches at once, \d+ of the runtime"]:
            self.assertRegex(section, re.compile(pattern, re.M), section)
        self.assertEqual(len(re.findall("^stream ", section, re.M)),
                         len(shown["cuda"]["streams"]))

    def test_what_compile_says_is_the_same(self):
        compiled = json.loads(self.compile("train", "--cluster", "h200:1",
                                           "--json"))
        shown = json.loads(self.run_tool("cleave", "inspect", "train",
                                         "--json"))
        self.assertEqual(compiled["cuda"], shown["cuda"])

    def test_a_stripped_executable(self):
        if not shutil.which("strip"):
            self.skipTest("no strip")
        shown = self.inspect(cluster="h200:1")
        os.chmod(self.path("train"), 0o755)
        subprocess.run(["strip", "train"], cwd=self.folder, check=True)
        self.assertEqual(json.loads(
            self.run_tool("cleave", "inspect", "train", "--json")), shown)

    def test_damaged_code(self):
        """One line that names the file, and no crash."""
        self.compile("train", "--cluster", "h200:1")
        whole = self.read("train")
        text = whole.index(b"\n.version ")
        cases = [(text, b"\n.virsion ", "its code for GPUs: the PTX says no ")]
        # ELF files of machine 190 within that of the executable.
        cubins = [found.start() for found in
                  re.finditer(rb"\x7fELF.{14}\xbe\0", whole, re.S)]
        for cubin in cubins:
            cases += [(cubin + 1, b"elf", "the cubin is no ELF file of a GPU"),
                      (cubin + 18, b"\x3e", "the cubin is no ELF file of a "
                       "GPU"),
                      (cubin + 0x28, b"\xff" * 8, "its code for GPUs: ")]
        for place, content, expected in cases:
            self.write("damaged", whole[:place] + content
                       + whole[place + len(content):])
            self.expect_error(["damaged: its code for GPUs: ", expected],
                              "cleave", "inspect", "damaged")


if __name__ == "__main__":
    unittest.main()
