#!/usr/bin/env python3
"""What people ask of the planner that it cannot do, or not at once: each is one
message that names the flag and what is legal, and no flag is ignored."""
import json
import os
import unittest

from support import DATA, ToolTest

LLAMA = os.path.join(DATA, "configs", "llama-3-8b.json")
WORK = ["--seq-len", "4096", "--global-batch", "64"]
PLAN = ["cleave", "plan", LLAMA, "--cluster", "h100-sxm:16", *WORK]
ESTIMATE = ["cleave", "estimate", *PLAN[2:]]


class PlannerTest(ToolTest):
    def test_flags_that_exclude_each_other(self):
        for flags in [["--top", "2"], ["--objective", "memory"],
                      ["-o", "front.json"], ["--report", "front.html"]]:
            self.expect_error(["--front", "excludes", flags[0]], *PLAN,
                              "--front", "3", *flags, code=2)
        self.write("rows", "{}\n")
        for flags in [["--tp", "8"], ["--schedule", "1f1b"],
                      ["--trace", "t.json"]]:
            self.expect_error(["--batch", "excludes", flags[0]], *ESTIMATE,
                              "--batch", "rows", *flags, code=2)
        self.expect_error(["-o and --report", "-"], *PLAN, "-o", "-",
                          "--report", "-", code=2)

    def test_a_plan_to_stdout_beside_a_report(self):
        text = self.run_tool(*PLAN, "-o", "-", "--report", "report.html")
        self.assertEqual(json.loads(text)["devices"], 16)
        self.assertIn(b"</html>", self.read("report.html"))
        text = self.run_tool(*PLAN, "--report", "-", "-o", "plan.json")
        self.assertIn("</html>", text)
        self.assertEqual(json.loads(self.read("plan.json"))["devices"], 16)

    def test_calibrate_asks_for_its_file_first(self):
        self.write("file", "")
        for output in ["missing/local.json", "file/local.json", "."]:
            self.expect_error([output], "cleave", "calibrate", "-o", output)

    def test_an_empty_value_is_not_the_default(self):
        for flag, legal in [("--tp", "a whole number"), ("--zero", "0 to 3"),
                            ("--schedule", "one of gpipe")]:
            self.expect_error([flag[2:], 'value ""', legal], *ESTIMATE, flag,
                              "")

    def test_memory(self):
        for value in ["nan", "inf", "-inf", "0", "-1", "all", ""]:
            for command in [PLAN, ESTIMATE]:
                self.expect_error(["--memory", f'"{value}"',
                                   "a finite number above 0"], *command,
                                  "--memory", value, code=2)
        text = self.run_tool(*ESTIMATE, "--memory", "20.5")
        self.assertIn("of 20.5 GB that may be used on the fullest device",
                      text)
        self.assertIn("does not fit", text)

    def test_sequences_longer_than_the_model_is_for(self):
        for model, most in [("llama-3-8b", 8192), ("gpt2", 1024),
                            ("mixtral-8x7b", 32768)]:
            for length in [most, 2 * most]:
                done = self.start(
                    "cleave", "plan",
                    os.path.join(DATA, "configs", model + ".json"),
                    "--cluster", "h100-sxm:64", "--seq-len", str(length),
                    "--global-batch", "64")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(
                    done.stderr, "" if length == most else
                    f"cleave: note: sequences of {length} tokens are longer "
                    f"than the {most} positions that the model is for\n")

    def test_modules_of_no_selection(self):
        for recompute in [[], ["--recompute", "full"]]:
            self.expect_error(["recompute_modules", "recompute selective"],
                              *ESTIMATE, "--recompute-modules", "norms",
                              *recompute)
        self.write("rows", '{"zero": 1, "recompute": "selective", '
                   '"recompute_modules": "norms"}\n')
        row = json.loads(self.run_tool(*ESTIMATE, "--batch", "rows"))
        self.assertEqual(row["layout"]["recompute_modules"], "norms")

    def test_the_own_profile_on_devices_of_other_kernels(self):
        cluster = ["--cluster", "v100-32:16"]
        plan = self.run_tool("cleave", "plan", LLAMA, *cluster, *WORK, "-o",
                             "plan.json")
        text = self.run_tool("cleave", "explain", LLAMA, *cluster, "--plan",
                             "plan.json")
        self.assertEqual(text.splitlines()[0], plan.splitlines()[0])
        self.expect_error(["--profile nemo", '"cudnn"', "flash1"], "cleave",
                          "plan", LLAMA, *cluster, *WORK, "--profile", "nemo",
                          code=2)


if __name__ == "__main__":
    unittest.main()
