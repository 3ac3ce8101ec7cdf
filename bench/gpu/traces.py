"""Where the time of traced steps goes, beside what the device allows."""
import collections
import re
import statistics

SKIPPED = 3  # steps, before those that count
LONGEST = 30  # instructions that a profile lists


def name_kind(name):
    """"adamw_4 adamw model.layers.3.mlp.up_proj.weight": "adamw"."""
    return re.sub(r"_\d+$", "", name.split(" ")[0]) or "unnamed"


def sum_by_kind(predicted):
    """Seconds of a step by phase and kind, of [phase, name, seconds]."""
    kinds = collections.defaultdict(float)
    for phase, name, seconds in predicted:
        kinds[phase, name_kind(name)] += seconds
    return kinds


def summarize_trace(events, facts, predicted, ceilings):
    """Of the steps after the first ones: seconds by kind, and the longest
    instructions with what binds them. `facts`: opcode, FLOPs and operands' bytes
    of each instruction, and `predicted`: as sum_by_kind has it, as far as they
    are known."""
    copy_rate, flop_rate, source = ceilings
    events = [e for e in events if e.get("ph") == "X" and e.get("pid") == 0]
    steps = sorted({e["args"]["step"] for e in events})
    kept = steps[min(SKIPPED, len(steps) - 1):] if steps else []
    events = [e for e in events if e["args"]["step"] in set(kept)]
    if not events:
        return {"failed": "the trace has no events"}
    spans = collections.defaultdict(lambda: [float("inf"), 0.0])
    kinds = collections.defaultdict(Times)
    alike = collections.defaultdict(Times)
    labels = label_instructions(events)
    for event in events:
        args, micros = event["args"], event["dur"]
        span = spans[args["step"]]
        span[0] = min(span[0], event["ts"])
        span[1] = max(span[1], event["ts"] + micros)
        number = args.get("instruction", -1)
        fact = facts[number] if 0 <= number < len(facts) else ["", 0, 0]
        flops = args.get("flops", args.get("gflops", 0) * 1e3 * micros
                         or fact[1])
        size = args.get("bytes", fact[2])
        phase, kind = event.get("cat", ""), name_kind(event["name"])
        for times in (kinds[phase, args.get("kind", kind)],
                      alike[phase, labels[number, event["name"]]]):
            times.add(micros * 1e-6, flops, size,
                      size / copy_rate, flops / flop_rate)
    count = len(kept)
    total = sum(times.total for times in kinds.values())
    order = lambda table: sorted(table.items(), key=lambda i: -i[1].total)
    predictions = sum_by_kind(predicted)
    return {
        "failed": None, "steps": kept, "ceilings": source,
        "span_seconds": statistics.median(
            (end - begin) * 1e-6 for begin, end in spans.values()),
        "busy_seconds": total / count,
        "bound_seconds": sum(times.bound for times in kinds.values()) / count,
        "predicted_seconds": sum(predictions.values()),
        "kinds": [{**times.describe(*key, count, total),
                   "predicted_seconds": predictions.get(key)}
                  for key, times in order(kinds)],
        "longest": [times.describe(*key, count, total)
                    for key, times in order(alike)[:LONGEST]]}


class Times:
    """Of executions of instructions that count as one."""

    def __init__(self):
        self.seconds = []
        self.total = self.flops = self.bytes = self.bound = 0.0
        self.by_memory = self.by_flops = 0.0

    def add(self, seconds, flops, size, memory_bound, flop_bound):
        self.seconds.append(seconds)
        self.total += seconds
        self.flops += flops
        self.bytes += size
        self.bound += max(memory_bound, flop_bound)
        self.by_memory += memory_bound
        self.by_flops += flop_bound

    def describe(self, phase, name, steps, total):
        return {"phase": phase, "name": name, "step_seconds":
                self.total / steps, "share": self.total / total if total else 0,
                "runs_per_step": len(self.seconds) / steps,
                "median_seconds": statistics.median(self.seconds),
                "flops_per_s": self.flops / self.total if self.total else 0,
                "bytes_per_s": self.bytes / self.total if self.total else 0,
                "bound_seconds": self.bound / steps,
                "bound_by": "" if not self.bound else "FLOP/s"
                if self.by_flops >= self.by_memory else "memory"}


def label_instructions(events):
    """What instructions that do the same in other layers have in common: the
    name with a * for the layer, and which of those of that name it is, as a
    product has two in the backward pass."""
    numbers = collections.defaultdict(set)
    for event in events:
        numbers[event.get("cat"), event["name"]].add(
            event["args"].get("instruction", -1))
    labels = {}
    for (_, name), found in numbers.items():
        general = re.sub(r"(?<=\.)\d+(?=\.|$)", "*", name)
        general = re.sub(r"^(\S+?)_\d+(?= )", r"\1", general)
        for place, number in enumerate(sorted(found)):
            labels[number, name] = general + (f" #{place + 1}"
                                              if len(found) > 1 else "")
    return labels
