"""Processes with limits, within a budget, and what is known of the machine."""
import datetime
import functools
import glob
import json
import os
import platform
import re
import shlex
import signal
import statistics
import subprocess
import tempfile
import threading
import time

NVIDIA_SMI = ["name", "driver_version", "memory.total", "clocks.sm",
              "clocks.mem", "clocks.max.sm", "power.limit", "temperature.gpu"]


class Runner:
    """Starts processes, each with a limit, within a budget for all."""

    def __init__(self, budget, log):
        self.start = time.monotonic()
        self.deadline = self.start + budget
        self.log = open(log, "w", encoding="utf-8", errors="replace")

    def get_remaining(self):
        return self.deadline - time.monotonic()

    def run(self, command, limit, needs=5.0, env=None, cwd=None):
        """What a process did: `code`, `seconds`, `out`, `err`, and `failed`, a
        reason or None."""
        remaining = self.get_remaining() - 3
        if remaining < needs:
            return {"failed": f"not started: {max(0, remaining):.0f} s of the "
                    f"budget were left, it needs about {needs:.0f} s",
                    "skipped": True, "seconds": 0.0, "out": "", "err": ""}
        limit = min(limit, remaining)
        shown = command if isinstance(command, str) else shlex.join(command)
        print(f"[{time.monotonic() - self.start:5.0f} s] {shown}", flush=True)
        begin = time.monotonic()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                    env={**os.environ, **(env or {})}, cwd=cwd,
                    shell=isinstance(command, str), start_new_session=True)
            except OSError as error:
                return {"failed": f"did not start: {error}", "seconds": 0.0,
                        "out": "", "err": ""}
            sampler = Sampler()
            timed_out = False
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                timed_out = True
                end_group(process)
            except BaseException:
                end_group(process)
                raise
            finally:
                samples = sampler.stop()
            texts = []
            for file in out, err:
                file.seek(0)
                texts.append(file.read().decode("utf-8", "replace"))
        seconds = time.monotonic() - begin
        code = process.returncode
        failed = None
        if timed_out:
            failed = f"stopped after its limit of {limit:.0f} s"
        elif code != 0:
            failed = f"exit code {code}: {find_message(texts)}"
        self.log.write(f"$ {shown}\n# code {code}, {seconds:.1f} s"
                       f"{', timed out' if timed_out else ''}\n"
                       f"{shorten(texts[0])}{shorten(texts[1])}\n")
        self.log.flush()
        return {"failed": failed, "code": code, "seconds": seconds,
                "timed_out": timed_out, "out": texts[0], "err": texts[1],
                "command": shown, **samples}


def end_group(process):
    """The process and what it started, which are a group of their own."""
    for sign, wait in ((signal.SIGTERM, 3), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            pass
        try:
            process.wait(wait)
            if sign == signal.SIGTERM:
                continue  # what it started may live on
        except subprocess.TimeoutExpired:
            pass


def find_message(texts):
    """The line that says what was wrong, most likely."""
    lines = [line.strip() for text in texts for line in text.splitlines()
             if line.strip()]
    for line in reversed(lines):
        if re.search(r"\berror\b|Error|FAIL|mismatch", line):
            return line[:300]
    return lines[-1][:300] if lines else "it said nothing"


def shorten(text, most=20000):
    if len(text) <= most:
        return text
    return text[:most // 2] + "\n[...]\n" + text[-most // 2:]


class Sampler:
    """Clock, power and memory of the GPU while something runs, twice a second.
    Reads only."""

    def __init__(self):
        self.rows = []
        self.process = None
        if not has_gpu():
            return
        try:
            self.process = subprocess.Popen(
                ["nvidia-smi", "-i", "0", "-lms", "500",
                 "--query-gpu=clocks.sm,power.draw,memory.used,"
                 "temperature.gpu", "--format=csv,noheader,nounits"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            return
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            self.rows.append([read_number(word) for word in line.split(",")])

    def stop(self):
        if self.process is None:
            return {}
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.thread.join(5)
        rows = [row for row in self.rows if len(row) == 4]
        if not rows:
            return {}
        # At its work, as it draws most.
        busy = sorted(rows, key=lambda row: row[1])[len(rows) // 2:]
        return {"sm_mhz": statistics.median(row[0] for row in busy),
                "watts": statistics.median(row[1] for row in busy),
                "gpu_memory_mib": max(row[2] for row in rows),
                "celsius": max(row[3] for row in rows)}


def read_number(text):
    """0 of what a device does not tell."""
    try:
        return float(text)
    except ValueError:
        return 0.0


def read_json_line(text):
    """The last line of `text` that is an object; {} without one."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            try:
                return json.loads(line)
            except ValueError:
                continue
    return {}


@functools.cache
def has_gpu():
    """Whether nvidia-smi answers."""
    try:
        return subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL,
                              timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def query(command, timeout=20):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL, timeout=timeout)
        return done.stdout.strip() if done.returncode == 0 else ""
    except (OSError, subprocess.TimeoutExpired):
        return ""


def find_cuda_folders(python):
    """Where CUDA's libraries are: those of the wheels that torch came with
    first, so that both sides have the same, then what the loader does not know
    of a CUDA toolkit."""
    known = query(["ldconfig", "-p"])
    sites = query([python, "-c", "import site, sys; print(*site."
                   "getsitepackages(), *sys.path, sep='\\n')"]).splitlines()
    wheels = [os.path.join(glob.escape(site), "nvidia", wheel, "lib")
              for site in dict.fromkeys(sites) if site
              for wheel in ("cu13", "cublas", "cudnn", "nccl", "cu12")]
    toolkits = ["/usr/local/cuda/lib64", "/usr/local/cuda/lib",
                "/usr/local/cuda-*/lib64", "/usr/local/cuda-*/lib"]
    folders = []
    for library in ("libcublasLt.so.1[23]", "libcudnn.so.9", "libnccl.so.2"):
        name = library.split("[", maxsplit=1)[0]
        for pattern in wheels + ([] if name in known else toolkits):
            found = [folder for folder in sorted(glob.glob(pattern))
                     if glob.glob(os.path.join(glob.escape(folder), library))]
            if found:
                folders.append(found[0])
                break
    return list(dict.fromkeys(folders))


def describe_machine():
    machine = {"date": datetime.date.today().isoformat(),
               "host": f"{platform.system()} {platform.release()}",
               "python": platform.python_version(), "cores": os.cpu_count()}
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            found = re.search(r"model name\s*: (.*)", file.read())
        machine["cpu"] = found.group(1) if found else platform.machine()
    except OSError:
        pass
    if has_gpu():
        words = query(["nvidia-smi", "-i", "0", "--query-gpu="
                       + ",".join(NVIDIA_SMI), "--format=csv,noheader"])
        machine.update(zip(NVIDIA_SMI, (word.strip()
                                        for word in words.split(","))))
    nvcc = re.search(r"release ([\d.]+)", query(["nvcc", "--version"]))
    if nvcc:
        machine["nvcc"] = nvcc.group(1)
    return machine
