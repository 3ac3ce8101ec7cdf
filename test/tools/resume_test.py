#!/usr/bin/env python3
"""Runs that stop and go on: by a signal, by a kill, in another layout; bad
steps that change nothing. CLEAVE_KILLS: how often a run is killed (default 4)."""
import json
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

from support import (GOLDEN, LLAMA, MPIRUN, TOOLS, ToolTest, make_dataset,
                     read_safetensors)

SHAPE = ["--seq-len", "16", "--global-batch", "8"]
SILENT = ["--log-every", "0", "--peak-gflops", "1"]
RATE = ["--lr", "1e-2", "--warmup-steps", "2"]
STILL = ["--lr", "0", "--min-lr", "0", "--warmup-steps", "0"]
RUN = ["--data", "set", "--seed", "3", *SILENT, *RATE]
LAYOUTS = [[], ["--dp", "2"], ["--tp", "2"], ["--dp", "2", "--zero", "1"],
           ["--dp", "4", "--zero", "2"], ["--dp", "8", "--zero", "3"],
           ["--tp", "4", "--sequence-parallel"],
           ["--dp", "2", "--tp", "2", "--zero", "1"],
           ["--dp", "2", "--tp", "4", "--zero", "3", "--sequence-parallel"],
           ["--dp", "4", "--tp", "2", "--zero", "1", "--micro-batch", "1"],
           ["--tp", "8"], ["--micro-batch", "2"]]


def find_children(process):
    """Ids of the processes that it has started."""
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        return [int(id) for id in file.read().split()]


class ResumeTest(ToolTest):
    def setUp(self):
        super().setUp()
        index, tokens = make_dataset([300, 50, 650])
        self.write("set.idx", index)
        self.write("set.bin", tokens)

    def build(self, name, *flags):
        self.compile(name, *flags, shape=SHAPE)

    def train(self, executable, steps, *arguments, rate=RATE):
        """Losses of the steps that it ran."""
        if os.path.exists(self.path("metrics.jsonl")):
            os.remove(self.path("metrics.jsonl"))
        self.run_tool(executable, "--data", "set", "--seed", "3", *SILENT,
                      *rate, "--steps", str(steps), "--decay-steps", "1000",
                      "--metrics", "metrics.jsonl", *arguments)
        return [line["loss"] for line in self.lines("metrics.jsonl")]

    def read_state(self, checkpoint):
        """The payloads of a checkpoint's shards, by file: all but their index,
        which has the run's random name."""
        with open(os.path.join(self.path(checkpoint), "manifest.json")) as file:
            manifest = json.load(file)
        return {shard["file"]: self.read(f"{checkpoint}/{shard['file']}")
                [:shard["index_begin"]] for shard in manifest["shards"]}

    def assert_near(self, actual, expected, bound=1e-5):
        self.assertEqual(len(actual), len(expected))
        for a, b in zip(actual, expected):
            self.assertLess(abs(a - b), bound, f"{actual} {expected}")

    def test_goes_on_bitwise(self):
        self.build("train", "--dp", "2", "--tp", "2", "--zero", "1")
        whole = self.train("./train", 9, "--save", "whole", "--save-every", "2",
                           "--keep", "2")
        self.assertEqual(sorted(os.listdir(self.path("whole"))),
                         ["lock", "step-00000008", "step-00000009"])
        first = self.train("./train", 4, "--save", "parts")
        rest = self.train("./train", 9, "--save", "parts", "--resume")
        self.assertEqual(first + rest, whole)
        self.assertEqual(self.read_state("parts/step-00000009"),
                         self.read_state("whole/step-00000009"))
        # One file of metrics, each step once, though some were done again.
        for steps, flags in [(6, []), (9, ["--resume", "whole/step-00000008"])]:
            self.run_tool("./train", *RUN, "--steps", str(steps),
                          "--decay-steps", "1000", "--metrics", "m.jsonl",
                          *flags)
        self.assertEqual([line["step"] for line in self.lines("m.jsonl")],
                         [0, 1, 2, 3, 4, 5, 8])
        # From the checkpoint before, saved elsewhere; and nothing to do.
        again = self.train("./train", 9, "--save", "again", "--resume",
                           "whole/step-00000008")
        self.assertEqual(again, whole[8:])
        self.assertEqual(self.read_state("again/step-00000009"),
                         self.read_state("whole/step-00000009"))
        self.assertEqual(self.train("./train", 9, "--save", "again",
                                    "--resume"), [])

    def test_copies_in_bf16_follow_their_parameters(self):
        """No checkpoint has them: they are what the parameters are, also of a
        run that goes on in a layout that keeps none."""
        runs = {}
        for name, flags in [("one", []), ("shards", ["--dp", "2", "--zero", "1"]),
                            ("stages", ["--pp", "2", "--micro-batch", "2"])]:
            self.build(name, "--dtype", "bf16", *flags)
            states = self.run_tool("cleave", "inspect", name)
            self.assertEqual(" copy " in states, name != "shards")
            runs[name] = self.train(f"./{name}", 3, "--save", f"{name}.save")
        whole = self.train("./one", 6)
        self.assertEqual(
            runs["one"] + self.train("./one", 6, "--resume", "one.save"), whole)
        # Sums in another order, of values that are rounded to bf16.
        for name in ["shards", "stages"]:
            self.assert_near(
                self.train("./one", 6, "--resume", f"{name}.save"), whole[3:],
                1e-2)

    def test_goes_on_in_every_layout(self):
        """State that went through another layout and back is the same bit for
        bit; the losses from there are one another's within rounding."""
        names = []
        for i, flags in enumerate(LAYOUTS):
            names.append(f"train{i}")
            self.build(names[-1], *flags)
        origin = names[7]
        whole = self.train("./" + origin, 6, "--save", "origin",
                           "--save-every", "3")
        for name in names:
            rest = self.train("./" + name, 6, "--resume",
                              "origin/step-00000003")
            self.assert_near(rest, whole[3:])
            # There and back without a step: a run of 3 steps is at its end.
            self.train("./" + name, 3, "--resume", "origin/step-00000003",
                       "--save", "there-" + name)
            self.train("./" + origin, 3, "--resume", "there-" + name,
                       "--save", "back-" + name)
            self.assertEqual(self.read_state(f"back-{name}/step-00000003"),
                             self.read_state("origin/step-00000003"), name)

    def test_another_global_batch_takes_the_samples_that_follow(self):
        self.build("eight")
        self.compile("four", shape=["--seq-len", "16", "--global-batch", "4"])
        # 62 samples an epoch: 40 are consumed, so 22 are left of the first.
        self.train("./eight", 5, "--save", "s", rate=STILL)
        rest = self.train("./four", 10, "--resume", "s", rate=STILL)
        straight = self.train("./four", 15, rate=STILL)
        self.assertEqual(rest, straight[10:])

    def test_a_signal_saves_and_stops(self):
        self.build("train", "--dp", "2")
        whole = self.train("./train", 400)
        for number in [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1]:
            shutil.rmtree(self.path("s"), ignore_errors=True)
            os.remove(self.path("metrics.jsonl"))
            command = [self.path("train"), *RUN, "--steps", "400",
                       "--decay-steps", "1000", "--save", "s", "--resume",
                       "--metrics", "metrics.jsonl"]
            process = subprocess.Popen(command, cwd=self.folder,
                                       stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
            self.wait_for_steps(30)
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 3, err)
            self.assertIn("stopped by a signal", out)
            step, = [int(name[5:]) for name in os.listdir(self.path("s"))
                     if name.startswith("step-")]
            self.assertEqual(len(self.lines("metrics.jsonl")), step)
            self.assertEqual(self.train("./train", 400, "--save", "s",
                                        "--resume")[-10:], whole[-10:])

    def get_newest(self, folder):
        """The last step that is saved there; 0 if there is none."""
        names = os.listdir(self.path(folder)) \
            if os.path.isdir(self.path(folder)) else []
        return max((int(name[5:]) for name in names
                    if name.startswith("step-")), default=0)

    def wait_for_steps(self, count):
        end = time.time() + 60
        while time.time() < end:
            if os.path.exists(self.path("metrics.jsonl")) \
                    and self.read("metrics.jsonl").count(b"\n") >= count:
                return
            time.sleep(0.01)
        self.fail("no steps")

    def outlive_kills(self, launcher, shoot):
        """Starts a run again after each kill, with the same command line; what
        it leaves is the unbroken run's bit for bit: parameters, moments, and
        the loss of every step. `shoot` kills the run that it is given."""
        kills, steps = int(os.environ.get("CLEAVE_KILLS", "4")), 400
        self.build("train", "--dp", "2", "--tp", "2", "--zero", "1")
        flags = ["--save-every", "5", "--keep", "3", "--resume"]
        whole = self.train("./train", steps, "--save", "whole", *flags)
        shots, newest = random.Random(1), 0
        command = [*launcher, self.path("train"), *RUN, "--steps", str(steps),
                   "--decay-steps", "1000", "--save", "s", "--metrics",
                   "killed.jsonl", *flags]
        for _ in range(kills):
            process = subprocess.Popen(command, cwd=self.folder,
                                       stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            self.addCleanup(process.kill)
            aim = newest + shots.randrange(1, steps // (kills + 1) - 5)
            while newest < aim:
                self.assertIsNone(process.poll(), "ended before it was killed")
                time.sleep(0.001 * shots.random())
                newest = self.get_newest("s")
            shoot(process, shots)
        self.assertLess(newest, steps)
        self.run_tool(*command)
        self.assertEqual([line["loss"] for line in self.lines("killed.jsonl")],
                         whole)
        self.assertEqual(self.read_state(f"s/step-{steps:08}"),
                         self.read_state(f"whole/step-{steps:08}"))

    def test_kills_cost_nothing_but_time(self):
        def shoot(process, shots):
            process.kill()
            self.assertEqual(process.wait(), -signal.SIGKILL)

        self.outlive_kills([], shoot)

    @unittest.skipUnless(os.environ.get("CLEAVE_MPIRUN"), "no Open MPI here")
    def test_kills_of_one_process_cost_nothing_but_time(self):
        """Of four under mpirun, whichever it is: mpirun ends the others."""
        def shoot(process, shots):
            ranks = find_children(process)
            self.assertEqual(len(ranks), 4)
            os.kill(shots.choice(ranks), signal.SIGKILL)
            self.assertEqual(process.wait(timeout=60), 128 + signal.SIGKILL)

        self.outlive_kills([*MPIRUN, "-np", "4"], shoot)

    def test_a_supervised_run_goes_on_by_itself(self):
        """`cleave run` starts a killed run again from its checkpoints, and in
        fewer ranks where it is told how."""
        self.build("train", "--dp", "2")
        self.build("alone")
        whole = self.train("./train", 300)
        flags = [*RUN, "--steps", "300", "--decay-steps", "1000", "--save", "s",
                 "--save-every", "5", "--resume", "--metrics", "metrics.jsonl"]
        for fewer in [[], ["--fewer-ranks", " ".join(["./alone", *flags])]]:
            shutil.rmtree(self.path("s"), ignore_errors=True)
            os.remove(self.path("metrics.jsonl"))
            process = subprocess.Popen(
                [os.path.join(TOOLS, "cleave"), "run", *fewer, "--", "./train",
                 *flags], cwd=self.folder, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True)
            self.wait_for_steps(40)
            child, = find_children(process)
            os.kill(child, signal.SIGKILL)
            out, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, err)
            self.assertIn("goes on from s/step-", out)
            losses = [line["loss"] for line in self.lines("metrics.jsonl")]
            self.assertEqual(len(losses), 300)
            if not fewer:
                self.assertEqual(losses, whole)
                continue
            # Bit for bit up to the checkpoint that it went on from.
            self.assertEqual(losses[:30], whole[:30])
            self.assertIn("1 rank (", out)

    def test_damage_is_named_and_passed_over(self):
        self.build("train", "--dp", "2")
        self.train("./train", 6, "--save", "s", "--save-every", "2")
        for step, change in [(6, b"\1"), (4, b"")]:
            name = f"s/step-{step:08}/rank-00000.bin"
            content = self.read(name)
            self.write(name, content[:100] + change + content[101:])
        done = self.start("./train", *RUN, "--steps", "6", "--save", "s",
                          "--resume")
        self.assertEqual(done.returncode, 0, done.stderr)
        for step in [6, 4]:
            self.assertIn(f"step-{step:08}/rank-00000.bin: is damaged",
                          done.stderr)
        self.assertIn("goes on from s/step-00000002", done.stdout)
        # All damaged: the run does not begin again in silence.
        for name in os.listdir(self.path("s")):
            if name.startswith("step-"):
                os.remove(self.path(f"s/{name}/manifest.json"))
        done = self.start("./train", *RUN, "--steps", "6", "--save", "s",
                          "--resume")
        self.assertEqual(done.returncode, 1)
        self.assertIn("error: s: none of its 3 checkpoints is whole",
                      done.stderr)

    def test_nothing_is_overwritten_without_a_word(self):
        self.build("train")
        self.train("./train", 2, "--save", "s", "--export", "hf")
        self.expect_error("--resume goes on from it", "./train", *RUN,
                          "--steps", "1", "--save", "s")
        self.expect_error("--overwrite replaces the weights in it", "./train",
                          *RUN, "--steps", "1", "--export", "hf")
        self.expect_error("has no checkpoint", "./train", *RUN, "--steps", "1",
                          "--resume", "hf")
        for seed, data, part in [("4", ["set"], "with --seed 3; this one has 4"),
                                 ("3", ["set", "set"], "data of")]:
            self.expect_error(part, "./train", "--data", *data, "--seed", seed,
                              "--steps", "3", "--save", "s", "--resume")
        self.compile("other", model=os.path.join(GOLDEN, "gpt2"), shape=SHAPE)
        self.expect_error("is a checkpoint of another model", "./other", *RUN,
                          "--steps", "3", "--save", "s", "--resume")

    def test_a_bad_step_changes_nothing(self):
        """A step whose gradient is not a number is skipped on all ranks, within
        the budget, and leaves the state as it was, whatever the optimizer keeps
        and where."""
        for flags in [["--dp", "2", "--zero", "1"],
                      ["--dp", "2", "--zero", "3", "--dtype", "bf16"],
                      ["--pp", "2", "--micro-batch", "1", "--optimizer", "lion"],
                      ["--tp", "2", "--optimizer", "muon", "--moments", "bf16"]]:
            with self.subTest(flags=flags):
                self.build("train", *flags)
                self.check_bad_step()
                shutil.rmtree(self.path("s"))
                os.remove(self.path("m.jsonl"))

    def check_bad_step(self):
        # What one huge step leads to: the loss after it is no number.
        run = ["./train", "--data", "set", *SILENT, "--lr", "1e30",
               "--warmup-steps", "0", "--save", "s", "--save-every", "1"]
        self.expect_stop(5, ["not a number", "infinite"], *run, "--steps", "5")
        newest = sorted(os.listdir(self.path("s")))[-1]
        self.assertIn("step-", newest)
        before = self.read_state("s/" + newest)
        done = self.start(*run, "--steps", "5", "--resume", "--skip-budget",
                          "9", "--metrics", "m.jsonl")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = self.lines("m.jsonl")
        self.assertTrue(lines and all(line["skipped"] for line in lines))
        self.assertEqual(self.read_state("s/step-00000005"), before)
        # Resumed, the budget goes on from those skipped before.
        self.expect_stop(5, ["steps were skipped"], *run, "--steps", "9",
                         "--resume", "--skip-budget", str(len(lines)))

    def expect_stop(self, code, parts, *command):
        done = self.start(*command)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertTrue(any(part in done.stderr for part in parts),
                        done.stderr)

    def test_metrics_on_a_full_disk_save_the_run(self):
        self.build("train")
        whole = self.train("./train", 4, "--save", "whole")
        done = self.start("./train", *RUN, "--steps", "4", "--decay-steps",
                          "1000", "--save", "s", "--metrics", "/dev/full")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/dev/full: cannot write", done.stderr)
        self.assertIn("saved s/step-00000001", done.stdout)
        self.assertEqual(self.train("./train", 4, "--save", "s", "--resume"),
                         whole[1:])

    def test_export_in_several_files(self):
        self.build("train", "--dp", "2", "--tp", "2", "--zero", "3")
        self.train("./train", 3, "--save", "s", "--export", "one")
        self.train("./train", 3, "--save", "s", "--resume", "--export", "many",
                   "--max-shard-size", "50KB")
        with open(self.path("many/model.safetensors.index.json")) as file:
            index = json.load(file)
        header, data = read_safetensors(self.read("one/model.safetensors"))
        header.pop("__metadata__")
        self.assertEqual(set(index["weight_map"]), set(header))
        self.assertEqual(index["metadata"]["total_size"], len(data))
        sizes = {}
        for name, file in index["weight_map"].items():
            other, bytes_ = read_safetensors(self.read("many/" + file))
            begin, end = header[name]["data_offsets"]
            first, last = other[name]["data_offsets"]
            self.assertEqual(bytes_[first:last], data[begin:end], name)
            sizes[file] = len(bytes_)
        self.assertGreater(len(sizes), 5)
        self.assertEqual(sorted(sizes), [
            f"model-{i:05}-of-{len(sizes):05}.safetensors"
            for i in range(1, len(sizes) + 1)])
        # What was exported is a model folder like any other.
        self.assertEqual(self.train("./train", 1, "--init", "many"),
                         self.train("./train", 1, "--init", "one"))
        # `cleave export` makes the same of the checkpoint.
        for folder, flags in [("one", []), ("many", ["--max-shard-size",
                                                     "50KB"])]:
            self.run_tool("cleave", "export", "s", "copy", *flags)
            names = os.listdir(self.path(folder))
            self.assertEqual(sorted(os.listdir(self.path("copy"))),
                             sorted(names))
            for name in names:
                self.assertEqual(self.read("copy/" + name),
                                 self.read(f"{folder}/{name}"), name)
            self.expect_error("--overwrite", "cleave", "export", "s", "copy")
            shutil.rmtree(self.path("copy"))
        self.expect_error("none: has no checkpoint", "cleave", "export", "none",
                          "copy")


if __name__ == "__main__":
    unittest.main()
