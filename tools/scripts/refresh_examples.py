#!/usr/bin/env python3
"""Runs the commands of examples in a page again, and writes what they print.

usage: refresh_examples.py CLEAVE MODEL PAGE [--check]

An example is a fenced block whose first line is "$ cleave COMMAND ...", where
COMMAND is plan or explain: what this machine measures is no example of these.
`model` stands for MODEL, and a plan goes on to the next example as plan.json.
With --check nothing is written; the exit code is 1 if an example prints something
else than the page says. Seconds of a search differ each time and are left as they
are.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

EXAMPLE = re.compile(r"^```\n\$ (cleave (?:plan|explain) model .*)\n((?:.*\n)*?)```$",
                     re.MULTILINE)
SECONDS = re.compile(r"; [\d.]+ m?s$", re.MULTILINE)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cleave")
    parser.add_argument("model")
    parser.add_argument("page")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with open(options.page, encoding="utf-8") as file:
        page = file.read()
    stale = []
    with tempfile.TemporaryDirectory() as folder:
        def run(example):
            command, shown = example.groups()
            words = [os.path.abspath(options.model) if word == "model" else word
                     for word in command.split()[1:]]
            cleave = [os.path.abspath(options.cleave), *words]
            printed = subprocess.run(
                cleave, cwd=folder, check=True, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, encoding="utf-8").stdout
            if words[0] == "plan":
                subprocess.run([*cleave, "-o", "plan.json"], cwd=folder,
                               check=True, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
            if SECONDS.sub("", printed) == SECONDS.sub("", shown):
                return example.group()
            stale.append(command)
            return f"```\n$ {command}\n{printed}```"

        refreshed, count = EXAMPLE.subn(run, page)
    if count == 0:
        sys.exit(f"{options.page}: no example of cleave plan or explain")
    for command in stale:
        print(f"{options.page}: \"{command}\" prints something else")
    if options.check:
        sys.exit(bool(stale))
    with open(options.page, "w", encoding="utf-8") as file:
        file.write(refreshed)


if __name__ == "__main__":
    main()
