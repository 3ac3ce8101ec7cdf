"""Ways to break a placed program.

Every mutant is wrong by construction. Whether an operation accepts its types is
a relation between them, and for almost every operation the relation is a
function in each slot: given all other types, one placement at most fits. So a
mutant in which some operation sees exactly one of its types changed is wrong
there, whatever else was changed; such an operation is its *witness*, and a
mutation without one is not counted. What is left out that way is what may be
right: a `dist.reshard` may start anywhere, an `xf.output` may show any value,
and an operation that sums a dim which no other of its tensors has does not mind
which of its axes split that dim, nor in which order (LOOSE).

An operation whose own name or attributes changed, and not its types, is its own
witness: the types say what it has to do.
"""

import re
from collections import defaultdict
from dataclasses import replace
from functools import partial

from ir import Block, Op

# Operations with a dim, summed or blocked, that only one tensor has.
LOOSE = {"xf.sum", "xf.square_sum", "xf.count_tokens", "xf.reduce_leading",
         "xf.embedding", "xf.row_max", "xf.sum_exp", "xf.pick"}
# Operations that accept any placement in some slot.
FREE = {"dist.reshard", "xf.output", "func.return"}


def get_slots(module):
    """For each relation between types: (key, whether it is loose, slots).

    A slot is (its role, its type)."""
    stack = []
    for line in module.lines:
        if isinstance(line, Block):
            if stack and stack[-1] is not None:
                op = stack[-1]
                for i, pair in enumerate(zip(op.operands, line.arguments)):
                    yield (op.id, "argument", i), False, [
                        module.types[name] for name in pair]
        elif isinstance(line, Op):
            types = [module.types[name] for name in line.operands + line.results]
            if line.name in ("xf.get", "xf.set"):
                yield line.id, False, types + [module.types[module.get_state(line)]]
            elif line.name == "xf.accumulate":
                stack.append(line)
            elif line.name == "xf.yield":
                op = stack[-1]
                for i, pair in enumerate(zip(line.operands, op.results)):
                    yield (op.id, "result", i), False, [
                        module.types[name] for name in pair]
            elif line.name == "xf.schedule":
                yield line.id, False, types
            elif line.name == "xf.embedding_grad":
                # It may make any rows of the table's gradient.
                yield line.id, True, types[:-1]
            elif line.name not in FREE and line.name != "xf.state":
                yield line.id, line.name in LOOSE, types
        elif isinstance(line, tuple):
            stack.pop()


def number(module):
    for i, op in enumerate(module.ops()):
        op.id = i


def find_witness(slots, mutant):
    """A relation of `slots`, the correct program's, that the mutant breaks."""
    for key, loose, types in get_slots(mutant):
        changed = [(a, b) for a, b in zip(slots[key], types) if a != b]
        if len(changed) != 1:
            continue
        before, after = (type.placement for type in changed[0])
        if loose and (before.axes() | before.partial
                      == after.axes() | after.partial):
            continue
        return key
    return None


def find_op(module, id):
    return next(op for op in module.ops() if op.id == id)


def replace_uses(op, old, new):
    op.operands = [new if name == old else name for name in op.operands]


def get_moves(module):
    return [op for op in module.ops() if op.name.startswith("dist.")]


# Each mutation yields (what it does, a function that does it to a copy, whether
# the op that it changes is its own witness).


def drop_moves(module):
    """A reshard or collective is forgotten."""
    def drop(mutant, id):
        gone = find_op(mutant, id)
        mutant.lines.remove(gone)
        for op in mutant.ops():
            replace_uses(op, gone.results[0], gone.operands[0])

    for move in get_moves(module):
        yield f"drop {move.name}", partial(drop, id=move.id), False


def bypass_moves(module):
    """One user reads the value as it was before it was moved."""
    def bypass(mutant, move, user):
        replace_uses(find_op(mutant, user), move.results[0], move.operands[0])

    for move in get_moves(module):
        for user in module.ops():
            if move.results[0] in user.operands:
                yield (f"bypass {move.name}",
                       partial(bypass, move=move, user=user.id), False)


def change_placement(type, axes):
    """(what, placement) for each change to one placement. Axes of size 1 mean
    nothing and are left alone."""
    old = type.placement
    big = [axis for axis, size in axes.items() if size > 1]
    unused = [axis for axis in big
              if axis not in old.axes() and axis not in old.partial]

    def with_dim(i, names, base=old):
        dims = list(base.dims)
        dims[i] = tuple(names)
        return replace(base, dims=tuple(dims))

    def with_partial(names, base=old):
        names = frozenset(names)
        return replace(base, partial=names,
                       reduction=base.reduction if names else "partial")

    for i, dim in enumerate(old.dims):
        for axis in dim:
            if axis not in big:
                continue
            without = with_dim(i, [name for name in dim if name != axis])
            yield "drop an axis", without
            for j in range(len(old.dims)):
                if j != i:
                    yield "move an axis", with_dim(j, old.dims[j] + (axis,),
                                                   without)
            if not old.partial:
                yield "split to partial", with_partial({axis}, without)
        for axis in unused:
            yield "add an axis", with_dim(i, dim + (axis,))
        if len([name for name in dim if name in big]) > 1:
            yield "reverse axes", with_dim(i, dim[::-1])
    if len(big) == 2:
        other = dict(zip(big, reversed(big)))

        def rename(names):
            return [other.get(name, name) for name in names]

        yield "exchange axes", with_partial(
            rename(old.partial),
            replace(old, dims=tuple(tuple(rename(dim)) for dim in old.dims)))
    for axis in old.partial & frozenset(big):
        whole = with_partial(old.partial - {axis})
        yield "drop a partial", whole
        yield "change the reduction", replace(
            old, reduction="max" if old.reduction == "partial" else "partial")
        for i, dim in enumerate(old.dims):
            yield "partial to split", with_dim(i, dim + (axis,), whole)
    for axis in unused:
        yield "add a partial", with_partial(old.partial | {axis})


def fits(placement, shape, axes):
    """True if every dim divides: only then is the type itself in order."""
    for size, dim in zip(shape, placement.dims):
        for axis in dim:
            if size % axes[axis]:
                return False
            size //= axes[axis]
    return True


def retype_values(module):
    """A value, where it is made and wherever it is used, has another type."""
    def retype(mutant, name, type):
        mutant.types[name] = type
        if name.startswith("@"):  # state, and every reading of it
            for op in mutant.ops():
                if op.name == "xf.get" and mutant.get_state(op) == name:
                    mutant.types[op.results[0]] = type

    for name, type in module.types.items():
        for what, placement in change_placement(type, module.axes):
            if placement == type.placement or not fits(placement, type.shape,
                                                       module.axes):
                continue
            if name.startswith("@"):
                what = "state: " + what
            yield what, partial(retype, name=name,
                                type=type.at(placement)), False


SWAPS = [
    # What is done in place of what, between the same types.
    ("dist.reduce_scatter", "dist.slice"),
    ("dist.reduce_scatter", "dist.all_reduce"),
    ("dist.reduce_scatter", "dist.all_gather"),
    ("dist.all_gather", "dist.slice"),
    ("dist.all_gather", "dist.all_reduce"),
    ("dist.all_reduce", "dist.all_gather"),
    ("dist.all_reduce", "dist.reduce_scatter"),
    ("dist.all_to_all", "dist.all_gather"),
    ("dist.all_to_all", "dist.slice"),
    ("dist.slice", "dist.all_gather"),
    ("dist.slice", "dist.reduce_scatter"),
]


def is_over_one_rank(module, op):
    names = re.search(r"axes = \[(.*?)\]", op.attributes).group(1)
    return all(module.axes[name.strip(' "')] == 1 for name in names.split(","))


def get_attributes(op, name):
    """The properties of `op` as an operation called `name` has them."""
    axes = re.search(r"axes = \[.*?\]", op.attributes).group(0)
    dim = re.search(r"\bdim = \d+ : i64", op.attributes)
    dim = dim.group(0) if dim else "dim = 0 : i64"
    reduction = re.search(r"reduction = \d+ : i32", op.attributes)
    reduction = reduction.group(0) if reduction else "reduction = 0 : i32"
    rest = op.attributes[op.attributes.index("}>") + 2 :]
    wanted = {"dist.all_reduce": [axes, reduction],
              "dist.reduce_scatter": [axes, dim, reduction],
              "dist.all_gather": [axes, dim], "dist.slice": [axes, dim]}[name]
    return f" <{{{', '.join(wanted)}}}>{rest}"


def change_collectives(module):
    """A collective does something else than its types say."""
    def change(mutant, id, name, attributes):
        op = find_op(mutant, id)
        op.name, op.attributes = name, attributes

    for move in get_moves(module):
        if move.name == "dist.reshard" or is_over_one_rank(module, move):
            continue
        changes = [(f"{old} as {new}", new, get_attributes(move, new))
                   for old, new in SWAPS if old == move.name]
        rank = len(module.types[move.operands[0]].shape)
        for old in re.findall(r"\b(\w*dim) = (\d+) : i64", move.attributes):
            for dim in list(range(rank)) + [rank, -1]:
                if dim != int(old[1]):
                    changes.append((
                        f"wrong dim of {move.name}", move.name,
                        move.attributes.replace(f"{old[0]} = {old[1]} : i64",
                                                f"{old[0]} = {dim} : i64")))
        for axis in module.axes:
            if f'axes = ["{axis}"]' in move.attributes:
                for other in module.axes:
                    if other != axis:
                        changes.append((
                            f"wrong axis of {move.name}", move.name,
                            move.attributes.replace(f'["{axis}"]',
                                                    f'["{other}"]')))
        for old, new in ((0, 1), (1, 0)):
            if f"reduction = {old} : i32" in move.attributes:
                changes.append((f"wrong reduction of {move.name}", move.name,
                                move.attributes.replace(
                                    f"reduction = {old} :",
                                    f"reduction = {new} :")))
        for what, name, attributes in changes:
            yield what, partial(change, id=move.id, name=name,
                                attributes=attributes), True


def insert_reshard(mutant, before, source, target, type):
    """`target` becomes `source` under `type`."""
    mutant.types[target] = type
    move = Op("dist.reshard", [source], [target], "")
    move.id = len(mutant.lines) + len(mutant.types)
    mutant.lines.insert(before, move)


def reshard_operand(mutant, id, i, placement):
    op = find_op(mutant, id)
    name = f"%operand{id}_{i}"
    insert_reshard(mutant, mutant.lines.index(op), op.operands[i], name,
                   mutant.types[op.operands[i]].at(placement))
    op.operands[i] = name


def reshard_result(mutant, id, i, placement):
    """Result `i` has another placement, and comes back from it."""
    op = find_op(mutant, id)
    name, back = op.results[i], f"%back{id}_{i}"
    type = mutant.types[name]
    for user in mutant.ops():
        replace_uses(user, name, back)
    mutant.types[name] = type.at(placement)
    insert_reshard(mutant, mutant.lines.index(op) + 1, name, back, type)


def surround_ops(module):
    """Reshards, right in themselves, bring an op a wrong operand or take a wrong
    result from it: it is the only one who can tell."""
    for op in module.ops():
        if op.name.startswith("dist.") or op.name in FREE | {"xf.state", "xf.get",
                                                             "xf.accumulate"}:
            continue
        for change, names in ((reshard_operand, op.operands),
                              (reshard_result, op.results)):
            for i, name in enumerate(names):
                type = module.types[name]
                for what, placement in change_placement(type, module.axes):
                    before, after = type.placement, placement
                    if change is reshard_result:
                        before, after = after, before
                    # A reshard makes nothing partial.
                    if placement == type.placement \
                            or not fits(placement, type.shape, module.axes) \
                            or not after.partial <= before.partial \
                            or after.partial and before.reduction != after.reduction:
                        continue
                    yield (f"{op.name}: {what}",
                           partial(change, id=op.id, i=i, placement=placement),
                           False)


def gather_keys(module):
    """Query heads are split, the keys and values that they read are whole: a
    rank's first heads would read the first keys, whichever are theirs."""
    def gather(mutant, id):
        op = find_op(mutant, id)
        for i in (1, 2):
            old = mutant.types[op.operands[i]].placement
            heads = old.dims[2]
            whole = replace(old, dims=old.dims[:2] + ((),) + old.dims[3:])
            reshard_operand(mutant, id, i, whole)
            if op.name == "xf.attention_grad":
                reshard_result(mutant, id, i, replace(
                    whole, partial=whole.partial | frozenset(heads)))

    for op in module.ops():
        if op.name in ("xf.attention", "xf.attention_grad"):
            heads = module.types[op.operands[1]].placement.dims[2]
            if any(module.axes[axis] > 1 for axis in heads):
                yield f"{op.name}: whole keys", partial(gather, id=op.id), True


# Attributes of a gradient, and of the parts of a cross-entropy, that have to be
# those of another op; and those where that is so in the backward pass only.
SHARED = {
    "xf.attention_grad": ["scale", "window", "softcap"],
    "xf.rms_norm_grad": ["offset"],
    "xf.activation_grad": ["kind"],
    "xf.glu_grad": ["kind"],
    "xf.linear_weight_grad": ["inputs_first"],
    "xf.cross_entropy_grad": ["vocab"],
    "xf.row_max": ["vocab"],
    "xf.sum_exp": ["vocab"],
    "xf.pad_rows": ["start"],
}
SHARED_IN_BACKWARD = {"xf.linear": ["inputs_first"], "xf.rope": ["inverse"],
                      "xf.scale": ["factor"]}


def change_attribute(attributes, name):
    """The properties with another value of one; None if they have it not."""
    number = re.search(rf"\b{name} = ([-+.\de]+) :", attributes)
    if number:
        value = number.group(1)
        other = f"{float(value) + 1:e}" if "." in value else str(int(value) - 1)
        if other == "-1":
            other = "1"
        return attributes.replace(number.group(0), f"{name} = {other} :")
    if name not in ("inputs_first", "inverse"):
        return None
    # A flag is there or not.
    if re.search(rf"\b{name}\b", attributes):
        return re.sub(rf"(, )?\b{name}\b(?(1)|(, )?)", "", attributes)
    if " <{" in attributes:
        return attributes.replace(" <{", f" <{{{name}, ", 1)
    return f" <{{{name}}}>" + attributes


def change_gradients(module):
    """A gradient is that of another op than the forward pass had."""
    def change(mutant, id, attributes):
        find_op(mutant, id).attributes = attributes

    for op in module.ops():
        names = SHARED.get(op.name, [])
        if '#xf.provenance<backward' in op.attributes:
            names = names + SHARED_IN_BACKWARD.get(op.name, [])
        for name in names:
            changed = change_attribute(op.attributes, name)
            # Only a square weight hides which of its dims come first.
            if name == "inputs_first" and len(set(
                    module.types[v].shape[-1] for v in op.operands)) > 1:
                continue
            if changed is not None:
                yield (f"attribute {name} of {op.name}",
                       partial(change, id=op.id, attributes=changed), True)


def change_sets(module):
    """A state keeps its value, or is set in vain."""
    def drop(mutant, id):
        mutant.lines.remove(find_op(mutant, id))

    def double(mutant, id):
        op = find_op(mutant, id)
        mutant.lines.insert(mutant.lines.index(op), replace(op))

    for op in module.ops():
        if op.name == "xf.set":
            yield "drop xf.set", partial(drop, id=op.id), True
            yield "double xf.set", partial(double, id=op.id), True


def forget_axes(module):
    """A collective over an axis that there is not."""
    def change(mutant, id, attributes):
        find_op(mutant, id).attributes = attributes

    for move in get_moves(module):
        if "axes = [" in move.attributes:
            yield (f"unknown axis of {move.name}",
                   partial(change, id=move.id, attributes=re.sub(
                       r"axes = \[.*?\]", 'axes = ["zz"]', move.attributes)),
                   True)


MUTATIONS = [drop_moves, bypass_moves, retype_values, change_collectives,
             surround_ops, gather_keys, change_gradients, change_sets,
             forget_axes]


def get_mutants(module, per_kind, skip):
    """Mutants that are surely wrong: at most `per_kind` of each kind, evenly
    spread over the program, of the kinds that `skip` (by number) leaves."""
    number(module)
    slots = {key: types for key, _, types in get_slots(module)}
    kinds = defaultdict(list)
    for mutation in MUTATIONS:
        for what, change, own in mutation(module):
            kinds[what].append((change, own))
    for number_, (what, changes) in enumerate(kinds.items()):
        if what.startswith("xf.") and skip(number_):
            continue
        share = max(1, len(changes) // per_kind)
        for start in range(0, share * per_kind, share):
            for change, own in changes[start : start + share]:
                mutant = module.clone()
                change(mutant)
                if own or find_witness(slots, mutant) is not None:
                    yield what, mutant
                    break
