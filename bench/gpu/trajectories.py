"""Runs of training step by step: the tokens that they share, and how far one is
from another."""
import array
import glob
import json
import math
import os
import struct

WINDOW = 10  # steps of a mean
FIRST = 3  # steps in which nothing has amplified what rounding does
CLOSE = 20  # steps that are compared one by one
LEAST = 3  # steps of the CPU that are worth a comparison
# Largest relative differences of a run in bf16: of how many steps, and those of
# losses and gradient norms. README.md has what they find.
BOUNDS = {"CPU": (CLOSE, 1e-3, 2e-2), "PyTorch": (FIRST, 1e-4, 5e-3)}
# Training amplifies rounding, with each model at a pace of its own. So a run may
# be so many times as far from PyTorch's as the furthest of so many runs that
# differ from PyTorch's by a rounding. README.md has why these numbers.
SPREADS, AGAIN = 2, 2


def read_text(root):
    """The documents of a repository."""
    text = b""
    for path in [os.path.join(root, "README.md"), *sorted(
            glob.glob(os.path.join(glob.escape(root), "docs", "*.md")))]:
        with open(path, "rb") as file:
            text += file.read()
    return text


def write_batches(path, text, steps, batch, seq_len):
    """What --tokens reads: the bytes of `text` as tokens. Samples follow each
    other in it, and begin again where it ends."""
    tokens = array.array("i", list(text))
    inputs, targets = array.array("i"), array.array("i")
    for sample in range(steps * batch):
        first = sample % ((len(tokens) - 1) // seq_len) * seq_len
        inputs += tokens[first:first + seq_len]
        targets += tokens[first + 1:first + seq_len + 1]
    size = 4 * len(inputs)
    shape = {"dtype": "I32", "shape": [steps, batch, seq_len]}
    header = json.dumps({
        "inputs": {**shape, "data_offsets": [0, size]},
        "targets": {**shape, "data_offsets": [size, 2 * size]}}).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        inputs.tofile(file)
        targets.tofile(file)


def get_difference(values, others):
    """Largest difference, relative to `others`; infinite where one is no
    number."""
    most = 0.0
    for a, b in zip(values, others):
        if a is None or b is None or not math.isfinite(a - b):
            return math.inf
        most = max(most, abs(a - b) / max(abs(b), 1e-30))
    return most


def get_means(values):
    """Of one window after the other."""
    return [None if None in values[i:i + WINDOW]
            else math.fsum(values[i:i + WINDOW]) / WINDOW
            for i in range(0, len(values) - WINDOW + 1, WINDOW)]


def measure_close(run, other, steps):
    """Of the first steps, one by one: what, of how many, and the largest
    difference."""
    steps = min(steps, len(other["losses"]))
    return [(what, steps, get_difference(run[key][:steps], other[key][:steps]))
            for what, key in (("loss", "losses"),
                              ("gradient norm", "grad_norms"))]


def measure_all(run, other):
    """Like measure_close, of all steps."""
    found = measure_close(run, other, CLOSE)
    steps = len(other["losses"])
    if steps >= WINDOW:
        found.append(("mean loss", steps, get_difference(
            get_means(run["losses"][:steps]), get_means(other["losses"]))))
    return found


def compare(run, other, peer):
    """How far `run` is from `other`, which has as many steps or fewer: a list
    of `peer`, `what`, `steps`, `difference`, `spread` and `bound`. Both have
    `losses` and `grad_norms`; `again` of `other` are more such runs, after a
    rounding, whose largest difference from `other` is the spread."""
    steps, *bounds = BOUNDS[peer]
    found = [(*each, None, bound) for each, bound in
             zip(measure_close(run, other, steps), bounds)]
    if "again" in other:
        again = [measure_all(each, other) for each in other["again"]]
        for each, *drawn in zip(measure_all(run, other), *again):
            spread = max(difference for _, _, difference in drawn)
            # Beside what is no number nothing is close.
            bound = SPREADS * spread if math.isfinite(spread) else 0.0
            found.append((*each, spread, bound))
    return [{"peer": peer, "what": what, "steps": count,
             "difference": difference, "spread": spread, "bound": bound}
            for what, count, difference, spread, bound in found]
