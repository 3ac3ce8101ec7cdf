"""Tests that are text: a tool, its input and what FileCheck wants to see."""

import os

import lit.formats

config.name = "cleave"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["inputs", "data", "lib", "runtime", "fuzz"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.cleave_build_dir, "test")

# A tool is its whole word at the start of a command or a path argument.
word = r"(?<![\w./-])%s(?![\w.-])"
substitutions = [
    # What a test gives to it is also printed, as text and as bytecode, and read
    # back.
    ("cleave-opt", os.path.join(config.cleave_tools_dir,
                                "cleave-opt --verify-roundtrip")),
    ("cleave-translate", os.path.join(config.cleave_tools_dir, "cleave-translate")),
    ("cleave", os.path.join(config.cleave_tools_dir, "cleave")),
    ("FileCheck", os.path.join(config.llvm_tools_dir, "FileCheck")),
    ("not", os.path.join(config.llvm_tools_dir, "not")),
    ("count", os.path.join(config.llvm_tools_dir, "count")),
    ("split-file", os.path.join(config.llvm_tools_dir, "split-file")),
]
for name, path in substitutions:
    config.substitutions.append((word % name, path))
config.substitutions.append(("%{python}", config.python))
config.substitutions.append(("%{source}", config.cleave_source_dir))
config.substitutions.append(("%{tools}", config.cleave_tools_dir))
config.substitutions.append(("%{llvm}", config.llvm_tools_dir))
config.substitutions.append(("%{include}", config.mlir_include_dir))
