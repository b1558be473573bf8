"""Targets, one file each: reading a clock, storing a record, identifying a warp.

`Target` says what a target must provide: text of TTGIR ops, one method per thing the lowering needs. A new
target is one file in this folder, with a subclass of `Target` that is decorated with `@register`; nothing
else needs to name it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final, Self, TypeVar

from profscope.instrument_passes.discovery import import_all
from profscope.instrument_passes.errors import PassError
from profscope.instrument_passes.ir import Module
from profscope.instrument_passes.ir.tokens import unquote

__all__ = ["Target", "register", "registered", "target_of"]


class Target(ABC):
    """A GPU that kernels are built for, as the module's `ttg.target` names it.

    Methods return op text, one op a line; `out` names the SSA value that receives the result. spellings: the
    names that `of` takes, for messages.
    """

    spellings: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abstractmethod
    def of(cls, name: str, *, clustered: bool) -> Self | None:
        """The target of this name, None if it is another's; clustered: CTAs come in clusters of several."""

    @property
    @abstractmethod
    def name(self) -> str:
        """As in `ttg.target`, for example "cuda:90"."""

    @property
    @abstractmethod
    def lanes(self) -> int:
        """Threads of a warp, a power of two."""

    @abstractmethod
    def clock(self, out: str) -> str:
        """Low 32 bits of the SM's cycle counter, i32, ordered with the memory ops around it."""

    @abstractmethod
    def entry_clocks(self, out: str) -> str:
        """`_clock`, `_timer`: the low 32 bits of the SM's cycle counter and of the global timer, i32, for
        `stamp`; `stamp` computes the rest, since a short CTA pays for instructions."""

    @abstractmethod
    def apart(self, out: str) -> str:
        """Ops to put between a clock read and a loop that follows it; i32, of no meaning."""

    @abstractmethod
    def wait_for(self, out: str, value: str, kind: str) -> str:
        """Hold the warp until the data of `value`, of type `kind`, is there; `kind` is one of `waitable`."""

    @abstractmethod
    def waitable(self, kind: str) -> bool:
        """Whether `wait_for` knows how to wait for values of a type."""

    @abstractmethod
    def thread_id(self, out: str) -> str:
        """The thread's number in the CTA, i32, worker warps of a specialised kernel included."""

    @abstractmethod
    def sm_id(self, out: str) -> str:
        """The SM that the CTA runs on, i32."""

    def linear_cta_id(self, out: str) -> str:
        """The CTA's number in the launch, i32, x fastest, as Triton counts for the profile buffer."""
        return f"""
            {out}_x = tt.get_program_id x : i32
            {out}_y = tt.get_program_id y : i32
            {out}_z = tt.get_program_id z : i32
            {out}_nx = tt.get_num_programs x : i32
            {out}_ny = tt.get_num_programs y : i32
            {out}_zy = arith.muli {out}_z, {out}_ny : i32
            {out}_yz = arith.addi {out}_y, {out}_zy : i32
            {out}_row = arith.muli {out}_yz, {out}_nx : i32
            {out} = arith.addi {out}_x, {out}_row : i32
            """

    def cta_count(self, out: str) -> str:
        """`out`: i32, the CTAs of the launch."""
        return f"""
            {out}_along_x = tt.get_num_programs x : i32
            {out}_along_y = tt.get_num_programs y : i32
            {out}_along_z = tt.get_num_programs z : i32
            {out}_plane = arith.muli {out}_along_x, {out}_along_y : i32
            {out} = arith.muli {out}_plane, {out}_along_z : i32
            """

    @abstractmethod
    def multiply_add(self, out: str, index: str, size: str, base: str) -> str:
        """The i64 base + index * size; these i32 and unsigned."""

    @abstractmethod
    def store(self, out: str, address: str, offset: str, values: Sequence[str], lane: str) -> str:
        """Store 1, 2 or 4 i32 values at address + offset (integer literal, bytes) where `lane` holds."""

    def store_row(
        self, out: str, address: str, offsets: Sequence[str], values: Sequence[str], lane: str, warp: str
    ) -> str:
        """Store 4 i32 values for each offset, side by side, once for the warp: by the lane with `lane`, or by
        any lanes of a warp if `warp` is true in all its lanes."""
        parts = (values[at : at + 4] for at in range(0, len(values), 4))
        stores = zip(offsets, parts, strict=True)
        return "\n".join(
            self.store(f"{out}_{at}", address, offset, part, lane) for at, (offset, part) in enumerate(stores)
        )

    @abstractmethod
    def header_start(
        self, out: str, area: str, leads: str, cta: str, slot: str, flags: str, digest: str
    ) -> str:
        """Store what the CTA header says of its start, by thread 0 if `leads` holds there, and in the first
        CTA that records the launch header.

        area: i64, in thread 0 the address of the area less the launch header's size; cta, slot: i32, the
        CTA's linear id and its number among those that record; flags: i32 launch bits; digest: integer
        literal.
        """

    @abstractmethod
    def header_end(self, out: str, area: str, leads: str) -> str:
        """Store what the CTA header says at its end; as above."""

    @abstractmethod
    def stamp(self, out: str, buffer: str, begun: str, leads: str = "") -> str:
        """Store the stamp of a CTA that does not record, by thread 0, in a launch that has stamps.

        buffer: i64, the address with all its bits, without enable bits where nothing is recorded; begun: the
        `entry_clocks` of the CTA; leads: i1, true in thread 0 of a CTA that records; default: there is none
        here.
        """

    # Of progress marks (`instrument_passes/progress.py`).

    @property
    def has_marks(self) -> bool:
        """Whether it has the three methods below."""
        return False

    def slot(self, out: str, word: str) -> str:
        """`out`: i64, the address of the warp's slot; word: i64, `COUNTERS.slots`."""
        raise NotImplementedError

    def store_now(self, out: str, address: str, offset: int, values: Sequence[str], lane: str) -> str:
        """As `store`, at once: the host can read it while the kernel runs."""
        raise NotImplementedError

    def count(self, out: str, address: str, offset: int, lane: str) -> str:
        """Add 1 to the u32 at address + offset where `lane` holds."""
        raise NotImplementedError


_TARGETS: Final[list[type[Target]]] = []
T = TypeVar("T", bound=type[Target])


def register(cls: T) -> T:
    """Class decorator: makes a target known."""
    _TARGETS.append(cls)
    return cls


def registered() -> tuple[type[Target], ...]:
    """All targets whose files have been imported."""
    return tuple(_TARGETS)


def target_of(module: Module) -> Target:
    """The target named by the module's `ttg.target`. Raises PassError for one that has no file here."""
    import_all(__package__)
    name = unquote(module.attr("ttg.target") or '""')
    clustered = module.integer("ttg.num-ctas", 1) != 1
    for cls in registered():
        target = cls.of(name, clustered=clustered)
        if target is not None:
            return target
    known = ", ".join(sorted(spelling for cls in registered() for spelling in cls.spellings))
    raise PassError(f"cannot instrument for target {name or '(none)'!r}: profscope knows {known}")
