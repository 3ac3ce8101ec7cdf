#!/usr/bin/env python3
"""Checks that every include follows the arrows between the rooms.

    lib <- dialects <- passes <- tools; runtime stands alone; the graph does not
    know what it becomes.

usage: check_layers.py ROOT      prints FILE:LINE: what is wrong; exit code 1
"""
import os
import re
import sys

# What a layer may include, as prefixes of paths from the repository's root;
# `llvm` stands for LLVM's headers, `mlir` for MLIR's.
JOINT = (
    "runtime/abi/",
    "runtime/base/Version.h",
    "runtime/program/program_generated.h",
    "runtime/program/Work.h",
    "runtime/program/Envelope.h",
    "runtime/program/Limits.h",
)
LIB = ("lib/", "include/", "llvm") + JOINT
DIALECTS = LIB + ("dialects/", "mlir")
PASSES = DIALECTS + ("passes/",)
MAY_INCLUDE = {
    "lib": LIB,
    "include": LIB,
    "dialects": DIALECTS,
    "passes": PASSES,
    "tools": PASSES + ("tools/", "runtime/"),
    "runtime": ("runtime/",),
}
# What a room may not include though its layer may: the graph knows neither the
# instructions of a target nor the runtime, so another target is no change of it.
MUST_NOT_INCLUDE = {
    "dialects/xf": ("dialects/exec/", "runtime/"),
    "dialects/dist": ("dialects/exec/", "runtime/"),
}
TOOLKITS = {
    "mlir": "mlir", "mlir-c": "mlir",
    "llvm": "llvm", "llvm-c": "llvm", "lld": "llvm", "clang": "llvm",
}
SUFFIXES = (".h", ".cpp", ".c", ".cu", ".cuh", ".td", ".inc")
INCLUDE = re.compile(r'^\s*#?\s*include\s+([<"])([^>"]+)[>"]')


def find_sources(root):
    """Paths, from the root, of the sources of all layers, in order."""
    for layer in MAY_INCLUDE:
        for folder, _, names in sorted(os.walk(os.path.join(root, layer))):
            for name in sorted(names):
                if name.endswith(SUFFIXES):
                    yield os.path.relpath(os.path.join(folder, name), root)


def resolve(root, source, included):
    """What an include names: a path from the root, `llvm`, `mlir`, or None for
    the system's and third parties' headers."""
    first = included.split("/")[0]
    if first in TOOLKITS and "/" in included:
        return TOOLKITS[first]
    beside = os.path.normpath(os.path.join(os.path.dirname(source), included))
    if os.path.exists(os.path.join(root, beside)):
        return beside
    if first == "cleave":
        return "include/" + included
    if first in MAY_INCLUDE or first in ("test", "bench"):
        return os.path.normpath(included)
    return None


def get_room(path):
    """lib/Mesh and include/cleave/Mesh are one room, lib/Mesh."""
    parts = path.split("/")
    if parts[0] == "include":
        parts = ["lib"] + parts[2:]
    return "/".join(parts[:2]) if len(parts) > 2 else None


def find_cycle(edges):
    """A list of nodes that leads back to its first, or None."""
    done, stack = set(), []

    def visit(node):
        if node in stack:
            return stack[stack.index(node):] + [node]
        if node in done:
            return None
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if cycle := visit(other):
                return cycle
        stack.pop()
        done.add(node)
        return None

    for node in sorted(edges):
        if cycle := visit(node):
            return cycle
    return None


def check(root):
    """All violations, as lines of text; and the number of includes read."""
    errors, edges, count = [], {}, 0
    for source in find_sources(root):
        layer = source.split("/")[0]
        with open(os.path.join(root, source), encoding="utf-8") as file:
            lines = file.readlines()
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            count += 1
            target = resolve(root, source, match[2])
            if target is None:
                continue
            if not target.startswith(MAY_INCLUDE[layer]):
                errors.append(f'{source}:{number}: {layer}/ must not include '
                              f'"{match[2]}"')
                continue
            rooms = get_room(source), get_room(target)
            if target.startswith(MUST_NOT_INCLUDE.get(rooms[0], ())):
                errors.append(f'{source}:{number}: {rooms[0]}/ must not '
                              f'include "{match[2]}"')
                continue
            if None not in rooms and rooms[0] != rooms[1]:
                edges.setdefault(rooms[0], set()).add(rooms[1])
    if cycle := find_cycle(edges):
        errors.append("rooms include each other: " + " -> ".join(cycle))
    return errors, count


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    errors, count = check(sys.argv[1])
    print(*errors, sep="\n", end="\n" if errors else "")
    if count == 0:
        sys.exit(f"no include found in {sys.argv[1]}")
    print(f"{count} includes, {len(errors)} against an arrow")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
