#!/usr/bin/env python3
"""Checks what is asked of every file: its length, its format, its words.

usage: check_files.py ROOT length|format|passes [TOOL]
  length    no source file has more than 800 lines
  format    sources are as TOOL (clang-format) would write them
  passes    TOOL (llvm-tblgen) reads each Passes.td: every pass has a summary
            that is a sentence, and a description that says what holds before
            and after, with IR
"""
import json
import os
import re
import subprocess
import sys

LAYERS = ("include", "lib", "dialects", "passes", "runtime", "tools", "test",
          "bench", "cmake", "docs")
MAX_LINES = 800


def find_files(root, suffixes):
    """Paths, from the root, of files of all layers, in order."""
    for layer in LAYERS:
        for folder, _, names in sorted(os.walk(os.path.join(root, layer))):
            for name in sorted(names):
                if name.endswith(suffixes):
                    yield os.path.relpath(os.path.join(folder, name), root)


def check_length(root, paths):
    for path in paths:
        with open(os.path.join(root, path), encoding="utf-8") as file:
            lines = len(file.readlines())
        if lines > MAX_LINES:
            yield f"{path}: {lines} lines, expects at most {MAX_LINES}"


def check_format(root, paths, tool):
    # The file list goes by a response file: it may outgrow a command line.
    run = subprocess.run([tool, "--dry-run", "-Werror", "--ferror-limit=1",
                          "--files=/dev/stdin"], cwd=root,
                         input="\n".join(paths), capture_output=True, text=True)
    names = dict.fromkeys(re.findall(r"^([^\s:]+):\d+:\d+: error", run.stderr,
                                     re.M))
    yield from (f"{name}: is not as clang-format writes it" for name in names)
    if run.returncode != 0 and not names:
        yield run.stderr


def check_passes(root, paths, tool):
    include = os.path.join(os.path.dirname(os.path.realpath(tool)),
                           "../include")
    for path in paths:
        run = subprocess.run([tool, "--dump-json", path, "-I", root, "-I",
                              include], cwd=root, capture_output=True,
                             text=True)
        if run.returncode != 0:
            yield run.stderr
            continue
        records = json.loads(run.stdout)
        names = records["!instanceof"].get("PassBase", [])
        if not names:
            yield f"{path}: defines no pass"
        for name in names:
            record = records[name]
            flag = record["argument"]
            text = record["description"]
            if not re.fullmatch(r"cleave-[a-z-]+", flag):
                yield f'{path}: {name}: flag "{flag}" is not cleave-kebab-case'
            if not re.match(r"[A-Z].*[^.]$", record["summary"]):
                yield f"{path}: {name}: summary is not a sentence"
            for word in ("Before:", "After:"):
                if "erify" not in name and word.lower() not in text.lower():
                    yield f'{path}: {name}: description lacks "{word}"'
            if "erify" not in name and "```mlir" not in text:
                yield f"{path}: {name}: description shows no IR"
            if not text.strip():
                yield f"{path}: {name}: has no description"


def main():
    if len(sys.argv) < 3 or sys.argv[2] not in ("length", "format", "passes"):
        sys.exit(__doc__)
    root, what, *tool = sys.argv[1:]
    check, suffixes = {
        "length": (check_length, (".h", ".cpp", ".c", ".cu", ".td", ".fbs",
                                  ".py", ".sh", ".cmake",
                                  "CMakeLists.txt")),
        "format": (check_format, (".h", ".cpp", ".c", ".cu")),
        "passes": (check_passes, ("Passes.td",)),
    }[what]
    paths = list(find_files(root, suffixes))
    if not paths:
        sys.exit(f"no file to check in {root}")
    errors = list(check(root, paths, *tool))
    print(*errors, sep="\n", end="\n" if errors else "")
    print(f"{what}: {len(paths)} files, {len(errors)} errors")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
