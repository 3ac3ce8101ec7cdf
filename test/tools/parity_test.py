#!/usr/bin/env python3
"""cleave parity: both forms of its report, and that a reference with one wrong
number fails. test/parity runs every case in many layouts."""
import json
import os
import shutil
import struct
import unittest

from support import LLAMA, ToolTest, make_safetensors, read_safetensors

FIGURES = ["loss", "logits", "gradients", "trajectory loss",
           "trajectory gradient norm"]


class ParityTest(ToolTest):
    def copy(self):
        """A reference of our own, which does not end up in the results."""
        shutil.copytree(LLAMA, self.path("case"))

    def tamper(self, tensor, change):
        """Changes the first number of a tensor of the reference."""
        header, data = read_safetensors(self.read("case/golden.safetensors"))
        begin, _ = header[tensor]["data_offsets"]
        form = {"F32": "<f", "F64": "<d"}[header[tensor]["dtype"]]
        data = bytearray(data)
        value, = struct.unpack_from(form, data, begin)
        struct.pack_into(form, data, begin, change(value))
        self.write("case/golden.safetensors", make_safetensors(header, data))

    def test_text_and_json_say_the_same(self):
        text = self.run_tool("cleave", "parity", LLAMA, "--dp", "2").split("\n")
        self.assertEqual(text[0], "what\tdeviation\tbound\tworst")
        report = json.loads(
            self.run_tool("cleave", "parity", LLAMA, "--dp", "2", "--json"))
        self.assertEqual(report["case"], LLAMA)
        self.assertIs(report["holds"], True)
        self.assertEqual([row["what"] for row in report["deviations"]], FIGURES)
        for line, row in zip(text[1:], report["deviations"]):
            what, deviation, bound, worst = line.split("\t")
            self.assertEqual(what, row["what"])
            self.assertLess(abs(float(deviation) - row["deviation"]),
                            1e-2 * float(deviation) + 1e-12)
            self.assertLess(abs(float(bound) - row["bound"]),
                            1e-2 * row["bound"])
            self.assertEqual(worst, row["worst"])
            self.assertIs(row["holds"], True)
            self.assertLess(row["deviation"], row["bound"])

    def test_one_wrong_number_fails(self):
        cases = {
            "loss": ("loss", lambda x: x * (1 + 4e-6)),
            "logits": ("logits", lambda x: x + 1),
            "gradients": ("grad.model.norm.weight", lambda x: x + 1e-3),
            "trajectory loss": ("trajectory.loss", lambda x: x * (1 + 3e-5)),
            "trajectory gradient norm":
                ("trajectory.grad_norm", lambda x: float("nan")),
        }
        for what, (tensor, change) in cases.items():
            self.copy()
            self.tamper(tensor, change)
            done = self.start("cleave", "parity", "case", "--json")
            # A deviation that is no number is null in JSON.
            self.assertEqual(done.returncode, 1, what)
            report = json.loads(done.stdout)
            self.assertIs(report["holds"], False)
            self.assertEqual([row["what"] for row in report["deviations"]
                              if not row["holds"]], [what])
            shutil.rmtree(self.path("case"))

    def rows(self, *flags, code):
        done = self.start("cleave", "parity", "case", "--json", *flags)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return {row["what"]: row
                for row in json.loads(done.stdout)["deviations"]}

    def test_bf16_has_bounds_of_its_own(self):
        """What rounding explains holds, what it does not fails: each figure
        beyond its bound, and models that are another one."""
        self.copy()
        rows = self.rows("--dtype", "bf16", code=0)
        deviation = (27 / 3) ** 0.5 / 256  # of 2 layers
        for what, bound in zip(FIGURES, [
                1 / 256, 4 * deviation, 4 * 3 ** 0.5 * deviation, deviation,
                4 * 3 ** 0.5 * deviation]):
            self.assertAlmostEqual(rows[what]["bound"], bound)
        golden = self.read("case/golden.safetensors")
        header, _ = read_safetensors(golden)
        largest = 30  # above each logit's size
        for what, tensor, change in [
                ("loss", "loss", lambda x: x * (1 + 2 / 256)),
                ("logits", "logits", lambda x: x + largest),
                ("trajectory loss", "trajectory.loss",
                 lambda x: x * (1 + 2 * deviation)),
                ("trajectory gradient norm", "trajectory.grad_norm",
                 lambda x: x * (1 + 16 * deviation))]:
            self.tamper(tensor, change)
            rows = self.rows("--dtype", "bf16", code=1)
            self.assertEqual([name for name, row in rows.items()
                              if not row["holds"]], [what])
            self.write("case/golden.safetensors", golden)
        config = json.loads(self.read("case/config.json"))
        for changes in [{"rope_theta": config.get("rope_theta", 1e4) / 4},
                        {"rms_norm_eps": 0.5}, {"hidden_act": "gelu"},
                        {"mlp_scaled_once": True}]:
            self.write("case/config.json", dict(config, **changes))
            wrong = changes != {"mlp_scaled_once": True}  # nobody reads it
            rows = self.rows("--dtype", "bf16", code=int(wrong))
            self.assertEqual(rows["gradients"]["holds"], not wrong, changes)

    def test_nothing_against_nothing(self):
        """A head of zeros: all logits are 0, which is no deviation from 0 and
        any from another reference."""
        self.copy()

        def clear(name, tensor):
            header, data = read_safetensors(self.read(name))
            begin, end = header[tensor]["data_offsets"]
            self.write(name, make_safetensors(
                header, data[:begin] + bytes(end - begin) + data[end:]))

        clear("case/golden.safetensors", "logits")
        row = self.rows(code=1)["logits"]
        self.assertIs(row["holds"], False)
        self.assertIsNone(row["deviation"])
        clear("case/model.safetensors", "lm_head.weight")
        row = self.rows(code=1)["logits"]
        self.assertIs(row["holds"], True)
        self.assertEqual(row["deviation"], 0)

    def test_text_marks_what_fails(self):
        self.copy()
        self.tamper("loss", lambda x: x + 1)
        done = self.start("cleave", "parity", "case")
        self.assertEqual(done.returncode, 1)
        self.assertEqual([line.split("\t")[0] for line in
                          done.stdout.splitlines() if line.endswith("FAILS")],
                         ["loss"])

    def test_bad_references(self):
        self.copy()
        case = json.loads(self.read("case/case.json"))

        def fails(parts, changes=None, optimizer=None, text=None):
            new = dict(case, **(changes or {}))
            new["optimizer"] = dict(case["optimizer"], **(optimizer or {}))
            self.write("case/case.json", text or new)
            self.expect_error(["case.json"] + parts, "cleave", "parity", "case")

        fails(["not valid JSON"], text="{")
        fails(["nested deeper"], text="[" * 1000000)
        fails(['"batch"', "0", "1..2147483647"], {"batch": 0})
        fails(['"seq"', "1e+30"], {"seq": 1e30})
        fails(['"seq"', "number"], {"seq": "48"})
        fails(['"steps"', "1.5"], optimizer={"steps": 1.5})
        fails(['"lr"'], optimizer={"lr": None})
        fails(['"betas"'], optimizer={"betas": [0.9]})
        self.write("case/case.json", dict(case, seq=24))
        self.expect_error(["golden.safetensors", '"inputs"', "[20, 4, 48]"],
                          "cleave", "parity", "case")
        self.write("case/case.json", case)
        header, data = read_safetensors(self.read("case/golden.safetensors"))
        header["grad.none"] = header.pop("grad.lm_head.weight")
        self.write("case/golden.safetensors", make_safetensors(header, data))
        self.expect_error('no tensor "grad.none"', "cleave", "parity", "case")
        os.remove(self.path("case/golden.safetensors"))
        self.expect_error("golden.safetensors: cannot open", "cleave", "parity",
                          "case")
        self.expect_error("none/case.json: No such file", "cleave", "parity",
                          "none")


if __name__ == "__main__":
    unittest.main()
