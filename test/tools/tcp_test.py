#!/usr/bin/env python3
"""What cleave compile wrote, as processes that meet by torchrun's variables."""
import os
import re
import signal
import socket
import subprocess
import time
import unittest

from support import TOOLS, ToolTest, make_dataset

SIMULATE = os.path.join(TOOLS, "..", "test", "cuda", "simulate")


def find_port():
    """One that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class TcpTest(ToolTest):
    def setUp(self):
        super().setUp()
        index, tokens = make_dataset([1000])
        self.write("set.idx", index)
        self.write("set.bin", tokens)
        self.run = ["./train", "--data", "set", "--steps", "3"]

    def launch(self, *ranks, **variables):
        """Starts a process for each command."""
        shared = {"WORLD_SIZE": len(ranks), "MASTER_ADDR": "localhost",
                  "MASTER_PORT": find_port(), "CLEAVE_JOIN_SECONDS": 60,
                  "LOCAL_WORLD_SIZE": len(ranks), **variables}
        processes = []
        for rank, command in enumerate(ranks):
            own = {**shared, "RANK": rank, "LOCAL_RANK": rank}
            process = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env={**os.environ, **{k: str(v) for k, v in own.items()}})
            self.addCleanup(process.kill)
            processes.append(process)
        return processes

    def finish(self, processes):
        """Exit codes, and the errors of all."""
        said = "".join(process.communicate(timeout=120)[1]
                       for process in processes)
        return [process.returncode for process in processes], \
            re.findall("^error: .*", said, re.M)

    def finish_well(self, *ranks, **variables):
        self.assertEqual(self.finish(self.launch(*ranks, **variables)),
                         ([0] * len(ranks), []))

    def expect_named(self, parts, *ranks, **variables):
        """Said once, and all end."""
        codes, said = self.finish(self.launch(*ranks, **variables))
        self.assertNotIn(0, codes, said)
        self.assertEqual(len(said), 1, said)
        for part in parts:
            self.assertIn(part, said[0], said)

    def test_processes_compute_what_threads_do(self):
        """Bit for bit: collectives, and a pipeline's messages in streams."""
        for flags in [["--dp", "2", "--zero", "2"],
                      ["--pp", "2", "--dp", "2", "--micro-batch", "1",
                       "--overlap", "always"]]:
            self.compile("train", *flags)
            threads = self.losses(*self.run)
            run = [*self.run, "--metrics", "tcp.jsonl", "--peak-gflops", "1"]
            count = 4 if "--pp" in flags else 2
            self.finish_well(*[run] * count)
            self.assertEqual([step["loss"] for step in self.lines("tcp.jsonl")],
                             threads)

    def test_gpus_compute_what_cpus_do(self):
        """On the CUDA machine that is made of software, by NCCL."""
        self.compile("train", "--cluster", "h200:4", "--dp", "2", "--pp", "2",
                     "--micro-batch", "1", "--overlap", "always")
        self.run_tool(*self.run, "--device", "cpu", "--dump-outputs", "cpu")
        command = [SIMULATE, "--devices", "4", "--threads", "1", "--seed", "1",
                   "--", *self.run, "--device", "cuda", "--dump-outputs", "gpu"]
        self.finish_well(*[command] * 4)
        self.assertTrue(self.read("gpu") == self.read("cpu"))

    def test_gpus_whose_id_never_comes(self):
        """NCCL's: its rank hangs, or is dead."""
        self.compile("train", "--cluster", "h200:2", "--dp", "2")
        for fault, said, advice in [
                ("hangs", "rank 0 hangs",
                 "NCCL_DEBUG=WARN says what NCCL waits for"),
                ("dies", "rank 0 has died", "dmesg")]:
            command = [SIMULATE, "--devices", "2", "--threads", "1", "--fault",
                       f"nccl-id-{fault}", "--", *self.run, "--device", "cuda",
                       "--watchdog", "2"]
            self.expect_named(
                [said, "in connecting GPUs by NCCL; rank 1 waits for it",
                 advice],
                *[command] * 2, CLEAVE_JOIN_SECONDS=4)

    def test_ranks_that_were_started_otherwise(self):
        self.compile("train", "--dp", "2", "--zero", "2")
        self.expect_named(['--steps is "5" on rank 1, but "3" on rank 0'],
                          self.run, [*self.run[:-1], "5"])
        self.expect_named(["rank 1: none: cannot open"], self.run,
                          [each.replace("set", "none") for each in self.run])
        self.expect_named(["started 3 ranks", "compiled for 2"],
                          *[self.run] * 3)
        self.expect_named(["WORLD_SIZE is 2 here, but 4 on rank 1"],
                          self.run, ["env", "WORLD_SIZE=4", *self.run])
        for process in self.launch(
                *[[*self.run, "--transport", "local"]] * 2):
            codes, said = self.finish([process])
            self.assertEqual(codes, [1])
            self.assertRegex(said[0], '--transport is "local" on rank [01] of '
                             'the 2 that the launcher started.*take "tcp"')

    def test_one_process_is_no_launcher(self):
        """Whose ranks are threads, though the variables are there."""
        self.compile("train", "--dp", "2", "--zero", "2")
        self.finish_well(self.run)

    def test_killing_one_rank_ends_all(self):
        """Which the watchdog names, and without it who lost the connection."""
        self.compile("train", "--dp", "2", "--zero", "2")
        for watchdog, code, words in [
                ("10", 4, "watchdog: rank 1 has died"),
                ("0", 1, "rank 0: .*lost the connection to rank 1")]:
            self.kill_one(code, words, f"out{watchdog}.jsonl", self.run,
                          "--watchdog", watchdog)

    def test_killing_one_gpu_ends_all(self):
        """Which NCCL sees at once, and does not know why: the watchdog speaks
        first, and without it who lost the connection, or NCCL."""
        self.compile("train", "--cluster", "h200:2", "--dp", "2")
        command = [SIMULATE, "--devices", "2", "--threads", "1", "--", *self.run]
        for watchdog, code, words in [
                ("10", 4, "watchdog: rank 1 has died: .*dmesg"),
                ("0", 1, "rank 0: (lost the connection to rank 1|step [0-9]+: "
                 "among ranks 0 and 1, for instruction .*: remote process exited)"
                 )]:
            self.kill_one(code, words, f"out{watchdog}.jsonl", command,
                          "--watchdog", watchdog, "--device", "cuda")

    def kill_one(self, code, words, metrics, run, *flags):
        """`run` ends in a number of steps."""
        processes = self.launch(*[
            [*run[:-1], "100000000", "--log-every", "0", "--metrics", metrics,
             *flags]] * 2)
        deadline = time.monotonic() + 60
        while metrics not in self.list() or not self.read(metrics):
            self.assertLess(time.monotonic(), deadline, "never started")
            time.sleep(0.05)
        processes[1].send_signal(signal.SIGKILL)
        codes, said = self.finish(processes)
        self.assertEqual(codes, [code, -signal.SIGKILL], said)
        self.assertEqual(len(said), 1, said)
        self.assertRegex(said[0], words)


if __name__ == "__main__":
    unittest.main()
