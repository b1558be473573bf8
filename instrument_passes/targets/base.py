"""What a target must provide: text of TTGIR ops, one method per thing the lowering needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

__all__ = ["Target"]


class Target(Protocol):
    """All methods return op text, one op a line; `out` names the SSA value that receives the result."""

    @property
    def name(self) -> str:
        """As in `ttg.target`, for example "cuda:90"."""

    @property
    def lanes(self) -> int:
        """Threads of a warp, a power of two."""

    def clock(self, out: str) -> str:
        """Low 32 bits of the SM's cycle counter, i32, ordered with the memory ops around it."""

    def apart(self, out: str) -> str:
        """What to put between a clock read and a loop that follows it; i32, of no meaning."""

    def wait_for(self, out: str, value: str, kind: str) -> str:
        """Hold the warp until the data of `value`, of type `kind`, is there; `kind` is one of `waitable`."""

    def waitable(self, kind: str) -> bool:
        """Whether `wait_for` knows how to wait for values of a type."""

    def thread_id(self, out: str) -> str:
        """The thread's number in the CTA, i32, worker warps of a specialised kernel included."""

    def sm_id(self, out: str) -> str:
        """The SM that the CTA runs on, i32."""

    def count_bits(self, out: str, value: str) -> str:
        """How many bits of an i32 are set, i32."""

    def linear_cta_id(self, out: str) -> str:
        """The CTA's number in the launch, i32, x fastest, as Triton counts for the profile buffer."""

    def multiply_add(self, out: str, index: str, size: str, base: str) -> str:
        """The i64 base + index * size; these i32 and unsigned."""

    def store(self, out: str, address: str, offset: str, values: Sequence[str], lane: str) -> str:
        """Store 1, 2 or 4 i32 values at address + offset (integer literal, bytes) where `lane` holds."""

    def header_start(
        self, out: str, area: str, leads: str, cta: str, slot: str, flags: str, digest: str
    ) -> str:
        """Store what the CTA header says of its start, by thread 0 if `leads` holds there, and in the first
        CTA that records the launch header.

        area: i64, in thread 0 the address of the area less the launch header's size; cta, slot: i32, the
        CTA's linear id and its number among those that record; flags: i32 launch bits; digest: integer
        literal.
        """

    def header_end(self, out: str, area: str, leads: str) -> str:
        """Store what the CTA header says at its end; as above."""
