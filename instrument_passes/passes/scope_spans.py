"""scope-spans: spans on the scopes that users name in their kernels.

The scopes an op came from stand in its location (see `scopes.py`), so they are found wherever the optimiser
took it. In every block the longest runs of a scope's ops get a span each. Several runs are numbered: "load
[1/3]". Ops without time of their own, such as constants and address arithmetic, neither make a span nor split
one, unless a scope has no others.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar, Final

from profscope.instrument_passes.analyses.walk import kernel_of, recordable_blocks, recordable_regions
from profscope.instrument_passes.dialect import SpanIds, begin, end, is_record, payload
from profscope.instrument_passes.ir import Block, Module, Op, Value, flow
from profscope.instrument_passes.ir.tokens import quote
from profscope.instrument_passes.ops import info_of
from profscope.instrument_passes.passes import Pass, PassContext, register
from profscope.instrument_passes.scopes import Marker, Site, add_notes, marker_of, sites_of

__all__ = ["ScopeSpans"]

# Classes of ops that take no time of their own, regions aside.
_TIMELESS: Final = ("scalar", "view", "alloc", "hint", "control")
# One scope as it was entered at one place: the numbers of the calls and scopes it is in, and its own.
Key = tuple[int, ...]


@dataclass(frozen=True)
class _Part:
    """A run of ops of a scope in one block."""

    scope: Key
    first: Op
    last: Op


@register
@dataclass(frozen=True)
class ScopeSpans(Pass):
    """One span around every run of ops that came from a scope of the kernel's (docs/scopes.md).

    Marks and payloads become records. It comes before loop-spans and op-spans.
    """

    name: ClassVar[str] = "scope-spans"

    def apply(self, module: Module, context: PassContext) -> None:
        sites = sites_of(module)
        if not sites:
            return
        kernel = kernel_of(module)
        _Placer(module, kernel, sites).run()


class _Placer:
    def __init__(self, module: Module, kernel: Op, sites: tuple[Site, ...]) -> None:
        self.module = module
        self.kernel = kernel
        self.sites = sites
        self.ids = SpanIds.of(module)
        self.markers: dict[Op, Marker] = {}  # the ops that keep marks and payloads alive
        self.chain: dict[Op, tuple[Key, ...]] = {}  # the scopes of every op, outermost first
        self.parts: list[_Part] = []
        self.span_of: dict[Op, int] = {}  # the innermost span around an op
        self.solid: set[Op] = set()  # the ops that make and split spans
        self.placed: set[int] = set()  # marks and payloads that became records

    def run(self) -> None:
        for block in recordable_blocks(self.kernel):
            for op in block.ops:
                marker = self._marker(op)
                if marker is not None:
                    self.markers[op] = marker
                if is_record(op) and op.attributes.get("kind", '"kernel"') != '"kernel"':
                    raise op.error(
                        "a span is here already; put scope-spans before the passes that make spans of ops"
                    )
                self.chain[op] = self._scopes(op)
        self.solid = self._solid_ops()
        for function in self.module.functions:
            for region in recordable_regions(function):
                for block in region.blocks:
                    self._block(block, frozenset())
        values = {op: self._value(op) for op, marker in self.markers.items() if marker.do == "payload"}
        self._write_spans()
        for op, marker in self.markers.items():
            self._write_marker(op, marker, values.get(op))
        self._drop_assembly()
        self._note_what_is_missing()

    # Which ops belong to which scopes.

    def _numbers(self, op: Op) -> tuple[int, ...]:
        """Of the scopes in the op's location."""
        numbers = op.loc.scopes
        unknown = [number for number in numbers if number >= len(self.sites)]
        if unknown:
            raise op.error(f"its location names scope {unknown[0]} of {len(self.sites)}")
        return numbers

    def _marker(self, op: Op) -> Marker | None:
        if op.name != "llvm.intr.assume" or not op.loc.scopes:
            return None
        site = self.sites[self._numbers(op)[-1]]
        return Marker(site.kind, site.name) if site.kind in ("mark", "payload") else None

    def _path(self, op: Op) -> Key:
        """All calls and scopes that an op is in, outermost first."""
        path: list[int] = []
        for number in self._numbers(op):
            around = []
            while number >= 0:
                around.append(number)
                number = self.sites[number].parent
            path += reversed(around)
        return tuple(path)

    def _scopes(self, op: Op) -> tuple[Key, ...]:
        path = self._path(op)
        return tuple(path[: i + 1] for i, number in enumerate(path) if self.sites[number].kind == "scope")

    def _solid_ops(self) -> set[Op]:
        """Those that take time, and all of scopes that have no such op."""
        timed = {op for op in self.chain if op in self.markers or _takes_time(op)}
        with_time = {scope for op in timed for scope in self.chain[op]}
        faint = {
            op
            for op, scopes in self.chain.items()
            if op not in timed and scopes and scopes[-1] not in with_time and _may_hold(op)
        }
        return timed | faint

    # Runs.

    def _block(self, block: Block, covered: frozenset[Key]) -> None:
        """Find the runs in a block; the scopes in `covered` have a span around the op that has it."""
        solid = [op for op in block.ops if op in self.solid]
        self._runs([(op, self._uncovered(op, covered)) for op in solid], 0)
        for op in block.ops:
            for index, region in enumerate(recordable_regions(op)):
                # Partitions are other warps, so nothing is around them.
                other_warps = op.name == "ttg.warp_specialize" and index > 0
                inside = frozenset() if other_warps else covered | frozenset(self.chain.get(op, ()))
                for inner in region.blocks:
                    self._block(inner, inside)

    def _uncovered(self, op: Op, covered: frozenset[Key]) -> tuple[Key, ...]:
        scopes = tuple(scope for scope in self.chain[op] if scope not in covered)
        needs_own = op in self.markers and self.markers[op].do == "payload" and self.chain[op]
        return scopes or (self.chain[op][-1:] if needs_own else ())

    def _runs(self, ops: list[tuple[Op, tuple[Key, ...]]], level: int) -> None:
        def scope(item: tuple[Op, tuple[Key, ...]]) -> Key:
            return item[1][level] if level < len(item[1]) else ()

        for key, group in groupby(ops, key=scope):
            if key:
                run = list(group)
                self.parts.append(_Part(key, run[0][0], run[-1][0]))
                self._runs(run, level + 1)

    # Records.

    def _write_spans(self) -> None:
        """Outer parts come before inner ones in the list, so that inner records go between theirs."""
        names = self._names()
        for part in self.parts:
            where = self._where(part.scope)
            span = self.ids.new()
            block = part.first.parent
            assert block is not None
            for op in block.ops[block.ops.index(part.first) : block.ops.index(part.last) + 1]:
                self.span_of[op] = span
            part.first.insert_before(begin(span, "scope", names[part], "scope"), loc=where)
            part.last.insert_after(end(span), loc=where)

    def _names(self) -> dict[_Part, str]:
        """Parts of one scope are numbered in the order of the text."""
        order = {op: position for position, op in enumerate(self.module.walk())}
        total = Counter(part.scope for part in self.parts)
        seen: Counter[Key] = Counter()
        names = {}
        for part in sorted(self.parts, key=lambda part: order[part.first]):
            seen[part.scope] += 1
            label = f" [{seen[part.scope]}/{total[part.scope]}]" if total[part.scope] > 1 else ""
            names[part] = self.sites[part.scope[-1]].name + label
        return names

    def _write_marker(self, op: Op, marker: Marker, value: Value | None) -> None:
        number = op.loc.scopes[-1]
        where = self._where(self._path(op))
        if marker.do == "mark":
            span = self.ids.new()
            op.insert_before(begin(span, "mark", marker.name, "mark") + "\n" + end(span), loc=where)
            self.placed.add(number)
        elif value is not None:
            op.insert_before(payload(self.span_of[op], marker.name, value.name, value.type), loc=where)
            self.placed.add(number)
        op.erase()

    def _where(self, path: Key) -> str:
        """The location of the last scope or marker of a path, inlined at the calls on it."""
        *around, own = (self.sites[number] for number in path)
        location = f"{quote(own.file)}:{own.line}:0"
        for site in reversed(around):
            if site.kind == "call":
                location = f"callsite({location} at {quote(site.file)}:{site.line}:0)"
        return f"loc({location})"

    def _value(self, op: Op) -> Value | None:
        """The value that a payload's marker was given, as it is called here; None if it cannot be found."""
        held = op.resolve(op.operands[0])
        if held is None or isinstance(held.owner, Op):
            return None if held is None else _given(held)
        # In a partition, which captured the marker: have it capture the marker's value as well.
        region, around = held.owner.parent, held.owner.parent_op
        if region is None or around is None or around.name != "ttg.warp_specialize":
            return None
        outside = around.resolve(around.operands[held.index])
        value = None if outside is None else _given(outside)
        if value is None:
            return None
        names = flow.add_capture(around, value.name, value.type)
        return Value(names[around.regions.index(region) - 1], value.type, held.owner, -1)

    def _drop_assembly(self) -> None:
        """What kept marks and payloads alive; a constant in its place may be captured, and costs nothing."""
        for op in tuple(self.module.walk()):
            if marker_of(op) is not None:
                op.replace_header(f"{op.results[0].name} = arith.constant true")

    def _note_what_is_missing(self) -> None:
        """One note a line of source, however often its function is specialised or its loop is unrolled."""
        placed = {part.scope[-1] for part in self.parts} | self.placed
        entered = Counter((site.kind, site.name, site.where) for site in self.sites if site.kind != "call")
        missing = entered - Counter(
            (self.sites[number].kind, self.sites[number].name, self.sites[number].where) for number in placed
        )
        notes = []
        for (kind, name, where), count in missing.items():
            why = "no op of it is left that could be recorded: removed, merged with others or out of reach"
            if kind != "scope":
                why = "Triton cannot optimise this kernel with it, or it is in code that never runs"
            total = entered[kind, name, where]
            share = f" in {count} of its {total} instances" if count < total else ""
            notes.append(f"{kind} {name!r} ({where}) has no spans{share}: {why}")
        add_notes(self.module, notes)


def _takes_time(op: Op) -> bool:
    if is_record(op) or marker_of(op) is not None:
        return False
    info = info_of(op)
    return info is None or info.cls not in _TIMELESS or bool(recordable_regions(op))


def _may_hold(op: Op) -> bool:
    """Whether an op without time of its own may begin or end a span: terminators and records may not."""
    info = info_of(op)
    return not is_record(op) and marker_of(op) is None and info is not None and info.cls != "control"


def _given(held: Value) -> Value | None:
    """What the marker that made the value `held` was given."""
    marker = held.owner
    if not isinstance(marker, Op) or marker_of(marker) is None or not marker.operands:
        return None
    return marker.resolve(marker.operands[0])
