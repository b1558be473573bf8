"""A part of a CTA's time, as `--zoom` takes it: "1.5us:3us", "900:2k", "900:" to the end."""

import math
import re
from dataclasses import dataclass

from profscope.errors import OptionError, TraceError
from viewer.units import STEPS, duration_text

__all__ = ["Zoom", "parse_zoom"]

TIME = r"(?:(\d+(?:\.\d*)?|\.\d+)([a-zA-Z]*))?"
RANGE = re.compile(f"{TIME}:{TIME}", re.ASCII)
SCALES = {name: (unit, scale) for unit, steps in STEPS.items() for name, scale in steps if name}


@dataclass(frozen=True)
class Point:
    """A time since the CTA's start, in "ns" or "cycles"; unit "": in what the view is in."""

    value: float
    unit: str

    def to(self, unit: str, clock_ghz: float) -> int:
        """In `unit`, by the launch's clock where that is the other one."""
        if self.unit in ("", unit):
            return round(self.value)
        if not (math.isfinite(clock_ghz) and clock_ghz > 0):
            raise TraceError(
                f"--zoom is in {self.unit} and the view in {unit}; the launch's clock is not known"
            )
        return round(self.value * clock_ghz if unit == "cycles" else self.value / clock_ghz)


@dataclass(frozen=True)
class Zoom:
    """From one time to another; None: from the start, to the end."""

    begin: Point | None
    end: Point | None

    def within(self, duration: int, unit: str, clock_ghz: float) -> tuple[int, int]:
        """Begin and end in `unit`, in a CTA that takes `duration`; TraceError if no part of it is meant."""
        begin = self.begin.to(unit, clock_ghz) if self.begin else 0
        end = self.end.to(unit, clock_ghz) if self.end else duration
        if begin >= duration:
            took, asked = duration_text(duration, unit), duration_text(begin, unit)
            raise TraceError(f"--zoom begins at {asked}{_cycles(unit)}; the CTA takes {took}{_cycles(unit)}")
        if begin >= end:
            raise OptionError(f"--zoom ends before it begins, or where it does: {begin}:{end} {unit}")
        return begin, end


def parse_zoom(text: str) -> Zoom:
    """A range of time as the command line has it. Raises OptionError for anything else."""
    match = RANGE.fullmatch(text.replace(" ", ""))
    units = {"", *SCALES}
    if match and (match[1] or match[3]) and {match[2] or "", match[4] or ""} <= units:
        begin, end = _point(match[1], match[2]), _point(match[3], match[4])
        if not (begin and end and begin.unit == end.unit and begin.value >= end.value):
            return Zoom(begin, end)
    raise OptionError(f"not a range of time: {text!r}; write it like 1us:2us, 900:2k (cycles) or 900:")


def _point(number: str | None, name: str) -> Point | None:
    if number is None:
        return None
    unit, scale = SCALES.get(name, ("", 1))
    return Point(float(number) * scale, unit)


def _cycles(unit: str) -> str:
    return " cycles" if unit == "cycles" else ""
