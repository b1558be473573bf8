"""One op left out: a load, store or copy is masked off, any other op is put into a branch that is never
taken.

The op stays in the code, so registers, shared memory and the other instructions stay as they are, and what it
reads is still computed. Its result is zero, or the operand that it would have changed: a dot hands its
accumulator on, a function its argument. Who takes the branch is up to an argument below anything it can be:
a condition that never holds, and that no compiler can know.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from profscope.instrument_passes.errors import PassError
from profscope.instrument_passes.ir import Block, Module, Op, flow
from profscope.instrument_passes.ir.model import Value
from profscope.instrument_passes.ir.signature import element_type, with_element
from profscope.instrument_passes.ir.tokens import unquote

__all__ = ["Condition", "Conditions", "leave_out", "why_stays"]

_LEAST: Final = -1_000_000
_MOVES: Final = {
    "cuda": '"mov.b32 $0, $1;" {constraints = "=r,r"',
    "hip": '"v_mov_b32 $0, $1" {constraints = "=v,v"',
}


class Condition(NamedTuple):
    """The names of an i1 that never holds, and of the i32 that it is of, which no compiler knows."""

    name: str
    number: str


class Conditions:
    """Conditions of a module that are never true. A pointer is never negative, on any GPU. Without a pointer
    argument an integer one is compared: the op runs if it is below -1,000,000.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        target = unquote(module.attr("ttg.target") or '""')
        self._move = _MOVES[target.partition(":")[0]]
        self._signs: dict[Block, str] = {}

    def before(self, op: Op, *, changes: bool = False) -> Condition:
        """Compute the condition in front of an op. changes: LLVM may not see that it is the same in
        all steps of a loop; of a branch in a loop it would make two loops.

        Raises PassError if the function has no fitting argument.
        """
        number, name = self._sign(op), self._module.fresh("ablate")
        lines = []
        if changes:
            asm = f"tt.elementwise_inline_asm {self._move}, packed_element = 1 : i32, pure = false}}"
            lines, number = [f"{name}_moved = {asm} {number} : i32 -> i32"], f"{name}_moved"
        lines += [
            f"{name}_least = arith.constant {_LEAST} : i32",
            f"{name} = arith.cmpi slt, {number}, {name}_least : i32",
        ]
        op.insert_before("\n".join(lines))
        return Condition(name, number)

    def _sign(self, op: Op) -> str:
        """An i32 of the function or partition that an op is in, which is never below `_LEAST`."""
        block = _entry(op)
        if block not in self._signs:
            self._signs[block] = self._captured(block) or self._computed(block, op)
        return self._signs[block]

    def _captured(self, block: Block) -> str:
        """That of the function, handed to a partition; "" outside of partitions."""
        specialize = block.parent_op
        if specialize is None or specialize.name != "ttg.warp_specialize":
            return ""
        names = flow.add_capture(specialize, self._sign(specialize), "i32")
        for partition, name in zip(flow.partitions(specialize), names, strict=True):
            self._signs[partition.region.entry] = name
        return self._signs[block]

    def _computed(self, block: Block, op: Op) -> str:
        """From an argument of the function."""
        argument = _argument(block)
        if argument is None:
            raise PassError(
                "no experiment without an argument that is a pointer or an integer",
                self._module.filename,
                op.line,
            )
        if argument.type == "i32":
            return argument.name
        name = self._module.fresh("ablate")
        lines, number = [], argument.name
        if argument.type.startswith("!tt.ptr"):
            number = f"{name}_at"
            lines = [f"{number} = tt.ptr_to_int {argument.name} : {argument.type} -> i64"]
        lines += [
            f"{name}_bits = arith.constant 32 : i64",
            f"{name}_high = arith.shrsi {number}, {name}_bits : i64",
            f"{name} = arith.trunci {name}_high : i64 to i32",
        ]
        block.prepend("\n".join(lines))
        return name


def _entry(op: Op) -> Block:
    """The first block of the function or partition that an op is in."""
    block = op.parent
    while block is not None and block.parent is not None:
        if block.parent.isolated:
            return block.parent.entry
        block = block.parent.parent.parent if block.parent.parent is not None else None
    raise PassError("the op is in no function", op.module.filename, op.line)


def _argument(block: Block) -> Value | None:
    """A pointer among the arguments, one that is used if there is any, else an integer."""
    used = {name for op in block.module.walk() for name in op.operands}
    pointers = [each for each in block.args if each.type.startswith("!tt.ptr")]
    pointers.sort(key=lambda each: each.name not in used)
    numbers = [each for each in block.args if each.type in ("i32", "i64")]
    return next(iter(pointers + numbers), None)


_NAME: Final = r"%[\w:#-]+"
_MASKED: Final = {
    "tt.load": re.compile(rf"(tt\.load {_NAME})(?:, ({_NAME}))?(?:, ({_NAME}))?"),
    "tt.store": re.compile(rf"(tt\.store {_NAME}, {_NAME})(?:, ({_NAME}))?"),
    "ttg.async_copy_global_to_local": re.compile(
        rf"(ttg\.async_copy_global_to_local {_NAME}, {_NAME})(?: mask ({_NAME}))?"
    ),
}
_TMA_LOAD: Final = "ttng.async_tma_copy_global_to_local"
_ACCUMULATOR: Final = {"tt.dot": 2, "ttng.warp_group_dot": 2, "tt.dot_scaled": 2}
_NO_BRANCH: Final = re.compile(
    r"ttng\.(tc_gen5|tmem|async_tma_gather|async_shared_store|clc)|async_wait$|store_wait$|dot_wait$"
    r"|wait_barrier$|arrive|barrier_expect|(init|inval)_barrier|commit_group$|tdm|cluster"
)
"""What others wait for, or hand tokens to: left out, they would wait for ever."""
_STAY_OUTSIDE: Final = ("ttg.local_load", "tt.load")
"""Ops that no compiler moves into a branch."""
_RESULTS: Final = re.compile(r"(\s*)(%[\w-]+)(:\d+)? = ")


def why_stays(op: Op) -> str:
    """Why an op cannot be left out; "" if it can."""
    if op.name == _TMA_LOAD:
        return "" if _expects(op) else "the barrier that it arrives at is not known"
    if op.name in _MASKED:
        return ""
    if op.name.endswith("_alloc"):
        return "it makes the buffer that others use"
    if _NO_BRANCH.search(op.name):
        return "others wait for its end"
    for result in op.results:
        if not _zero(result.type):
            return f"nothing takes the place of a value of type {result.type or 'unknown'}"
    return ""


def leave_out(op: Op, conditions: Conditions) -> None:
    """Raises PassError as `why_stays` says, or if the function has no argument for a condition."""
    if why := why_stays(op):
        raise PassError(f"{op.name}: {why}", op.module.filename, op.line)
    if op.name in _MASKED:
        _mask_off(op, conditions.before(op).name)
    elif op.name == _TMA_LOAD:
        _predicate_off(op, conditions.before(op).name)
    else:
        condition = conditions.before(op, changes=True)
        _keep_operands(op, condition)
        _branch_around(op, condition.name)


def _mask_off(op: Op, condition: str) -> None:
    module = op.module
    pointer = op.operand_types[0]
    kind = with_element(pointer, "i1")
    mask = module.fresh("ablate")
    lines = [f"{mask} = tt.splat {condition} : i1 -> {kind}"] if kind != "i1" else []
    if kind == "i1":
        mask = condition
    match = _MASKED[op.name].search(op.text)
    assert match is not None
    own = match[2]
    if own is not None:
        both = module.fresh("ablate")
        lines.append(f"{both} = arith.andi {own}, {mask} : {kind}")
        mask = both
    spelled = f"{match[1]}{' mask' if op.name.startswith('ttg') else ','} {mask}"
    if op.name == "tt.load":
        other = match[3]
        if other is None:  # without it nothing would be written to the registers
            other, result = module.fresh("ablate"), op.results[0].type
            lines.append(f"{other} = arith.constant {_zero(result)}")
        spelled += f", {other}"
    if lines:
        op.insert_before("\n".join(lines))
    text = op.text
    op.replace_header(text[: match.start()] + spelled + text[match.end() :])


def _predicate_off(op: Op, condition: str) -> None:
    """A TMA copy, and so many bytes less to wait for: its predicate is the last operand."""
    predicate, both = op.operands[-1], op.module.fresh("ablate")
    nbytes = _bytes(op)
    for expect in _expects(op):
        match = re.search(r"(barrier_expect \S+, )(\d+)", expect.text)
        assert match is not None
        left = max(0, int(match[2]) - nbytes)
        expect.replace_header(expect.text.replace(match[0], f"{match[1]}{left}"))
    op.insert_before(f"{both} = arith.andi {predicate}, {condition} : i1")
    text = op.text
    at = text.rindex(predicate, 0, text.rindex(" : ", 0, text.index("!")))
    op.replace_header(text[:at] + both + text[at + len(predicate) :])


def _expects(op: Op) -> list[Op]:
    """The op before a TMA copy that says how many bytes its barrier waits for, as a list."""
    barrier = op.operands[-2]
    block = op.parent
    assert block is not None
    before = block.ops[: block.ops.index(op)]
    for each in reversed(before):
        if each.name == "ttng.barrier_expect" and each.operands[0] == barrier:
            return [each]
    return []


def _bytes(op: Op) -> int:
    match = re.search(r"-> !ttg\.memdesc<((?:\d+x)+)([a-zA-Z]+)(\d+)", op.text)
    if match is None:
        raise PassError(f"{op.name}: its size is not known", op.module.filename, op.line)
    count = 1
    for size in match[1].split("x")[:-1]:
        count *= int(size)
    bits = int(match[3]) if match[2] in ("f", "bf", "i") else 8  # f8E5M2 and the like
    return count * bits // 8


def _keep_operands(op: Op, condition: Condition) -> None:
    """Uses of the operands that nobody makes, outside of the branch: else compilers would compute them only
    there, and the experiment would leave out what computes them, too."""
    passed_on = {_passed_on(op, each.type) for each in op.results}
    for name, kind in zip(op.operands, op.operand_types, strict=True):
        if (
            name in passed_on
            or not kind.startswith("tensor<")
            or not _zero(kind)
            or element_type(kind) == "i1"
        ):
            continue
        made = op.resolve(name)
        if made is not None and isinstance(made.owner, Op) and made.owner.name in _STAY_OUTSIDE:
            continue
        p, element = op.module.fresh("ablate"), element_type(kind)
        pointers, masks = with_element(kind, f"!tt.ptr<{element}>"), with_element(kind, "i1")
        op.insert_before(
            f"{p}_at = arith.extsi {condition.number} : i32 to i64\n"
            f"{p}_pointer = tt.int_to_ptr {p}_at : i64 -> !tt.ptr<{element}>\n"
            f"{p}_pointers = tt.splat {p}_pointer : !tt.ptr<{element}> -> {pointers}\n"
            f"{p}_mask = tt.splat {condition.name} : i1 -> {masks}\n"
            f"tt.store {p}_pointers, {name}, {p}_mask : {pointers}"
        )


def _branch_around(op: Op, condition: str) -> None:
    module, results = op.module, op.results
    kinds = [each.type for each in results]
    if not results:
        op.insert_before(f"scf.if {condition} {{\n{str(op).strip()}\n}}")
        op.erase()
        return
    match = _RESULTS.match(str(op))
    assert match is not None
    name, count = match[2], match[3] or ""
    inner = module.fresh("ablate")
    inside = [inner] if not count else [f"{inner}#{at}" for at in range(len(results))]
    lines, given = [], []
    for kind in kinds:
        value = _passed_on(op, kind)
        if not value:
            value = module.fresh("ablate")
            lines.append(f"{value} = arith.constant {_zero(kind)}")
        given.append(value)
    types = ", ".join(kinds)
    text = str(op).strip().replace(match[0].strip(), f"{inner}{count} =", 1)
    branch = [
        f"{name}{count} = scf.if {condition} -> ({types}) {{",
        text,
        f"scf.yield {', '.join(inside)} : {types}",
        "} else {",
        f"scf.yield {', '.join(given)} : {types}",
        "}",
    ]
    block = op.parent
    assert block is not None
    loc, at = op.loc_text, block.ops.index(op)
    op.erase()
    block.insert(at, "\n".join([*lines, *branch]), loc)


def _passed_on(op: Op, kind: str) -> str:
    """The operand that takes the place of a result of this type; "" if none does."""
    at = _ACCUMULATOR.get(op.name, 0)
    if op.regions or at >= len(op.operands) or op.operand_types[at] != kind:
        return ""
    return op.operands[at]


def _zero(kind: str) -> str:
    """A constant of a type, as text; "" if there is none."""
    element = element_type(kind)
    if re.fullmatch(r"i\d+|index", element):
        number = "false" if element == "i1" else "0"
    elif re.fullmatch(r"b?f\d+|tf32|f8E\w+", element):
        number = "0.000000e+00"
    else:
        return ""
    if kind == element:
        return number if element == "i1" else f"{number} : {kind}"
    return f"dense<{number}> : {kind}"
