#!/usr/bin/env python3
"""Random programs with streams need no more memory than the device has, or, where
that is more, than they need without. CLEAVE_PROGRAMS=N: so many programs."""
import os
import random
import re
import unittest

from support import ToolTest

PROGRAMS = int(os.environ.get("CLEAVE_PROGRAMS", "500"))
MIB = 1 << 20
# Of 1.9 GB the device keeps 1.5; of the rest, packed buffers may have 95 %.
MEMORY = 1.9e9
ROOM = 0.95 * 0.4e9
CLUSTER = {
    "version": 1, "nodes": 1, "devices_per_node": 2,
    "device": {"base": "h100-sxm", "name": "small",
               "memory": {"value": MEMORY, "unit": "byte", "source": "test"}},
    "levels": [{"size": 0, "link": "nvlink4"}]}


def gemm(a, b, c, k):
    return (f"    exec.gemm(%{a}, %{b}) -> (%{c}) {{m = 512 : i64, n = 512 : "
            f"i64, k = {k} : i64, trans_a = false, trans_b = false, type_a = f32, "
            "type_b = f32, type_c = f32, accumulate = #exec<accumulate never>, "
            "has_bias = false}\n")


def move(opcode, source, target, mib):
    reduction = ", reduction = #exec<reduction sum>"
    return (f"    exec.{opcode}(%{source}) -> (%{target}) {{outer = 1 : i64, "
            f"inner = {mib * MIB // 8} : i64, type = f32, axes = [\"dp\"]"
            f"{reduction if opcode == 'reduce_scatter' else ''}}}\n")


def draw_program(draw):
    """Segments of gathers, reductions and products over a few buffers, some of
    which several segments use, and runs of each."""
    sizes = {f"b{i}": draw.choice([8, 16, 32, 64, 128])
             for i in range(draw.randint(3, 8))}
    pinned = {"x": 8, "y": 8, "p0": 64, "p1": 64}
    segments = []
    for _ in range(draw.randint(1, 3)):
        body = ""
        for _ in range(draw.randint(2, 14)):
            buffer, other = draw.choice(list(sizes)), draw.choice(list(sizes))
            shard = draw.choice(["p0", "p1"])
            k = draw.choice([512, 1024, 2048])
            body += draw.choice([
                move("all_gather", shard, buffer, sizes[buffer]),
                move("reduce_scatter", buffer, shard, sizes[buffer]),
                gemm("x", "x", buffer, k),
                gemm(buffer, "x", draw.choice(["y", other]), k),
                gemm("x", "x", "y", k)])
        segments.append(body)
    lines = ["module {", 'dist.mesh @mesh [#dist.axis<"dp" = 2>]',
             "exec.program @step threads 1 {"]
    for names, mark in ((sizes, ""), (pinned, " pinned")):
        lines += [f'  %{name} = exec.buffer "{name}" {mib * MIB}{mark} : '
                  "!exec.buffer" for name, mib in names.items()
                  if re.search(rf"%{name}\b", "".join(segments))]
    lines += [f"  exec.segment @s{i} {{\n{body}  }}"
              for i, body in enumerate(segments)]
    runs = [i for i in range(len(segments))
            for _ in range(draw.choice([1, 1, 2, 3]))]
    lines += [f"  exec.run @s{i} {number}" + (" first" if number == 0 else "")
              for number, i in enumerate(runs)]
    return "\n".join([*lines, "}", "}"])


class OverlapMemoryTest(ToolTest):
    def get_bounds(self, mode):
        """Of each program, bytes that the arena needs."""
        printed = self.run_tool(
            "cleave-opt", "programs.mlir", "--split-input-file",
            f"--cleave-overlap=mode={mode} cluster=cluster.json",
            "--cleave-add-waits", "--cleave-plan-memory", "--cleave-add-waits",
            "--cleave-verify-memory", "--cleave-verify-order")
        with_streams = [("#exec.order<1" in program) for program in
                        printed.split("// -----")]
        return [int(bound) for bound in
                re.findall(r"lower_bound = (\d+)", printed)], with_streams

    def test_streams_fit(self):
        self.write("cluster.json", CLUSTER)
        programs = [draw_program(random.Random(seed))
                    for seed in range(PROGRAMS)]
        self.write("programs.mlir", "\n// -----\n".join(programs))
        (serial, _), (overlapped, with_streams) = (
            self.get_bounds(mode) for mode in ("never", "always"))
        self.assertEqual(len(overlapped), PROGRAMS)
        for seed, (before, after) in enumerate(zip(serial, overlapped)):
            self.assertLessEqual(after, max(before, ROOM), f"seed {seed}")
        # Most have streams all the same, and some take what there is.
        self.assertGreater(sum(with_streams), PROGRAMS * 3 // 4)
        self.assertGreater(sum(after > before for before, after in
                               zip(serial, overlapped)), PROGRAMS // 10)


if __name__ == "__main__":
    unittest.main()
