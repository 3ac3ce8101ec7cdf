#!/usr/bin/env python3
"""The planner's closed formulas are an approximation of the simulation of the
program that is compiled for a layout: of random layouts of real models.
CLEAVE_AGREEMENTS is how many."""
import os
import unittest

from agreement import Agreement, draw_plans
from support import TOOLS, ToolTest

COUNT = int(os.environ.get("CLEAVE_AGREEMENTS", "20"))


class AgreementTest(ToolTest):
    def test_random_layouts(self):
        steps, peaks = [], []
        for drawn in draw_plans(COUNT, 0, os.path.join(TOOLS, "cleave"),
                                "cleave-cpu", self.path(".")):
            steps.append((drawn.planned["step_time_s"],
                          drawn.simulated["step_time_s"]))
            peaks.append(tuple(sum(each.values())
                               for each in drawn.get_memory()))
        print("step:", Agreement(steps))
        print("memory:", Agreement(peaks))
        for pairs, most in ((steps, 0.05), (peaks, 0.03)):
            agreement = Agreement(pairs)
            self.assertLess(agreement.median, 0.02)
            self.assertLess(agreement.most, most)
            self.assertGreater(agreement.correlation, 0.98)


if __name__ == "__main__":
    unittest.main()
