"""Writes rows: assigns columns to values, stores them, and computes the address of a row.

Values are stored four at a time, and only once a younger one is pending: by then the clock reads have
returned, and few registers are held. (Measured: none costs 2 cycles a record more; two, attention 1.4 %.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from profscope.instrument_passes.ir import Block, Op
from profscope.instrument_passes.lowering.builder import FrameBuilder, Pending, hole
from profscope.instrument_passes.lowering.prologue import Identity, Program
from profscope.instrument_passes.manifest import Column

__all__ = ["RowState", "RowWriter"]

_GROUP = 4
_YOUNGER = 1


@dataclass
class RowState:
    """Values carried along the control flow of a program that writes rows.

    values: names of the row counters, i32, by the index of their frame. open: ids of the spans that are open,
    outermost first. returned: by tt.return or ttg.warp_return that was reached, the values there. row: i64
    address of the frame's current row. pending: values to store. may_store: not inside scf.if, where ops that
    did not run must store zeros. conditional: the stores here may not run in every row of the frame.
    """

    values: dict[int, str]
    open: list[int]
    frame: FrameBuilder = field(kw_only=True)
    row: str = field(kw_only=True)
    pending: list[Pending] = field(default_factory=list)
    may_store: bool = True
    conditional: bool = False
    returned: dict[Op, dict[int, str]] = field(default_factory=dict)

    def inside(self, **changes: Any) -> RowState:
        """The state at the start of a block or region of the same function, with changes."""
        return replace(self, values=dict(self.values), open=list(self.open), **changes)


class RowWriter:
    """Writes the rows of one section, number `section` of the manifest. zero: an i32 constant."""

    def __init__(self, program: Program, section: int, identity: Identity, zero: str) -> None:
        self._module = program.module
        self._target = program.target
        self._section = section
        self._identity = identity
        self._zero = zero

    def flush(self, state: RowState, before: Op, *, everything: bool = False) -> None:
        """Store the oldest pending values, four at a time; or all of them, the rest in pairs and ones."""
        while len(state.pending) >= (_GROUP if everything else _GROUP + _YOUNGER):
            self._store_pending(state, state.pending[:_GROUP], before)
            del state.pending[:_GROUP]
        if not everything:
            return
        if len(state.pending) == 3:
            state.pending.append(Pending(Column("pad"), self._zero))
        if state.pending:
            self._store_pending(state, state.pending, before)
            state.pending = []

    def _store_pending(self, state: RowState, group: list[Pending], before: Op) -> None:
        first = state.frame.place(group)
        if state.conditional:
            state.frame.conditional.update(range(first, first + len(group)))
        values = [pending.value for pending in group]
        before.insert_before(self._store(state.frame, first, state.row, values))

    def words(self, frame: FrameBuilder, row: str, words: Sequence[str]) -> list[str]:
        """Text that stores a whole row, a store for every four words."""
        starts = range(0, frame.width, _GROUP)
        return [self._store(frame, first, row, words[first : first + _GROUP]) for first in starts]

    def whole(self, frame: FrameBuilder, row: str, words: Sequence[str]) -> str:
        """Text that stores a whole row at once, by all lanes of the warp."""
        starts = range(0, frame.width, _GROUP)
        offsets = [hole("store_offset", self._section, frame.index, first) for first in starts]
        identity = self._identity
        return self._target.store_row(
            self._module.fresh("ps_none"), row, offsets, words, identity.leads, identity.awake
        )

    def _store(self, frame: FrameBuilder, first: int, row: str, values: Sequence[str]) -> str:
        """Text that stores 1, 2 or 4 values from column `first` on."""
        offset = hole("store_offset", self._section, frame.index, first)
        out = self._module.fresh("ps_none")
        return self._target.store(out, row, offset, values, self._identity.leads)

    def load(self, frame: FrameBuilder, column: int, out: str) -> str:
        """Text that loads a word of the section's root row where the lane stores, zero elsewhere."""
        p = self._module.fresh("ps_kept")
        offset = hole("store_offset", self._section, frame.index, column)
        return (
            f"{p}_offset = arith.constant {offset} : i64\n"
            f"{p}_address = arith.addi {self._identity.segment}, {p}_offset : i64\n"
            f"{p}_word = tt.int_to_ptr {p}_address : i64 -> !tt.ptr<i32>\n"
            f"{out} = tt.load {p}_word, {self._identity.leads}, {self._zero} : !tt.ptr<i32>"
        )

    def row_address(self, frame: FrameBuilder, counter: str, row: str) -> tuple[str, str]:
        """Address of a row: where the frame starts + slot * row_bytes. Text for all rows, and for one."""
        p = self._module.fresh("ps_at")
        size = hole("row_bytes", self._section, frame.index)
        before, masked, start, slot = "", "", self._identity.segment, counter
        if frame.capacity == 0:
            start, slot = f"{p}_start", f"{p}_slot"
            offset = hole("frame_offset", self._section, frame.index)
            before = (
                f"{p}_unit = arith.constant {offset} : i32\n"
                f"{p}_offset = arith.shli {p}_unit, {self._identity.ring} : i32\n"
                f"{p}_offset64 = arith.extui {p}_offset : i32 to i64\n"
                f"{start} = arith.addi {self._identity.segment}, {p}_offset64 : i64"
            )
            masked = f"{slot} = arith.andi {counter}, {self._identity.ring_mask} : i32\n"
        return before, (
            f"{masked}"
            f"{p}_size = arith.constant {size} : i32\n"
            f"{p}_bytes = arith.muli {slot}, {p}_size : i32\n"
            f"{p}_wide = arith.extui {p}_bytes : i32 to i64\n"
            f"{row} = arith.addi {start}, {p}_wide : i64"
        )

    def clear(self, frame: FrameBuilder, body: Block, row: str, counters: Mapping[int, str]) -> None:
        """Before all else in an iteration, write what its row says of code that does not run in it.

        That is zero for clocks, which a ring needs that holds an older row there, and for loops the counts
        so far. Code in branches that join again and in functions called there stores its own words later.
        """
        width = min(_GROUP, frame.width)
        stores = []
        for first in sorted({column // width * width for column in frame.conditional}):
            columns = frame.columns[first : first + width]
            counts = [counters.get(c.frame, "") if c.kind == "count" else "" for c in columns]
            if frame.capacity == 0 or any(counts):
                values = [count or self._zero for count in counts]
                values += [self._zero] * (width - len(values))
                stores.append(self._store(frame, first, row, values))
        if stores:
            (address,) = [op for op in body.ops if any(result.name == row for result in op.results)]
            address.insert_after("\n".join(stores))
