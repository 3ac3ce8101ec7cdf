#!/usr/bin/env python3
"""Plants violations in a small tree and looks that check_layers sees each."""
import os
import tempfile
import unittest

import check_layers

CLEAN = {
    "include/cleave/Mesh/Mesh.h": "#include <vector>\n",
    "lib/Mesh/Mesh.cpp": '#include "cleave/Mesh/Mesh.h"\n#include "Part.h"\n'
                         '#include "llvm/ADT/StringRef.h"\n',
    "lib/Mesh/Part.h": "// #include \"mlir/IR/Value.h\" is only a comment\n",
    "dialects/xf/Xf.td": 'include "mlir/IR/OpBase.td"\n',
    "dialects/xf/Xf.cpp": '#include "cleave/Mesh/Mesh.h"\n'
                          '#include "dialects/xf/Xf.h.inc"\n'
                          '#include "mlir/IR/Value.h"\n',
    "dialects/dist/Dist.cpp": '#include "cleave/Mesh/Mesh.h"\n',
    "dialects/exec/Exec.cpp": '#include "runtime/abi/Kernel.h"\n',
    "passes/Emit/Emit.cpp": '#include "dialects/xf/Xf.h"\n'
                            '#include "runtime/abi/Kernel.h"\n'
                            '#include "runtime/program/Envelope.h"\n',
    "tools/cleave/Main.cpp": '#include "passes/Emit/Emit.h"\n'
                             '#include "runtime/program/Program.h"\n',
    "runtime/io/Text.cpp": '#include "runtime/base/Status.h"\n'
                           '#include <nlohmann/json.hpp>\n',
}

# File, line added to it.
VIOLATIONS = [
    ("lib/Mesh/Mesh.cpp", '#include "mlir/IR/Value.h"'),
    ("lib/Mesh/Mesh.cpp", '#include "dialects/xf/Xf.h"'),
    ("lib/Mesh/Mesh.cpp", '#include "runtime/base/Status.h"'),
    ("lib/Mesh/Mesh.cpp", '#include "../../passes/Emit/Emit.cpp"'),
    ("include/cleave/Mesh/Mesh.h", '#  include <mlir-c/IR.h>'),
    ("dialects/xf/Xf.td", 'include "passes/Emit/Passes.td"'),
    ("dialects/xf/Xf.cpp", '#include "dialects/exec/Exec.h"'),
    ("dialects/xf/Xf.cpp", '#include "runtime/abi/Workspace.h"'),
    ("dialects/xf/Xf.td", 'include "dialects/exec/Kernel.td"'),
    ("dialects/dist/Dist.cpp", '#include "dialects/exec/Exec.h"'),
    ("dialects/xf/Xf.cpp", '#include "passes/Emit/Emit.h"'),
    ("dialects/xf/Xf.cpp", '#include "runtime/program/Verify.h"'),
    ("passes/Emit/Emit.cpp", '#include "tools/cleave/Options.h"'),
    ("passes/Emit/Emit.cpp", '#include "runtime/executor/Executor.h"'),
    ("passes/Emit/Emit.cpp", '#include "test/lib/Mesh/Oracle.h"'),
    ("tools/cleave/Main.cpp", '#include "bench/peak.h"'),
    ("runtime/io/Text.cpp", '#include "llvm/Support/Error.h"'),
    ("runtime/io/Text.cpp", '#include "mlir/IR/Value.h"'),
    ("runtime/io/Text.cpp", '#include "cleave/Mesh/Mesh.h"'),
    ("runtime/io/Text.cpp", '#include "dialects/xf/Xf.h"'),
    ("runtime/io/Text.cpp", '#include "lib/Mesh/Part.h"'),
]


class CheckLayersTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = self.folder.name
        for path, text in CLEAN.items():
            self.write(path, text)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def test_accepts_what_follows_the_arrows(self):
        self.assertEqual(check_layers.check(self.root), ([], 17))

    def test_sees_each_violation_in_its_line(self):
        for path, line in VIOLATIONS:
            with self.subTest(path=path, line=line):
                self.write(path, CLEAN[path] + line + "\n")
                errors, _ = check_layers.check(self.root)
                self.write(path, CLEAN[path])
                number = CLEAN[path].count("\n") + 1
                self.assertEqual(len(errors), 1, errors)
                self.assertTrue(errors[0].startswith(f"{path}:{number}: "),
                                errors[0])

    def test_sees_rooms_that_include_each_other(self):
        self.write("include/cleave/Plan/Plan.h",
                   '#include "cleave/Mesh/Mesh.h"\n')
        self.write("lib/Mesh/Mesh.cpp", '#include "cleave/Plan/Plan.h"\n')
        errors, _ = check_layers.check(self.root)
        self.assertEqual(errors, ["rooms include each other: "
                                  "lib/Mesh -> lib/Plan -> lib/Mesh"])


if __name__ == "__main__":
    unittest.main()
