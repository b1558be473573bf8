"""Rules about arithmetic: instructions that fill the issue slots and pipes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from profscope.analysis.cause import Quantity, of_samples
from profscope.analysis.evidence_table import CONVERSION_OPS, MMA_OPS, Mask, Place
from profscope.analysis.resources import Edit, without
from profscope.analysis.rules import thresholds
from profscope.analysis.rules.kernel import CASTS, FROM_INTEGER, Kernel, is_dot, is_store
from profscope.analysis.rules.rule import BY_BINARY, Rule, Where
from profscope.instrument_passes.analyses.graph import DIVISIONS, Graph, Node

__all__ = ["RULES"]

_DOUBLES: Final = ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX")
_SLOW: Final = (
    r"math\.(sin|cos|tan|pow|powf|log1p|expm1|erf|fpowi)|extern_elementwise|divf|precise_divf|precise_sqrt"
)
_FAST: Final = re.compile(
    r'symbol = "__nv_(fast_|brev|clz|popc|ffs|f?abs|f?min|f?max|fma|floor|ceil|rint|trunc|rcp|rsqrt|saturate)'
)
_ONE_OF_XU: Final = re.compile(r"divf|precise_sqrt")  # functions with one instruction on the XU pipe,
_RECIPROCAL: Final = r"RCP|RSQ|^(?:div|sqrt|rcp)\."  # and the opcodes that it has
_ONE_SLOT: Final = re.compile(r"arith\.(?!constant)|math\.|tt\.precise_")
_BITS: Final = re.compile(r"arith\.(andi|ori|xori|shli|shrui|shrsi|muli)$")
_MOVES: Final = ("LDG", "STG", "LDGSTS", "LDS", "STS", "LDSM", "STSM", "BAR", "SHFL")
_PIPES: Final = ("issue", "alu", "fma", "xu", "fp64")
_ISSUING: Final = ("no_instructions", "math_pipe_throttle", "not_selected", "selected", "dispatch_stall")


def _is_busiest(kernel: Kernel) -> bool:
    """Whether instructions take the time: warps issue them, or wait for their pipes and results, more than
    memory or the tensor cores are used. Otherwise they pass while those work. If it is not known how busy
    memory is, waits for it tell. On the emulator counts alone decide: few warps hide no wait there."""
    table, used = kernel.table, kernel.balance
    pipes = max(used.get(name, 0.0) for name in _PIPES)
    if kernel.emulated:
        return pipes > max(used.get(name, 0.0) for name in ("dram", "l2", "tensor"))
    busy = max(pipes, table.stalled(*_ISSUING, "wait"))
    unknown = table.stalled("long_scoreboard", "lg_throttle", "drain")
    memory = max(used.get(name, unknown) for name in ("dram", "l2"))
    return busy > max(memory, used.get("tensor", 0.0))


def _at(place: Place, edit: Edit, share: float, what: str) -> Where:
    return Where(place, edit, {"sampled": of_samples(share), "what": what})


def _in_float64(kernel: Kernel) -> Iterator[Where]:
    """Without it float32 does it: each float64 instruction becomes one that takes a slot as before, and the
    others at these lines are gone."""
    table = kernel.table
    rows = table.of(*_DOUBLES) | table.like(r"\.F64")
    if kernel.graph.nodes:  # functions such as sin use float64 for some arguments of float32
        rows &= kernel.at(_lines_with(kernel.graph, "f64"))
    if not (rows & table.of(*_DOUBLES)).any():
        return  # what is only converted has another cause
    lines = {int(line) for line in table.line[rows]}
    slow = rows | (kernel.at(lines) & ~table.of("LDG", "STG"))
    share, place = table.waits(slow), table.place_executed(rows) or kernel.place
    stays = kernel.resources.kept(Edit(0.0, without(slow & ~table.of(*_DOUBLES))))
    edit = Edit(share, without(slow), kept={"issue": stays["issue"]})
    yield _at(place, edit, share, "lines that compute in float64")


def _float64_by_types(kernel: Kernel) -> Iterator[Where]:
    lines = Counter(
        node.line
        for node in kernel.graph.named(r"^(arith|math)\.(?!constant$)")
        if node.line and any("f64" in value.type for value in node.results)
    )
    for line, ops in lines.most_common(1):
        yield Where(kernel.line(line), None, {"ops": Quantity(ops, "ops")})


def _lines_with(graph: Graph, kind: str) -> set[int]:
    """The lines of ops with a result of such a type."""
    return {node.line for node in graph.nodes if any(kind in value.type for value in node.results)}


def _index_arithmetic(kernel: Kernel) -> Iterator[Where]:
    """Without it the instructions of the lines with integer divisions are gone. Loads, stores,
    exchanges between lanes and products of matrices stay."""
    if not _is_busiest(kernel):
        return
    lines = {line for line, is_of_data in kernel.divisions.items() if not is_of_data}
    rows = kernel.at(lines - {0}) & ~kernel.table.of(*_MOVES, *MMA_OPS)
    if kernel.table.share("executed", rows) < thresholds.MUCH:
        return
    share, place = kernel.table.waits(rows), kernel.table.place_executed(rows) or kernel.place
    names = _names(kernel, lines, DIVISIONS.pattern)
    yield _at(place, Edit(share, without(rows)), share, f"lines with {names}")


def _names(kernel: Kernel, lines: set[int], pattern: str) -> str:
    return ", ".join(sorted({node.name for node in kernel.graph.named(pattern) if node.line in lines})[:3])


def _slow_functions(kernel: Kernel) -> Iterator[Where]:
    """Without it the instructions of the lines with slow functions are gone, but for what takes their
    place."""
    if not _is_busiest(kernel):
        return
    lines = {node.line for node in kernel.graph.named(_SLOW) if node.size > 1 and not _FAST.search(node.text)}
    lines -= _lines_with(kernel.graph, "f64")  # slow, as they are in float64
    lines |= {line for line, is_of_data in kernel.divisions.items() if is_of_data}
    rows = kernel.at(lines - {0}) & ~kernel.table.of(*_MOVES, *MMA_OPS)
    if not lines - {0} or kernel.table.share("executed", rows) < thresholds.MUCH:
        return
    share, place = kernel.table.waits(rows), kernel.table.place_executed(rows) or kernel.place
    names = _names(kernel, lines, f"{_SLOW}|{DIVISIONS.pattern}")
    yield _at(place, _cheap_functions(kernel, rows, lines - {0}), share, f"lines with {names}")


def _cheap_functions(kernel: Kernel, rows: Mask, lines: set[int]) -> Edit:
    """A division, or a root, has one instruction on the XU pipe, and so has a fast one, but not the
    multiplication that takes the place of a division by one number. As often each other op of the line has an
    instruction, and so has what takes its place. Of other functions all of the line is taken to be theirs."""
    table = kernel.table
    executed, xu = table.amount("executed"), table.amount("xu")
    reciprocals = table.like(_RECIPROCAL)
    stays, gone = 0.0, rows.copy()
    for line in lines:
        nodes = [node for node in kernel.graph.nodes if node.line == line and node.size > 1]
        slow = [node for node in nodes if re.search(_SLOW, node.name)]
        if slow and all(_ONE_OF_XU.search(node.name) for node in slow):
            others = sum(bool(_ONE_SLOT.match(node.name)) for node in nodes) - len(slow)
            here = rows & kernel.at({line})
            runs = float(xu[here & reciprocals].sum()) * (1 + others / len(slow))
            stays += min(runs, float(executed[here].sum()))
            if not all(map(_is_by_one_number, slow)):
                gone &= ~(kernel.at({line}) & reciprocals)
            gone &= ~kernel.at({line}) | reciprocals
    part = 1 - stays / max(1.0, float(executed[rows].sum()))
    kept = kernel.resources.kept(Edit(0.0, without(gone)))
    return Edit(part * table.waits(rows), without(rows, part), kept={"xu": kept["xu"]})


def _is_by_one_number(division: Node) -> bool:
    divisor = division.operands[-1].maker if len(division.operands) > 1 else None
    return divisor is not None and divisor.name in ("tt.splat", "arith.constant")


def _converted(kernel: Kernel) -> Iterator[Where]:
    """Without it conversions that need not be there are gone, or all of them, if they fill the XU pipe, which
    converts integers."""
    table = kernel.table
    lines = _lines_that_fill_xu(kernel) or avoidable_casts(kernel.graph)
    if not lines or not _is_busiest(kernel):
        return
    rows = (table.of(*CONVERSION_OPS) | table.like(r"^HADD2\.F32")) & (kernel.at(lines) | (table.line == 0))
    taken = max(table.share("executed", rows) * kernel.used.get("issue", 0.0), table.waits(rows))
    place = table.place_sampled(rows) or kernel.place
    yield _at(place, Edit(taken, without(rows)), taken, "conversions between types")


def _lines_that_fill_xu(kernel: Kernel) -> set[int]:
    """The lines of conversions that take most of the XU pipe's slots, if it is what the kernel waits for."""
    table, xu = kernel.table, kernel.table.amount("xu")
    converts = table.of(*CONVERSION_OPS)
    if kernel.used.get("xu", 0.0) < thresholds.NEAR_ROOF or 2 * xu[converts].sum() < xu.sum():
        return set()
    return {int(line) for line in table.line[converts & (xu > 0)]} - {0}


def avoidable_casts(graph: Graph) -> set[int]:
    """The lines of avoidable conversions of tensors that this loop does not load. Memory and tensor cores
    need the others: loaded data is widened, stored or multiplied data narrowed; and mixing bits, as for
    random numbers, needs integers."""
    lines = set()
    for node in graph.nodes:
        if not CASTS.match(node.name) or not node.size:
            continue
        source = graph.maker(node.operands[0], graph.moves)
        is_loaded = source is not None and _is_loaded(graph, source) and source.loop is node.loop
        goals = [each for each in graph.forward(node, graph.moves) if not graph.moves(each)]
        is_asked_for = all(is_dot(goal) or is_store(goal) for goal in goals)
        mixes = [source] if node.name in FROM_INTEGER else goals
        is_of_bits = any(each is not None and _BITS.match(each.name) for each in mixes)
        is_of_bits |= node.name in FROM_INTEGER and node.loop is None  # a position
        if not (is_loaded or is_asked_for or is_of_bits):
            lines.add(node.line)
    return lines - {0}


def _is_loaded(graph: Graph, node: Node) -> bool:
    """Whether it loads from memory, or reads what was copied from there."""
    if node.name == "ttg.local_load":
        made = graph.maker(node.operands[0], graph.moves)
        return made is None or made.name in ("ttg.local_alloc", "tt.load", "tt.descriptor_load")
    return node.name in ("tt.load", "tt.descriptor_load")


_SEEN: Final = frozenset({"counts", "waits"})
_FLOAT32: Final = "float32: cast constants and inputs; look for Python floats"
_TEXT: Final = "{sampled} are charged to {what}"
RULES: Final = (
    Rule("fp64-arithmetic", _SEEN, _in_float64, _TEXT, _FLOAT32),
    Rule(
        "fp64-arithmetic", frozenset(), _float64_by_types,
        "{ops} compute in float64 at this line" + BY_BINARY, _FLOAT32, "low", unless=_SEEN,
    ),
    Rule(
        "index-arithmetic", _SEEN | {"ttgir"}, _index_arithmetic, _TEXT,
        "32-bit indices; shifts and masks for powers of two; step instead of dividing",
    ),
    Rule(
        "slow-math", _SEEN | {"ttgir"}, _slow_functions, _TEXT,
        "a cheaper form: multiply by the reciprocal, x * x for powers, fast math, reduce the range",
    ),
    Rule(
        "conversions", _SEEN | {"ttgir"}, _converted, _TEXT,
        "keep one type inside the loop; convert once before or after it",
    ),
)  # fmt: skip
