"""Words of a comparison that the terminal and the page share."""

from collections.abc import Mapping
from typing import Any

from profscope.analysis.quantities import three_digits

__all__ = ["heading_text", "program_text", "status_text"]


def heading_text(kernel: str, configuration: str, differs: str) -> str:
    """What is compared: "matmul_kernel, ACT=1 (num_stages 3 -> 1)"."""
    name = f"{kernel}, {configuration}" if configuration else kernel
    return f"{name} ({differs})" if differs else name


def program_text(program: Mapping[str, Any], unit: str) -> str:
    """The time of all recorded launches, and the parts of it that changed or were not judged.

    program: entry "program" of a comparison's attrs.
    """
    total_a, total_b = program["total_a"], program["total_b"]
    changed, not_judged = ((program[f"{name}_a"], program[f"{name}_b"]) for name in ("changed", "not_judged"))
    launches = program["launches_a"], program["launches_b"]
    how_many = "" if launches[0] == launches[1] else f", {launches[0]:,} and {launches[1]:,} launches"
    by = f" ({total_b / total_a - 1:+.1%})" if total_a > 0 and not how_many else ""
    same = "no launch changed" if how_many else "nothing changed"
    text = f"{_duration(total_a, unit)} in A, {_duration(total_b, unit)} in B{by}{how_many}; "
    text += f"changed: {_parts(changed)}" if any(changed) else same
    return f"{text} (not judged: {_parts(not_judged)})" if any(not_judged) else text


def _duration(value: float, unit: str) -> str:
    number, name = three_digits(value, unit)
    return f"{number} {name}" if unit == "ns" else f"{number}{name} cycles"


def _parts(parts: tuple[float, float]) -> str:
    return f"{parts[0]:.1%} of A, {parts[1]:.1%} of B"


def status_text(status: str, change: float, *, significant: bool) -> str:
    """ "noise" for a change that is no more than that. What takes no time and is gone "went": it is not the
    same. status, change, significant: as `profscope.diff()` has them."""
    return "noise" if change and not significant else status
