"""Rules: each has the evidence that it needs, the places where it holds, the table without its cause, and a
sentence.

    Rule("bank-conflict", {"counts", "waits"}, _conflicts,
         text="{ratio} the wavefronts that its bytes need ...", advice="a swizzled or padded layout")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from profscope.analysis.cause import Confidence, Quantity
from profscope.analysis.evidence_table import Place
from profscope.analysis.resources import Edit
from profscope.analysis.rules.kernel import Kernel

__all__ = ["BY_BINARY", "HOPPER", "Rule", "Where"]

HOPPER: Final = frozenset({90})
"""Compute capability 9.0, with wgmma."""
BY_BINARY: Final = "; by the binary alone, so what it costs is unknown"
"""How sentences of rules without a gain end."""


@dataclass(frozen=True)
class Where:
    """A place at which a rule holds. place: the line that is named. edit: the table without the cause; None
    if its gain is unknown. cites: what stands in the fields of the sentence. name, advice: in place of the
    rule's, if it has several."""

    place: Place
    edit: Edit | None
    cites: Mapping[str, Quantity | str] = field(default_factory=dict)
    name: str = ""
    advice: str = ""


@dataclass(frozen=True)
class Rule:
    """name: of its findings. needs: of `kernel.WITNESSES`, who must have seen the kernel. where: yields each
    place at which it holds. architectures: compute capabilities for which it holds; None for all. unless: it
    is for kernels that not all of these witnesses have seen. of_launch: whether it is about the launch as a
    whole, not about rows of the table."""

    name: str
    needs: frozenset[str]
    where: Callable[[Kernel], Iterator[Where]]
    text: str
    advice: str
    confidence: Confidence = "medium"
    architectures: frozenset[int] | None = None
    unless: frozenset[str] | None = None
    of_launch: bool = False

    def is_silent(self, kernel: Kernel) -> str:
        """Why it is not asked; "" if it is."""
        if not kernel.known.issuperset(self.needs):
            return "evidence"
        if self.unless is not None and kernel.known.issuperset(self.unless):
            return "better evidence"
        if self.architectures is not None and kernel.capability not in self.architectures:
            return "architecture"
        return ""
