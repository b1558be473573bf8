"""The cost of a record, as a profile's metadata have it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

__all__ = ["READS_PER_STORE", "Cost", "record_cost"]

READS_PER_STORE: Final = 4
"""Clocks that go out with one store."""


class Cost(NamedTuple):
    """In cycles of the SM. read: from one clock read to the next where nothing lies between; store: what the
    store of READS_PER_STORE clocks adds; measured: on this GPU, and not from the emulator's cost model."""

    read: float
    store: float
    measured: bool

    @property
    def each(self) -> float:
        """Of one record, with its part of a store."""
        return self.read + self.store / READS_PER_STORE


def record_cost(metadata: dict[str, Any]) -> Cost | None:
    """From the entry "clock"; None where it is not known, as in older profiles and other tools' traces."""
    clock = metadata.get("clock") or {}
    read = clock.get("read_cycles")
    if read is None:
        return None
    return Cost(float(read), float(clock.get("store_cycles") or 0.0), clock.get("basis") == "measured")
