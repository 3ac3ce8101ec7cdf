#!/usr/bin/env python3
"""Damages the .mlir files of the tests and runs each as its RUN lines say: the
tools must answer with output or with errors, and never crash or hang.

usage: mutate_mlir.py TOOLS TESTS [--count N] [--seed N] [--jobs N] [--keep DIR]
  TOOLS    the folder of cleave-opt and cleave-translate
  TESTS    the folder whose .mlir files are damaged
  --keep   write what crashes or hangs there, with the command

Mutant N of a seed is the same whatever the count. Ten in a row are of one input
and share a process, as parts that --split-input-file reads each with a context
of its own; where that process fails, each runs alone.
"""
import argparse
import concurrent.futures
import os
import random
import re
import resource
import subprocess
import sys
import tempfile

LIMIT = 10  # seconds for one mutant
MEMORY = 8 << 30
BATCH = 10
SEPARATOR = "\n// -----\n"

NUMBERS = ["0", "-1", "1", "2", "3", "7", "255", "65536", "2147483647",
           "2147483648", "4294967296", "9223372036854775807",
           "9223372036854775808", "-9223372036854775808", "1e30", "0x7FC00000",
           "99999999999999999999999999"]
TYPES = ["f32", "f64", "bf16", "i1", "i32", "i64", "index", "tensor<*xf32>",
         "tensor<f32>", "tensor<?xf32>", "tensor<0xf32>", "tensor<4x4xf32>",
         "tensor<9223372036854775807x2xf32>", "memref<4xf32>", "none",
         "vector<4xf32>", "tuple<>", "() -> ()", "!dist.nothing"]
TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[%@#!^]?[A-Za-z_][\w.$]*|%\d+|-?\d+'
                   r'(?:\.\d+(?:[eE][-+]?\d+)?)?|->|::|\S')


def read_runs(text, folder):
    """The tool and flags of each RUN line that reads the file itself."""
    joined = re.sub(r"\\\n\s*// RUN:", " ", text)
    runs = []
    for line in re.findall(r"// RUN:(.*)", joined):
        words = line.split("|")[0].replace("%S", folder).split()
        words = words[1:] if words[:1] == ["not"] else words
        if not words or words[0] not in ("cleave-opt", "cleave-translate"):
            continue
        flags = [word for word in words[1:]
                 if word.startswith("-") and "verify-diagnostics" not in word
                 and "split-input-file" not in word and "%" not in word
                 and word not in ("-", "-o")]
        runs.append((words[0], tuple(flags)))
    return list(dict.fromkeys(runs))


def read_inputs(tests):
    """(name, text, tool, flags) of each part of each file, in a fixed order.
    An input that no RUN line reads is parsed and verified."""
    inputs = []
    for folder, folders, names in os.walk(tests):
        folders.sort()
        for name in sorted(names):
            if not name.endswith(".mlir"):
                continue
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            runs = read_runs(text, folder) or [("cleave-opt", ())]
            parts = re.split(r"\n// -----.*\n|\n//--- .*\n", text)
            for part in parts:
                # Comments are not what is tested.
                code = "\n".join(line for line in part.splitlines()
                                 if not line.lstrip().startswith("//"))
                if not code.strip():
                    continue
                inputs += [(os.path.relpath(path, tests), code, tool, flags)
                           for tool, flags in runs]
    return inputs


class Mutator:
    """Changes of a text: either one that may well leave it legal, so that the
    passes see it, or one to four of bytes, tokens, numbers, types and lines."""

    def __init__(self, seed, inputs):
        self.random = random.Random(seed)
        self.inputs = inputs

    def mutate(self, text):
        if self.random.randrange(2):
            text = self.random.choice([
                self.replace_number, self.replace_number_everywhere,
                self.replace_number_everywhere, self.replace_type_everywhere,
                self.replace_name, self.drop_line, self.swap_lines])(text)
            return text.replace("// -----", "// ----")
        kinds = [self.flip_byte, self.drop_token, self.copy_token,
                 self.swap_tokens, self.replace_token, self.replace_number,
                 self.replace_number, self.replace_type, self.replace_name,
                 self.replace_name, self.drop_line, self.copy_line,
                 self.swap_lines, self.other_line, self.truncate]
        for _ in range(1 + self.random.randrange(4)):
            text = self.random.choice(kinds)(text)
        # A separator would make two mutants of one.
        return text.replace("// -----", "// ----")

    def pick(self, found):
        return self.random.choice(found) if found else None

    def replace(self, text, match, new):
        return text if match is None \
            else text[:match.start()] + new + text[match.end():]

    def tokens(self, text):
        return list(TOKEN.finditer(text))

    def flip_byte(self, text):
        at = self.random.randrange(len(text) + 1)
        return text[:at] + chr(self.random.randrange(1, 128)) + text[at + 1:]

    def truncate(self, text):
        return text[:self.random.randrange(len(text) + 1)]

    def drop_token(self, text):
        return self.replace(text, self.pick(self.tokens(text)), "")

    def copy_token(self, text):
        match = self.pick(self.tokens(text))
        return self.replace(text, match, match and f"{match[0]} {match[0]}")

    def replace_token(self, text):
        found = self.tokens(text)
        return self.replace(text, self.pick(found), found and
                            self.pick(found)[0])

    def swap_tokens(self, text):
        found = self.tokens(text)
        if len(found) < 2:
            return text
        a, b = sorted(self.random.sample(range(len(found)), 2))
        return self.replace(self.replace(text, found[b], found[a][0]),
                            found[a], found[b][0])

    def replace_number(self, text):
        found = list(re.finditer(r"(?<![\w%.])-?\d+(?:\.\d+)?(?!\w)|\d+(?=x)",
                                 text))
        return self.replace(text, self.pick(found), self.pick(NUMBERS))

    def replace_type(self, text):
        found = list(re.finditer(r"tensor<[^<>]*(?:<[^<>]*>[^<>]*)*>|\b(?:bf16|"
                                 r"[fi]\d+|index)\b", text))
        types = TYPES + [match[0] for match in found]
        return self.replace(text, self.pick(found), self.pick(types))

    def replace_number_everywhere(self, text):
        """Also in shapes, so that a dim keeps one size."""
        match = self.pick(list(re.finditer(r"(?<![\w%.#])\d+(?![\w.])|\d+(?=x)",
                                           text)))
        if match is None:
            return text
        new = self.pick(["0", "1", "2", "3", "4", "5", "6", "8", "16", "17",
                         "2147483648", "9223372036854775807"])
        return re.sub(rf"(?<![\d%.#A-Za-z_]){match[0]}(?![\d.])", new, text)

    def replace_type_everywhere(self, text):
        found = list(re.finditer(r"\b(?:bf16|f32|f64|i32|i64)\b", text))
        match = self.pick(found)
        if match is None:
            return text
        return re.sub(rf"(?<![A-Za-z_]){match[0]}\b",
                      self.pick(["bf16", "f32", "f64", "i1", "i32", "i64"]),
                      text)

    def replace_name(self, text):
        """A value, symbol, op, attribute or keyword by another of its kind."""
        match = self.pick([m for m in self.tokens(text)
                           if re.match(r"[%@#!]?[A-Za-z_]", m[0])])
        if match is None:
            return text
        other = self.pick(self.inputs)[1] if self.random.randrange(3) == 0 \
            else text
        kind = match[0][0] if match[0][0] in "%@#!" else ""
        names = [m[0] for m in self.tokens(other)
                 if re.match(re.escape(kind) + r"[A-Za-z_]", m[0])
                 and ("." in m[0]) == ("." in match[0])]
        return self.replace(text, match, self.pick(names) or match[0])

    def drop_line(self, text):
        lines = text.split("\n")
        del lines[self.random.randrange(len(lines))]
        return "\n".join(lines)

    def copy_line(self, text):
        lines = text.split("\n")
        lines.insert(self.random.randrange(len(lines) + 1), self.pick(lines))
        return "\n".join(lines)

    def swap_lines(self, text):
        lines = text.split("\n")
        a, b = (self.random.randrange(len(lines)) for _ in range(2))
        lines[a], lines[b] = lines[b], lines[a]
        return "\n".join(lines)

    def other_line(self, text):
        lines = text.split("\n")
        lines.insert(self.random.randrange(len(lines) + 1),
                     self.pick(self.pick(self.inputs)[1].split("\n")))
        return "\n".join(lines)


def run(tools, tool, flags, text):
    """What went wrong, or nothing; and whether the tool took the text."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    with tempfile.NamedTemporaryFile("w", suffix=".mlir", encoding="utf-8",
                                     delete=False) as file:
        file.write(text)
    command = [os.path.join(tools, tool), file.name, "--split-input-file",
               *flags, "-o", "/dev/null"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, timeout=LIMIT,
                              preexec_fn=limit, check=False)
        if done.returncode in (0, 1):
            return None, done.returncode == 0
        lines = done.stderr.decode(errors="replace").splitlines()
        return f"exit {done.returncode}: " + " / ".join(lines[-12:]), False
    except subprocess.TimeoutExpired:
        return f"no answer in {LIMIT} s", False
    finally:
        os.unlink(file.name)


def run_batch(tools, tool, flags, mutants):
    """(index, text, what went wrong) of the mutants that did."""
    what, _ = run(tools, tool, flags,
                  SEPARATOR.join(text for _, text in mutants))
    if what is None:
        return []
    if len(mutants) > 1:
        failed = [each for mutant in mutants
                  for each in run_batch(tools, tool, flags, [mutant])]
        # Together they may be slow, each alone not. What one of them broke
        # without a sign, another may stumble over: all of them show it.
        if failed or what.startswith("no answer"):
            return failed
        return [(mutants[-1][0], SEPARATOR.join(text for _, text in mutants),
                 "with those before it: " + what)]
    return [(*mutants[0], what)]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tools")
    parser.add_argument("tests")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep")
    args = parser.parse_args()

    inputs = read_inputs(os.path.abspath(args.tests))
    names = sorted({name for name, *_ in inputs})
    batches = []
    for start in range(0, args.count, BATCH):
        # Undamaged the input must run, or its mutants show nothing.
        # A file with many parts is taken no more often than others.
        pick = random.Random(f"{args.seed} input {start}")
        name = pick.choice(names)
        _, text, tool, flags = pick.choice(
            [each for each in inputs if each[0] == name])
        mutants = [(index, Mutator(f"{args.seed} {index}", inputs).mutate(text))
                   for index in range(start, min(start + BATCH, args.count))]
        batches.append((args.tools, tool, flags, [(-1, text), *mutants]))
    failures = []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for batch, failed in zip(batches, pool.map(
                lambda batch: run_batch(*batch), batches)):
            failures += [(index, batch[1], batch[2], text, what)
                         for index, text, what in failed]
    for index, tool, flags, text, what in sorted(failures):
        print(f"mutant {index}: {tool} {' '.join(flags)}: {what[:2000]}")
        if args.keep:
            os.makedirs(args.keep, exist_ok=True)
            with open(os.path.join(args.keep, f"{index}.mlir"), "w",
                      encoding="utf-8") as file:
                file.write(f"// RUN: {tool} %s {' '.join(flags)}\n{text}")
    # The sample reaches past the parser, or it shows little.
    few = [(*batch[:3], text) for batch in batches
           for index, text in batch[3][1:]]
    few = random.Random(args.seed).sample(few, min(50, len(few)))
    taken = sum(run(*each)[1] for each in few)
    print(f"{args.count} damaged files of {len(inputs)} inputs: "
          f"{len(failures)} crash or hang; of {len(few)} sampled {taken} were "
          f"taken, the others refused")
    sys.exit(1 if failures or not taken else 0)


if __name__ == "__main__":
    main()
