"""Damaged programs in real executables: each is refused, or runs to its end.

usage: program_mutants.py CLEAVE [--count N] [--seed S] [--keep FOLDER]

Compiles a few small models, changes bytes of the program in each executable,
makes its checksum right again, and runs a step of it. A damaged program may be
refused, and one that is still legal may train on; none may crash, or take more
than 10 seconds. Nor may what turns such programs into IR, which reads all that
train. Prints the figures; fails, and names the first mutants, on any that crashes
or hangs. --keep copies those to a folder.
"""
import argparse
import collections
import concurrent.futures
import os
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data",
                      "golden")
SHAPE = ["--seq-len", "16", "--global-batch", "4"]
PROGRAMS = [
    ("gpt2", ["--cluster", "local:1", "--micro-batch", "2"]),
    ("llama3-gqa-tied", ["--dp", "2", "--tp", "2", "--zero", "1",
                         "--sequence-parallel", "--micro-batch", "1"]),
    ("phi3", ["--dp", "2", "--zero", "3", "--dtype", "bf16"]),
    ("gpt_neox-parallel", ["--tp", "2"]),  # rotates a part of each head
]
MAGIC = b"CLEAVEPG"
HEADER = 24
LIMIT = 10  # seconds
MEMORY = 8 << 30
BATCH = 50  # mutants that a worker is given at a time


def make_crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = make_crc_table()


class Zeros:
    """What a checksum becomes over many zeros, in a few steps: the change that
    a changed byte makes to the checksum of all that follow it."""

    def __init__(self):
        # Column i: what bit i becomes over 2^k zeros.
        self.powers = [[TABLE[v & 255] ^ v >> 8 for v in
                        (1 << i for i in range(32))]]

    @staticmethod
    def apply(columns, value):
        result, i = 0, 0
        while value:
            if value & 1:
                result ^= columns[i]
            value >>= 1
            i += 1
        return result

    def advance(self, value, count):
        k = 0
        while count:
            if k == len(self.powers):
                last = self.powers[-1]
                self.powers.append([self.apply(last, c) for c in last])
            if count & 1:
                value = self.apply(self.powers[k], value)
            count >>= 1
            k += 1
        return value


ZEROS = Zeros()


class Victim:
    """An executable and where its program lies."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            data = file.read()
        at = -1
        while True:
            at = data.index(MAGIC, at + 1)
            size = struct.unpack_from("<Q", data, at + 16)[0]
            if data[at + 8 : at + 12] != b"\0\0\0\0" and HEADER < size < 1 << 24:
                break
        self.begin = at + HEADER
        self.payload = data[self.begin : self.begin + size]
        self.crc = struct.unpack_from("<I", data, at + 12)[0]


def make_change(payload, random_):
    """(offset, bytes) of one change of one to eight bytes."""
    size = len(payload)
    width = random_.choice([1, 1, 2, 4, 4, 8, 8])
    at = random_.randrange(size // width) * width
    old = int.from_bytes(payload[at : at + width], "little")
    top = 1 << 8 * width
    new = random_.choice([
        lambda: random_.randrange(top),
        lambda: old ^ 1 << random_.randrange(8 * width),
        lambda: random_.choice([0, 1, 2, 0x7F, 0xFF, 0x7FFFFFFF, 1 << 31,
                                top - 1, top >> 1]),
        lambda: old + random_.choice([-64, -4, -1, 1, 4, 64]),
        lambda: old * 2, lambda: old // 2,
        lambda: int.from_bytes(payload[(b := random_.randrange(
            size // width) * width) : b + width], "little"),
    ])() % top
    return at, new.to_bytes(width, "little")


def limit_child():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def read_back(path, translate):
    """What becomes of a program that trains, as IR."""
    try:
        done = subprocess.run(
            [translate, "--program-to-exec", path, "-o", os.devnull],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return "hung when it was read back"
    # 1: the compiler could not have written it.
    return {0: "trained", 1: "trained, no IR"}.get(
        done.returncode, f"read back with {done.returncode}")


def run_batch(victim, text, seeds, folder, keep, translate):
    """Counts of what happened, and what to tell of crashes and hangs."""
    counts, bad = collections.Counter(), []
    mine = os.path.join(folder, f"train-{os.getpid()}")
    shutil.copy(victim.path, mine)
    for seed in seeds:
        random_ = random.Random(seed)
        changed = bytearray(victim.payload)
        for _ in range(random_.choice([1, 1, 2, 3])):
            at, new = make_change(changed, random_)
            changed[at : at + len(new)] = new
        crc = victim.crc
        differ = [i for i in range(0, len(changed), 4096)
                  if changed[i : i + 4096] != victim.payload[i : i + 4096]]
        for page in differ:
            for i in range(page, min(page + 4096, len(changed))):
                if changed[i] != victim.payload[i]:
                    crc ^= ZEROS.advance(TABLE[changed[i] ^ victim.payload[i]],
                                         len(changed) - i - 1)
        with open(mine, "r+b") as file:
            file.seek(victim.begin - 12)
            file.write(struct.pack("<I", crc))
            for page in differ:
                file.seek(victim.begin + page)
                file.write(changed[page : page + 4096])
        try:
            done = subprocess.run(
                [mine, "--data", text, "--steps", "1", "--log-every", "0",
                 "--peak-gflops", "1"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, timeout=LIMIT, preexec_fn=limit_child)
            # 5: the numbers that it now computes are none.
            what = {0: "trained", 1: "refused", 5: "trained"}.get(
                done.returncode)
            if what is None:
                what = f"ended with {done.returncode}"
            if b"checksum" in done.stderr:
                what = "was sealed wrongly"
            if what == "trained":
                what = read_back(mine, translate)
        except subprocess.TimeoutExpired:
            what = "hung"
        counts[what] += 1
        if what not in ("trained", "trained, no IR", "refused"):
            bad.append(f"seed {seed} of {os.path.basename(victim.path)}: {what}")
            if keep:
                shutil.copy(mine, os.path.join(
                    keep, f"{os.path.basename(victim.path)}-{seed}"))
        with open(mine, "r+b") as file:
            for page in differ:
                file.seek(victim.begin + page)
                file.write(victim.payload[page : page + 4096])
    os.remove(mine)
    return counts, bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cleave")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep")
    arguments = parser.parse_args()
    if arguments.keep:
        os.makedirs(arguments.keep, exist_ok=True)

    counts, bad = collections.Counter(), []
    with tempfile.TemporaryDirectory(prefix="cleave-mutants-") as folder:
        text = os.path.join(folder, "text.txt")
        with open(text, "w") as file:
            file.write("the quick brown fox jumps over the lazy dog " * 50)
        victims = []
        for model, flags in PROGRAMS:
            path = os.path.join(folder, model)
            subprocess.run([arguments.cleave, "compile",
                            os.path.join(GOLDEN, model), *SHAPE, *flags, "-q",
                            "-o", path], check=True)
            # The program is right before it is damaged.
            subprocess.run([path, "--data", text, "--steps", "1",
                            "--log-every", "0"], check=True,
                           stderr=subprocess.DEVNULL)
            victims.append(Victim(path))
        seeds = range(arguments.seed, arguments.seed + arguments.count)
        with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
            jobs = []
            for i, victim in enumerate(victims):
                mine = seeds[i :: len(victims)]
                jobs += [pool.submit(run_batch, victim, text,
                                     mine[start : start + BATCH], folder,
                                     arguments.keep,
                                     arguments.cleave + "-translate")
                         for start in range(0, len(mine), BATCH)]
            for job in jobs:
                more, worse = job.result()
                counts += more
                bad += worse
    for what, count in sorted(counts.items()):
        print(f"{count:7d}  {what}")
    print(f"damaged programs: {sum(counts.values())}, "
          f"crashed or hung: {len(bad)}")
    print(*bad[:20], sep="\n", end="\n" if bad else "")
    sys.exit(1 if bad or not counts["trained"] else 0)


main()
