"""What a target must provide: text of TTGIR ops, one method per thing the lowering needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Identity", "Target"]


@dataclass(frozen=True, slots=True)
class Identity:
    """SSA names of what a warp needs to know about itself.

    segment: i64 address of the warp's segment; lane: i1, true in the one lane that stores records;
    leader: i1, true in the one thread of the CTA that writes the header (only valid in the kernel's body).
    """

    segment: str
    lane: str
    leader: str


class Target(Protocol):
    """All methods return op text, one op a line; `out` names the SSA value that receives the result."""

    @property
    def name(self) -> str:
        """As in `ttg.target`, for example "cuda:90"."""

    def clock(self, out: str) -> str:
        """Low 32 bits of the SM's cycle counter, i32, ordered with the memory ops around it."""

    def identity(self, base: str, segment_bytes: str, identity: Identity, prefix: str) -> str:
        """Defines the three values of `identity` from the i64 address `base` of the CTA's area.

        segment_bytes: integer literal; prefix: for names of temporaries.
        """

    def store(self, out: str, address: str, offset: str, values: Sequence[str], lane: str) -> str:
        """Store 1, 2 or 4 i32 values at address + offset (integer literal, bytes) where `lane` holds."""

    def header_start(self, out: str, base: str, leader: str) -> str:
        """Store the start pair (clock64, globaltimer) of the CTA header."""

    def header_end(
        self, out: str, base: str, leader: str, digest_low: str, digest_high: str, warps: int
    ) -> str:
        """Store the end pair and everything else of the CTA header; the digest halves are literals."""
