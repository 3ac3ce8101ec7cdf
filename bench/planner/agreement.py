#!/usr/bin/env python3
"""What `cleave plan` says of a layout, beside the program that is compiled for
it: seconds of a step beside the simulation of its instructions, and memory
beside its arena. Of random layouts of real models.

usage: agreement.py CLEAVE [--plans N] [--seed N] [--profile P] [--verbose]

Programs are compiled for CPUs so far; both are priced on H100s. Of arenas the
workspaces of CPU kernels are left out, which the planner's GPUs do not have.
Prints a line for each plan, and the median and the worst of all.
"""
import argparse
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../test/tools"))
os.environ.setdefault("CLEAVE_TOOLS", "")
from agreement import Agreement, draw_plans  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cleave")
    parser.add_argument("--plans", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", default="cleave-cpu",
                        help="what the software does: cleave-cpu has nothing "
                        "beside anything else, and cleave overlaps")
    parser.add_argument("--verbose", action="store_true",
                        help="by category and term, and what is not legal")
    options = parser.parse_args()
    cleave = os.path.abspath(options.cleave)
    steps, peaks = [], []

    def refuse(why):
        if options.verbose:
            print("# refused:", why)

    with tempfile.TemporaryDirectory() as folder:
        for drawn in draw_plans(options.plans, options.seed, cleave,
                                options.profile, folder, refuse):
            memory, seconds = drawn.get_memory(), drawn.get_seconds()
            steps.append((drawn.planned["step_time_s"],
                          drawn.simulated["step_time_s"]))
            peaks.append(tuple(sum(each.values()) for each in memory))
            print("step {:6.3f}  {:9.4f} {:9.4f} s   memory {:6.3f}  {:8.3f} "
                  "{:8.3f} GB  ".format(
                      steps[-1][0] / steps[-1][1], *steps[-1],
                      peaks[-1][0] / peaks[-1][1], *(peak / 1e9 for peak
                                                     in peaks[-1])),
                  drawn.model, *drawn.flags, flush=True)
            if options.verbose:
                for name, (plan, program), digits in (
                        ("s ", seconds, 4),
                        ("GB", ({k: v / 1e9 for k, v in each.items()}
                                for each in memory), 3)):
                    print("  ", name, "plan   ",
                          {k: round(v, digits) for k, v in plan.items()})
                    print("  ", name, "program",
                          {k: round(v, digits) for k, v in program.items()})
    print(f"{len(steps)} plans from seed {options.seed}, profile "
          f"{options.profile}")
    print("step:", Agreement(steps))
    print("memory:", Agreement(peaks))


if __name__ == "__main__":
    main()
