#!/usr/bin/env python3
"""README's tour, line by line, as a reader types it: every command of its
blocks runs, in their order, in a folder that has what the repository has. Only
the numbers of steps are smaller."""
import os
import re
import unittest

from support import DATA, TOOLS, ToolTest

REPOSITORY = os.path.realpath(os.path.join(DATA, "..", ".."))
MPIRUN = os.environ.get("CLEAVE_MPIRUN")


def get_blocks(heading):
    """The shell blocks of a section of the README."""
    with open(os.path.join(REPOSITORY, "README.md")) as file:
        text = file.read()
    body = text[text.index(f"## {heading}\n"):].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", body, re.S)


def get_commands(block):
    """Lines, with those joined that a backslash continues."""
    return [line for line in block.replace("\\\n", " ").splitlines()
            if line.strip()]


class ReadmeTest(ToolTest):
    def setUp(self):
        super().setUp()
        for name in ["README.md", "docs", "examples", "test", "tools"]:
            os.symlink(os.path.join(REPOSITORY, name), self.path(name))
        os.mkdir(self.path("build"))
        os.symlink(TOOLS, self.path("build/bin"))

    def test_the_tour(self):
        # Variables stay from line to line, as in a shell of a reader's.
        before = ""
        commands = [line for block in get_blocks("A short tour")
                    for line in get_commands(block)]
        self.assertGreater(len(commands), 20)
        for command in commands:
            if re.match(r"\w+=\S+$", command):
                before += command + "\n"
                continue
            if command.startswith("mpirun ") and not MPIRUN:
                continue
            short = command
            if "./train " in command:
                short = re.sub(r"--(steps|save-every) (\d+)",
                               lambda found: f"--{found[1]} "
                               f"{int(found[2]) // 10}", command)
            # Calibration takes a minute of a machine that does nothing else.
            done = self.start("/bin/bash", "-euo", "pipefail", "-c",
                              before + short, timeout=540,
                              env=dict(os.environ,
                                       CLEAVE_CACHE=self.path("cache")))
            with self.subTest(command):
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertNotIn("error", done.stderr)
        for name in ["text.txt", "out.json", "out.jsonl", "plan.html",
                     "trained/model.safetensors", "placed.mlir"]:
            self.assertGreater(os.path.getsize(self.path(name)), 100, name)


if __name__ == "__main__":
    unittest.main()
