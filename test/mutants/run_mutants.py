"""Breaks correct programs, and checks that the verifiers refuse every mutant.

usage: run_mutants.py CLEAVE_OPT FOLDER [--per-kind N] [--every N]

FOLDER holds forward graphs, NAME.mlir. Each is made a training step and placed
under several layouts; the placed programs, before and after their reshards
became collectives, must pass `--cleave-verify-placements` and
`--cleave-verify-step`, and no mutant of them may (see mutate.py for what a mutant is). Of each kind of mutation, --per-kind
mutants, evenly spread, are taken from each program; of the many kinds that put
one type of one op wrong, every --every-th, in turn. Prints the counts; fails on
a mutant that is accepted, or refused for a reason that is not a verifier's.
"""

import argparse
import bisect
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import ir
from mutate import get_mutants

# dp, tp, ZeRO stage, sequence parallel, micro-batches
LAYOUTS = [(2, 1, 0, False, 1), (2, 1, 1, False, 2), (2, 1, 2, False, 2),
           (4, 1, 3, False, 2), (1, 2, 0, False, 1), (1, 2, 0, True, 2),
           (1, 4, 0, True, 1), (2, 2, 0, False, 2), (2, 2, 1, True, 1),
           (2, 2, 2, False, 1), (2, 2, 3, True, 2)]
BATCH = 24  # mutants given to one process
VERIFY = ["--cleave-verify-placements", "--cleave-verify-step"]


def make_plan(dp, tp, zero, sequence_parallel, micro_batches):
    dims = {"batch": ["dp"]} if dp > 1 else {}
    if tp > 1:
        for dim in ("vocab", "heads", "kv_heads", "intermediate"):
            dims[dim] = ["tp"]
        if sequence_parallel:
            dims["sequence"] = ["tp"]
    stages = {"optimizer": 1, "gradients": 2, "parameters": 3}
    return {"version": 2,
            "mesh": [{"name": "dp", "size": dp}, {"name": "tp", "size": tp}],
            "micro_batches": micro_batches, "dims": dims,
            "keep": {what: ["dp"] if dp > 1 and zero >= stage else []
                     for what, stage in stages.items()}}


def run(command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True)


def build(opt, source, layout, folder):
    """The placed program, and the one with collectives; both are correct."""
    plan = os.path.join(folder, "-".join(map(str, layout)) + ".json")
    with open(plan, "w") as file:
        json.dump(make_plan(*layout), file)
    placed = [opt, source, f"--cleave-build-step=micro-batches={layout[4]}",
              "--cleave-expand-cross-entropy", f"--cleave-place-tensors=plan={plan}",
              *VERIFY]
    for more in ([], ["--cleave-insert-collectives", *VERIFY]):
        result = run(placed + more + ["--mlir-print-op-generic"])
        if result.returncode:
            sys.exit(f"a correct program is refused: {source} {layout}\n"
                     + result.stderr)
        yield result.stdout


def check(opt, texts):
    """The first error of each text, None where it is accepted."""
    joined = "\n// -----\n".join(texts)
    result = run([opt, "-", "--split-input-file", *VERIFY, "-o", os.devnull],
                 joined)
    # An error names the line of the whole input.
    starts, line = [], 1
    for text in texts:
        starts.append(line)
        line += text.count("\n") + 2
    errors = [None] * len(texts)
    for line, error in re.findall(r"^<stdin>:(\d+):\d+: error: (.*)",
                                  result.stderr, flags=re.M):
        where = bisect.bisect(starts, int(line)) - 1
        errors[where] = errors[where] or error
    return errors


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("opt")
    parser.add_argument("folder")
    parser.add_argument("--per-kind", type=int, default=1)
    parser.add_argument("--every", type=int, default=12)
    arguments = parser.parse_args()

    sources = sorted(os.path.join(arguments.folder, name)
                     for name in os.listdir(arguments.folder)
                     if name.endswith(".mlir"))
    assert sources, "no programs"
    programs, jobs = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for source in sources:
            for layout in LAYOUTS:
                for text in build(arguments.opt, source, layout, folder):
                    module = ir.parse(text)
                    # The program is understood: it comes back as it was.
                    again = run([arguments.opt, "-", "--mlir-print-op-generic",
                                 *VERIFY], ir.print_module(module))
                    if again.stdout != text:
                        sys.exit(f"not read back: {source} {layout}\n"
                                 + again.stderr)
                    programs += 1

                    def skip(kind):
                        return (kind + programs) % arguments.every

                    jobs += [(source, layout, what, ir.print_module(mutant))
                             for what, mutant in
                             get_mutants(module, arguments.per_kind, skip)]

        batches = [jobs[i : i + BATCH] for i in range(0, len(jobs), BATCH)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            answers = pool.map(
                lambda batch: check(arguments.opt, [job[3] for job in batch]),
                batches)
            errors = [error for answer in answers for error in answer]

    counts, bad = Counter(), 0
    for (source, layout, what, mutant), error in zip(jobs, errors, strict=True):
        counts[what] += 1
        # `'xf.add' op expects ...`: a verifier spoke, not the parser.
        if error and re.match(r"'[\w.]+' op ", error):
            continue
        bad += 1
        print(f"{'REFUSED AS ' + error if error else 'ACCEPTED'}: "
              f"{os.path.basename(source)} {layout}: {what}")
        with open(f"mutant-{bad}.mlir", "w") as file:
            file.write(mutant)
    for what, count in sorted(counts.items()):
        print(f"{count:6d}  {what}")
    print(f"correct programs: {programs}, none refused")
    print(f"mutants: {len(jobs)}, not refused: {bad}")
    sys.exit(1 if bad else 0)


main()
