#!/usr/bin/env python3
"""Which layouts of the planner's space for 8 ranks compile: of a dense model and
of one of experts, every kind that the planner knows, context and expert
parallelism among them.

usage: space.py CLEAVE SPACE [--layouts N]

SPACE is the benchmark `space`, which lists them. Of each kind (with cp, with ep, with
both, with neither) N layouts that are spread evenly over the list (0: all of them, a
million, which takes days) are given to `cleave compile --plan`. Prints how many layouts
there are, how many were tried, how many of these compiled, and how many were refused by
which error, with N for its numbers; exit code 1 if anything else came of one, or one
that is dense and has neither cp nor ep was refused.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

SEQ_LEN, BATCH = 64, 16
DENSE = {"model_type": "llama", "vocab_size": 64, "num_hidden_layers": 8,
         "hidden_size": 64, "num_attention_heads": 8,
         "num_key_value_heads": 8, "intermediate_size": 128,
         "max_position_embeddings": SEQ_LEN, "rms_norm_eps": 1e-5,
         "tie_word_embeddings": True}
EXPERTS = {**DENSE, "model_type": "mixtral", "num_local_experts": 4,
           "num_experts_per_tok": 2, "sliding_window": None}


def get_kind(layout):
    """What of a layout the compiler may not have."""
    axes = [axis for axis in ("cp", "ep") if layout.get(axis, 1) > 1]
    return "with " + " and ".join(axes) if axes else "without cp and ep"


class Space:
    def __init__(self, cleave, lister, folder):
        self.cleave, self.lister = os.path.abspath(cleave), lister
        self.folder = folder
        self.wrong = []

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, value):
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump(value, file)

    def list_layouts(self):
        done = subprocess.run(
            [self.lister, self.path("model.json"), "h100-sxm:8", str(SEQ_LEN),
             str(BATCH)], check=True, stdout=subprocess.PIPE, encoding="utf-8")
        return done.stdout.splitlines()

    def compile(self, layout):
        """The error that refuses it, or nothing."""
        self.write("plan.json", {"version": 2, "layout": layout})
        done = subprocess.run(
            [self.cleave, "compile", "model.json", "--plan", "plan.json",
             "--seq-len", str(SEQ_LEN), "--global-batch", str(BATCH), "-q",
             "-o", "train"], cwd=self.folder, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, encoding="utf-8", check=False)
        lines = done.stderr.strip().splitlines()
        if done.returncode == 0:
            return None
        if done.returncode not in (1, 2) or not lines:
            self.wrong.append((done.returncode, layout, done.stderr))
            return f"exit code {done.returncode}"
        return re.sub(r"\b\d+\b", "N", lines[-1].removeprefix("cleave: error: "))

    def show(self, name, model, most):
        """Returns whether all without cp and ep compiled."""
        self.write("model.json", model)
        kinds = collections.defaultdict(list)
        for line in self.list_layouts():
            layout = json.loads(line)
            kinds[get_kind(layout)].append(layout)
        refused = {}
        for kind, layouts in sorted(kinds.items()):
            step = max(len(layouts) // most, 1) if most else 1
            tried = layouts[::step]
            errors = collections.Counter(map(self.compile, tried))
            compiled = errors.pop(None, 0)
            refused[kind] = sum(errors.values())
            print(f"{name} {kind}\t{len(layouts)} layouts\t{len(tried)} tried"
                  f"\t{compiled} compile", flush=True)
            for error, times in errors.most_common():
                print(f"\t{times} refused: {error}", flush=True)
        return refused["without cp and ep"] == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cleave")
    parser.add_argument("space")
    parser.add_argument("--layouts", type=int, default=200,
                        help="of each kind; 0: all")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        space = Space(options.cleave, os.path.abspath(options.space), folder)
        all_compile = space.show("dense", DENSE, options.layouts)
        space.show("of experts", EXPERTS, options.layouts)
    for code, layout, text in space.wrong:
        print(f"exit code {code}: {json.dumps(layout)}\n{text}",
              file=sys.stderr)
    sys.exit(bool(space.wrong) or not all_compile)


if __name__ == "__main__":
    main()
