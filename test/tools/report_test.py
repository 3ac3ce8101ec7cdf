#!/usr/bin/env python3
"""cleave plan --report: the page is well-formed and alone, its numbers are
those of the JSON, its drawings are inside their frames."""
import html.parser
import json
import os
import re
import shutil
import unittest
import xml.etree.ElementTree as tree

from support import DATA, ToolTest

LLAMA_8B = os.path.join(DATA, "configs", "llama-3-8b.json")
UNITS = {"s": 1, "ms": 1e-3, "GB": 1e9, "%": 1e-2}
# Elements of HTML that have no end tag.
VOID = {"meta", "br", "hr", "img", "link", "input"}


class Balance(html.parser.HTMLParser):
    """Asserts that every element ends where its parent has not yet."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.references = [], [], []

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)
        self.note(attributes)

    def handle_startendtag(self, tag, attributes):
        self.note(attributes)

    def note(self, attributes):
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "action", "data",
                        "srcset"):
                self.references.append(value)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag


def text_of(element):
    return "".join(element.itertext())


def box_of(path):
    """Left, top, width, height of a "M x y h w v h h -w z"."""
    return [float(x) for x in re.match(
        r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)", path.get("d")).groups()]


class Page:
    def __init__(self, test, *flags, model=LLAMA_8B, name="page.html"):
        self.test = test
        self.flags = flags
        test.run_tool("cleave", "plan", model, *flags, "--report", name)
        self.bytes = test.read(name)
        self.text = self.bytes.decode()
        self.root = tree.fromstring(self.text)

    def find(self, name):
        return next(x for x in self.root.iter() if x.get("id") == name)

    def rows(self, name):
        """Of a table: its headings, and the text of its cells."""
        table = self.find(name)
        return ([text_of(x) for x in table.iter("th")],
                [[text_of(x).strip() for x in row.iter("td")]
                 for row in table.find("tbody").iter("tr")])

    def classes(self, name):
        return [x for x in self.root.iter()
                if name in x.get("class", "").split()]


class ReportTest(ToolTest):
    ONE = ["--cluster", "h100-sxm:64", "--seq-len", "8192",
           "--global-batch", "128", "--pin", "pp=4", "--pin", "zero=1"]
    FLAGS = [*ONE, "--top", "4"]

    @classmethod
    def setUpClass(cls):
        cls.cache = {}

    def get(self, key):
        """Pages and JSON that several tests look at, made once."""
        make = {
            "page": lambda: Page(self, *self.FLAGS),
            "plan": lambda: self.plan("--json"),
            "front": lambda: json.loads(self.run_tool(
                "cleave", "plan", LLAMA_8B, *self.ONE, "--front", "8",
                "--json"))["front"]}
        if key not in self.cache:
            self.cache[key] = make[key]()
        return self.cache[key]

    def plan(self, *flags):
        return json.loads(self.run_tool("cleave", "plan", LLAMA_8B,
                                        *self.FLAGS, *flags))

    def assert_shows(self, shown, unit, value):
        """Half of the last digit shown is all that it may differ."""
        shown = shown.replace(",", "")
        decimals = len(shown.partition(".")[2])
        self.assertLessEqual(abs(float(shown) * unit - value),
                             0.5000001 * 10 ** -decimals * unit,
                             f"{shown} x {unit} is not {value}")

    def test_is_well_formed_and_alone(self):
        page = self.get("page")
        parser = Balance()
        parser.feed(page.text)
        parser.close()
        self.assertEqual(parser.open, [])
        self.assertEqual(len(parser.ids), len(set(parser.ids)))
        self.assertEqual(parser.references, [])
        for outside in ["://", "url(", "@import", "<script", "<link",
                        "<iframe"]:
            self.assertFalse(outside in page.text.lower(), outside)
        self.assertTrue(page.text.startswith("<!DOCTYPE html>"))
        self.assertLess(len(page.bytes), 1 << 20)

    def test_is_the_same_each_time(self):
        again = Page(self, *self.FLAGS, name="again.html")
        self.assertEqual(again.bytes, self.get("page").bytes)

    def test_has_the_plan(self):
        self.run_tool("cleave", "plan", LLAMA_8B, *self.FLAGS, "-o", "plan.json")
        shown = json.loads(text_of(self.get("page").find("plan")))
        self.assertEqual(shown, json.loads(self.read("plan.json")))

    def test_tiles_are_of_the_plan(self):
        page, plan = self.get("page"), self.get("plan")
        tiles = {}
        for tile in page.classes("tile"):
            name, value, _ = tile
            tiles[name.text] = (value.text, text_of(value[0]).strip())
        number, unit = tiles["step"]
        self.assert_shows(number, UNITS[unit], plan["step_time_s"])
        self.assert_shows(tiles["tokens/s/device"][0], 1,
                          plan["tokens_per_s_per_device"])
        self.assert_shows(tiles["MFU"][0], UNITS["%"], plan["mfu"])
        number, unit = tiles["memory"]
        self.assert_shows(number, UNITS[unit], plan["memory_bytes"]["total"])

    def check_parts(self, table, prefix, parts, total, whole):
        """Rows and the bar's lengths of a step's parts, or of memory's."""
        page = self.get("page")
        headings, rows = page.rows(table)
        unit = UNITS[headings[1]]
        styles = [x.get("class") for x in page.find(table).iter("i")]
        keys = [style.removeprefix(prefix) for style in styles]
        self.assertEqual(set(keys), {k for k, v in parts.items() if v != 0})
        self.assertEqual(len(rows), len(keys) + 1)
        for key, row in zip(keys, rows):
            self.assert_shows(row[1], unit, parts[key])
            self.assert_shows(row[2], UNITS["%"], parts[key] / whole)
        self.assert_shows(rows[-1][1], unit, total)
        bar = next(bar for bar in page.classes("bar")
                   if any(x.get("class", "").startswith(prefix) for x in bar))
        for part in bar:
            width, = re.fullmatch(r"width:([\d.]+)%",
                                  part.get("style")).groups()
            key = part.get("class").removeprefix(prefix)
            self.assertAlmostEqual(float(width), 100 * parts[key] / whole,
                                   delta=0.001)

    def test_step_is_of_the_plan(self):
        plan = self.get("plan")
        self.check_parts("time", "t-", plan["time_s"], plan["step_time_s"],
                         plan["step_time_s"])

    def test_memory_is_of_the_plan(self):
        memory = dict(self.get("plan")["memory_bytes"])
        total, _ = memory.pop("total"), memory.pop("device")
        # Shares are those of what may be used.
        self.check_parts("memory", "m-", memory, total,
                         self.get("plan")["search"]["memory_limit"])

    def test_fullest_stage_is_the_plan_s(self):
        memory = self.get("plan")["memory_bytes"]
        titles = [text_of(x) for x in self.get("page").root.iter("title")]
        stages = [x.splitlines() for x in titles if " GB\nparameters" in x]
        self.assertEqual(len(stages), 4)
        totals = [float(x[0].split()[-2]) for x in stages]
        self.assert_shows(f"{max(totals):.1f}", 1e9, memory["total"])

    def check_candidates(self, table, candidates, first):
        headings, rows = self.get("page").rows(table)
        self.assertEqual(len(rows), len(candidates))
        unit = UNITS[headings[1].split()[-1]]
        for i, (row, candidate) in enumerate(zip(rows, candidates)):
            step = candidate["step_time_s"]
            self.assertEqual(row[0], str(i + 1))
            self.assert_shows(row[1], unit, step)
            self.assert_shows(row[2], UNITS["%"],
                              step / first["step_time_s"] - 1)
            self.assert_shows(row[3], 1, candidate["tokens_per_s_per_device"])
            self.assert_shows(row[4], UNITS["%"], candidate["mfu"])
            self.assert_shows(row[5], 1e9, candidate["memory_bytes"]["total"])
            layout = candidate["layout"]
            self.assertIn(f"tp {layout['tp']}, ", row[6])
            self.assertIn(f"pp {layout['pp']}, ", row[6])
            self.assertIn(f"micro-batch {layout['micro_batch']}", row[6])

    def test_next_best_are_those_of_top(self):
        plan = self.get("plan")
        self.check_candidates("top", plan["top"], plan)

    def test_front_is_that_of_front(self):
        front = self.get("front")
        self.check_candidates("front", front, front[0])
        points = self.get("page").classes("point")
        self.assertEqual(len(points), len(front))
        # To the left and up, as far apart as their seconds and bytes.
        for axis, value in [("cx", lambda x: x["memory_bytes"]["total"]),
                            ("cy", lambda x: -x["step_time_s"])]:
            at = [float(x.get(axis)) for x in points]
            expected = [value(x) for x in front]
            scale = (at[-1] - at[0]) / (expected[-1] - expected[0])
            self.assertGreater(scale, 0)
            for a, e in zip(at, expected):
                self.assertAlmostEqual(a, at[0] + scale * (e - expected[0]),
                                       delta=0.2)

    def test_what_binds_is_what_explain_says(self):
        self.run_tool("cleave", "plan", LLAMA_8B, *self.FLAGS, "-o", "plan.json")
        explained = json.loads(self.run_tool(
            "cleave", "explain", LLAMA_8B, "--plan", "plan.json",
            "--cluster", "h100-sxm:64", "--json"))
        headings, rows = self.get("page").rows("binds")
        unit = UNITS[headings[1].split()[-1]]
        self.assertEqual([row[0] for row in rows],
                         [x["what"] for x in explained["relaxed"]])
        for row, relaxed in zip(rows, explained["relaxed"]):
            self.assert_shows(row[1], unit, relaxed["step_time_s"])
            self.assert_shows(row[2], UNITS["%"], relaxed["gain"])
        _, rows = self.get("page").rows("slower")
        for row, slower in zip(rows, explained["slower"]):
            self.assertEqual(row[0], slower["link"] + " - 20 %")
            self.assert_shows(row[1], unit, slower["kept_step_time_s"])
        self.assertEqual(len(rows), len(explained["slower"]))

    def draw(self, *pins):
        flags = ["--cluster", "h100-sxm:64", "--seq-len", "8192",
                 "--global-batch", "128", "--pin", "micro-batch=1"]
        for pin in pins:
            flags += ["--pin", pin]
        page = Page(self, *flags)
        svg = next(x for x in page.root.iter("svg")
                   if "what every stage does" in x.get("aria-label"))
        return page, svg

    def check_frames(self, page):
        for svg in page.root.iter("svg"):
            _, _, width, height = map(float, svg.get("viewBox").split())
            for box in svg.iter("rect"):
                self.assertGreaterEqual(float(box.get("x")), 0)
                self.assertLessEqual(float(box.get("x")) +
                                     float(box.get("width")), width)
                self.assertLessEqual(float(box.get("y")) +
                                     float(box.get("height")), height)
            for text in svg.iter("text"):
                self.assertTrue(0 <= float(text.get("x")) <= width)
                self.assertTrue(0 < float(text.get("y")) <= height)

    def test_timeline_has_every_op_once(self):
        # tp x pp leave dp 16: 128 / 16 micro-batches of 1.
        page, svg = self.draw("tp=1", "cp=1", "pp=4", "pipeline-schedule=1f1b")
        self.check_frames(page)
        _, _, width, height = map(float, svg.get("viewBox").split())
        stages = [x for x in svg if x.get("class") == "stage"]
        self.assertEqual(len(stages), 4)
        for stage in stages:
            boxes = {}
            for path in stage.iter("path"):
                if path.find("title") is not None:
                    title = text_of(path.find("title"))
                    boxes[title.split(":")[0]] = box_of(path)
            expected = {f"{kind} {i}" for kind in ("forward", "backward")
                        for i in range(8)}
            ops = {k: v for k, v in boxes.items() if k in expected}
            self.assertEqual(set(ops), expected)
            # One at a time, a micro-batch's forward before its backward.
            order = sorted(ops.values())
            for (x, _, wide, _), after in zip(order, order[1:]):
                self.assertLessEqual(x + wide, after[0] + 0.21)
            for i in range(8):
                self.assertLess(ops[f"forward {i}"], ops[f"backward {i}"])
            for x, y, wide, high in boxes.values():
                self.assertTrue(0 <= x and x + wide <= width)
                self.assertTrue(0 <= y and y + high <= height)

    def test_long_step_is_drawn_in_part(self):
        page, _ = self.draw("tp=8", "cp=1", "pp=8", "dp=1", "pipeline-schedule=zb-h1")
        self.check_frames(page)
        notes = [text_of(x) for x in page.classes("note")]
        self.assertTrue(any("128 micro-batches" in x and
                            "drawn are its first and last" in x
                            for x in notes), notes)
        drawn = {text_of(x).split(":")[0] for x in page.root.iter("title")}
        for shown in ["forward 0", "backward, of weights 127"]:
            self.assertIn(shown, drawn)
        self.assertNotIn("forward 64", drawn)
        self.assertLess(len(page.bytes), 1 << 20)

    def test_one_stage(self):
        page, svg = self.draw("pp=1")
        self.check_frames(page)
        self.assertEqual(len([x for x in svg if x.get("class") == "stage"]), 1)
        self.assertFalse("By stage" in page.text)

    def test_too_many_ops_are_not_drawn(self):
        page = Page(self, "--cluster", "h100-sxm:2", "--seq-len", "64",
                    "--global-batch", "600000", "--pin", "micro-batch=1",
                    "--pin", "dp=2",
                    model=os.path.join(DATA, "configs", "gpt2.json"))
        self.assertIn("300,000 forward passes of stages are too many",
                      page.text)

    def test_names_are_escaped(self):
        name = "a<b>&\"'\x01c"
        os.mkdir(self.path(name))
        shutil.copy(LLAMA_8B, os.path.join(self.path(name), "config.json"))
        page = Page(self, *self.FLAGS, model=name)
        self.assertTrue(text_of(page.root.find(".//h1")).startswith(
            "a<b>&\"'?c on 64 "))
        self.assertFalse("<b>" in page.text)

    def test_title_is_the_model_s_name(self):
        shutil.copy(LLAMA_8B, self.path("config.json"))
        for model, title in [(LLAMA_8B, "llama-3-8b"), (".", "llama"),
                             ("config.json", "llama"),
                             (self.folder + "/", os.path.basename(self.folder))]:
            page = Page(self, *self.FLAGS, model=model)
            self.assertEqual(text_of(page.root.find(".//h1")),
                             title + " on 64 x h100-sxm")
            self.assertIn("llama, 8.03 B parameters", page.text)

    def test_constraints_are_escaped(self):
        page = self.get("page")
        self.assertFalse("pp<=" in page.text)
        page = Page(self, *self.FLAGS, "--pin", "tp<=4")
        self.assertIn("--pin tp&lt;=4", page.text)

    def test_errors(self):
        plan = ["cleave", "plan", LLAMA_8B, *self.FLAGS]
        self.expect_error(["missing/page.html", "o such file"], *plan,
                          "--report", "missing/page.html")
        os.mkdir(self.path("folder"))
        self.expect_error(["folder", "is a folder"], *plan, "--report",
                          "folder")
        self.expect_error("--report: expects --objective time", *plan,
                          "--report", "page.html", "--objective", "memory",
                          code=2)
        done = self.start("cleave", "plan", LLAMA_8B, *self.ONE, "--report",
                          "page.html", "--front", "3")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "--(front|report) excludes --")


if __name__ == "__main__":
    unittest.main()
