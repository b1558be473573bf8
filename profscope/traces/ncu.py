"""Nsight Compute's raw page as CSV: what it measured of each kernel.

    ncu --csv --page raw --import report.ncu-rep > report.csv      or, as it measures,
    ncu --csv --page raw python train.py > report.csv

A row of names, a row of units, then one row a launch; each value is quoted, and thousands may be set apart by
commas. Lines of ncu's own (`==PROF==`) and of the program may stand before and after. The columns up to the
metrics differ between versions; "ID" and "Kernel Name" have always been there.
"""

import csv
import math
import re
from pathlib import Path
from typing import Any, NamedTuple

from profscope.errors import TraceError
from profscope.traces.trace_file import one_line

__all__ = ["Measured", "read_ncu"]

HOW = "ncu --csv --page raw --import report.ncu-rep > report.csv writes one"
FIRST = ("ID", "Kernel Name")
MOST_BYTES = 1 << 28

_SCALES = {"T": 1e12, "G": 1e9, "M": 1e6, "K": 1e3, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_BASES = frozenset({"byte", "byte/second", "byte/s", "byte/block", "B", "B/s", "hz", "Hz", "second", "s"})


class Measured(NamedTuple):
    """A launch. grid, block: None where the file does not say. metrics: by name the value, in the unit's base
    (bytes, seconds, hertz), and the unit."""

    kernel: str
    grid: tuple[int, ...] | None
    block: tuple[int, ...] | None
    metrics: dict[str, tuple[float, str]]


def read_ncu(path: str | Path) -> list[Measured]:
    """The launches in a file, in its order, which is that in which they ran.

    Raises TraceError for a file that cannot be read or is none of these.
    """
    path = Path(path)
    rows = _rows(path)
    at = next((at for at, row in enumerate(rows) if set(FIRST) <= set(row)), None)
    if at is None:
        raise TraceError(f"{one_line(path)} is no CSV of Nsight Compute's raw page; {HOW}")
    header = rows[at]
    if "Metric Name" in header:
        raise TraceError(f"{one_line(path)} has one row a metric, and not Nsight Compute's raw page; {HOW}")
    body = [dict(zip(header, row, strict=True)) for row in rows[at + 1 :] if len(row) == len(header)]
    units = body[0] if body and not body[0]["ID"] else {}
    launches = [_launch(row, units) for row in body if row["ID"].isdigit()]
    if not launches:
        raise TraceError(f"{one_line(path)} has no launch: Nsight Compute measured none")
    return launches


def _rows(path: Path) -> list[list[str]]:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise TraceError(f"{one_line(path)} is larger than any CSV of Nsight Compute's")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TraceError(f"cannot read {one_line(path)}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{one_line(path)} is not text but, if anything, a report; {HOW}") from error
    try:  # line by line: what a program prints in between may have quotes that are never closed
        return [row for line in text.splitlines() for row in csv.reader([line])]
    except csv.Error as error:
        raise TraceError(f"{one_line(path)} is no CSV: {error}; {HOW}") from error


def _launch(row: dict[str, str], units: dict[str, str]) -> Measured:
    metrics = {}
    for name, text in row.items():
        if "__" in name and (value := _number(text)) is not None:
            plain, _, bracketed = name.partition(" [")
            scale, unit = _unit(bracketed.rstrip("]") or units.get(name, ""))
            metrics[plain] = value * scale, unit
    kernel = row["Kernel Name"].partition("(")[0].strip()
    return Measured(kernel, _size(row, metrics, "grid"), _size(row, metrics, "block"), metrics)


def _number(text: str) -> float | None:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _unit(text: str) -> tuple[float, str]:
    """What to multiply values by, and their unit then: 1e3 and byte for Kbyte."""
    if text[1:] in _BASES and text[:1] in _SCALES:
        return _SCALES[text[0]], text[1:]
    return 1.0, text


def _size(row: dict[str, str], metrics: dict[str, Any], what: str) -> tuple[int, ...] | None:
    """Of a grid or a block, x, y and z: a column such as "(256, 1, 1)", in older versions three metrics."""
    numbers = re.findall(r"\d+", row.get(f"{what.title()} Size", ""))
    if len(numbers) == 3:
        return tuple(map(int, numbers))
    names = [f"launch__{what}_dim_{axis}" for axis in "xyz"]
    return tuple(int(metrics[name][0]) for name in names) if all(name in metrics for name in names) else None
