"""The sentence of a cause."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

__all__ = [
    "FINDINGS_TITLE",
    "NOISE_PCT",
    "NO_GAIN",
    "RESULT",
    "UNKNOWN_GAIN",
    "Basis",
    "Confidence",
    "Evidence",
    "Finding",
    "Gain",
    "Quantity",
    "between_text",
    "cited",
    "gain_text",
    "of_instructions",
    "of_peak",
    "of_samples",
    "qualified_text",
]

Confidence = Literal["high", "medium", "low"]
"""high: the time was measured as what the finding says it is. medium: it was measured, and a rule says what
it was spent on. low: the gain rests on a model of the hardware, or on few instances, or may be less than
`NOISE_PCT`, or hardware samples speak against it."""

Basis = Literal["measured", "modelled"]
"""Of a gain: an experiment saved it by doing what a repair would, or a rule's model says so."""

NOISE_PCT = 5.0
"""A gain below this is no finding. Where a compiler puts code moves a kernel by up to 3 % on an H100 and H200
(docs/benchmarks.md); the rest is for launches, which vary, too."""


class Gain(NamedTuple):
    """The saving without a cause, in percent of the kernel's time: to expect, at least and at most. If
    that is too uncertain to be stated, the first two are missing; if nothing is known, all three.

    roof: the resource that binds the kernel, if the cause uses it, and kept: the part of its use that stays.
    """

    expected: float
    low: float
    high: float
    roof: str = ""
    kept: float = 1.0


def gain_text(pct: float) -> str:
    return "gain unknown" if math.isnan(pct) else f"{pct:.0f} %"


FINDINGS_TITLE: Final = "Findings, and how much of the kernel's time fixing each saves"
"""What the percentages of findings are of, in every view."""


def _program_text(gain_pct: float, program_pct: float | None) -> str:
    """A gain of a kernel's time as one of the program's, to be said beside it: "23 % of all kernels' time".
    "" if that is unknown, or the same number."""
    if program_pct is None or math.isnan(program_pct) or math.isnan(gain_pct):
        return ""
    told = f"{program_pct:.0f}" if program_pct >= 1 or not gain_pct else f"{program_pct:.1f}"
    return f"{told} % of all kernels' time" if told != f"{gain_pct:.0f}" else ""


def between_text(low: float, high: float) -> str:
    """ "20 to 35 %", or "at most 35 %"; "" if neither is known."""
    if math.isnan(low):
        return "" if math.isnan(high) else f"at most {high:.0f} %"
    return f"{low:.0f} to {high:.0f} %"


def qualified_text(gain: Gain, program_pct: float | None, confidence: str, basis: str) -> str:
    """The text in brackets behind a gain: "20 to 35 % measured, 23 % of all kernels' time, confidence: high";
    "modelled" is left out. A roof has nothing to save, so it has no bounds."""
    between = between_text(gain.low, gain.high) if gain.expected != 0 else ""
    between += " measured" * (basis == "measured" and between != "")
    parts = (between, _program_text(gain.expected, program_pct), f"confidence: {confidence}")
    return ", ".join(filter(None, parts))


NO_GAIN = Gain(0.0, 0.0, 0.0)
"""Of a roof that is reached."""
UNKNOWN_GAIN = Gain(math.nan, math.nan, math.nan)

RESULT: Final = "-bound"
"""How the name of a finding ends that says what a kernel has reached: no fault, and no gain."""


class Quantity(NamedTuple):
    """A value and its unit, such as 16,777,216 sectors or 90 % of samples."""

    value: float
    unit: str

    def __str__(self) -> str:
        is_exact = self.unit.startswith("%") or abs(self.value) >= 10
        value = f"{self.value:,.0f}" if is_exact else f"{self.value:.3g}"
        is_one = self.value == 1 and self.unit.endswith("s") and self.unit != "times"
        return f"{value} {self.unit[:-1] if is_one else self.unit}"


@dataclass(frozen=True)
class Evidence:
    """Quantities, and the sentence that cites them.

    sentence: with a field for each of `quantities` and `names`. names: fields that are no numbers, such as an
    op.
    """

    sentence: str
    quantities: Mapping[str, Quantity]
    names: Mapping[str, str]

    @property
    def text(self) -> str:
        return self.sentence.format(**self.quantities, **self.names)

    def beside(self, more: Evidence) -> Evidence:
        """Both sentences."""
        return Evidence(
            f"{self.sentence}; {more.sentence}",
            {**self.quantities, **more.quantities},
            {**self.names, **more.names},
        )

    @property
    def values(self) -> dict[str, dict[str, Any]]:
        """By quantity its value and unit."""
        return {name: quantity._asdict() for name, quantity in self.quantities.items()}


def cited(sentence: str, /, **cites: Quantity | str) -> Evidence:
    """A sentence and its fields: quantities, and names."""
    quantities = {name: each for name, each in cites.items() if isinstance(each, Quantity)}
    return Evidence(
        sentence, quantities, {name: each for name, each in cites.items() if isinstance(each, str)}
    )


def of_samples(share: float) -> Quantity:
    return Quantity(100 * share, "% of samples")


def of_instructions(share: float) -> Quantity:
    return Quantity(100 * share, "% of instructions")


def of_peak(share: float) -> Quantity:
    return Quantity(100 * share, "% of peak")


@dataclass(frozen=True)
class Finding:
    """One row of `findings()` without kernel and variant: see there. weight: orders rows, in percent of the
    kernel's time: the gain, also if it is too uncertain to be stated; on the emulator, the cycles at the
    line. basis: of the gain."""

    finding: str
    file: str
    line: int
    evidence: Evidence
    advice: str
    gain: Gain
    confidence: Confidence
    weight: float = 0.0
    basis: Basis = "modelled"
