"""One op left out: a load, store or copy is masked off, any other op is put into a branch that nobody takes.

The op stays in the code, so registers, shared memory and the other instructions stay as they are, and what it
reads is still computed. Its result is zero, or the operand that it would have changed: a dot hands its
accumulator on, a function its argument.
"""

from __future__ import annotations

import re
from typing import Final

from profscope.instrument_passes.ablation.condition import Condition, Conditions
from profscope.instrument_passes.errors import PassError
from profscope.instrument_passes.ir import Op
from profscope.instrument_passes.ir.signature import element_type, with_element

__all__ = ["leave_out", "why_stays"]

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
