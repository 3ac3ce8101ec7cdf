"""Wrong programs in real executables: refused, or no different.

usage: wrong_programs.py CLEAVE WRONG_PROGRAMS [--count N] [--seed S]

Compiles small models under layouts with streams, pipelines and ZeRO, makes N
wrong programs of each kind of each (WrongPrograms.cpp says which kinds there
are), and loads them. What is not refused has no race, by every pair of accesses;
and it trains here, in its executable, with delays at random in its streams, to what
the right program trains to: losses and parameters within 1e-5, since micro-batches
may be summed in another order. Prints the figures of each kind; fails on
what trains to something else.
"""
import argparse
import array
import collections
import concurrent.futures
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data",
                      "golden")
SHAPE = ["--seq-len", "16", "--global-batch", "8", "--micro-batch", "1"]
STREAMS = ["--overlap", "always"]
LAYOUTS = [
    ("gpt2", []),
    ("llama3-gqa-tied", ["--dp", "2", "--tp", "2", "--zero", "1",
                         "--sequence-parallel", *STREAMS]),
    ("gpt2", ["--dp", "2", "--zero", "3", *STREAMS]),
    ("llama3-gqa-tied", ["--pp", "2", "--pipeline-schedule", "1f1b", *STREAMS]),
    ("llama3-gqa-tied", ["--pp", "4", "--pipeline-schedule", "gpipe", "--zero",
                         "1", "--dp", "2"]),
    ("gpt2", ["--pp", "2", "--pipeline-schedule", "interleaved",
              "--virtual-stages", "2", *STREAMS]),
    ("gpt2", ["--pp", "2", "--pipeline-schedule", "zb-v", *STREAMS]),
    ("llama3-gqa-tied", ["--pp", "2", "--pipeline-schedule", "zb-h2", "--tp",
                         "2", *STREAMS]),
    ("gpt2", ["--pp", "2", "--pipeline-schedule", "dualpipe-v", "--recompute",
              "full"]),
    ("llama3-gqa-tied", ["--pp", "2", "--pipeline-schedule", "zb-h1", "--dp",
                         "2", "--zero", "2", *STREAMS]),
]
MAGIC = b"CLEAVEPG"
HEADER = 24
LIMIT = 120  # seconds


def make_model(family, folder):
    """The golden model of that family with four layers."""
    with open(f"{GOLDEN}/{family}/config.json") as file:
        config = json.load(file)
    config["n_layer" if "n_layer" in config else "num_hidden_layers"] = 4
    path = os.path.join(folder, f"{family}.json")
    with open(path, "w") as file:
        json.dump(config, file)
    return path


def put_program(executable, sealed):
    """The executable with another program, as long as its own."""
    with open(executable, "rb") as file:
        data = bytearray(file.read())
    at = -1
    while True:
        at = data.index(MAGIC, at + 1)
        size = struct.unpack_from("<Q", data, at + 16)[0]
        if HEADER + size == len(sealed):
            break
    data[at : at + len(sealed)] = sealed
    return data


def train(executable, text, folder, *flags):
    """What four steps end with: exit code, and losses and parameters."""
    export = os.path.join(folder, "trained")
    shutil.rmtree(export, ignore_errors=True)
    metrics = os.path.join(folder, "metrics.jsonl")
    done = subprocess.run(
        [executable, "--data", text, "--steps", "4", "--lr", "0.01",
         "--log-every", "0", "--peak-gflops", "1", "--export", export,
         "--metrics", metrics, "--overwrite", *flags],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, timeout=LIMIT)
    if done.returncode:
        return done.returncode, done.stderr.decode(errors="replace")[-300:]
    result = {}
    for name in sorted(os.listdir(export)):
        if name.endswith(".safetensors"):
            with open(os.path.join(export, name), "rb") as file:
                content = file.read()
            size = struct.unpack_from("<Q", content)[0]
            result[name] = array.array("f", content[8 + size :])
    with open(metrics) as file:
        rows = [json.loads(line) for line in file]
    for key in ("loss", "grad_norm"):
        result[key] = array.array("d", (row[key] for row in rows))
    return 0, result


def are_close(got, want):
    """Each array within 1e-5 of its norm."""
    return got[0] == want[0] == 0 and got[1].keys() == want[1].keys() and all(
        len(a) == len(b) and math.dist(a, b) <= 1e-5 * math.hypot(*b)
        for a, b in ((got[1][key], want[1][key]) for key in want[1]))


def try_mutant(line, right, text):
    """The kind, and what was wrong, or nothing."""
    executable, path, kind, change = line.split("\t")[:4]
    with open(path, "rb") as file:
        sealed = file.read()
    with tempfile.TemporaryDirectory(prefix="cleave-wrong-") as folder:
        mine = os.path.join(folder, "train")
        with open(mine, "wb") as file:
            file.write(put_program(executable, sealed))
        os.chmod(mine, 0o755)
        try:
            got = train(mine, text, folder, "--stream-delays", "1")
        except subprocess.TimeoutExpired:
            got = ("hung", None)
    if are_close(got, right):
        return kind, None
    how = "trains to something else" if got[0] == 0 else \
        f"ends with {got[0]}: {got[1]}"
    return kind, f"{os.path.basename(executable)}: {kind}: {change}: {how}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cleave")
    parser.add_argument("wrong_programs")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="cleave-wrong-") as folder:
        text = os.path.join(folder, "text.txt")
        with open(text, "w") as file:
            file.write("the quick brown fox jumps over the lazy dog " * 200)
        right = {}
        for number, (family, flags) in enumerate(LAYOUTS):
            path = os.path.join(folder, f"{number}-{family}")
            subprocess.run([arguments.cleave, "compile",
                            make_model(family, folder), *SHAPE, *flags,
                            "--optimizer", "sgd", "-q",
                            "-o", path], check=True)
            right[path] = train(path, text, folder)
            if right[path][0]:
                sys.exit(f"{path}: {right[path][1]}")
        mutants = os.path.join(folder, "mutants")
        os.mkdir(mutants)
        done = subprocess.run(
            [arguments.wrong_programs, str(arguments.count),
             str(arguments.seed), mutants, *right],
            stdout=subprocess.PIPE, text=True)
        with open(os.path.join(mutants, "list.tsv")) as file:
            lines = file.readlines()
        same, bad = collections.Counter(), []
        # Not threads: an executable that is being written while another thread
        # forks is busy for as long as that child has not begun.
        with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
            jobs = [pool.submit(try_mutant, line,
                                right[line.split("\t", 1)[0]], text)
                    for line in lines]
            for kind, wrong in (job.result() for job in jobs):
                if wrong:
                    bad.append(wrong)
                else:
                    same[kind] += 1
    print("kind\tmade\trefused\ttrains as the right one")
    made = refused = 0
    for line in done.stdout.splitlines()[1:]:
        kind, *numbers = line.split("\t")
        made += int(numbers[0])
        refused += int(numbers[1])
        print(kind, numbers[0], numbers[1], same[kind], sep="\t")
    print(f"wrong programs: {made}, refused: {refused}, no different: "
          f"{sum(same.values())}, others: {made - refused - sum(same.values())}")
    print(*bad[:100], sep="\n", end="\n" if bad else "")
    sys.exit(1 if bad or done.returncode or refused < made / 2 else 0)


if __name__ == "__main__":
    main()
