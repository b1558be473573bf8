"""Optional checks of shared memory: reads of what was never written, and races between warps.

Two accesses of a byte by different warps with no barrier of their CTA in between race if one is a write; two
writes of the same value are let pass, as compilers store replicated data more than once. Lanes of a warp are
not checked against each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from profscope.emulator.arrays import Array

__all__ = ["SharedChecks"]

NOBODY, SEVERAL = -1, -2


@dataclass
class SharedChecks:
    """For each byte, (CTAs, bytes): who wrote and read it last, and in which epoch; barriers end epochs."""

    writer: Array
    written_in: Array
    reader: Array
    read_in: Array
    epoch: Array  # of each CTA

    @classmethod
    def of(cls, ctas: int, size: int) -> Self:
        nobody = np.full((ctas, size), NOBODY, np.int16)
        never = np.full((ctas, size), -1, np.int32)
        return cls(nobody, never, nobody.copy(), never.copy(), np.zeros(ctas, np.int32))

    @classmethod
    def of_all(cls, parts: "Sequence[SharedChecks]") -> "SharedChecks":
        """Those of the CTAs of several batches, in their order."""
        return cls(
            *(np.concatenate(arrays) for arrays in zip(*(vars(p).values() for p in parts), strict=True))
        )

    def take(self, chosen: Array) -> "SharedChecks":
        return SharedChecks(*(array[chosen] for array in vars(self).values()))

    def barrier(self, ctas: Array) -> None:
        """`ctas` marks those whose threads have all come to a barrier."""
        self.epoch[ctas] += 1

    def read(self, cta: Array, warp: Array, at: Array, size: int) -> tuple[str, Array] | None:
        """Reads of `size` bytes each, one an element of the arrays; what is wrong, and with which of them."""
        rows, columns, warps = self.bytes_of(cta, warp, at, size)
        writer = self.writer[rows, columns]
        unwritten = writer == NOBODY
        if unwritten.any():
            return "read of shared memory that was never written", unwritten.any(axis=1)
        racing = (writer != warps) & (self.written_in[rows, columns] == self.epoch[rows])
        if racing.any():
            return "shared memory race: another warp wrote this since the last barrier", racing.any(axis=1)
        self.note_read(rows, columns, warps)
        return None

    def note_read(self, rows: Array, columns: Array, warps: Array) -> None:
        now = self.epoch[rows]
        shared = (self.read_in[rows, columns] == now) & (self.reader[rows, columns] != warps)
        self.reader[rows, columns] = np.where(shared, SEVERAL, warps)
        others = self.reader[rows, columns] != warps  # by this instruction, or marked just now
        self.reader[rows, columns] = np.where(others, SEVERAL, warps)
        self.read_in[rows, columns] = now

    def write(
        self, cta: Array, warp: Array, at: Array, size: int, changes: Array
    ) -> tuple[str, Array] | None:
        """Likewise for writes; `changes` marks the bytes, (accesses, size), that get another value."""
        rows, columns, warps = self.bytes_of(cta, warp, at, size)
        now = self.epoch[rows]
        overwritten = (
            (self.writer[rows, columns] != warps) & (self.written_in[rows, columns] == now) & changes
        )
        if overwritten.any():
            return "shared memory race: another warp wrote this since the last barrier", overwritten.any(
                axis=1
            )
        read = (self.reader[rows, columns] != warps) & (self.read_in[rows, columns] == now) & changes
        if read.any():
            return "shared memory race: another warp read this since the last barrier", read.any(axis=1)
        self.writer[rows, columns] = warps
        self.written_in[rows, columns] = now
        return None

    @staticmethod
    def bytes_of(cta: Array, warp: Array, at: Array, size: int) -> tuple[Array, Array, Array]:
        """Row and column of every byte accessed, and its warp, each (accesses, size)."""
        columns = at[:, None] + np.arange(size)
        return (
            np.broadcast_to(cta[:, None], columns.shape),
            columns,
            np.broadcast_to(warp[:, None], columns.shape),
        )
