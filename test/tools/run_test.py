#!/usr/bin/env python3
"""cleave run: what it restarts, when it gives up, that it leaves no orphan.
The commands are shell scripts that stand for a training run: they make folders
as checkpoints do, and end in all ways."""
import os
import signal
import subprocess
import time
import unittest

from support import TOOLS, ToolTest

CLEAVE = os.path.join(TOOLS, "cleave")
RESUMES = ["--save", "ckpt", "--resume"]
# Functions for the scripts. `runs` has a line for each run; `save N` makes a
# checkpoint; `beat LIMIT` is a heartbeat.
PRELUDE = """
echo run >>runs
count=$(wc -l <runs)
save() {
  folder=ckpt/step-$(printf %08d "$1")
  mkdir -p "$folder"; echo {} >"$folder/manifest.json"
}
beat() { echo "$count $1" >"$CLEAVE_HEARTBEAT"; }
"""


class RunTest(ToolTest):
    def script(self, text, name="train.sh"):
        """A command that runs the text, and carries what a restart needs."""
        self.write(name, PRELUDE + text)
        return ["/bin/bash", name, *RESUMES]

    def supervise(self, text, *flags, **options):
        return self.start("cleave", "run", *flags, "--", *self.script(text),
                          **options)

    def count(self):
        return len(self.read("runs").splitlines()) if "runs" in self.list() \
            else 0

    def expect(self, code, runs, text, *flags):
        """How it ends, and after how many runs; its last line."""
        done = self.supervise(text, *flags)
        self.assertEqual((done.returncode, self.count()), (code, runs),
                         done.stderr)
        self.assertEqual(self.find_orphans(), [])
        return done.stderr.splitlines()[-1] if done.stderr else ""

    def find_orphans(self):
        """Processes whose working directory is this test's."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{name}/cwd") == self.folder:
                    found.append(int(name))
            except OSError:
                continue
        return found

    def background(self, text, *flags):
        process = subprocess.Popen(
            [CLEAVE, "run", *flags, "--", *self.script(text)],
            cwd=self.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        return process

    def wait_for(self, name, seconds=30):
        deadline = time.monotonic() + seconds
        while name not in self.list():
            self.assertLess(time.monotonic(), deadline, f"no {name}")
            time.sleep(0.02)

    def test_what_is_final(self):
        for code in 0, 2, 3, 5:
            self.write("runs", "")
            self.assertEqual(self.expect(code, 1, f"exit {code}"), "")

    def test_what_is_restarted(self):
        for end in "exit 1", "exit 4", "exit 137", "kill -9 $$", "kill -11 $$":
            self.write("runs", "")
            last = self.expect(
                0, 2, f"[ $count = 2 ] && exit 0; echo error: why >&2; {end}")
            self.assertIn("restart 1 from the start, after ", last)
            self.assertIn(": error: why", last)

    def test_what_it_says_of_a_restart(self):
        done = self.supervise("save $((count * 10))\n"
                              "[ $count = 3 ] && exit 0\n"
                              "echo 'error: rank 1: it broke' >&2; exit 1")
        self.assertEqual(done.returncode, 0)
        self.assertIn("cleave: note: restart 1 from step 10, after exit code "
                      "1: error: rank 1: it broke\n", done.stderr)
        self.assertIn("restart 2 from step 20", done.stderr)
        # What the command says is passed on.
        self.assertEqual(done.stderr.count("\nerror: rank 1: it broke\n"), 1)

    def test_it_gives_up_without_progress(self):
        last = self.expect(6, 4, "save 5; echo error: again >&2; exit 4")
        self.assertIn("gave up after 3 restarts without a new checkpoint in "
                      "ckpt; last: exit code 4: error: again", last)

    def test_progress_gives_it_new_patience(self):
        """A checkpoint at the third run: three more are in vain."""
        last = self.expect(6, 6, "[ $count = 3 ] && save 7; exit 1")
        self.assertIn("without a new checkpoint", last)
        # A folder without a manifest is none.
        self.write("runs", "")
        self.expect(6, 4, "mkdir -p ckpt/step-000000$((count + 10)); exit 1")

    def test_the_most_restarts(self):
        last = self.expect(6, 3, "save $count; exit 1", "--restarts", "2")
        self.assertIn("gave up after 2 restarts; last: exit code 1", last)
        self.write("runs", "")
        self.expect(6, 1, "exit 1", "--restarts", "0")

    def test_fewer_ranks_once_one_is_lost(self):
        few = self.script("echo few >>who; exit 0", "few.sh")
        for end, second in ("exit 1", "many"), ("exit 4", "few"), \
                ("kill -9 $$", "few"), ("exit 137", "few"):
            self.write("runs", "")
            self.write("who", "")
            self.expect(0, 2, f"echo many >>who; [ $count = 2 ] && exit 0; "
                              f"{end}", "--fewer-ranks", " ".join(few))
            self.assertEqual(self.read("who").decode(), f"many\n{second}\n",
                             end)

    def test_a_silent_run_is_killed(self):
        """Stopped as a whole; its heartbeat said how long it may be silent."""
        start = time.monotonic()
        last = self.expect(
            0, 2, "[ $count = 2 ] && exit 0; beat 2; sleep 1; beat 2; "
                  "kill -STOP $$; exit 0")
        self.assertIn("after its heartbeat stopped", last)
        self.assertLess(time.monotonic() - start, 10)
        self.assertGreater(time.monotonic() - start, 3)
        # Who says that it does not matter may be silent.
        self.write("runs", "")
        self.expect(0, 1, "beat 0; sleep 3; exit 0", "--start-timeout", "1")

    def test_a_start_that_hangs_is_killed(self):
        """Stopped, or asleep, before it has had a heartbeat."""
        for hang in "kill -STOP $$", "sleep 1000":
            self.write("runs", "")
            start = time.monotonic()
            last = self.expect(0, 2, f"[ $count = 2 ] && exit 0; {hang}",
                               "--start-timeout", "2")
            self.assertIn("after no heartbeat within 2 s of its start "
                          "(--start-timeout)", last)
            self.assertGreater(time.monotonic() - start, 2)
            self.assertLess(time.monotonic() - start, 10)
        # The limit is the start's alone, and there need not be one.
        for flags in [["--start-timeout", "0"], []]:
            self.write("runs", "")
            self.expect(0, 1, "sleep 3; exit 0", *flags)
        self.write("runs", "")
        self.expect(0, 1, "beat 9; sleep 3; exit 0", "--start-timeout", "2")

    def test_what_a_run_leaves_behind_is_ended(self):
        """Also what has left the group, and what is stopped."""
        self.expect(0, 2, "[ $count = 2 ] && exit 0\n"
                          "setsid sleep 1000 & (setsid bash -c "
                          "'kill -STOP $$; sleep 1000' &); sleep 0.3; exit 1")

    def test_a_signal_is_passed_on(self):
        for number in signal.SIGTERM, signal.SIGINT, signal.SIGUSR1:
            name = signal.Signals(number).name
            self.write("runs", "")
            process = self.background(
                f"trap 'echo {name} >got; exit 3' {name}; touch ready\n"
                "while :; do sleep 0.05; done")
            self.wait_for("ready")
            process.send_signal(number)
            self.assertEqual(process.wait(30), 3, name)
            self.assertEqual(self.read("got").decode().strip(), name)
            self.assertEqual((self.count(), self.find_orphans()), (1, []))
            os.remove(self.path("ready"))

    def test_mpirun_gets_what_it_passes_on(self):
        """A SIGTERM it would not: it ends its ranks."""
        self.write("mpirun", "#!/bin/bash\ntrap 'exit 3' USR1\ntouch ready\n"
                             "while :; do sleep 0.05; done\n")
        os.chmod(self.path("mpirun"), 0o755)
        process = subprocess.Popen(
            [CLEAVE, "run", "--", "./mpirun", "./train", *RESUMES],
            cwd=self.folder, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.wait_for("ready")
        process.terminate()
        self.assertEqual(process.wait(30), 3)

    def test_a_second_signal_ends_at_once(self):
        process = self.background("trap '' TERM; touch ready\n"
                                  "while :; do sleep 0.05; done")
        self.wait_for("ready")
        process.terminate()
        time.sleep(1)
        self.assertIsNone(process.poll())
        process.terminate()
        self.assertEqual(process.wait(30), 1)
        self.assertIn("the command was asked to stop, and ended by signal 9",
                      process.stderr.read())
        self.assertEqual(self.find_orphans(), [])

    def test_a_failure_after_a_signal_is_not_restarted(self):
        process = self.background("trap 'exit 1' TERM; touch ready\n"
                                  "while :; do sleep 0.05; done")
        self.wait_for("ready")
        process.terminate()
        self.assertEqual((process.wait(30), self.count()), (1, 1))

    def test_a_signal_between_two_runs(self):
        process = self.background("touch ready; exit 1")
        self.wait_for("ready")
        time.sleep(0.5)
        process.terminate()
        self.assertEqual((process.wait(30), self.count()), (3, 1))

    def test_killing_it_ends_the_command(self):
        process = self.background("touch ready; while :; do sleep 0.05; done")
        self.wait_for("ready")
        process.kill()
        process.wait()
        deadline = time.monotonic() + 30
        while self.find_orphans():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_wrong_usage(self):
        def refuse(parts, *command):
            self.expect_error(parts, "cleave", "run", *command, code=2)
        refuse("command", "--")
        refuse(["no --save DIR and --resume", "add it"], "--", "./train")
        refuse(["no --resume:"], "--", "./train", "--save", "x")
        refuse(["no --save DIR:"], "--", "./train", "--resume")
        refuse(["no --resume:"], "--checkpoints", "x", "--", "./train")
        refuse(["--fewer-ranks has no --save DIR and --resume"],
               "--fewer-ranks", "./train", "--", "./train", *RESUMES)
        refuse(['--fewer-ranks saves to "other"', 'the command to "ckpt"'],
               "--fewer-ranks", "./train --save=other --resume", "--",
               "./train", *RESUMES)
        refuse(["./nothing: No such file"], "--", "./nothing", *RESUMES)
        for flag in "--restarts", "--start-timeout":
            refuse(flag, flag, "-1", "--", "./train", *RESUMES)


if __name__ == "__main__":
    unittest.main()
