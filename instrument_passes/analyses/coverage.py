"""Which ops of a module the table of op classes covers, and what a span on each would mean."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from instrument_passes.analyses.opclasses import CLASSES, SPANNABLE, info_of
from instrument_passes.ir import Module

__all__ = ["Coverage", "coverage", "render"]


@dataclass(frozen=True)
class Coverage:
    """counts: ops by (class, name, what a span on it ends at); uncovered: first line and number by name."""

    counts: dict[tuple[str, str, str], int]
    uncovered: dict[str, tuple[int, int]]

    @property
    def summary(self) -> str:
        missing = sum(number for _, number in self.uncovered.values())
        total = sum(self.counts.values()) + missing
        classes = {cls for cls, _, _ in self.counts}
        return f"{total} ops, {len(classes)} classes, {missing} uncovered"


def coverage(module: Module) -> Coverage:
    """Classify every op in the module."""
    counts: Counter[tuple[str, str, str]] = Counter()
    uncovered: dict[str, tuple[int, int]] = {}
    for op in module.walk():
        info = info_of(op)
        if info is None:
            line, number = uncovered.get(op.name, (op.line, 0))
            uncovered[op.name] = (line, number + 1)
            continue
        end = "" if info.cls not in SPANNABLE else "completion" if info.completes else "issue"
        counts[info.cls, op.name, end] += 1
    return Coverage(dict(counts), uncovered)


def render(coverage: Coverage) -> str:
    """A table, classes in their own order, and the summary as its last line."""
    order = list(CLASSES)
    lines = [f"{'class':<12}{'ops':>6}  {'op':<40}a span ends at"]
    for (cls, name, end), number in sorted(coverage.counts.items(), key=lambda item: order.index(item[0][0])):
        lines.append(f"{cls:<12}{number:>6}  {name:<40}{end}".rstrip())
    for name, (line, number) in coverage.uncovered.items():
        lines.append(f"{'uncovered':<12}{number:>6}  {name:<40}first on line {line}")
    return "\n".join([*lines, coverage.summary]) + "\n"
