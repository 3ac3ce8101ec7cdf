"""What the tests of the watchdog share: starting WatchRanks as threads or
under mpirun, making a thread of it stand still, and how it has to end."""
import ctypes
import os
import re
import signal
import socket
import subprocess
import threading
import time

RANKS = os.environ["CLEAVE_WATCH_RANKS"]
MPIRUN = os.environ.get("CLEAVE_MPIRUN", "")
LAUNCH = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to",
          "none"]
# As many ranks as $1 says, by torchrun's variables; the code is of one that
# failed.
LAUNCH_TCP = ["sh", "-c", """
    count=$1; shift
    for rank in $(seq 0 $((count - 1))); do
        RANK=$rank WORLD_SIZE=$count "$@" & ranks="$ranks $!"
    done
    for rank in $ranks; do wait $rank || code=$?; done
    exit ${code:-0}"""]
HUNG = 4  # exit code: the watchdog found a rank that hangs or has died
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
WAIT_ALL = 0x40000000  # __WALL
TOY = {"dp": 2, "tp": 2}


def is_alive(process):
    """Whether it may still do something; one that has ended may wait for its
    parent."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_gone(find, seconds=10):
    """What `find` still finds after that time."""
    deadline = time.monotonic() + seconds
    while (left := find()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


class Run:
    """One run of WatchRanks. `settings`: its KEY=VALUE."""

    def __init__(self, backend, prefix=(), **settings):
        self.settings = {**TOY, **settings}
        command = [RANKS] + [f"{key.replace('_', '-')}={value}"
                             for key, value in self.settings.items()]
        self.world = self.settings["dp"] * self.settings["tp"]
        if backend == "mpi":
            command = [*LAUNCH, "-np", str(self.world), *command]
        variables = dict(os.environ)
        if backend == "tcp":
            command = [*LAUNCH_TCP, "sh", str(self.world), *command]
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            variables.update(MASTER_ADDR="localhost", MASTER_PORT=str(port))
        # Every process of this run carries the mark, whoever its parent is.
        self.mark = f"CLEAVE_TEST_RUN={os.getpid()}.{time.monotonic_ns()}"
        name, _, value = self.mark.partition("=")
        self.process = subprocess.Popen(
            [*prefix, *command], env={**variables, name: value},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        self.err, self.said = "", None  # `said`: when the first message came
        self.traced_end = None  # of a frozen thread: it, and its exit code
        self.reader = threading.Thread(target=self.read_err)
        self.reader.start()

    def read_err(self):
        for line in self.process.stderr:
            if line.startswith("error: ") and self.said is None:
                self.said = time.monotonic()
            self.err += line

    def wait_ill(self):
        """When a rank fell ill, by time.monotonic."""
        for line in self.process.stdout:
            if match := re.match(r"ill (\d+) (\d+) ([\d.]+)$", line):
                if self.settings.get("what") == "freeze":
                    self.freeze(int(match[2]))
                return float(match[3])
        return None

    def freeze(self, thread):
        """Stops one thread, not its process."""
        libc = ctypes.CDLL(None, use_errno=True)
        for request in PTRACE_SEIZE, PTRACE_INTERRUPT:
            if libc.ptrace(request, thread, None, None) != 0:
                raise OSError(ctypes.get_errno(), f"ptrace of {thread}")
        threading.Thread(target=self.reap, args=[thread], daemon=True).start()

    def reap(self, thread):
        """The death of a thread waits for who traces it; that of a first one
        is its process's."""
        while True:
            try:
                _, status = os.waitpid(thread, WAIT_ALL)
            except OSError:
                return
            if not os.WIFSTOPPED(status):
                self.traced_end = (thread, os.waitstatus_to_exitcode(status))
                return
            time.sleep(0.05)

    def wait(self, timeout):
        """The exit code; a run that does not end is killed, and is None."""
        try:
            code = self.process.wait(timeout)
            if self.traced_end and self.traced_end[0] == self.process.pid:
                code = self.process.returncode = self.traced_end[1]
            return code
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.kill()
            self.reader.join()
            self.process.stdout.close()
            self.process.stderr.close()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            for process in self.find():
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def find(self):
        """Processes of this run that are alive."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    environment = file.read().split(b"\0")
            except OSError:
                continue
            if self.mark.encode() in environment and is_alive(name):
                found.append(int(name))
        return found

    def find_ranks(self):
        """Those of them that are ranks."""
        def is_rank(process):
            try:
                return os.readlink(f"/proc/{process}/exe") == \
                    os.path.realpath(RANKS)
            except OSError:
                return False
        return sorted(filter(is_rank, self.find()))

    def wait_gone(self):
        return wait_gone(self.find)

    def errors(self):
        """Messages of the run itself; a launcher's are its own."""
        return re.findall("^error: (.*)", self.err, re.M)


PLACES = {
    "compute": r'step 40, instruction \d+ \(Launch "compute"\)',
    "collective": r'step 40, instruction \d+ \(AllReduce "sum_grad"\) '
                  r'over dp of ranks {group}',
    "save": r"saving, after step \d+",
}


def get_group(rank):
    """The ranks of sum_grad's group, as a message lists them."""
    return f"{rank % 2} and {rank % 2 + 2}"


def get_message(what, where, rank):
    """What the one message has to match."""
    place = PLACES[where].format(group=get_group(rank))
    others = PLACES["collective"].format(group=get_group(rank))
    sum_grad = f"watchdog: rank {rank} "
    if what == "kill":
        sum_grad += f"has died: .* last seen in {place}"
    elif what == "stop":
        sum_grad += f"has said nothing for .* last seen in {place}"
    elif where == "collective":
        sum_grad += f"hangs for .* that all have entered: {place}"
    else:
        sum_grad += f"hangs for .* in {place}"
    if where == "compute":
        sum_grad += f"; ranks? .*wait.* for it.* in {others}"
    return sum_grad


def check(run, limit, ill, code, message):
    """What is wrong with how the run ended, as text; empty if nothing is. And
    the seconds until it was said, and until the run had ended."""
    ended = time.monotonic()
    wrong = []
    said = run.said - ill if run.said and ill else None
    if ill is None:
        wrong.append("no rank fell ill")
    elif code is None:
        wrong.append(f"did not end in {ended - ill:.1f} s")
    elif said is None or said > limit:
        wrong.append(f"was found after {said} s")
    if run.process.returncode == 0:
        wrong.append("the exit code is 0")
    errors = run.errors()
    if len(errors) != 1 or not re.match(message, errors[0]):
        wrong.append(f"expects one message like {message}, got {errors}")
    if left := run.wait_gone():
        wrong.append(f"orphans: {left}")
        for process in left:
            os.kill(process, signal.SIGKILL)
    return "; ".join(wrong), said, ended - (ill or ended)
