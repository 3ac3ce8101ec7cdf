#!/usr/bin/env python3
"""A run of 400 steps that is killed twice and goes on in two other layouts,
beside the same run unbroken: its losses, as a table.

usage: resume.py BUILD      (some two minutes on two cores)
"""
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

STEPS, EVERY, KILLS = 400, 50, (130, 280)
MODEL = "examples/tiny-llama"
SHAPE = ["--seq-len", "128", "--global-batch", "16"]
LAYOUTS = [
    ["--dp", "2", "--tp", "2", "--zero", "1", "--sequence-parallel",
     "--micro-batch", "4"],
    ["--dp", "4", "--zero", "3", "--micro-batch", "2"],
    ["--tp", "2", "--micro-batch", "8"]]


def read_losses(path):
    with open(path) as file:
        return {row["step"]: row["loss"] for row in map(json.loads, file)}


def count_lines(path):
    if not os.path.exists(path):
        return 0
    with open(path, "rb") as file:
        return file.read().count(b"\n")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    cleave = os.path.abspath(os.path.join(sys.argv[1], "bin/cleave"))
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    with tempfile.TemporaryDirectory(prefix="cleave-resume-") as folder:
        text = os.path.join(folder, "text")
        with open(text, "wb") as out:
            for path in sorted(glob.glob("/usr/share/common-licenses/*")):
                with open(path, "rb") as file:
                    out.write(file.read())
        for i, layout in enumerate(LAYOUTS):
            subprocess.run([cleave, "compile", os.path.join(top, MODEL),
                            *layout, *SHAPE, "-q", "-o", f"{folder}/{i}"],
                           check=True)

        def start(executable, save):
            return subprocess.Popen(
                [f"{folder}/{executable}", "--data", text, "--steps",
                 str(STEPS), "--lr", "3e-3", "--min-lr", "3e-4",
                 "--warmup-steps", "20", "--log-every", "0", "--save-every",
                 str(EVERY), "--keep", "3", "--resume", "--save",
                 f"{folder}/{save}", "--metrics", f"{folder}/{save}.jsonl"],
                stdout=subprocess.DEVNULL)

        if start(0, "whole").wait() != 0:
            sys.exit("the unbroken run failed")
        for executable, step in enumerate(KILLS):
            process = start(executable, "broken")
            while count_lines(f"{folder}/broken.jsonl") < step:
                time.sleep(0.05)
            process.send_signal(signal.SIGKILL)
            process.wait()
        if start(len(KILLS), "broken").wait() != 0:
            sys.exit("the broken run did not end well")
        whole = read_losses(f"{folder}/whole.jsonl")
        broken = read_losses(f"{folder}/broken.jsonl")
    if sorted(whole) != list(range(STEPS)) or whole.keys() != broken.keys():
        sys.exit("not every step was done once")
    print(f"`{MODEL}`, {STEPS} steps, killed after steps {KILLS[0]} and "
          f"{KILLS[1]}; checkpoints every {EVERY} steps. Layouts: "
          + "; ".join("`" + " ".join(layout) + "`" for layout in LAYOUTS))
    print("\n| step | unbroken | killed and resumed | difference |")
    print("|---|---|---|---|")
    starts = [step // EVERY * EVERY for step in KILLS]
    shown = sorted({*range(0, STEPS, EVERY), *(s - 1 for s in starts),
                    *(s + 10 for s in starts), STEPS - 1})
    for step in shown:
        print(f"| {step} | {whole[step]:.7f} | {broken[step]:.7f} | "
              f"{abs(whole[step] - broken[step]):.1e} |")


if __name__ == "__main__":
    main()
