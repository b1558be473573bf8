"""Causes that lie in the arithmetic: which instructions take the issue slots and pipes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import pandas as pd

from profscope.analysis.cause import NO_GAIN, Finding, Quantity, cited, of_peak, of_samples
from profscope.analysis.diagnosis import thresholds
from profscope.analysis.diagnosis.dataflow import avoidable_casts
from profscope.analysis.diagnosis.facts import CONVERSIONS, KernelFacts, Place
from profscope.analysis.diagnosis.gains import Without, attainable, gain, kept_without
from profscope.analysis.diagnosis.memory_causes import without_torn_vectors
from profscope.analysis.diagnosis.products import lines_of_parts, split_products
from profscope.analysis.diagnosis.tensor_causes import MMA
from profscope.analysis.diagnosis.ttgir_ops import elements
from profscope.analysis.diagnosis.witnesses import needs
from profscope.analysis.limits import RESOURCES, being, binding
from profscope.instrument_passes.ir.model import Op

__all__ = ["CAUSES"]

_DOUBLES: Final = ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX")
_SLOW: Final = (
    r"math\.(sin|cos|tan|pow|powf|log1p|expm1|erf|fpowi)|extern_elementwise|divf|precise_divf|precise_sqrt"
)
_CALL: Final = "tt.extern_elementwise"
_FAST: Final = re.compile(
    r'symbol = "__nv_(fast_|brev|clz|popc|ffs|f?abs|f?min|f?max|fma|floor|ceil|rint|trunc|rcp|rsqrt|saturate)'
)
_ONE_OF_XU: Final = re.compile(r"divf|precise_sqrt")  # functions with one instruction on the XU pipe,
_RECIPROCAL: Final = r"RCP|RSQ|^(?:div|sqrt|rcp)\."  # and the opcodes that it has
_ONE_NUMBER: Final = ("tt.splat", "arith.constant")
_ONE_SLOT: Final = re.compile(r"arith\.(?!constant)|math\.|tt\.precise_")
_DIVISIONS: Final = r"arith\.(divsi|remsi|divui|remui|floordivsi|ceildivsi)"
_ANY_SLOW: Final = f"{_DIVISIONS}|{_SLOW}"
_INTEGERS: Final = r"arith\.(and|or|xor|shl|shr[su]|mul|add|sub|div[su]|rem[su])i$"
_MOVES: Final = ("LDG", "STG", "LDGSTS", "LDS", "STS", "LDSM", "STSM", "BAR", "SHFL")
_PIPES: Final = ("issue", "alu", "fma", "xu", "fp64")
_ROOFS: Final = {"tensor": "tensor", "dram": "dram", "l2": "l2", "shared": "l1", "l1": "l1"}
_BY_OPS: Final = (
    (
        "index-arithmetic",
        _DIVISIONS,
        "32-bit indices; shifts and masks for powers of two; step instead of dividing",
    ),
    (
        "slow-math",
        _SLOW,
        "a cheaper form: multiply by the reciprocal, x * x for powers, fast math, reduce the range",
    ),
)


def _most_of_pipes(facts: KernelFacts) -> float:
    return max(facts.used.get(name, 0.0) for name in _PIPES)


def _is_busiest(facts: KernelFacts) -> bool:
    """Whether instructions take the time: warps issue them, or wait for their pipes and results, more than
    memory or the tensor cores are used. Otherwise they pass while those work. If nobody knows how busy memory
    is, waits for it say so."""
    pipes = _most_of_pipes(facts)
    stalled = facts.stalled(
        "no_instructions", "math_pipe_throttle", "not_selected", "selected", "dispatch_stall"
    )
    busy = pipes if facts.emulated else max(pipes, stalled + facts.stalled("wait"))
    unknown = facts.stalled("long_scoreboard", "lg_throttle", "drain")
    memory = max(facts.used.get(name, unknown) for name in ("dram", "l2"))
    if facts.emulated:  # L1 has what a thread takes apart
        sectors = facts.counts[["sectors", "sectors_ideal"]]
        memory *= sectors.min(axis=1).sum() / max(1, sectors["sectors"].sum())
    return busy > max(memory, facts.used.get("tensor", 0.0))


def _finding(
    facts: KernelFacts,
    name: str,
    place: Place,
    share: float,
    kept: Mapping[str, float],
    what: str,
    advice: str,
    part: float = 1.0,
    most: Without | None = None,
) -> Finding:
    """part: of what the samples at these instructions are of, that goes."""
    busiest = max(_PIPES, key=lambda each: facts.used.get(each, 0.0))
    return Finding(
        name, *place,
        cited(
            "{sampled} are at {what}; {pipe} at {busy}",
            sampled=of_samples(share), what=what, busy=of_peak(facts.used[busiest]), pipe=being(busiest),
        )
        if busiest in facts.used
        else cited("{sampled} are at {what}", sampled=of_samples(share), what=what),
        advice, gain(facts, Without(part * share, kept), most=most), "medium",
    )  # fmt: skip


@needs("counts", "samples")
def fp64_arithmetic(facts: KernelFacts) -> Iterator[Finding]:
    """Needs counts and PC samples. Without it float32 does it: each float64 instruction becomes one
    that takes a slot as before, and the others at these lines are gone. The upper bound: float64 instructions
    are gone, too, as float32 has one instruction for a function."""
    rows = facts.counts["op"].isin(_DOUBLES) | facts.counts["opcode"].astype("str").str.contains(r"\.F64")
    if facts.ttgir:  # functions such as sin use float64 for some arguments of float32
        rows &= facts.at(facts.lines_with("f64"))
    if not (rows & facts.counts["op"].isin(_DOUBLES)).any():
        return  # what is only converted has another cause
    place, _ = facts.most_executed(rows)
    lines = facts.counts.loc[rows, "line"].unique()
    slow = rows | facts.at(lines) & ~facts.counts["op"].isin(["LDG", "STG"])
    share, gone = facts.blamed_share(slow), kept_without(facts, slow)
    kept = gone | {"issue": kept_without(facts, slow & ~facts.counts["op"].isin(_DOUBLES))["issue"]}
    yield _finding(
        facts, "fp64-arithmetic", place, share, kept, "lines that compute in float64",
        "float32: cast constants and inputs; look for Python floats", most=Without(share, gone),
    )  # fmt: skip


@needs("counts", "samples", "ttgir")
def by_ops(facts: KernelFacts) -> Iterator[Finding]:
    """index-arithmetic, slow-math. Needs counts, PC samples and the TTGIR. Without it the instructions of the
    lines with such ops are gone; loads, stores, exchanges between lanes and products of matrices stay."""
    if not _is_busiest(facts):
        return
    others = facts.counts["op"].isin([*_MOVES, *MMA])
    of_data = {line for line, is_of_data in facts.divisions.items() if is_of_data}
    for name, pattern, advice in _BY_OPS:
        lines = facts.lines_of(pattern) - {0}
        if pattern == _DIVISIONS:
            lines &= facts.divisions.keys() - of_data
        else:
            lines &= _of_tensors(facts)
            lines -= _only_fast(facts) | facts.lines_with("f64")  # slow, as they are in float64
            lines |= of_data
        if not lines:
            continue
        rows = facts.at(lines) & ~others
        if facts.executed_share(rows) < thresholds.MUCH:
            continue
        place, _ = facts.most_executed(rows)
        part, left = 1.0, dict[str, float]()
        share = facts.blamed_share(rows)
        if pattern == _DIVISIONS:
            waits, left = without_torn_vectors(facts)
            share = min(1.0, share + waits)
        else:
            part, left = _left_of_functions(facts, lines, rows)
        ops = sorted({op for line in lines for op in facts.ops[line] if re.search(_ANY_SLOW, op)})
        what = f"lines with {', '.join(ops[:3])}"
        kept = kept_without(facts, rows, part) | left
        yield _finding(facts, name, place, share, kept, what, advice, part)


def _left_of_functions(
    facts: KernelFacts, lines: set[int], rows: pd.Series
) -> tuple[float, dict[str, float]]:
    """What goes of the instructions at lines with slow functions, and what stays of the XU pipe's use. A
    division, or a root, has one instruction there, and so has a fast one, but not the multiplication that
    takes the place of a division by one number. As often each other op of the line has an instruction, and
    so has what takes its place. Of other functions all of the line is taken to be theirs."""
    executed = facts.counts["executed"].astype(float)
    is_reciprocal = facts.counts["opcode"].astype("str").str.contains(_RECIPROCAL)
    xu = facts.slots["xu"][rows & is_reciprocal]
    stays, gone = 0.0, rows.copy()
    found: dict[int, list[Op]] = {line: [] for line in lines}
    for op, line, _ in facts.located_ops:
        if line in found and _is_of_many(op):
            found[line].append(op)
    for line, ops in found.items():
        slow = [op for op in ops if re.search(_SLOW, op.name)]
        if slow and all(_ONE_OF_XU.search(op.name) for op in slow):
            others = sum(bool(_ONE_SLOT.match(op.name)) for op in ops) - len(slow)
            here = facts.at({line})
            runs = float(xu[here].sum()) * (1 + others / len(slow))
            stays += min(runs, float(executed[rows & here].sum()))
            gone &= ~here | (is_reciprocal & all(map(_is_by_one_number, slow)))
    return 1 - stays / max(1.0, float(executed[rows].sum())), {"xu": kept_without(facts, gone)["xu"]}


def _is_by_one_number(division: Op) -> bool:
    divisor = division.resolve(division.operands[-1]) if len(division.operands) > 1 else None
    return divisor is not None and isinstance(divisor.owner, Op) and divisor.owner.name in _ONE_NUMBER


def _is_of_many(op: Op) -> bool:
    return any(elements(each.type) > 1 for each in op.results)


def _of_tensors(facts: KernelFacts) -> set[int]:
    """The lines of slow functions of more than one number."""
    return {line for op, line, _ in facts.located_ops if re.search(_SLOW, op.name) and _is_of_many(op)}


def _only_fast(facts: KernelFacts) -> set[int]:
    """The lines all of whose functions are an instruction or two."""
    fast, slow = set(), set()
    for op, line, _ in facts.located_ops:
        if op.name == _CALL and _FAST.search(str(op)):
            fast.add(line)
        elif re.search(_SLOW, op.name):
            slow.add(line)
    return fast - slow


@needs("counts", "samples", "ttgir")
def conversions(facts: KernelFacts) -> Iterator[Finding]:
    """Needs counts, PC samples and the TTGIR. Without it conversions that need not be there are gone, or all
    of them, if they fill the XU pipe, which converts integers; which integer instructions belong to one is
    only known if its line has no other integer arithmetic."""
    lines = _lines_that_fill_xu(facts) or avoidable_casts(facts.ttgir_ops)
    lines -= lines_of_parts(split_products(facts.ttgir_ops))  # of products, whose they are
    if not lines or not _is_busiest(facts):
        return
    plain = lines - facts.lines_of(_INTEGERS)
    halves = facts.counts["opcode"].astype("str").str.startswith("HADD2.F32")
    rows = (facts.counts["op"].isin(CONVERSIONS) | halves) & (facts.at(lines) | (facts.counts["line"] == 0))
    rows |= facts.counts["op"].isin(["PRMT", "SHF", "LOP3"]) & facts.at(plain)
    share = facts.executed_share(rows)
    place, _ = facts.most_sampled(rows)
    taken = max(share * facts.used.get("issue", 0.0), facts.blamed_share(rows))
    yield _finding(
        facts, "conversions", place, taken, kept_without(facts, rows), "conversions between types",
        "keep one type inside the loop; convert once before or after it",
    )  # fmt: skip


def _lines_that_fill_xu(facts: KernelFacts) -> set[int]:
    """The lines of conversions that take most of the XU pipe's slots, if it is what the kernel waits for."""
    xu = facts.slots["xu"]
    converts = facts.counts["op"].isin(CONVERSIONS)
    if facts.used.get("xu", 0.0) < thresholds.NEAR_ROOF or 2 * xu[converts].sum() < xu.sum():
        return set()
    return set(facts.counts.loc[converts & (xu > 0), "line"].tolist()) - {0}


@needs("counts")
def bound(facts: KernelFacts) -> Iterator[Finding]:
    """dram-bound, l2-bound, l1-bound, tensor-bound, issue-bound: a result, not a fault, and no gain. Needs
    counters, or a launch that fills the emulator's SMs."""
    resource = binding({name: 100 * used for name, used in facts.used.items()}) if facts.used else ""
    if not resource or facts.used[resource] * facts.filled < thresholds.BOUND:
        return
    by = {"dram": "sectors", "l2": "sectors", "l1": "sectors", "shared": "wavefronts"}
    place = facts.most(by.get(resource, "executed"))
    used = facts.used[resource]
    what, is_at = RESOURCES[resource][1], of_peak(used)
    reached = Quantity(min(100.0, 100 * used / attainable(resource)), "% of what good kernels reach")
    if facts.emulated:
        evidence = cited("{what}: {used}, if enough CTAs fill the GPU", what=what, used=is_at)
    else:
        evidence = cited("{what}: {used}, {reached}", what=what, used=is_at, reached=reached)
    is_at_limit = used >= thresholds.NEAR_ROOF
    yield Finding(
        f"{_ROOFS.get(resource, 'issue')}-bound", *place, evidence,
        "only less of this work is faster: the hardware does no more of it" if is_at_limit
        else "less of this work, the busiest resource; it is not at its limit, so waits count, too", NO_GAIN,
        "low" if facts.emulated else "high",
    )  # fmt: skip


CAUSES: Final = (fp64_arithmetic, by_ops, conversions, bound)
