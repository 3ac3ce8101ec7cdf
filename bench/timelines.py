#!/usr/bin/env python3
"""Runs on two ranks of this machine beside the simulation of the same programs,
as one page of timelines.

usage: timelines.py CLEAVE -o PAGE.html

Each program is compiled for this machine, as `cleave calibrate` measures it
first, with an emulated link between its ranks at which communication takes a
good part of what compute does. Above is the third step of a run, as
`train --trace` wrote it; below what `cleave estimate` makes of the executable,
with the kernels' seconds as they are priced, and as a serial run took them.
"""
import argparse
import html
import json
import os
import subprocess
import tempfile

from overlap import Bench

PROGRAMS = [
    ("1F1B, two stages, eight micro-batches",
     ["--pp", "2", "--micro-batch", "1"], "pp", 4.0),
    ("ZB-V, two stages with two virtual stages each",
     ["--pp", "2", "--micro-batch", "1", "--pipeline-schedule", "zb-v",
      "--virtual-stages", "2"], "pp", 4.0),
    ("ZeRO-3, two ranks, two micro-batches, parameters gathered ahead",
     ["--dp", "2", "--zero", "3", "--micro-batch", "2"], "dp", 1.0)]
STEP = 2
WIDTH, ROW, LEFT = 1040, 18, 150
COLORS = {"forward": "#3b76b0", "backward": "#5aa469", "optimizer": "#c98b2b",
          "": "#8a8f98"}
COMMUNICATION = "#b5484e"
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1220px;
       margin: 2em auto; padding: 0 1em; color: #1d2126; }
h2 { margin-top: 2em; font-size: 1.15em; }
svg { display: block; width: 100%; height: auto; margin: 0.5em 0; }
text { font: 12px system-ui, sans-serif; fill: #444b54; }
.key span { display: inline-block; margin-right: 1.5em; }
.key i { display: inline-block; width: 1em; height: 1em; margin-right: 0.4em;
         vertical-align: -0.15em; }
"""


def read_events(path, step):
    """Slices of a step by process and track, in milliseconds from its begin."""
    with open(path) as file:
        events = [event for event in json.load(file)["traceEvents"]
                  if event["ph"] == "X" and event["args"]["step"] == step]
    begin = min(event["ts"] for event in events)
    tracks = {}
    for event in sorted(events, key=lambda event: event["ts"]):
        tracks.setdefault((event["pid"], event["tid"]), []).append(
            ((event["ts"] - begin) * 1e-3,
             (event["ts"] - begin + event["dur"]) * 1e-3, event["cat"],
             event["name"]))
    return tracks


def get_end(tracks):
    return max(events[-1][1] for events in tracks.values())


def get_label(process, track):
    return f"rank {process}, " + ("compute" if track == 0 else
                                  "communication" if track == 1 else
                                  f"stream {track - 1}")


def merge(events, scale):
    """Slices of one phase that follow each other closer than can be seen."""
    merged = []
    for begin, end, phase, name in events:
        if merged and merged[-1][2] == phase and \
                (begin - merged[-1][1]) * scale < 0.4 and \
                (end - begin) * scale < 2:
            merged[-1][1] = max(end, merged[-1][1])
        else:
            merged.append([begin, end, phase, name])
    return merged


def draw(caption, tracks, end):
    """One timeline, `end` milliseconds wide."""
    scale = (WIDTH - 10) / end
    height = ROW * len(tracks) + 44
    parts = [f'<svg viewBox="0 0 {WIDTH + LEFT} {height}" role="img" '
             f'aria-label="{html.escape(caption)}">',
             f'<text x="0" y="13">{html.escape(caption)}</text>']
    for row, (process, track) in enumerate(sorted(tracks)):
        top = 20 + row * ROW
        parts.append(f'<text x="0" y="{top + 13}">'
                     f'{get_label(process, track)}</text>')
        for begin, finish, phase, name in merge(tracks[process, track], scale):
            color = COMMUNICATION if track else COLORS[phase]
            parts.append(
                f'<rect x="{LEFT + begin * scale:.1f}" y="{top}" '
                f'width="{max((finish - begin) * scale, 0.3):.1f}" '
                f'height="{ROW - 3}" fill="{color}"><title>'
                f'{html.escape(name)} {finish - begin:.3f} ms</title></rect>')
    top = 20 + len(tracks) * ROW
    tick = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
                if end / step < 15)
    for time in range(0, int(end) + 1, tick):
        at = LEFT + time * scale
        parts.append(f'<path d="M{at:.1f} {top}v4" stroke="#444b54"/>'
                     f'<text x="{at:.1f}" y="{top + 17}" '
                     f'text-anchor="middle">{time}</text>')
    parts.append(f'<text x="0" y="{top + 17}">ms</text></svg>')
    return "\n".join(parts)


def run(bench, title, layout, axis, share):
    """The section of a program. At `share`, of a pipeline, messages take that
    part of a step's compute less."""
    bench.compile(layout, 1e9)
    compute = bench.measure("--serial")
    if axis == "pp":
        bandwidth = bench.get_sent() / compute * share
    else:
        slow = bench.measure("--serial", "--emulate-link", f"{axis}=2e8,0")
        bandwidth = 2e8 * (slow - compute) / compute * share
    bench.compile(layout, bandwidth)
    link = ["--emulate-link", f"{axis}={bandwidth},0"]
    steps = ["--trace-steps", str(STEP + 2)]
    bench.measure("--serial", "--trace", "serial.json", *steps)
    bench.measure(*link, "--trace", "run.json", *steps)
    shown = [("measured", read_events(bench.path("run.json"), STEP))]
    for caption, flags in [
            ("simulated, kernels as priced", []),
            ("simulated, kernels as a serial run took them",
             ["--kernels-from", "serial.json"])]:
        bench.predict(*link, *flags, "--trace", "simulated.json")
        shown.append((caption, read_events(bench.path("simulated.json"), 0)))
    end = max(get_end(tracks) for _, tracks in shown)
    lines = [f"<h2>{html.escape(title)}</h2>",
             f"<p><code>cleave compile {' '.join(layout)} --overlap always"
             f"</code>, <code>train --emulate-link {axis}="
             f"{bandwidth:.3g},0</code></p>"]
    for caption, tracks in shown:
        lines.append(draw(f"{caption}: {get_end(tracks):.0f} ms", tracks, end))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cleave")
    parser.add_argument("-o", "--output", required=True)
    arguments = parser.parse_args()
    sections = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments.cleave, folder, steps=STEP + 2)
        for program in PROGRAMS:
            sections.append(run(bench, *program))
            print(program[0], flush=True)
    version = subprocess.run([os.path.abspath(arguments.cleave), "--version"],
                             check=True, stdout=subprocess.PIPE,
                             encoding="utf-8").stdout.splitlines()[0]
    with open("/proc/cpuinfo") as file:
        cpu = next(line.split(":")[1].strip() for line in file
                   if line.startswith("model name"))
    key = "".join(f'<span><i style="background:{color}"></i>{name}</span>'
                  for name, color in
                  [*((name or "other", color) for name, color in
                     COLORS.items()), ("communication", COMMUNICATION)])
    with open(arguments.output, "w") as file:
        file.write(
            "<!doctype html>\n<meta charset=\"utf-8\">\n"
            "<title>Runs and their simulation</title>\n"
            f"<style>{STYLE}</style>\n<h1>Runs and their simulation</h1>\n"
            "<p>A step on two ranks of this machine, over a link that is "
            "emulated, above what <code>cleave estimate</code> makes of the "
            "same executable. Receiving spans the wait for the message. "
            f"Written by <code>bench/timelines.py</code>; {html.escape(version)}"
            f", {html.escape(cpu)}.</p>\n<p class=\"key\">{key}</p>\n"
            + "\n".join(sections) + "\n")


if __name__ == "__main__":
    main()
