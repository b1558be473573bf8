"""The source place of an op, and the name of its spans, in the kernel author's words.

`tl.sum` and the like are functions of Triton's own package that are inlined, so the innermost line of an op
may be one that the user has never seen. The lines of all calls around it are in the op's location.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from profscope.instrument_passes.analyses.async_roles import barrier_of, started_on
from profscope.instrument_passes.analyses.walk import LOOPS
from profscope.instrument_passes.functions import Function, function_name
from profscope.instrument_passes.ir import Location, Module, Op
from profscope.instrument_passes.manifest import PATH_SEPARATOR
from profscope.instrument_passes.ops import OPS, info_of

__all__ = [
    "Place",
    "Places",
    "Step",
    "awaited",
    "call_name",
    "call_paths",
    "is_drain",
    "is_library",
    "op_name",
    "variable_of",
]

# Files of Triton 3.6 to 3.9 that have functions for kernels to call.
_LIBRARY: Final = re.compile(
    r"(?:.*/)?triton/(?:"
    r"language/(?:__init__|core|math|random|semantic|standard|target_info)\.py"
    r"|language/extra/.+\.py"
    r"|experimental/(?:gluon/language|gsan)/.+\.py"
    r"|profiler/language\.py"
    r"|tools/(?:ragged_tma|triton_to_gluon_translat(?:er|or)/\w+)\.py"
    r")",
    re.DOTALL,
)


def is_library(file: str) -> bool:
    """Whether a file is of Triton's own package, and so its lines say little to users."""
    return _LIBRARY.fullmatch(file.replace("\\", "/")) is not None


def variable_of(location: Location) -> str:
    """The variable that a value gets in the source: the outermost where functions are inlined, "" if none."""
    names = (*(caller.name for caller in reversed(location.callers)), location.name)
    return next((name for name in names if name), "")


class Step(NamedTuple):
    """A line of the call path, and the function it is in, "" if that is not known."""

    file: str
    line: int
    column: int
    function: str

    def __str__(self) -> str:
        base = re.split(r"[\\/]", self.file)[-1]
        return f"{self.function} {base}:{self.line}".strip()


@dataclass(frozen=True, slots=True)
class Place:
    """file, line: the innermost line outside of Triton's package; "" and 0 if unknown.

    path: the lines that lead to the op, outermost first.
    """

    file: str = ""
    line: int = 0
    path: tuple[Step, ...] = ()

    @property
    def call_path(self) -> str:
        """The path as text, "layer_norm kernels.py:51 > sum standard.py:293"; "" without a call.

        See `call_paths` for calls that share a line.
        """
        return PATH_SEPARATOR.join(map(str, self.path)) if len(self.path) > 1 else ""


def call_paths(spans: Iterable[tuple[str, Place]]) -> dict[tuple[str, Place], str]:
    """The call path of each span, given by name and place.

    Where a line has several calls that would read the same, their columns are added, counted from 0:
    "layer_norm kernels.py:51:11 > sum standard.py:293".
    """
    alike: dict[tuple[str, str, int, str], dict[tuple[str, Place], None]] = {}
    for name, place in spans:
        alike.setdefault((name, place.file, place.line, place.call_path), {})[name, place] = None
    return {span: text for group in alike.values() for span, text in _told_apart(list(group))}


def _told_apart(alike: list[tuple[str, Place]]) -> list[tuple[tuple[str, Place], str]]:
    calls = [[step.column for step in place.path[:-1]] for _, place in alike]
    differ = [len(set(columns)) > 1 for columns in zip(*calls, strict=True)]
    if not any(differ):
        return [(span, span[1].call_path) for span in alike]
    texts = []
    for _, place in alike:
        steps = list(map(str, place.path))
        for at, step in enumerate(place.path[:-1]):
            steps[at] += f":{step.column}" if differ[at] else ""
        texts.append(PATH_SEPARATOR.join(steps))
    return list(zip(alike, texts, strict=True))


class Places:
    """functions: see `PassContext`. calls: by call, the function that only this call calls."""

    def __init__(self, functions: Sequence[Function] = (), calls: Mapping[Op, Op] | None = None) -> None:
        self._files: dict[str, list[Function]] = {}
        for function in sorted(functions, key=lambda function: function.line):
            self._files.setdefault(function.file, []).append(function)
        self._caller = {callee: call for call, callee in (calls or {}).items()}

    def of(self, op: Op) -> Place:
        """Raises IRError if the op's location cannot be read."""
        return _place(self._path(op))

    def at(self, lines: Sequence[tuple[str, int, int]], kernel: str) -> Place:
        """The place that lines lead to, outermost first, each (file, line, column) of a call or of the op.

        kernel: the function of the first line, if no other is known.
        """
        return _place(self._steps(lines, kernel))

    def line_label(self, op: Op) -> str:
        """Such as " L12", for names; "" if the line is unknown."""
        line = self.of(op).line
        return f" L{line}" if line else ""

    def _path(self, op: Op) -> list[Step]:
        """The lines that lead to an op, outermost first."""
        function = _function_of(op)
        call = None if function is None else self._caller.get(function)
        path = [] if call is None else self._path(call)
        location = op.loc
        lines = [(caller.file, caller.line, caller.column) for caller in reversed(location.callers)]
        lines.append((location.file, location.line, location.column))
        return path + self._steps(lines, _name(function))

    def _steps(self, lines: Sequence[tuple[str, int, int]], outermost: str) -> list[Step]:
        """outermost: the name of the function that the first line is in."""
        path = []
        for depth, (file, line, column) in enumerate(lines):
            known = self._function_at(file, line)
            if line and _is_believed(known, line):
                name = "" if known is None else known.name
                if depth == 0 and (known is None or known.bodies is not None):
                    name = outermost
                path.append(Step(file, line, column, name))
        return path

    def _function_at(self, file: str, line: int) -> Function | None:
        """The last function that begins at or before the line."""
        functions = self._files.get(file, [])
        at = bisect_right(functions, line, key=lambda function: function.line)
        return functions[at - 1] if at else None


def _place(path: Sequence[Step]) -> Place:
    if not path:
        return Place()
    shown = next((step for step in reversed(path) if not is_library(step.file)), path[-1])
    return Place(shown.file, shown.line, tuple(path))


def _is_believed(function: Function | None, line: int) -> bool:
    if function is None or function.bodies is None:
        return True
    return any(first <= line <= last for first, last in function.bodies)


def _function_of(op: Op) -> Op | None:
    return next((around for around in (op, *op.ancestors()) if around.name == "tt.func"), None)


def _name(function: Op | None) -> str:
    """A function's name in the source; a kernel's symbol is its name."""
    if function is None or function.symbol is None:
        return ""
    private = " private " in function.first_line
    return function_name(function.symbol) if private else function.symbol


def op_name(op: Op, places: Places, awaited: Mapping[Op, str]) -> str:
    """The action and the source's variable: "load x". A call's name is `call_name`; a wait behind a pipelined
    loop drains it. awaited: see `awaited`."""
    if op.name == "tt.call":
        return call_name(op, places)
    info = info_of(op)
    if info is not None and is_drain(op):
        return f"{info.label} (drain)"
    variable = awaited.get(op, variable_of(op.loc))
    return f"{op.name if info is None else info.label} {variable}".rstrip()


def call_name(call: Op, places: Places) -> str:
    """The function's name in the source and the line: "call helper L40"."""
    return f"call {function_name(call.symbol or '')}{places.line_label(call)}"


# What is waited for on an mbarrier, in the names of the source.
#
# The pipeliner and the passes that specialise warps make barriers, and give what uses them the location of
# the loop or of the dot that they stand by: the name of an accumulator, say, to a wait for the copies of two
# tiles.

_USES: Final = ("ttng.init_barrier", "ttng.inval_barrier", "ttng.barrier_expect", "ttng.wait_barrier")


def awaited(module: Module) -> dict[Op, str]:
    """By op that waits on a barrier or prepares one, its purpose: "a, b", or "" if unknown.

    That is the name of the copies that arrive at the barrier. For other work the op's own name is right,
    unless the op has the location of a loop or function: then it is the name of that work. Ops whose own name
    is right are left out.
    """
    started: dict[Op, list[Op]] = {}
    for op in module.walk():
        barrier = started_on(op)
        if barrier is not None:
            started.setdefault(barrier, []).append(op)
    borrowed = {op.loc_text for op in module.walk() if op.name in LOOPS or op.name == "tt.func"}
    names = {}
    for op in module.walk():
        barrier = barrier_of(op) if op.name in _USES else None
        if barrier is None:
            continue
        work = started.get(barrier, [])
        copies = [each for each in work if OPS[each.name].cls == "async_copy"]
        if copies or op.loc_text in borrowed:
            named = (variable_of(each.loc) for each in copies or work if each.loc_text not in borrowed)
            names[op] = ", ".join(dict.fromkeys(filter(None, named)))
    return names


# Which waits drain a pipelined loop.
#
# The pipeliner leaves copies or tensor-core work of the last iterations under way when a loop ends, and puts
# a wait behind it. The wait has the location of the loop, and so the name of what the loop computes, for
# which it does not wait.


def is_drain(op: Op) -> bool:
    """Whether the op waits, behind a loop, for what the pipelined loop has left under way."""
    info = info_of(op)
    if info is None or info.cls != "wait" or op.parent is None:
        return False
    ops = op.parent.ops
    return any(earlier.name in LOOPS and earlier.loc_text == op.loc_text for earlier in ops[: ops.index(op)])
