"""A module in MLIR's generic form, as far as changing its placements needs.

Every operation is one line (or, around a region, two); every value's type is
kept once, and written out again at its definition and at each use. So a changed
placement is a changed placement everywhere, and a changed program still parses.
"""

import re
from dataclasses import dataclass, field, replace

OPEN, CLOSE = "([{<", ")]}>"


def split_list(text):
    """Cuts text at its top-level commas."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in OPEN:
            depth += 1
        elif c in CLOSE and not text.startswith("->", i - 1):
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return parts + [last] if last else parts


@dataclass(frozen=True)
class Placement:
    dims: tuple  # of tuples of axis names, major first
    partial: frozenset = frozenset()
    reduction: str = "partial"  # as the type spells it: partial or max

    def __str__(self):
        dims = ", ".join("{" + ", ".join(dim) + "}" for dim in self.dims)
        if not self.partial:
            return f"[{dims}]"
        return f"[{dims}], {self.reduction} = {{{', '.join(sorted(self.partial))}}}"

    def axes(self):
        return frozenset(axis for dim in self.dims for axis in dim)


PLACED = re.compile(r"tensor<((?:\d+x)*)(\w+), #dist\.on<@(\w+), \[(.*)\]"
                    r"(?:, (partial|max) = \{(.*)\})?>>")


@dataclass(frozen=True)
class Type:
    shape: tuple
    element: str
    mesh: str
    placement: Placement

    @staticmethod
    def parse(text):
        match = PLACED.fullmatch(text)
        if not match:
            raise ValueError(f"not a placed tensor: {text}")
        shape, element, mesh, dims, reduction, partial = match.groups()
        dims = [tuple(split_list(dim[1:-1])) for dim in split_list(dims)]
        return Type(tuple(int(n) for n in shape.split("x")[:-1]), element, mesh,
                    Placement(tuple(dims), frozenset(split_list(partial or "")),
                              reduction or "partial"))

    def __str__(self):
        shape = "".join(f"{n}x" for n in self.shape)
        return (f"tensor<{shape}{self.element}, "
                f"#dist.on<@{self.mesh}, {self.placement}>>")

    def at(self, placement):
        return replace(self, placement=placement)


@dataclass
class Op:
    name: str
    operands: list
    results: list  # names of values
    attributes: str  # between the operands and the types; with the region's ({
    tail: str = ""  # attributes after a region
    id: int = -1


@dataclass
class Block:
    arguments: list


@dataclass
class Module:
    """Lines are Ops, Blocks, ("close", op) or text that nobody changes."""
    lines: list = field(default_factory=list)
    types: dict = field(default_factory=dict)  # of values and of states
    axes: dict = field(default_factory=dict)  # sizes

    def clone(self):
        copies = {}
        for op in self.ops():
            copies[id(op)] = replace(op, operands=list(op.operands),
                                     results=list(op.results))
        lines = []
        for line in self.lines:
            if isinstance(line, Op):
                line = copies[id(line)]
            elif isinstance(line, tuple):
                line = ("close", copies[id(line[1])])
            lines.append(line)
        return Module(lines, dict(self.types), self.axes)

    def ops(self):
        return [line for line in self.lines if isinstance(line, Op)]

    def get_state(self, op):
        """The key in `types` of the state that an op declares or names."""
        match = re.search(r'(?:sym_name = |state = @)("[^"]*"|[\w.]+)',
                          op.attributes)
        return "@" + match.group(1).strip('"')


OP = re.compile(r'\s*(?:(%\w+)(?::(\d+))? = |((?:%\w+(?::\d+)?, )*%\w+) = )?'
                r'"([\w.]+)"\((.*?)\)(.*)')


def parse_types(text):
    """The types in ` : (A, B) -> C`."""
    operands, results = text.rsplit(") -> ", 1) if ") -> (" not in text else (
        text[: text.index(") -> (")], text[text.index(") -> (") + 5 :])
    if results.startswith("("):
        results = results[1:-1]
    return split_list(operands[1:]), split_list(results)


def parse(text):
    module, open_ops = Module(), []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("^"):
            pairs = split_list(stripped[stripped.index("(") + 1 : -2])
            block = Block([])
            for pair in pairs:
                name, type = pair.split(": ", 1)
                block.arguments.append(name)
                module.types[name] = Type.parse(type)
            module.lines.append(block)
            continue
        if stripped.startswith("})"):
            op = open_ops.pop()
            if op is None:
                module.lines.append(line)
                continue
            tail, types = stripped[2:].rsplit(" : (", 1) if " -> " not in stripped \
                else (stripped[2 : stripped.index(" : (")],
                      stripped[stripped.index(" : (") + 4 :])
            op.tail = tail
            add_results(module, op, "(" + types)
            module.lines.append(("close", op))
            continue
        match = OP.match(line)
        if not match:
            module.lines.append(line)
            continue
        name, count, several, kind, operands, rest = match.groups()
        if several:
            raise ValueError(f"unexpected result list: {line}")
        op = Op(kind, split_list(operands), [name, int(count or 1)] if name else [],
                rest)
        if kind == "dist.mesh":
            for axis, size in re.findall(r'#dist.axis<"(\w+)" = (\d+)>', rest):
                module.axes[axis] = int(size)
            module.lines.append(line)
        elif kind in ("builtin.module", "func.func"):
            open_ops.append(None)
            module.lines.append(line)
        elif kind == "xf.state":
            start = rest.index("type = ") + 7
            end = rest.index("}> : ", start)
            module.lines.append(op)
            module.types[module.get_state(op)] = Type.parse(rest[start:end])
            op.attributes = rest[:start] + "%s" + rest[end:]
        elif rest.endswith("({"):
            open_ops.append(op)
            module.lines.append(op)
        else:
            colon = rest.index(" : (")
            op.attributes = rest[:colon]
            add_results(module, op, rest[colon + 3 :])
            module.lines.append(op)
    return module


def add_results(module, op, text):
    _, results = parse_types(text)
    if not op.results:
        return
    name, count = op.results
    op.results = [name] if count == 1 else [f"{name}#{i}" for i in range(count)]
    for result, type in zip(op.results, results, strict=True):
        module.types[result] = Type.parse(type)


def print_module(module):
    out = []

    def types(op):
        operands = ", ".join(str(module.types[name]) for name in op.operands)
        results = ", ".join(str(module.types[name]) for name in op.results)
        if len(op.results) != 1:
            results = f"({results})"
        return f" : ({operands}) -> {results}"

    entry = None
    for line in module.lines:
        if isinstance(line, str):
            # The type of @step follows its arguments.
            if '"func.func"' in line:
                entry = len(out)
            out.append(line)
        elif isinstance(line, Block):
            arguments = [f"{name}: {module.types[name]}"
                         for name in line.arguments]
            out.append(f"^bb0({', '.join(arguments)}):")
            if entry is not None:
                inputs = ", ".join(str(module.types[n]) for n in line.arguments)
                out[entry] = re.sub(r"function_type = \(.*?\) -> \(\)",
                                    lambda _: f"function_type = ({inputs}) -> ()",
                                    out[entry])
                entry = None
        elif isinstance(line, tuple):
            op = line[1]
            out.append("})" + op.tail + types(op))
        else:
            op = line
            head = ""
            if op.results:
                base = op.results[0].split("#")[0]
                many = f":{len(op.results)}" if len(op.results) > 1 else ""
                head = f"{base}{many} = "
            head += f'"{op.name}"({", ".join(op.operands)})'
            if op.name == "xf.state":
                out.append(head + op.attributes % module.types[module.get_state(op)])
            elif op.attributes.endswith("({"):
                out.append(head + op.attributes)
            else:
                out.append(head + op.attributes + types(op))
    return "\n".join(out) + "\n"
