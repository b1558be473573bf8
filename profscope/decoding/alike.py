"""Launches that are alike, many at once: of one program and grid, with buffers of one size.

So numpy sees them together, and what Python does for each of them alone is next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from instrument_passes.manifest import Manifest
from profscope.decoding.build import Build
from profscope.decoding.raw import Mark, RawLaunch

__all__ = ["Alike", "alike", "united"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Alike:
    """L launches, all of them an autotuner's trials or none. ctas: of each grid; size: bytes of each buffer.

    indices, streams: of shape (L,); marks: L of them. memory: where the buffers are, one piece after the
    other: the bytes, uint8, and where in them a buffer begins, int64.
    """

    manifest: Manifest
    build: Build | None
    device: int
    ctas: int
    size: int
    indices: Ints
    streams: Ints
    marks: Sequence[Mark]
    memory: Sequence[tuple[Bytes, Ints]]

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def trial(self) -> bool:
        return self.marks[0].trial

    def buffers(self) -> Bytes:
        """A copy of all of them, uint8, shape (L, size)."""
        return self.beginnings(self.size)

    def beginnings(self, size: int) -> Bytes:
        """As `buffers`, of each the first so many bytes."""
        rows = [_rows(memory, offsets, size) for memory, offsets in self.memory]
        return rows[0] if len(rows) == 1 else np.concatenate(rows)

    def where(self, chosen: npt.NDArray[np.bool_]) -> Alike:
        """Some of them. chosen: shape (L,)."""
        if chosen.all():
            return self
        ends = np.cumsum([len(offsets) for _, offsets in self.memory])[:-1]
        memory = [
            (piece, offsets[some])
            for (piece, offsets), some in zip(self.memory, np.split(chosen, ends), strict=True)
            if some.any()
        ]
        marks = [mark for mark, is_chosen in zip(self.marks, chosen.tolist(), strict=True) if is_chosen]
        return self._with(self.indices[chosen], self.streams[chosen], marks, memory)

    def parts(self, limit_bytes: int) -> Iterator[Alike]:
        """All of them in turn, about so many bytes at a time."""
        step = max(1, limit_bytes // max(1, self.size))
        if len(self) <= step:
            yield self
            return
        for begin in range(0, len(self), step):
            memory, at = [], 0
            for piece, offsets in self.memory:
                some = offsets[max(0, begin - at) : max(0, begin + step - at)]
                if len(some):
                    memory.append((piece, some))
                at += len(offsets)
            part = slice(begin, begin + step)
            yield self._with(self.indices[part], self.streams[part], self.marks[part], memory)

    def launches(self) -> Iterator[RawLaunch]:
        """One by one, with buffers of their own."""
        rows = zip(self.indices.tolist(), self.streams.tolist(), self.marks, self.buffers(), strict=True)
        for index, stream, mark, buffer in rows:
            yield RawLaunch(
                index, self.manifest, self.device, stream, self.ctas, buffer, mark, self.build
            )  # fmt: skip

    def _with(
        self, indices: Ints, streams: Ints, marks: Sequence[Mark], memory: Sequence[tuple[Bytes, Ints]]
    ) -> Alike:
        return Alike(
            self.manifest, self.build, self.device, self.ctas, self.size, indices, streams, marks, memory
        )  # fmt: skip


def alike(launches: Iterable[RawLaunch]) -> list[Alike]:
    """Launches put together."""
    return united(
        Alike(
            raw.manifest, raw.build, raw.device, raw.ctas, raw.buffer.nbytes, np.array([raw.index]),
            np.array([raw.stream]), [raw.mark], [(raw.buffer, _BEGIN)],
        )
        for raw in launches
    )  # fmt: skip


_BEGIN = np.zeros(1, np.int64)


def united(groups: Iterable[Alike]) -> list[Alike]:
    """Groups of launches that are alike put together, each in the order it comes in."""
    by_kind: dict[tuple[Any, ...], list[Alike]] = {}
    for group in groups:
        kind = id(group.manifest), id(group.build), group.device, group.ctas, group.size, group.trial
        by_kind.setdefault(kind, []).append(group)
    return [of_kind[0] if len(of_kind) == 1 else _joined(of_kind) for of_kind in by_kind.values()]


def _joined(groups: Sequence[Alike]) -> Alike:
    return groups[0]._with(
        np.concatenate([group.indices for group in groups]),
        np.concatenate([group.streams for group in groups]),
        [*chain.from_iterable(group.marks for group in groups)],
        [*chain.from_iterable(group.memory for group in groups)],
    )


def _rows(memory: Bytes, offsets: Ints, size: int) -> Bytes:
    """What begins at the offsets, so many bytes of each, copied."""
    if len(offsets) == 1:
        begin = int(offsets[0])
        return memory[begin : begin + size].copy()[None]
    memory = np.ascontiguousarray(memory)
    # numpy copies rows of words ten times as fast as rows of bytes.
    step = 8 if not (memory.ctypes.data % 8 or size % 8 or (offsets % 8).any()) else 1
    kind = np.dtype(np.uint64 if step == 8 else np.uint8)
    shape = ((len(memory) - size) // step + 1, size // step)
    windows: npt.NDArray[Any] = np.ndarray(shape, kind, memory.data, 0, (step, step))
    rows: Bytes = windows[offsets // step].view(np.uint8)
    return rows
