"""What the tests of the command-line tools share: running a tool in a folder of
its own, small inputs, and what every failure has to look like."""
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

TOOLS = os.path.abspath(os.environ["CLEAVE_TOOLS"])
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DATA = os.path.join(ROOT, "test", "data")
GOLDEN = os.path.join(DATA, "golden")
LLAMA = os.path.join(GOLDEN, "llama-mha")  # 8 heads, hidden 64, vocabulary 331
VOCAB = 331
SHAPE = ["--seq-len", "16", "--global-batch", "4"]
DEVICES = os.path.join(ROOT, "lib", "Hardware", "data", "devices")
# A launcher of processes, for tests that CLEAVE_MPIRUN does not skip. Where one
# of them aborts it ends the others at once, not a second later.
MPIRUN = [os.environ.get("CLEAVE_MPIRUN", ""), "--allow-run-as-root",
          "--oversubscribe", "--bind-to", "none", "--mca",
          "odls_base_sigkill_timeout", "0"]

# What the command line takes for a mesh of dp x tp, as a plan.
PLAN = {
    "version": 2,
    "mesh": [{"name": "dp", "size": 2}, {"name": "tp", "size": 2}],
    "micro_batches": 2,
    "dims": {"batch": ["dp"], "sequence": ["tp"], "vocab": ["tp"],
             "heads": ["tp"], "kv_heads": ["tp"], "intermediate": ["tp"]},
    "keep": {"optimizer": ["dp"], "gradients": ["dp"], "parameters": []},
}


class ToolTest(unittest.TestCase):
    """A test in an empty folder, which is the tools' working directory."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="cleave-test-")
        self.addCleanup(shutil.rmtree, self.folder)

    def assertIn(self, member, container, msg=None):
        """Without the container, which may be a whole program."""
        self.assertTrue(member in container, f"{member!r} not found: {msg}")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        """A file of bytes, text, or anything else as JSON."""
        if not isinstance(content, (bytes, str)):
            content = json.dumps(content)
        if isinstance(content, str):
            content = content.encode()
        with open(self.path(name), "wb") as file:
            file.write(content)
        return name

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def write_local(self):
        """This machine, as if it was measured, in a cache of the test's, with
        the figures of an H100; `env` has the cache."""
        with open(os.path.join(DEVICES, "h100-sxm.json")) as file:
            device = json.load(file)
        device.pop("version")
        device.update(name="local", cores={"value": 8, "unit": "1",
                                           "source": "test"},
                      attention={"cleave": device["attention"]["flash2"]})
        device["matrix"].setdefault("f32", device["matrix"]["bf16"])
        self.env = dict(os.environ, CLEAVE_CACHE=self.path("cleave"))
        os.makedirs(self.path("cleave"), exist_ok=True)
        self.write("cleave/local.json", {
            "version": 1, "device": device,
            "levels": [{"size": 0, "link": "nvlink4",
                        "shared_link": "nvlink4"}]})
        return device

    def list(self):
        """All files, but for what a look at the data keeps beside it, which
        may or may not have come to its end."""
        return sorted(name for name in os.listdir(self.folder)
                      if not name.endswith(".scan.json"))

    def start(self, *command, **options):
        """Runs a tool by its name, or an executable as "./name"."""
        if not command[0].startswith((".", "/")):
            command = (os.path.join(TOOLS, command[0]), *command[1:])
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                   "stderr": subprocess.PIPE, "timeout": 120, **options}
        return subprocess.run(command, cwd=self.folder, encoding="utf-8",
                              errors="replace", **options)

    def run_tool(self, *command, **options):
        """Its output; it must succeed, and say nothing of errors."""
        done = self.start(*command, **options)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")
        self.assertNotIn("error", done.stderr)
        return done.stdout

    def compile(self, name, *flags, model=LLAMA, shape=SHAPE):
        return self.run_tool("cleave", "compile", model, *shape, *flags,
                             "-o", name)

    def losses(self, executable, *arguments, **options):
        """The loss of each step, bit by bit."""
        self.run_tool(executable, *arguments, "--metrics", "losses.jsonl",
                      "--log-every", "0", "--peak-gflops", "1", **options)
        return [step["loss"] for step in self.lines("losses.jsonl")]

    def lines(self, name):
        return [json.loads(line) for line in self.read(name).splitlines()]

    def expect_error(self, parts, *command, code=1, **options):
        """One line on stderr, notes apart, that has all the parts, that exit
        code, and no file that was not there before, but for what a look at
        the data found."""
        def list():
            return [name for name in self.list()
                    if not name.endswith(".scan.json")]

        before = list()
        done = self.start(*command, **options)
        shown = f"{command}: {done.stderr}"
        self.assertEqual(done.returncode, code, shown)
        self.assertRegex(done.stderr,
                         r"\A(cleave: note: [^\n]*\n)*"
                         r"(cleave: )?error: [^\n]*\n\Z", shown)
        self.assertEqual(len(re.findall("error: ", done.stderr)), 1, shown)
        for part in [parts] if isinstance(parts, str) else parts:
            self.assertIn(part, done.stderr, f"{command}")
        self.assertEqual(list(), before, shown)


def find_section(executable, name):
    """Offset and size of a section of a 64-bit ELF file."""
    table, = struct.unpack_from("<Q", executable, 0x28)
    size, count, names = struct.unpack_from("<HHH", executable, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", executable, table + i * size)
               for i in range(count)]
    for header in headers:
        begin = headers[names][4] + header[0]
        if executable[begin:executable.index(b"\0", begin)] == name.encode():
            return header[4], header[5]
    raise KeyError(name)


def make_dataset(sizes, **changes):
    """The .idx and .bin of a Megatron dataset of u16 tokens, in sequences of
    those sizes; `changes` replace what the files say."""
    says = {"magic": b"MMIDIDX\0\0", "version": 1, "dtype": 8,
            "lengths": sizes,
            "offsets": [2 * sum(sizes[:i]) for i in range(len(sizes))],
            "documents": list(range(len(sizes) + 1)),
            "tokens": [(7 * i * i + 3 * i) % VOCAB for i in range(sum(sizes))],
            **changes}
    index = says["magic"] + struct.pack(
        "<QBQQ", says["version"], says["dtype"], len(sizes),
        len(says["documents"]))
    index += struct.pack(f"<{len(sizes)}i", *says["lengths"])
    index += struct.pack(f"<{len(sizes)}q", *says["offsets"])
    index += struct.pack(f"<{len(says['documents'])}q", *says["documents"])
    return index, struct.pack(f"<{sum(sizes)}H", *says["tokens"])


def read_safetensors(content):
    """Header and data."""
    length, = struct.unpack_from("<Q", content)
    return json.loads(content[8:8 + length]), content[8 + length:]


def make_safetensors(header, data, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) \
        + text + data
