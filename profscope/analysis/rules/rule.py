"""What a rule is: the evidence that it needs, the rows on which it holds, what the table is without its
cause, and its sentence.

    Rule("bank-conflict", needs={"counts", "waits"}, where=_conflicts, removed=_ideal_wavefronts,
         text="{ratio} the wavefronts that its bytes need ...", advice="a swizzled or padded layout")

`where` yields one `Where` for each place at which the rule holds; `removed` says what would be gone there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from profscope.analysis.cause import Confidence, Quantity
from profscope.analysis.evidence_table import Mask, Place
from profscope.analysis.resources import Edit, without
from profscope.analysis.rules.kernel import Kernel

__all__ = ["HOPPER", "Rule", "Where", "as_removed", "rows_removed"]

HOPPER: Final = frozenset({90})
"""Compute capability 9.0, with wgmma."""


@dataclass(frozen=True)
class Where:
    """place: the line that is named. rows: of the table, those that the cause is at. cites: what stands in
    the fields of the sentence. amounts: what `removed` needs besides. name, advice: in place of the rule's,
    if it has several."""

    place: Place
    rows: Mask | None = None
    cites: Mapping[str, Quantity | str] = field(default_factory=dict)
    amounts: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    advice: str = ""

    @property
    def mask(self) -> Mask:
        """The rows, of a cause that is at some."""
        assert self.rows is not None
        return self.rows


@dataclass(frozen=True)
class Rule:
    """name: of its findings. needs: of `kernel.WITNESSES`, who must have seen the kernel. architectures:
    compute capabilities for which it holds; None for all."""

    name: str
    needs: frozenset[str]
    where: Callable[[Kernel], Iterator[Where]]
    removed: Callable[[Kernel, Where], Edit]
    text: str
    advice: str
    confidence: Confidence = "medium"
    architectures: frozenset[int] | None = None

    def is_silent(self, kernel: Kernel) -> str:
        """Why it is not asked; "" if it is."""
        if not kernel.known.issuperset(self.needs):
            return "evidence"
        if self.architectures is not None and kernel.capability not in self.architectures:
            return "architecture"
        return ""


def as_removed(kernel: Kernel, where: Where) -> Edit:
    """`Rule.removed` of rules whose `where` has said which part of the time is gone, in `amounts`, and that
    change no row."""
    return Edit(float(where.amounts["removed"]))


def rows_removed(kernel: Kernel, where: Where) -> Edit:
    """The same, of rules without whose cause the instructions of the rows are gone, too."""
    return Edit(float(where.amounts["removed"]), without(where.mask))
