#!/usr/bin/env python3
"""The planner's targets, each beside what is measured here and now.

usage: targets.py BUILD [--own-runs FILE | --skip-own-runs] [--json]

BUILD is a configured build folder; what is measured is built there first.
--own-runs takes what an earlier bench/local/own_runs.py printed instead of
running it, which takes minutes and wants an idle machine. Prints one
tab-separated line a target: what, target, measured, "met" or "NOT met"; then
one for each file of runs that were not in view when the model was made: these
are no targets.
"""
import argparse
import glob
import json
import os
import re
import statistics
import subprocess
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(__file__), "..", ".."))
CONFIGS = os.path.join(ROOT, "test", "data", "configs")
RUNS = os.path.join(ROOT, "test", "data", "runs")
UNSEEN = ["held_out_runs.json", "blind_runs.json", "third_runs.json"]
SINGLE_NODE = "vTrain ground truth (single node)"
MULTI_NODE = "vTrain ground truth (multi-node)"

# Model, cluster, sequence length, global batch, seconds.
SEARCHES = [("llama-3.1-405b", "h100-sxm:16384", 8192, 2048, 1),
            ("deepseek-v3", "h800:2048", 4096, 15360, 2)]
RATE = 200_000  # layouts a second and core
INSTANCES = 300  # of brute force


class Table:
    def __init__(self):
        self.lines = []

    def add(self, what, target, measured, met, **numbers):
        """`met` is None where nothing was measured."""
        self.lines.append({"what": what, "target": target,
                           "measured": measured, "met": met, **numbers})

    def print(self):
        verdict = {True: "met", False: "NOT met", None: "not measured"}
        for line in self.lines:
            print(line["what"], line["target"], line["measured"],
                  verdict[line["met"]], sep="\t")
        counted = [line["met"] for line in self.lines]
        print(f"{sum(x is True for x in counted)} of {len(counted)} are met")


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE,
                          encoding="utf-8").stdout


def percent(share):
    return f"{100 * share:.1f} %"


def measure_searches(table, cleave):
    for model, cluster, length, batch, limit in SEARCHES:
        plans = [json.loads(run(cleave, "plan",
                                os.path.join(CONFIGS, model + ".json"),
                                "--cluster", cluster, "--seq-len", str(length),
                                "--global-batch", str(batch), "--json"))
                 for _ in range(3)]
        search = min((plan["search"] for plan in plans),
                     key=lambda x: x["seconds"])
        proven = search["optimal"] and search["bound"] == search["value"]
        table.add(f"search, {model}, {cluster}, sequence {length}, "
                  f"batch {batch}", f"{limit} s, proven",
                  f"{search['seconds']:.2f} s, "
                  f"{'bound = time' if proven else 'NOT proven'}, "
                  f"{search['evaluated']:,} of {search['space']:,} priced",
                  search["seconds"] < limit and proven,
                  seconds=search["seconds"], proven=proven)


def measure_pricing(table, planner):
    names = {"price/0/1": "dense, in the order of enumeration",
             "price/0/101": "dense, every 101st layout",
             "price/1/101": "sparse, every 101st layout"}
    result = json.loads(run(planner, "--benchmark_filter=price",
                            "--benchmark_format=json", CONFIGS))
    for benchmark in result["benchmarks"]:
        name = benchmark["name"].partition("/iterations")[0]
        rate = benchmark["items_per_second"]
        table.add(f"layouts priced by a core, {names.get(name, name)}",
                  f"{RATE:,} /s", f"{rate:,.0f} /s", rate >= RATE, rate=rate)


def measure_optimality(table, test):
    """The count that the test insists on, if it passes."""
    source = os.path.join(ROOT, "test", "lib", "Search", "SearchTest.cpp")
    with open(source, encoding="utf-8") as file:
        insisted = int(re.search(r"EXPECT_GE\(solved, (\d+)\)",
                                 file.read()).group(1))
    done = subprocess.run([test, "--gtest_filter=Search.EqualsBruteForce"],
                          stdout=subprocess.PIPE, encoding="utf-8")
    passed = done.returncode == 0 and "[  PASSED  ] 1 test" in done.stdout
    table.add("equal to brute force, random instances", f"{INSTANCES}",
              f"{insisted} or more, test "
              f"{'passes' if passed else 'FAILS'}",
              passed and insisted >= INSTANCES, instances=insisted)


def get_quantile(values, share):
    """Linear between the nearest two."""
    values = sorted(values)
    at = share * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])


def get_errors(rows):
    return [row["predicted_s"] / row["measured_s"] - 1 for row in rows
            if "predicted_s" in row and "measured_s" in row]


def states(said, *keys):
    """Whether a run's source says all of these itself."""
    return all(said.get(key) is not None and key not in said["derived"]
               for key in keys)


def is_dense_bf16(said):
    return (said.get("gpu", "").startswith(("A100", "H100")) and
            (said.get("precision") or "").startswith("BF16") and
            not said.get("experts") and
            states(said, "tp", "pp", "mbs", "recompute"))


def is_fp8(said):
    return "FP8" in (said.get("precision") or "") and not said.get("experts")


def add_median(table, name, errors, limit):
    if not errors:
        table.add(name, f"median {percent(limit)}", "no rows", None)
        return
    sizes = [abs(error) for error in errors]
    median = statistics.median(sizes)
    table.add(name, f"median {percent(limit)}",
              f"median {percent(median)}, 90th percentile "
              f"{percent(get_quantile(sizes, 0.9))}, bias "
              f"{percent(statistics.mean(errors))}, {len(sizes)} rows",
              median <= limit, median=median, rows=len(sizes))


def add_dense(table, rows, said):
    rows = [row for row in rows if is_dense_bf16(said[row["id"]])]
    errors = get_errors(rows)
    sizes = [abs(error) for error in errors]
    median, p90 = statistics.median(sizes), get_quantile(sizes, 0.9)
    name = "dense bf16 on A100 and H100, layout stated"
    table.add(f"{name}: median", "5 %", f"{percent(median)}, {len(sizes)} rows",
              median <= 0.05, median=median, rows=len(sizes))
    table.add(f"{name}: 90th percentile", "15 %", percent(p90), p90 <= 0.15,
              p90=p90)
    biases = {}
    for source in {row["source"] for row in rows}:
        of_source = get_errors(row for row in rows if row["source"] == source)
        if of_source:
            biases[source] = statistics.mean(of_source)
    worst = max(biases, key=lambda source: abs(biases[source]))
    outside = sorted(source for source, bias in biases.items()
                     if abs(bias) > 0.05)
    table.add(f"{name}: bias of each source", "5 %",
              f"worst {100 * biases[worst]:+.1f} % ({worst}); "
              f"{len(biases) - len(outside)} of {len(biases)} sources within",
              not outside, biases=biases)


def add_memory(table, rows, said):
    offs = [abs(row["predicted_memory_bytes"] / row["measured_memory_bytes"]
                - 1) for row in rows if "measured_memory_bytes" in row]
    table.add("peak memory", "median 5 %",
              f"median {percent(statistics.median(offs))}, {len(offs)} rows",
              statistics.median(offs) <= 0.05, median=statistics.median(offs))
    stated = [key for key, row in said.items() if row.get("oom")]
    priced = [row for row in rows if row["id"] in stated
              and "predicted_fits" in row]
    told = [row for row in priced if not row["predicted_fits"]]
    missed = sorted(row["id"] for row in priced if row["predicted_fits"])
    table.add("out-of-memory predicted", "every one stated",
              f"{len(told)} of {len(stated)} stated; "
              f"{len(stated) - len(priced)} lack a field; missed: "
              f"{', '.join(missed) or 'none'}",
              len(told) == len(stated), missed=missed)


def measure_ledger(table, cleave):
    files = sorted(glob.glob(os.path.join(RUNS, "training*.json")))
    ledger = json.loads(run(cleave, "ledger", "--json", "--rows", *files))
    rows = ledger["rows"]
    said = {}
    for path in files:
        with open(path, encoding="utf-8") as file:
            for row in json.load(file):
                if "id" in row:
                    said[row["id"]] = {"derived": [], **row}
    published = [row for row in rows if row["id"] in said]
    add_dense(table, published, said)
    of = lambda test: get_errors(row for row in published
                                 if test(said[row["id"]]))
    add_median(table, "FP8, dense", of(is_fp8), 0.08)
    add_median(table, "mixtures of experts, any precision",
               of(lambda row: row.get("experts")), 0.12)
    for name, key, limits in [
            ("A100 single-node table", SINGLE_NODE,
             {"mean": 0.12, "spearman": 0.9, "gap": 0.03}),
            ("vTrain multi-node", MULTI_NODE, {"mean": 0.08, "gap": 0.01})]:
        source = ledger["sources"][key]
        for what, limit in limits.items():
            value = source[what]
            rank = what == "spearman"
            table.add(f"{name}, {source['rows']} rows: {what}",
                      f"{limit} or more" if rank else percent(limit),
                      f"{value:.3f}" if rank else percent(value),
                      value >= limit if rank else value <= limit,
                      **{what: value})
    add_memory(table, published, said)


def measure_unseen(cleave):
    """A line for each file of runs not in view, which no target is for."""
    lines = []
    for name in UNSEEN:
        path = os.path.join(RUNS, name)
        total = json.loads(run(cleave, "ledger", "--json", path))["total"]
        numbers = {key: total[key]
                   for key in ("rows", "median", "mean", "p90", "bias")}
        lines.append({"what": f"runs not in view, {name}",
                      "measured": f"median {percent(total['median'])}, mean "
                      f"{percent(total['mean'])}, 90th percentile "
                      f"{percent(total['p90'])}, bias "
                      f"{percent(total['bias'])}, {total['rows']} rows",
                      **numbers})
    return lines


def measure_own_runs(table, cleave, path):
    names = ["our own runs on CPU ranks: median", "our own runs: order"]
    script = os.path.join(ROOT, "bench", "local", "own_runs.py")
    if path:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    else:
        done = subprocess.run([sys.executable, script, cleave],
                              stdout=subprocess.PIPE, encoding="utf-8")
        if done.returncode != 0:
            table.add(names[0], "10 %", "own_runs.py failed", None)
            return
        text = done.stdout
    median = float(re.search(r"^median error ([\d.]+) %", text, re.M)[1]) / 100
    right, pairs = map(int, re.search(r"^order: (\d+) of (\d+) pairs", text,
                                      re.M).groups())
    table.add(names[0], "10 %", percent(median), median <= 0.1, median=median)
    table.add(names[1], "all pairs right", f"{right} of {pairs} pairs",
              right == pairs, right=right, pairs=pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--own-runs", metavar="FILE")
    group.add_argument("--skip-own-runs", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    subprocess.run(["cmake", "--build", args.build, "--target", "cleave",
                    "planner", "SearchTest"], check=True, stdout=sys.stderr)
    cleave = os.path.join(args.build, "bin", "cleave")
    table = Table()
    measure_searches(table, cleave)
    measure_pricing(table, os.path.join(args.build, "bin", "planner"))
    measure_optimality(table, os.path.join(args.build, "test", "bin",
                                           "SearchTest"))
    measure_ledger(table, cleave)
    if args.skip_own_runs:
        table.add("our own runs on CPU ranks", "median 10 %, order", "", None)
    else:
        measure_own_runs(table, cleave, args.own_runs)
    unseen = measure_unseen(cleave)
    if args.json:
        json.dump(table.lines + unseen, sys.stdout, indent=1)
        print()
    else:
        table.print()
        for line in unseen:
            print(line["what"], line["measured"], sep="\t")


if __name__ == "__main__":
    main()
