#!/usr/bin/env python3
"""estimate and explain of executables: what is predicted is the list of
instructions that runs."""
import collections
import json
import unittest

from support import LLAMA, SHAPE, ToolTest, make_dataset

PIPELINE = ["--pp", "2", "--dp", "2", "--zero", "1", "--micro-batch", "1",
            "--overlap", "always"]
CLUSTER = ["--cluster", "h100-sxm:4"]
PARTS = ["compute_s", "exposed_s", "waiting_s", "idle_s"]
COMMUNICATION = {"AllReduce", "AllGather", "ReduceScatter", "AllToAll", "Send",
                 "Recv"}


class ProgramTimesTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.compile("train", *PIPELINE)

    def estimate(self, *flags, of="train"):
        return json.loads(self.run_tool("cleave", "estimate", of, *CLUSTER,
                                        "--json", *flags))

    def get_executions(self, of="train"):
        """Of each stage: instructions, as inspect shows them, with how often a
        step executes each."""
        program = json.loads(self.run_tool("cleave", "inspect", of, "--json"))
        stages = []
        for stage in range(len(program["stages"])):
            def get(key):
                return [entry for entry in program[key]
                        if entry["stage"] == stage]

            counts = collections.Counter()
            for run in get("runs"):
                segment = get("segments")[run["segment"]]
                counts.update(range(segment["begin"], segment["end"]))
            stages.append([(instruction, counts[number]) for
                           number, instruction in
                           enumerate(get("instructions"))])
        return stages

    def make_trace(self, seconds, steps=2):
        """A trace of a run in which an instruction takes what `seconds` says of
        it, one after the other."""
        events = []
        for rank in range(4):
            now = 0
            for step in range(steps):
                for number, (instruction, count) in enumerate(
                        self.get_executions()[rank // 2]):
                    for _ in range(count):
                        taken = seconds(instruction)
                        events.append({
                            "ph": "X", "name": instruction["name"],
                            "pid": rank, "tid": 0, "ts": now * 1e6,
                            "dur": taken * 1e6,
                            "args": {"step": step, "micro_batch": 0,
                                     "instruction": number}})
                        now += taken
        self.write("trace.json", {"traceEvents": events})

    def test_a_step_is_the_sum_of_its_parts(self):
        step = self.estimate()
        self.assertEqual(len(step["stages"]), 2)
        self.assertEqual(step["ranks"], 4)
        self.assertEqual(max(sum(stage[part] for part in PARTS)
                             for stage in step["stages"]), step["step_time_s"])
        for stage in step["stages"]:
            self.assertGreater(stage["waiting_s"] + stage["idle_s"], 0)
        serial = self.estimate("--serial")
        self.assertGreater(serial["step_time_s"], step["step_time_s"])
        for stage in serial["stages"]:
            self.assertEqual(stage["waiting_s"], 0)
        self.assertAlmostEqual(step["tokens_per_s"] * step["step_time_s"], 64)
        text = self.run_tool("cleave", "estimate", "train", *CLUSTER)
        self.assertIn("4 ranks of", text)
        self.assertIn("stage\tcompute\texposed\twaits\tidle", text)
        self.assertIn("layers.*.", text)

    def test_the_software_is_a_profile(self):
        def get_products(step):
            return sum(row["seconds"] for row in step["instructions"]
                       if row["name"].startswith("gemm"))

        own = self.estimate("--serial")
        measured = self.estimate("--serial", "--profile", "cleave-cpu")
        # Of our own software on GPUs, and of kernels measured alone.
        self.assertAlmostEqual(get_products(measured) / get_products(own),
                               0.92)
        self.expect_error(["--profile", "nonsense", "cleave-cpu"], "cleave",
                          "estimate", "train", *CLUSTER, "--profile",
                          "nonsense", code=2)

    def test_counts_are_those_of_the_runs(self):
        counts = collections.Counter()
        for stage in self.get_executions():
            for instruction, count in stage:
                counts[instruction["category"]] += count
        priced = collections.Counter()
        for row in self.estimate()["instructions"]:
            priced[row["phase"]] += row["count"]
        self.assertEqual(priced, counts)

    def test_the_simulated_trace_is_that_of_a_run(self):
        index, tokens = make_dataset([300, 50, 650])
        self.write("set.idx", index)
        self.write("set.bin", tokens)
        self.run_tool("./train", "--data", "set", "--steps", "1", "--trace",
                      "run.json", "--log-every", "0", "--peak-gflops", "1")
        self.estimate("--trace", "simulated.json")

        def get_tracks(name, ranks):
            """Of each stage and track the instructions in their order."""
            tracks = collections.defaultdict(list)
            events = json.loads(self.read(name))["traceEvents"]
            for event in sorted((event for event in events
                                 if event["ph"] == "X"
                                 and event["pid"] % ranks == 0),
                                key=lambda event: event["ts"]):
                args = event["args"]
                tracks[event["pid"] // ranks, event["tid"]].append(
                    (event["name"], event["cat"], args["instruction"],
                     args["micro_batch"]))
            return tracks

        run = get_tracks("run.json", 2)
        simulated = get_tracks("simulated.json", 1)
        self.assertEqual(run.keys(), simulated.keys())
        self.assertTrue(any(track > 1 for _, track in run))
        for track, events in run.items():
            # What takes no time is not drawn.
            drawn = set(simulated[track])
            self.assertEqual([event for event in events if event in drawn],
                             simulated[track])
            self.assertGreater(len(drawn), len(set(events)) / 2)

    def test_buckets_start_once(self):
        """On a link of which nothing but starts takes time, a step takes as many
        of them as there are buckets; a serial one, as there are collectives."""
        self.compile("bucketed", "--dp", "2", "--zero", "3", "--micro-batch",
                     "1", "--overlap", "always")
        collectives = [(instruction, count) for instruction, count
                       in self.get_executions("bucketed")[0]
                       if "dp" in instruction.get("group", [])
                       and instruction["opcode"] in COMMUNICATION]
        events = {instruction.get("event") for instruction, _
                  in self.get_executions("bucketed")[0]}
        for instruction, _ in self.get_executions("bucketed")[0]:
            self.assertLessEqual(set(instruction.get("waits", [])), events)
        alone = sum(count for _, count in collectives)
        starts = sum(count for instruction, count in collectives
                     if not instruction.get("with_next"))
        self.assertLess(starts, alone)
        link = ["--emulate-link", "dp=1e18,1"]
        self.assertAlmostEqual(self.estimate(*link, of="bucketed")[
            "step_time_s"], starts, delta=0.5)
        self.assertAlmostEqual(self.estimate(*link, "--serial", of="bucketed")[
            "step_time_s"], alone, delta=0.5)

    def test_emulated_links(self):
        def count(is_counted):
            return [sum(count for instruction, count in stage
                        if instruction["opcode"] in COMMUNICATION
                        and is_counted(instruction))
                    for stage in self.get_executions()]

        def expect_communication(step, counts):
            for stage, seconds in zip(step["stages"], counts, strict=True):
                self.assertAlmostEqual(stage["communication_s"], seconds, 2)

        # Two micro-batches of 1F1B; the second way follows the first by the
        # time of a message. Then both stages meet.
        messages = count(lambda each: each["opcode"] == "Send")
        self.assertEqual(messages, [2, 2])
        meetings = count(lambda each: "pp" in each.get("group", []))
        self.assertEqual(meetings[0], meetings[1])
        slow = self.estimate("--serial", "--emulate-link", "pp=1e18,1")
        self.assertAlmostEqual(slow["step_time_s"], 3 + meetings[0], 2)
        expect_communication(slow, [2 + meetings[0]] * 2)
        slow = self.estimate("--serial", "--emulate-link", "dp=1e18,1")
        expect_communication(slow, count(
            lambda each: "dp" in each.get("group", [])))

    def test_kernels_of_a_trace(self):
        self.make_trace(lambda instruction: 0.25)
        step = self.estimate("--kernels-from", "trace.json")
        for stage, executions in zip(step["stages"], self.get_executions(),
                                     strict=True):
            self.assertAlmostEqual(stage["compute_s"], 0.25 * sum(
                count for instruction, count in executions
                if instruction["opcode"] not in COMMUNICATION and
                instruction.get("stream", 0) == 0), 6)

    def test_where_prediction_and_run_part(self):
        self.make_trace(lambda instruction:
                        2.0 if instruction["opcode"] == "Attention" else 1e-3)
        compared = json.loads(self.run_tool(
            "cleave", "explain", "train", "--trace", "trace.json", *CLUSTER,
            "--json"))
        self.assertEqual(compared["measured_steps"], 1)
        measured = {"Attention": 0, "other": 0}
        for stage in self.get_executions():
            for instruction, count in stage:
                if instruction["opcode"] == "Attention":
                    measured["Attention"] += 2.0 * count
                else:
                    measured["other"] += 1e-3 * count
        self.assertAlmostEqual(sum(row["measured_s"] for row in
                                   compared["instructions"]),
                               sum(measured.values()), 6)
        text = self.run_tool("cleave", "explain", "train", "--trace",
                             "trace.json", *CLUSTER)
        first = text.split("instruction\n")[1].splitlines()[0].split("\t")
        self.assertIn("attention", first[-1])
        self.assertAlmostEqual(float(first[0]), measured["Attention"] * 1e3, 0)

    def test_what_is_refused(self):
        estimate = ["cleave", "estimate", "train"]
        explain = ["cleave", "explain", "train"]
        self.write("text", "{")
        self.write("list", [])
        self.write("other", {"traceEvents": [
            {"ph": "X", "name": "gemm x", "pid": 0, "tid": 0, "ts": 0, "dur": 1,
             "args": {"step": 0, "instruction": 0}}]})
        self.write("rank", {"traceEvents": [
            {"ph": "X", "name": "gemm x", "pid": 9, "tid": 0, "ts": 0, "dur": 1,
             "args": {"step": 0, "instruction": 0}}]})
        self.write("bare", {"traceEvents": [{"ph": "X"}]})
        for parts, *command in [
                ("text: ", *explain, *CLUSTER, "--trace", "text"),
                ('list: key "traceEvents"', *explain, *CLUSTER, "--trace",
                 "list"),
                ("other: instruction 0 of rank 0 is \"gemm x\": the trace is "
                 "of another program", *explain, *CLUSTER, "--trace", "other"),
                ("rank: an event is of rank 9", *explain, *CLUSTER, "--trace",
                 "rank"),
                ("bare: an event lacks", *estimate, *CLUSTER, "--kernels-from",
                 "bare"),
                ("absent: ", *estimate, *CLUSTER, "--kernels-from", "absent")]:
            self.expect_error(parts, *command)
        for parts, *command in [
                ("--cluster is required", *estimate),
                ("the program has 4 ranks, and there are 2", *estimate,
                 "--cluster", "h100-sxm:2"),
                ("--seq-len: is of a model, and train is an executable",
                 *estimate, *CLUSTER, "--seq-len", "16"),
                ("--tp: is of a model", *estimate, *CLUSTER, "--tp", "2"),
                ("--emulate-link: the program has no axis", *estimate,
                 *CLUSTER, "--emulate-link", "sp=1,1"),
                ("is no AXIS=BYTES_PER_S,LATENCY", *estimate, *CLUSTER,
                 "--emulate-link", "dp"),
                ("--serial: is of an executable, and ", "cleave", "estimate",
                 LLAMA, *SHAPE, *CLUSTER, "--serial"),
                ("--seq-len is required", "cleave", "estimate", LLAMA,
                 *CLUSTER),
                ("--trace: is missing", *explain, *CLUSTER),
                ("--plan is required", "cleave", "explain", LLAMA, *CLUSTER),
                ("--plan: is of a model", *explain, *CLUSTER, "--plan",
                 "plan.json", "--trace", "trace.json")]:
            self.expect_error(parts, *command, code=2)


if __name__ == "__main__":
    unittest.main()
