#!/usr/bin/env python3
"""Damaged files, and places that cannot be written: one message, and no part of
a file under its final name. The parsers have tests of their own; here is the
way through what cleave compile wrote."""
import json
import os
import resource
import struct
import subprocess
import time
import unittest

from support import (LLAMA, SHAPE, VOCAB, ToolTest, find_section, make_dataset,
                     make_safetensors, read_safetensors)


def limit_files():
    """In the child: no file may be longer than a few KiB, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


class BadFilesTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.compile("train", "--keep-logits")
        index, tokens = make_dataset([300, 700])
        self.write("set.idx", index)
        self.write("set.bin", tokens)
        self.data = ["--data", "set", "--steps", "1"]

    def train_fails(self, parts, *arguments, **options):
        self.expect_error(parts, "./train", *self.data, *arguments, **options)

    def test_checkpoints(self):
        with open(os.path.join(LLAMA, "model.safetensors"), "rb") as file:
            header, data = read_safetensors(file.read())
        os.mkdir(self.path("in"))
        name = "model.norm.weight"
        begin, end = header[name]["data_offsets"]

        def fails(parts, content):
            self.write("in/model.safetensors", content)
            self.train_fails(["in"] + parts, "--init", "in")

        def fails_with(parts, **changes):
            new = dict(header, **{name: dict(header[name], **changes)})
            fails([name] + parts, make_safetensors(new, data))

        good = make_safetensors(header, data)
        for end_ in [0, 7]:
            fails(["model.safetensors"], good[:end_])
        for length in [0, 1, len(data), 1 << 40, (1 << 64) - 1]:
            fails(["header"], make_safetensors(header, data, length))
        fails(["header"], make_safetensors(b'{"a":' * 10000, data))
        fails(["data_offsets"], good[:-4])
        fails(["cover", str(len(data))], good + b"more")
        fails_with(["data_offsets", f"[0, {len(data)}]"],
                   data_offsets=[begin, end + 4])
        fails_with(["data_offsets"], data_offsets=[end, begin])
        fails_with(["-4"], data_offsets=[-4, end])
        fails_with(["F16"], dtype="F16")
        fails_with(['"F31"', "F32"], dtype="F31")
        fails_with(["[8, 8]", "[64]"], shape=[8, 8])
        fails_with(["too many elements"], shape=[1 << 40, 1 << 40])
        overlap = {key: dict(value) for key, value in header.items()}
        overlap[name]["data_offsets"] = [0, end - begin]
        fails(["inside the tensor before"], make_safetensors(overlap, data))
        words = dict(header, **{name: dict(header[name], dtype="U32")})
        fails([name, "U32", "F32, BF16"], make_safetensors(words, data))
        renamed = dict(header)
        renamed["other"] = renamed.pop(name)
        fails([f'"{name}" is missing'], make_safetensors(renamed, data))
        extra = dict(header, other={"dtype": "F32", "shape": [1],
                                    "data_offsets": [len(data), len(data) + 4]})
        fails(['"other"', "not one of the model's"],
              make_safetensors(extra, data + bytes(4)))
        os.remove(self.path("in/model.safetensors"))
        self.train_fails(["in: has neither"], "--init", "in")
        self.train_fails(["none: cannot open"], "--init", "none")
        self.write("in/model.safetensors.index.json",
                   {"weight_map": {name: "../set.bin"}})
        self.train_fails(["index.json", '"../set.bin"'], "--init", "in")

    def test_datasets(self):
        def fails(parts, cut=None, **changes):
            index, tokens = make_dataset([300, 700], **changes)
            self.write("set.idx", index[:cut])
            self.write("set.bin", tokens)
            self.train_fails(parts)

        fails(["set.idx", "magic", "MMIDIDX"], magic=b"MMIDIDY\0\0")
        fails(["set.idx", "version 2 is not 1"], version=2)
        fails(["set.idx", "dtype code 7 (float32)", "8 (uint16)"], dtype=7)
        fails(["set.idx", "dtype code 99"], dtype=99)
        for cut in [0, 20, 60]:
            fails(["set.idx"], cut=cut)
        fails(["set.idx", "sequence 1", "byte 1400", "2000 bytes of the .bin"],
              offsets=[0, 1400])
        fails(["set.idx", "sequence 0", "byte -2"], offsets=[-2, 600])
        fails(["set.idx", "sequence 1 has length -1"], lengths=[300, -1])
        fails(["set.idx", "document"], documents=[0, 2, 1])
        os.remove(self.path("set.bin"))
        self.train_fails(["set.bin: cannot open"])
        self.data = ["--data", "none", "--steps", "1"]
        self.train_fails(["none"])

    def test_inputs_that_are_not_files(self):
        """A pipe would be waited for; each is named, and what it is."""
        os.mkdir(self.path("in"))
        os.mkfifo(self.path("pipe"))
        os.mkfifo(self.path("in/model.safetensors"))
        for name in ["pipe.idx", "pipe.bin"]:
            os.mkfifo(self.path(name))
        train = ["./train", "--steps", "1"]
        for path, kind in [("pipe", "a pipe"), ("in", "a folder"),
                           ("/dev/zero", "a character device")]:
            message = f"{path}: is not a regular file, but {kind}"
            for option in ["--data", "--tokens"]:
                named = "pipe.idx" + message[4:] \
                    if option == "--data" and path == "pipe" else message
                self.expect_error([named], *train, option, path)
            if path != "in":
                self.train_fails([message], "--init", path)
        self.train_fails(["in/model.safetensors: is not a regular file, but a "
                          "pipe"], "--init", "in")
        self.expect_error(["pipe: is not a regular file"], "cleave", "inspect",
                          "pipe")

    def test_data_that_is_cut_short_in_a_run(self):
        """By another while the run reads it: a message, no signal."""
        self.write("text", "training data " * 100000)
        for name, shown in [("set", "set.bin"), ("text", "text")]:
            process = subprocess.Popen(
                ["./train", "--data", name, "--steps", "1000000000",
                 "--log-every", "0", "--metrics", "out.jsonl"],
                cwd=self.folder, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True)
            self.addCleanup(process.kill)
            deadline = time.monotonic() + 60
            while "out.jsonl" not in self.list() or not self.read("out.jsonl"):
                self.assertLess(time.monotonic(), deadline, "never started")
                time.sleep(0.01)
            os.truncate(self.path(shown), 100)
            _, stderr = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 1, stderr)
            self.assertRegex(stderr, rf"\Aerror: {shown}: ends at byte \d+")
            os.remove(self.path("out.jsonl"))

    def test_tokens_beyond_the_vocabulary(self):
        for token in [VOCAB, 65535]:
            index, tokens = make_dataset([1000], tokens=[token] * 1000)
            self.write("set.idx", index)
            self.write("set.bin", tokens)
            self.train_fails(["set.bin: token ", f"id {token}",
                              "vocabulary is 0 to 330"])
        header = {}
        numbers = [VOCAB] * (4 * 16)
        for i, name in enumerate(["inputs", "targets"]):
            header[name] = {"dtype": "I32", "shape": [1, 4, 16],
                            "data_offsets": [256 * i, 256 * (i + 1)]}
        self.write("tokens", make_safetensors(
            header, struct.pack("<128i", *numbers, *numbers)))
        self.data = ["--tokens", "tokens"]
        self.train_fails(["tokens", "331", "330"])

    def test_a_damaged_program(self):
        """A flipped bit anywhere in the section: neither runs nor is shown."""
        executable = self.read("train")
        offset, size = find_section(executable, ".cleave.program")
        for at in [0, 7, 8, 12, 16, 20, 24, *range(32, size, size // 20),
                   size - 1]:
            damaged = bytearray(executable)
            damaged[offset + at] ^= 1 << (at % 8)
            self.write("train", bytes(damaged))
            for command in [["cleave", "inspect", "train"],
                            ["./train", *self.data]]:
                self.expect_error(["train: the program "], *command)
        for end in [0, 3, 100, offset + size // 2]:
            self.write("cut", executable[:end])
            self.expect_error(["cut: "], "cleave", "inspect", "cut")
        self.expect_error(["set.bin: is not an ELF file"], "cleave", "inspect",
                          "set.bin")
        self.expect_error(["was not made by cleave compile"], "cleave",
                          "inspect", "/bin/sh")
        self.expect_error([".: is not a regular file"], "cleave", "inspect",
                          ".")
        self.expect_error(["none: cannot open"], "cleave", "inspect", "none")

    def test_more_ranks_or_memory_than_there_are(self):
        shape = ["--seq-len", "16", "--global-batch", "2048"]
        self.compile("train", "--dp", "2048", shape=shape)
        self.train_fails(["compiled for 2048 ranks", "at most 1024",
                          "mpirun -np 2048"])
        self.compile("train", shape=["--seq-len", "256", "--global-batch",
                                     str(1 << 24)])
        self.train_fails(["1 rank of this process needs", "bytes of memory"])

    def write_commands(self, target):
        """Every command that writes, to `target`."""
        yield ["cleave", "import", LLAMA, "-o", target]
        yield ["cleave", "compile", LLAMA, *SHAPE, "-o", target]
        for option in ["--export", "--metrics", "--trace", "--dump-outputs"]:
            yield ["./train", *self.data, option, target]

    def test_places_that_are_not_there(self):
        # A file in place of a folder; no permission would stop root.
        self.write("file", "text")
        for command in self.write_commands("file/out"):
            self.expect_error(["file/out"], *command)
        for command in self.write_commands("none/out"):
            if "--export" not in command:
                self.expect_error(["none/out"], *command)
        self.assertEqual(self.read("file"), b"text")

    def test_folders_and_pipes_in_place_of_files(self):
        os.mkdir(self.path("folder"))
        os.mkfifo(self.path("pipe"))
        for command in self.write_commands("folder"):
            if "--export" not in command:
                self.expect_error(["folder: "], *command)
        self.assertEqual(os.listdir(self.path("folder")), [])
        # A rename would put a file in the place of a pipe, or of a device.
        for command in self.write_commands("pipe"):
            if "import" not in command and "--metrics" not in command:
                self.expect_error(["pipe: "], *command)
        for name in ["", "folder/"]:
            self.expect_error([f'"{name}" is not the name of a file'], "cleave",
                              "compile", LLAMA, *SHAPE, "-o", name)

    def test_a_full_disk(self):
        os.mkdir(self.path("out"))
        for command in self.write_commands("out/file"):
            if "--metrics" in command:
                command[command.index("--steps") + 1] = "40"
            self.expect_error(["out/file", "File too large"], *command,
                              preexec_fn=limit_files)
            if "--metrics" in command:  # a log: what fits stays
                os.remove(self.path("out/file"))
            if "--export" in command:
                os.rmdir(self.path("out/file"))
            self.assertEqual(os.listdir(self.path("out")), [], command)

    def test_what_was_there_stays(self):
        self.write("out", "before")
        for command in self.write_commands("out"):
            if "--metrics" in command or "--export" in command:
                continue
            self.expect_error(["out"], *command, preexec_fn=limit_files)
            self.assertEqual(self.read("out"), b"before")

    def test_a_full_standard_output(self):
        for command in [["import", LLAMA], ["import", LLAMA, "--summary"],
                        ["inspect", "train"],
                        ["compile", LLAMA, *SHAPE, "-o", "train"],
                        ["parity", LLAMA, "--json"]]:
            with open("/dev/full", "w") as full:
                self.expect_error(["standard output: No space left"], "cleave",
                                  *command, stdout=full)
        with open("/dev/full", "w") as full:
            self.expect_error(["standard output: No space left"], "./train",
                              "--help", stdout=full)
            self.train_fails(["standard output: not all lines could be "
                              "written"], stdout=full)
        self.train_fails(["/dev/full: cannot write: No space left"],
                         "--metrics", "/dev/full")

    def test_an_interrupted_command_leaves_nothing(self):
        before = self.list()
        # A linker at which the user loses patience.
        self.write("c++", "#!/bin/sh\nkill -INT $PPID\nsleep 1\n")
        os.chmod(self.path("c++"), 0o755)
        done = self.start("cleave", "compile", LLAMA, *SHAPE, "-o", "out",
                          env=dict(os.environ, PATH=self.folder + ":/bin"))
        self.assertLess(done.returncode, 0)
        self.assertEqual(self.list(), sorted(before + ["c++"]))

    def test_a_linker_that_fails_or_is_missing(self):
        self.write("c++", "#!/bin/sh\necho out of ideas >&2\nexit 3\n")
        os.chmod(self.path("c++"), 0o755)
        env = dict(os.environ, PATH=self.folder)
        self.expect_error(["out: linking with", "out of ideas"], "cleave",
                          "compile", LLAMA, *SHAPE, "-o", "out", env=env)
        self.expect_error(["no C++ compiler to link with", "PATH"], "cleave",
                          "compile", LLAMA, *SHAPE, "-o", "out",
                          env=dict(env, PATH="/none"))
        self.expect_error(["/none"], "cleave", "parity", LLAMA,
                          env=dict(os.environ, TMPDIR="/none"))


if __name__ == "__main__":
    unittest.main()
