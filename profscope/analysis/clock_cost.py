"""The cost of a record, as a profile's metadata have it."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Cost", "record_cost"]


class Cost(NamedTuple):
    """In cycles of the SM. read: from one clock read to the next where nothing lies between; row: what the
    store of the records of a loop's iteration adds; measured: on the GPU, not from the emulator's model."""

    read: float
    row: float
    measured: bool

    @property
    def each(self) -> float:
        """Of one record at most, in a loop whose iterations have two."""
        return self.read + self.row / 2


def record_cost(metadata: dict[str, Any]) -> Cost | None:
    """From the entry "clock"; None where it is not known, as in older profiles and other tools' traces."""
    clock = metadata.get("clock") or {}
    read = clock.get("read_cycles")
    if read is None:
        return None
    return Cost(float(read), float(clock.get("row_cycles") or 0.0), clock.get("basis") == "measured")
