#!/usr/bin/env python3
"""How much of a step's communication is hidden behind its compute: two ranks on
this machine, a thread each, over an emulated link at which communication takes
as long as compute. Beside the longer of the two, and beside the same program run
serially, which takes the sum.

usage: overlap.py CLEAVE [--steps N] [--trace DIR]

Of each layout: seconds of compute (a step without the link), of communication
(what the link adds to a serial step; of a pipeline, where some of it waits beside
the other stage's compute, the messages that a stage sends), of the serial step and
of the one with streams but no product in parts (of tensor parallelism; of others it
is the same program), of the overlapped one, and of the last the ratio to the longer
of the first two; then what `cleave estimate` predicts of the overlapped step, relative
to it: with the kernels' seconds of a serial run's trace, and with priced ones.
The median of the steps but the first. Programs are compiled for this machine, as
`cleave calibrate` measures it first, with the emulated link in it.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

LAYOUTS = [("ZeRO-3", ["--dp", "2", "--zero", "3", "--micro-batch", "2"], "dp"),
           ("ZeRO-2", ["--dp", "2", "--zero", "2", "--micro-batch", "2"], "dp"),
           ("ZeRO-1", ["--dp", "2", "--zero", "1", "--micro-batch", "4"], "dp"),
           ("ZeRO-1 of 2", ["--dp", "2", "--zero", "1", "--micro-batch", "2"],
            "dp"),
           ("tp=2", ["--tp", "2", "--micro-batch", "4"], "tp"),
           ("tp=2 sp", ["--tp", "2", "--sequence-parallel", "--micro-batch",
                        "4"], "tp")]
LAYOUTS += [(f"pp=2 {schedule}", ["--pp", "2", "--micro-batch", "1",
                                  "--pipeline-schedule", schedule], "pp")
            for schedule in ["1f1b", "zb-h2", "1f1b-eager"]]
# Samples of a step. Pipelines have many micro-batches, as they do in practice:
# with few, filling and draining over such a link is most of a step, whatever the
# schedule.
BATCH, PIPELINE_BATCH = 8, 32
MODEL = {"model_type": "llama", "vocab_size": 512, "num_hidden_layers": 8,
         "hidden_size": 512, "num_attention_heads": 8,
         "num_key_value_heads": 8, "intermediate_size": 1536,
         "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
         "tie_word_embeddings": False}
SEQ = 128


def get_shape(batch):
    return ["--seq-len", str(SEQ), "--global-batch", str(batch)]


class Bench:
    RANKS = {"nodes": 1, "devices_per_node": 2, "threads_per_device": 1}

    def __init__(self, cleave, folder, steps, traces=None):
        self.cleave, self.folder = os.path.abspath(cleave), folder
        self.steps, self.traces = steps, traces
        with open(self.path("config.json"), "w") as file:
            json.dump(MODEL, file)
        with open(self.path("text"), "w") as file:
            file.write("how vexingly quick daft zebras jump " * 2000)
        subprocess.run([self.cleave, "calibrate", "-q", "-o",
                        self.path("local.json")], check=True,
                       stdout=subprocess.DEVNULL)
        with open(self.path("local.json")) as file:
            machine = json.load(file)
        self.device = machine["device"]
        # What its ranks are really joined by, for predictions of runs here.
        with open(self.path("machine.json"), "w") as file:
            json.dump({**machine, **self.RANKS}, file)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_cluster(self, bandwidth):
        """The two ranks, joined by a link of so many bytes a second."""
        link = {"base": "shared-memory", "name": "emulated",
                "bandwidth": {"value": bandwidth, "unit": "byte/s",
                              "source": "emulated"}}
        with open(self.path("cluster.json"), "w") as file:
            json.dump({"version": 1, "device": self.device,
                       "levels": [{"size": 0, "link": link}], **self.RANKS},
                      file)

    def compile(self, layout, bandwidth, batch=BATCH):
        self.write_cluster(bandwidth)
        subprocess.run([self.cleave, "compile", "config.json", *get_shape(batch),
                        *layout, "--cluster", "cluster.json", "--overlap",
                        "always", "-q", "-o", "train"], check=True, cwd=self.folder)

    def compile_whole(self, layout, batch):
        """As `train` was, but with all products whole."""
        dump = subprocess.run(
            [self.cleave, "compile", "config.json", *get_shape(batch), *layout,
             "--cluster", "cluster.json", "--dump-after-stage", "kernels",
             "--dump-locations", "-q", "-o", "unused"], check=True,
            cwd=self.folder, stdout=subprocess.PIPE).stdout
        with open(self.path("kernels.mlir"), "wb") as file:
            file.write(dump)
        subprocess.run([self.cleave + "-opt", "kernels.mlir",
                        "--cleave-overlap=mode=always cluster=cluster.json",
                        "--cleave-add-waits", "--mlir-print-debuginfo", "-o",
                        "overlap.mlir"], check=True, cwd=self.folder,
                       stderr=subprocess.DEVNULL)
        subprocess.run([self.cleave, "assemble", "overlap.mlir",
                        "--after-stage", "overlap", "-q", "-o", "whole"],
                       check=True, cwd=self.folder)

    def measure(self, *flags, program="./train"):
        """Seconds of a step."""
        subprocess.run([program, "--data", "text", "--steps",
                        str(self.steps), "--metrics", "metrics",
                        "--log-every", "0", "--peak-gflops", "1", *flags],
                       check=True, cwd=self.folder, stdout=subprocess.DEVNULL)
        with open(self.path("metrics")) as file:
            rows = [json.loads(line) for line in file]
        return statistics.median(row["seconds"] for row in rows[1:])

    @staticmethod
    def get_sent(batch=BATCH):
        """Bytes of the messages that a stage sends to the next in a step."""
        return batch * SEQ * MODEL["hidden_size"] * 4

    def predict(self, *flags):
        """Seconds of a step, as estimate has them."""
        return json.loads(subprocess.run(
            [self.cleave, "estimate", "train", "--cluster", "machine.json",
             "--json", *flags], check=True, cwd=self.folder,
            stdout=subprocess.PIPE).stdout)["step_time_s"]

    def run(self, name, layout, axis):
        batch = PIPELINE_BATCH if axis == "pp" else BATCH
        # Bytes of a step, from what a slow link adds to it; then the link that
        # takes as long as compute.
        bandwidth = 2e8
        self.compile(layout, bandwidth, batch)
        compute = self.measure("--serial")
        if axis == "pp":
            bandwidth = self.get_sent(batch) / compute
        else:
            slow = self.measure("--serial", "--emulate-link",
                                f"{axis}={bandwidth},0")
            if slow <= compute:
                raise SystemExit(
                    f"{name}: a step over a link of {bandwidth:g} byte/s takes "
                    f"{slow:.4f} s and one without it {compute:.4f} s: this "
                    "machine is too busy to measure on")
            bandwidth *= (slow - compute) / compute
        self.compile(layout, bandwidth, batch)
        link = ["--emulate-link", f"{axis}={bandwidth},0"]
        compute = self.measure("--serial", "--trace", "serial.json",
                               "--trace-steps", str(self.steps))
        serial = self.measure("--serial", *link)
        trace = []
        if self.traces:
            trace = ["--trace", os.path.join(os.path.abspath(self.traces),
                                             name.replace(" ", "-") + ".json"),
                     "--trace-steps", "2"]
        aside = self.measure(*link, *trace)
        whole = "-"
        if axis == "tp":
            self.compile_whole(layout, batch)
            whole = f"{self.measure(*link, program='./whole'):.3f}"
        communication = (self.get_sent(batch) / bandwidth if axis == "pp"
                         else serial - compute)
        ratio = aside / max(compute, communication)
        replayed = self.predict(*link, "--kernels-from", "serial.json") / aside
        priced = self.predict(*link) / aside
        print(f"{name:<16}{bandwidth / 1e6:>9.1f}{compute:>10.3f}"
              f"{communication:>10.3f}{serial:>10.3f}{whole:>8}{aside:>10.3f}"
              f"{ratio:>8.3f}{replayed:>10.3f}{priced:>8.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cleave")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--trace", help="folder for traces of the overlapped "
                        "runs")
    parser.add_argument("--only", help="layouts whose names begin so")
    arguments = parser.parse_args()
    print(f"{'layout':<16}{'MB/s':>9}{'compute':>10}{'communic.':>10}"
          f"{'serial':>10}{'whole':>8}{'overlap':>10}{'ratio':>8}{'replayed':>10}"
          f"{'priced':>8}")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments.cleave, folder, arguments.steps,
                      arguments.trace)
        for name, layout, axis in LAYOUTS:
            if name.startswith(arguments.only or ""):
                bench.run(name, layout, axis)


if __name__ == "__main__":
    main()
