#!/usr/bin/env python3
"""The watchdog's figures: many ranks that fall ill, and many that only pause.

usage: campaign.py [--limit SECONDS] [--repeat N] [--jobs N] BINARIES
       campaign.py --pauses N [--limit SECONDS] BINARIES

BINARIES: the build folder. The first form makes each rank of a run of 4 ranks,
as threads and under mpirun, stopped, killed, or stuck in compute, in a
collective and while it saves, and prints in how many the one message names the
right rank and collective, how long that took, and what was left behind. Runs
that are stopped or killed as a whole (ranks as threads) are found by cleave
run. The second form stops random ranks of a run for 5 s each, half of the
limit, and expects no alarm. Exit code 1 if anything is not as it should be."""
import argparse
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("binaries")
    parser.add_argument("--limit", type=float, default=10)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--pauses", type=int, default=0)
    return parser.parse_args()


ARGS = parse()
os.environ["CLEAVE_WATCH_RANKS"] = os.path.join(ARGS.binaries,
                                                "test/bin/WatchRanks")
os.environ.setdefault("CLEAVE_MPIRUN", "mpirun")
import ranks  # noqa: E402: it reads the environment


def list_cases():
    """Backend, what, where: what one process, or one thread, can suffer. A
    thread that stands still while it saves may do so for long."""
    mpi = [("mpi", what, where) for what in ("stop", "kill")
           for where in ("compute", "collective", "save")]
    threads = [(backend, "freeze", where) for backend in ("local", "mpi")
               for where in ("compute", "collective")]
    whole = [("whole", what, where) for what in ("stop", "kill")
             for where in ("compute", "collective", "save")]
    hang = [("local", "hang", "compute"), ("mpi", "hang", "compute")]
    return mpi + threads + hang + whole


def run_case(case):
    (backend, what, where), rank = case
    settings = {"what": what, "where": where, "rank": rank,
                "watchdog": ARGS.limit}
    if where == "save":
        settings["save_every"] = 3
    if backend == "whole":
        return run_whole(settings)
    run = ranks.Run(backend, **settings)
    ill = run.wait_ill()
    code = run.wait(3 * ARGS.limit + 60)
    return ranks.check(run, ARGS.limit, ill, code,
                       ranks.get_message(what, where, rank))


def run_whole(settings):
    """Under cleave run, which sees an end or a silence and starts again: the
    second time it is given nothing to suffer."""
    with tempfile.TemporaryDirectory() as folder:
        once = [f"{key.replace('_', '-')}={value}"
                for key, value in {**ranks.TOY, **settings}.items()]
        script = (f"[ -e {folder}/once ] && exec {ranks.RANKS} steps=20\n"
                  f"touch {folder}/once; exec {ranks.RANKS} {' '.join(once)}")
        process = subprocess.Popen(
            [os.path.join(ARGS.binaries, "bin/cleave"), "run", "--", "bash",
             "-c", script, "bash", "--save", folder, "--resume"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        ill, ranks_process = None, None
        for line in process.stdout:
            if match := re.match(r"ill (\d+) \d+ ([\d.]+)$", line):
                ranks_process, ill = int(match[1]), float(match[2])
                break
        wrong, said = [], None
        for line in process.stderr:
            if "note: restart 1 " in line:
                said = time.monotonic() - ill
        code = process.wait()
        process.stdout.close()
        process.stderr.close()
        if code != 0:
            wrong.append(f"exit code {code}")
        if said is None or said > ARGS.limit:
            wrong.append(f"was found after {said} s")
        if ranks_process and os.path.exists(f"/proc/{ranks_process}"):
            wrong.append(f"orphan: {ranks_process}")
        return "; ".join(wrong), said, said


def run_all():
    cases = list(itertools.product(list_cases(), range(4))) * ARGS.repeat
    random.Random(1).shuffle(cases)
    results = {}
    with ThreadPoolExecutor(ARGS.jobs) as pool:
        for (name, rank), result in zip(cases, pool.map(run_case, cases)):
            results.setdefault(name, []).append(result)
            if result[0]:
                print(*name, f"rank {rank}:", result[0], flush=True)
    print(f"{'ranks':8}{'what':8}{'where':12}{'right':>8}{'said s':>8}"
          f"{'ended s':>9}   (the longest)")
    bad = 0
    for name in sorted(results):
        rows = results[name]
        right = sum(not wrong for wrong, _, _ in rows)
        bad += len(rows) - right
        said = max(seconds or 0 for _, seconds, _ in rows)
        ended = max(seconds or 0 for _, _, seconds in rows)
        print(f"{name[0]:8}{name[1]:8}{name[2]:12}{right:>4}/{len(rows):<3}"
              f"{said:8.1f}{ended:9.1f}")
    print(f"{len(cases) - bad} of {len(cases)} right, within {ARGS.limit} s, "
          "no orphans")
    return bad


def run_pauses():
    """Each pause is half of the limit long; all ranks step on in between."""
    length = ARGS.limit / 2
    run = ranks.Run("mpi", steps=10_000, step_ms=1, watchdog=ARGS.limit,
                    save_every=500, save_ms=200)
    generator = random.Random(1)
    while len(run.find_ranks()) < run.world:
        time.sleep(0.05)
    done = 0
    while done < ARGS.pauses and run.process.poll() is None:
        time.sleep(generator.uniform(0.05, 0.5))
        victims = run.find_ranks()
        if len(victims) < run.world:
            break
        try:
            victim = generator.choice(victims)
            os.kill(victim, signal.SIGSTOP)
            time.sleep(length)
            os.kill(victim, signal.SIGCONT)
        except ProcessLookupError:
            break
        done += 1
    code = run.wait(600)
    left = run.wait_gone()
    print(f"10000 steps with {done} pauses of {length} s: exit code {code}, "
          f"messages {run.errors()}, orphans {left}")
    return code != 0 or bool(run.errors()) or bool(left) or not done


if __name__ == "__main__":
    sys.exit(1 if (run_pauses() if ARGS.pauses else run_all()) else 0)
