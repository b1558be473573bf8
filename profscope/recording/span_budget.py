"""How many spans launches may keep in a session whose other launches keep sums."""

from __future__ import annotations

import threading
from typing import Final

__all__ = ["MOST_CTAS", "SpanBudget"]

MOST_CTAS: Final = 256
"""Of a launch, once half of the budget is full. Few enough that a launch of each of a hundred kernels comes
to a few MiB, and enough for percentiles."""

_PARTS: Final = 16  # of the budget: each that fills beyond the half has spans kept half as often


class SpanBudget:
    """Until half of it is full, launches keep the spans of all their CTAs; then of at most `MOST_CTAS`, and
    for each sixteenth more of it half as often. Thread-safe.

    bytes: of records so far, those of a first launch by the shortest rings. It may end a little above the
    limit, since a configuration's first launch keeps spans in any case.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.bytes = 0
        self._lock = threading.Lock()

    @property
    def most_ctas(self) -> int | None:
        """How many CTAs of a launch keep spans; None for all."""
        return MOST_CTAS if 2 * self.bytes > self.limit_bytes else None

    def is_due(self, turn: int) -> bool:
        """Whether a launch keeps spans. turn: its number, from 0 on, among those of its configuration that
        `spans_every=` chooses."""
        if self.bytes >= self.limit_bytes:
            return turn == 0
        parts = _PARTS * self.bytes // self.limit_bytes
        return turn % (1 << max(0, parts - _PARTS // 2)) == 0

    def add(self, size: int) -> bool:
        """A launch has kept so many bytes; whether others keep fewer CTAs from now on."""
        with self._lock:
            before, self.bytes = self.most_ctas, self.bytes + size
            return self.most_ctas != before

    def notes(self, passed_over: int) -> list[str]:
        """What is kept of fewer CTAs or launches, in words. passed_over: launches that were due by
        `spans_every=` and that `is_due` has refused."""
        if self.most_ctas is None:
            return []
        more = f", and {passed_over} more that were to do so keep sums" if passed_over else ""
        return [
            f"launches kept {self.bytes / (1 << 20):.0f} MiB of spans: once half of spans_memory="
            f"{self.limit_bytes >> 20} MiB was full, those of at most {MOST_CTAS} of their CTAs{more}"
        ]
