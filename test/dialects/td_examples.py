"""Prints the examples of a dialect's reference as modules that parse.

usage: td_examples.py TBLGEN ROOT MLIR_INCLUDE FILE.td ...

Each ```mlir block of an op, attribute or type becomes one module, in the form
that --split-input-file reads. What an example leaves out is added: values that
it uses come from an unknown op, state and meshes that it names are declared.
Examples with an ellipsis are left out. Fails where an op has no other.
"""

import re
import subprocess
import sys

OPEN, CLOSE = "([{<", ")]}>"


def split_types(text):
    """Cuts a list of types at its top-level commas."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in OPEN:
            depth += 1
        elif c in CLOSE and text[i - 1] != "-":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def find_top_level(text, needle):
    """The first `needle` outside of all brackets, -1 if there is none."""
    depth = 0
    for i, c in enumerate(text):
        if depth == 0 and text.startswith(needle, i):
            return i
        if c in OPEN:
            depth += 1
        elif c in CLOSE and text[i - 1] != "-":
            depth -= 1
    return -1


def split_ops(text):
    """Cuts an example into operations: lines that begin at the left edge."""
    ops = []
    for line in text.splitlines():
        if line.startswith("//") or not line.strip():
            continue
        if ops and (line[0] in " }^"):
            ops[-1] += "\n" + line
        else:
            ops.append(line)
    return ops


def get_operand_types(op):
    """The operands of an op and their types, from its trailing types."""
    head = op.split("{\n")[0]
    colon = find_top_level(head, " : ")
    if colon < 0:
        colon = find_top_level(head.replace("\n", " "), " : ")
    if colon < 0:
        return []
    before, types = head[:colon], head[colon + 3 :].strip()
    before = before.split("=", 1)[1] if before.startswith("%") else before
    # A dictionary of attributes names no values.
    names = re.findall(r"%[\w#]+", before)
    arrow = find_top_level(types, "->")
    if arrow >= 0:
        types = types[:arrow].strip()[1:-1]
    to = find_top_level(types, " to ")
    if to < 0:
        to = find_top_level(types.replace("\n", " "), " to ")
    if to >= 0:
        types = types[:to]
    types = split_types(types)
    # One type for all operands: an op whose types are the same.
    if len(types) == 1:
        types *= len(names)
    return list(zip(names, types))


PARENTS = {
    "xf.yield": "xf.accumulate 1 () : () -> (%s) {\n%s\n}",
    "exec.yield": """exec.kernel @k mode = flat, rows = 1, columns = 1,
    inputs = [], outputs = [%s] {
%s
}""",
}
ACCESS = "#exec.access<f32, offset = 0, row = (1, 0, 1), col = 0>"


def build_module(example):
    ops = split_ops(example)
    attributes = [op for op in ops if op.startswith("#")]
    types = [op for op in ops if op.startswith("!")]
    ops = [op for op in ops if op[0] not in "#!"]
    top, body, known = [], [], set()
    for op in ops:
        for name, type in get_operand_types(op):
            if name not in known:
                known.add(name)
                body.append(f'{name} = "example.value"() : () -> {type}')
        known.update(re.findall(r"%[\w]+", op.split("=")[0]))
        mnemonic = re.search(r"\b(\w+\.\w+)", op).group(1)
        for name in re.findall(r'xf\.[gs]et @("[^"]+"|\w+)', op):
            type = op[find_top_level(op, " : ") + 3 :]
            top.append(f"xf.state @{name} parameter : {type} "
                       "{init = #xf.init<zeros, 0.0 : f64>}")
        if mnemonic in ("dist.mesh", "xf.state", "exec.kernel"):
            top.append(op)
        elif mnemonic in PARENTS:
            operands = get_operand_types(op)
            if mnemonic == "exec.yield":
                results = ", ".join([ACCESS] * len(operands))
            else:
                results = ", ".join(type for _, type in operands)
            inner = "\n".join(body + [op])
            body = []
            top_op = PARENTS[mnemonic] % (results, inner)
            (top if mnemonic == "exec.yield" else body).append(top_op)
        else:
            body.append(op)
    for i, attribute in enumerate(attributes):
        top.append(f"func.func private @a{i}() attributes {{a = {attribute}}}")
    for i, type in enumerate(types):
        top.append(f"func.func private @t{i}({type})")
    body = "\n  ".join("\n".join(body).splitlines())
    return "\n".join(top) + f"\nfunc.func @f() {{\n  {body}\n  return\n}}\n"


def main():
    tblgen, root, include, *files = sys.argv[1:]
    modules, bare = [], []
    for file in files:
        for kind in ("op", "attrdef", "typedef"):
            text = subprocess.run(
                [tblgen, f"-gen-{kind}-doc", "-I", root, "-I", include, file],
                check=True, capture_output=True, text=True).stdout
            for section in re.split(r"^### ", text, flags=re.M)[1:]:
                title = section.split("\n", 1)[0]
                examples = re.findall(r"^```mlir\n(.*?)^```", section,
                                      flags=re.M | re.S)
                whole = [text for text in examples if "..." not in text]
                if kind == "op" and not whole:
                    bare.append(title)
                modules += [(title, build_module(text)) for text in whole]
    if bare:
        sys.exit("ops without an example that is whole: " + ", ".join(bare))
    print(f"// examples: {len(modules)}")
    print("\n// -----\n".join(f"// {title}\n{module}"
                             for title, module in modules))


main()
