#!/usr/bin/env python3
"""What cleave compile wrote, and cleave train: data, seeds, checkpoints,
metrics, traces, across layouts."""
import json
import math
import os
import shutil
import struct
import subprocess
import time
import unittest

from support import (DATA, GOLDEN, LLAMA, SHAPE, ToolTest, make_dataset,
                     make_safetensors, read_safetensors)

DATASET = ["--data", "set", "--steps", "3"]


def batches(case):
    return ["--tokens", os.path.join(case, "golden.safetensors")]


class TrainTest(ToolTest):
    def write_dataset(self):
        index, tokens = make_dataset([300, 50, 650])
        self.write("set.idx", index)
        self.write("set.bin", tokens)

    def assert_near(self, actual, expected):
        """As near as f32 sums in another order are."""
        self.assertEqual(len(actual), len(expected))
        for a, b in zip(actual, expected):
            self.assertLess(abs(a - b), 2e-6 * abs(b), f"{actual} {expected}")

    def test_every_layout_sees_the_same_samples(self):
        self.write_dataset()
        self.compile("one")
        expected = self.losses("./one", *DATASET)
        self.assertEqual(len(set(expected)), 3)
        for flags in [["--dp", "2"], ["--dp", "4", "--zero", "3"],
                      ["--micro-batch", "1"], ["--dp", "2", "--tp", "2",
                                               "--micro-batch", "1"]]:
            self.compile("other", *flags)
            self.assert_near(self.losses("./other", *DATASET), expected)

    def test_bf16_does_not_depend_on_where_state_is_kept(self):
        """ZeRO moves state and adds in the same order."""
        self.write_dataset()
        losses = []
        for zero in "0123":
            self.compile("train", "--dp", "2", "--zero", zero, "--dtype",
                         "bf16")
            losses.append(self.losses("./train", *DATASET))
        self.assertEqual(losses, [losses[0]] * 4)
        self.compile("train", "--dp", "2")
        exact = self.losses("./train", *DATASET)
        self.assertNotEqual(losses[0], exact)
        for a, b in zip(losses[0], exact):
            self.assertLess(abs(a - b), 2e-2 * b)

    def test_mfu_is_the_planners(self):
        """The same model FLOPs, whatever a layout pads or repeats: of equal
        step time and peak, a run and an estimate have one MFU."""
        self.write_dataset()
        peak = 3e9  # of the one core that each rank has

        def constant(value, unit):
            return {"value": value, "unit": unit, "source": "made up"}

        self.write("cluster.json", {
            "version": 1, "devices_per_node": 2,
            "levels": [{"size": 0, "link": "nvlink4"}],
            "device": {"base": "h100-sxm", "matrix": {
                name: {"peak": constant(peak, "FLOP/s"),
                       **{key: constant(value, unit) for key, value, unit in [
                           ("efficiency", 1, "1"), ("tile_startup", 0, "s"),
                           ("tile_slope", 0, "1"), ("throttle", 0, "1"),
                           ("launch", 0, "s"), ("memory_efficiency", 1, "1")]}}
                for name in ["f32", "bf16"]}}})
        for flags in [["--dp", "2"], ["--tp", "2"]]:
            estimate = json.loads(self.run_tool(
                "cleave", "estimate", LLAMA, *SHAPE, "--cluster",
                "cluster.json", "--dtype", "f32", "--json",
                *flags))
            expected = estimate["mfu"] * estimate["step_time_s"] * 2 * peak
            self.compile("train", "--micro-batch", "1", *flags)
            self.run_tool("./train", *DATASET, "--threads", "1", "--metrics",
                          "out.jsonl", "--peak-gflops", str(peak / 1e9))
            cores = min(2, len(os.sched_getaffinity(0)))
            with open(self.path("out.jsonl")) as file:
                for row in map(json.loads, file):
                    flops = row["mfu"] * row["seconds"] * cores * peak
                    self.assertAlmostEqual(flops / expected, 1, places=5)

    def test_a_dataset_is_named_in_three_ways(self):
        self.write_dataset()
        self.compile("train")
        losses = [self.losses("./train", "--data", name, "--steps", "2")
                  for name in ["set", "set.idx", "set.bin"]]
        self.assertEqual(losses, [losses[0]] * 3)

    def test_a_dataset_that_megatron_wrote(self):
        with open(os.path.join(LLAMA, "config.json")) as file:
            config = json.load(file)
        self.write("config.json", dict(config, vocab_size=1 << 16))
        self.compile("train", model="config.json")
        for name in ["sentences-u16", "licenses-i32"]:
            # What is kept of a look at the data goes beside it.
            for ending in [".idx", ".bin"]:
                shutil.copy(os.path.join(DATA, "megatron", name + ending),
                            self.folder)
            losses = self.losses("./train", "--steps", "1", "--data", name)
            self.assertLess(abs(losses[0] - math.log(1 << 16)), 0.2)

    def test_a_bad_token_is_found_long_before_its_turn(self):
        """By a look at all tokens in the background, kept beside the data."""
        index, tokens = make_dataset([300000], tokens=[5] * 299999 + [7777])
        self.write("set.idx", index)
        self.write("set.bin", tokens)
        self.compile("train", "--dp", "2")
        long = ["./train", "--data", "set", "--steps", "1000000000",
                "--log-every", "0"]
        message = "set.bin: token 299999 has id 7777; the model's vocabulary " \
            "is 0 to 330"
        self.expect_error([message], *long)
        self.assertIn("set.scan.json", os.listdir(self.folder))
        kept = json.loads(self.read("set.scan.json"))
        self.assertEqual(kept["highest"], {"id": 7777, "at": 299999})
        self.assertEqual(kept["lowest"], {"id": 5, "at": 0})
        self.assertEqual(kept["bytes"], 600000)
        self.assertEqual(kept["tokens"], 300000)
        # From what was kept, and after the data was mended anew.
        self.expect_error([message], *long)
        self.write("set.bin", tokens[:-2] + struct.pack("<H", 330))
        self.run_tool(*long[:3], "--steps", "3")
        for _ in range(100):
            if json.loads(self.read("set.scan.json"))["highest"]["id"] == 330:
                break
            self.run_tool(*long[:3], "--steps", "300", "--log-every", "0")
        else:
            self.fail(self.read("set.scan.json"))
        if os.getuid() == 0:
            return  # may write anywhere
        os.remove(self.path("set.scan.json"))
        os.chmod(self.folder, 0o555)
        shown = self.run_tool(*long[:3], "--steps", "3000", "--log-every", "0")
        self.assertIn("note: all tokens were checked, but the result is not "
                      "kept", shown)

    def test_a_step_of_ignored_targets_has_no_loss(self):
        """And is named before the first step."""
        self.compile("train")
        header = {name: {"dtype": "I32", "shape": [3, 4, 16],
                         "data_offsets": [768 * i, 768 * (i + 1)]}
                  for i, name in enumerate(["inputs", "targets"])}
        inputs = struct.pack("<192i", *[3] * 192)
        targets = struct.pack("<192i", *[3] * 64, *[-100] * 64, *[3] * 64)
        self.write("tokens", make_safetensors(header, inputs + targets))
        self.expect_error(["tokens", "all targets of step 1 are -100"],
                          "./train", "--tokens", "tokens")

    def test_two_runs_on_one_file_of_metrics(self):
        """The second is refused; the first one's lines stay whole."""
        self.write_dataset()
        self.compile("train")
        process = subprocess.Popen(
            ["./train", "--data", "set", "--steps", "1000000000",
             "--log-every", "0", "--metrics", "out.jsonl"], cwd=self.folder,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            while "out.jsonl" not in self.list() or not self.read("out.jsonl"):
                self.assertLess(time.monotonic(), deadline, "never started")
                time.sleep(0.01)
            done = self.start("./train", *DATASET, "--metrics", "out.jsonl")
        finally:
            process.kill()
            process.wait()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("out.jsonl: another process writes it", done.stderr)
        text = self.read("out.jsonl")
        rows = [json.loads(line) for line in
                text[:text.rindex(b"\n")].splitlines()]
        self.assertEqual([row["step"] for row in rows],
                         list(range(len(rows))))
        # A killed run's lock is gone with it.
        self.run_tool("./train", *DATASET, "--metrics", "out.jsonl")

    def test_the_mfu_of_a_run_is_below_the_peak(self):
        """Of the type that it multiplies, whatever the CPU is best at."""
        with open(os.path.join(LLAMA, "config.json")) as file:
            config = json.load(file)
        self.write("config.json", dict(
            config, hidden_size=512, intermediate_size=2048,
            num_attention_heads=8, num_key_value_heads=8, head_dim=64))
        self.write_dataset()
        for dtype in ["f32", "bf16"]:
            self.compile("train", "--dtype", dtype, model="config.json",
                         shape=["--seq-len", "64", "--global-batch", "8"])
            self.run_tool("./train", *DATASET, "--threads", "1", "--metrics",
                          "out.jsonl")
            for row in self.lines("out.jsonl"):
                self.assertLess(row["mfu"], 1, dtype)
                self.assertGreater(row["mfu"], 0, dtype)

    def test_text_is_read_as_bytes(self):
        self.write("text", "the quick brown fox jumps over the lazy dog " * 20)
        self.compile("train")
        losses = self.losses("./train", "--data", "text", "--steps", "30")
        # Untrained, each id is about as likely as any other.
        self.assertLess(abs(losses[0] - math.log(331)), 0.1)
        self.assertLess(losses[-1], losses[0] - 0.5)

    def test_seeds(self):
        """Bit for bit the same again; another seed is another run."""
        self.write_dataset()
        self.compile("train", "--dp", "2")
        runs = [self.losses("./train", *DATASET, "--seed", seed)
                for seed in ["0", "0", "1"]]
        self.assertEqual(runs[0], runs[1])
        self.assertEqual(runs[0], self.losses("./train", *DATASET))
        self.assertNotEqual(runs[0][0], runs[2][0])

    def test_saved_weights_are_where_the_run_went_on(self):
        """With a constant learning rate of 0, steps change nothing; with
        another, step 3 from scratch is step 1 from what 2 steps saved."""
        self.compile("train", "--dp", "2", "--tp", "2", "--zero", "3",
                     shape=["--seq-len", "48", "--global-batch", "4"])
        self.compile("still", "--lr", "0", "--min-lr", "0",
                     shape=["--seq-len", "48", "--global-batch", "4"])
        tokens = batches(LLAMA)
        whole = self.losses("./train", *tokens, "--steps", "3", "--decay-steps",
                            "100")
        self.run_tool("./train", *tokens, "--steps", "2", "--decay-steps",
                      "100", "--export", "saved")
        self.assertEqual(sorted(os.listdir(self.path("saved"))),
                         ["config.json", "model.safetensors"])
        # The third batch, by a run whose weights never change.
        resumed = self.losses("./still", *tokens, "--steps", "3", "--init",
                              "saved")
        self.assert_near(resumed[2:], whole[2:])
        self.assertGreater(abs(resumed[0] - whole[0]), 1e-4)

    def test_saving_what_was_read_changes_no_bit(self):
        for case in ["gpt2", "phi3", "llama3-gqa-tied"]:
            folder = os.path.join(GOLDEN, case)
            self.compile("train", "--lr", "0", "--min-lr", "0", "--tp", "2",
                         model=folder,
                         shape=["--seq-len", "48", "--global-batch", "4"])
            self.run_tool("./train", *batches(folder), "--init", folder,
                          "--steps", "1", "--export", "saved",
                          "--overwrite")
            with open(os.path.join(folder, "config.json"), "rb") as file:
                self.assertEqual(self.read("saved/config.json"), file.read())
            with open(os.path.join(folder, "model.safetensors"), "rb") as file:
                header, data = read_safetensors(file.read())
            ours, bytes_ = read_safetensors(
                self.read("saved/model.safetensors"))
            for each in [header, ours]:
                each.pop("__metadata__", None)
            # The reference may hold a tied tensor twice.
            self.assertLessEqual(set(ours), set(header))
            for name, info in ours.items():
                begin, end = info["data_offsets"]
                first, last = header[name]["data_offsets"]
                self.assertEqual(info["shape"], header[name]["shape"])
                self.assertEqual(bytes_[begin:end], data[first:last], name)

    def test_metrics(self):
        self.compile("train", "--dp", "2", "--lr", "0.002", "--min-lr",
                     "0.0005", "--warmup-steps", "2", "--lr-schedule", "linear",
                     shape=["--seq-len", "48", "--global-batch", "4"])
        self.run_tool("./train", *batches(LLAMA), "--init", LLAMA, "--steps",
                      "5", "--metrics", "out.jsonl")
        rows = self.lines("out.jsonl")
        self.assertEqual([row["step"] for row in rows], list(range(5)))
        for row in rows:
            self.assertEqual(set(row), {
                "step", "device", "loss", "rank_losses", "grad_norm", "lr",
                "tokens_per_s", "mfu", "seconds", "phases",
                "collective_seconds", "host_seconds", "arena_bytes",
                "high_water_bytes"})
            self.assertEqual(row["host_seconds"] > 0, row["step"] > 0)
            self.assertEqual(len(row["rank_losses"]), 2)
            self.assertEqual(set(row["phases"]),
                             {"forward", "backward", "optimizer"})
            self.assertGreater(min(row["phases"].values()), 0)
            self.assertLessEqual(row["collective_seconds"],
                                 sum(row["phases"].values()))
            self.assertGreater(row["mfu"], 0)
            self.assertLess(abs(row["tokens_per_s"] * row["seconds"] - 192),
                            1e-6)
            self.assertLessEqual(row["high_water_bytes"], row["arena_bytes"])
            # No target of these batches is ignored, so the mean is of halves.
            self.assert_near([sum(row["rank_losses"]) / 2], [row["loss"]])
        rates = [0.001, 0.002, 0.002, 0.0015, 0.001]
        for row, rate in zip(rows, rates):
            self.assertLess(abs(row["lr"] - rate), 1e-9, rows)
        with open(os.path.join(LLAMA, "case.json")) as file:
            case = json.load(file)
        self.assert_near([rows[0]["loss"]], [case["loss"]])
        self.assertLess(
            abs(rows[0]["grad_norm"] / case["global_grad_norm"] - 1), 1e-5)

    def test_trace(self):
        self.write_dataset()
        self.compile("train", "--dp", "2", "--tp", "2", "--micro-batch", "1")
        self.run_tool("./train", *DATASET, "--trace", "out.json",
                      "--trace-steps", "2")
        events = json.loads(self.read("out.json"))["traceEvents"]
        tracks = {(each["pid"], each["tid"]): each["args"]["name"]
                  for each in events if each["name"] == "thread_name"}
        self.assertEqual(tracks, {
            (rank, stream): name for rank in range(4)
            for stream, name in enumerate(["compute", "collectives"])})
        count = len(json.loads(self.run_tool(
            "cleave", "inspect", "train", "--json"))["instructions"])
        runs = [each for each in events if each["ph"] == "X"]
        self.assertEqual({(each["pid"], each["tid"]) for each in runs},
                         set(tracks))
        self.assertEqual({each["args"]["step"] for each in runs}, {0, 1})
        self.assertEqual({each["args"]["micro_batch"] for each in runs}, {0, 1})
        for rank in range(4):
            first = [each["args"]["instruction"] for each in runs
                     if each["pid"] == rank and each["args"]["step"] == 0
                     and each["args"]["micro_batch"] == 0]
            self.assertEqual(len(first), len(set(first)))
            self.assertEqual(len(first), count)
        for each in runs:
            self.assertGreaterEqual(each["dur"], 0)
            collective = each["name"].startswith(
                ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"))
            self.assertEqual(each["tid"], int(collective), each)

    def test_train_is_compile_and_run(self):
        self.write("text", "abcdefgh" * 40)
        run = ["--data", "text", "--steps", "2", "--metrics", "a.jsonl"]
        shown = self.run_tool("cleave", "train", LLAMA, *SHAPE, "--dp", "2",
                              "--", *run)
        self.assertIn("2 ranks", shown)
        self.assertIn("2 steps in", shown)
        self.assertEqual(self.list(), ["a.jsonl", "text"])
        self.compile("train", "--dp", "2")
        self.assertEqual(self.losses("./train", *run[:4]),
                         [row["loss"] for row in self.lines("a.jsonl")])
        self.run_tool("cleave", "train", LLAMA, *SHAPE, "-o", "kept", "--",
                      *run)
        self.assertEqual(self.start("./kept", "--help").returncode, 0)
        self.assertEqual(
            self.start("cleave", "train", LLAMA, *SHAPE, "--", "--data",
                       "none", "--steps", "1").returncode, 1)

    def test_the_help_of_an_executable(self):
        self.compile("train")
        text = self.run_tool("./train", "--help")
        for option in ["--data", "--init", "--save", "--export",
                       "--metrics", "--trace"]:
            self.assertIn(option, text)


if __name__ == "__main__":
    unittest.main()
