"""What is known of each source line of a kernel, from all that was asked."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from profscope.analysis.line_rows import GAP
from profscope.traces.html.figures import count_text, duration_text
from profscope.traces.html.kernels import Kernel
from profscope.traces.html.sites import Pairing, Sites

__all__ = ["LineFigures", "ScopeFigures", "figures_of"]


@dataclass(frozen=True)
class ScopeFigures:
    """A row of the summary, and what its spans say besides. waits: what it starts or ends, in words."""

    row: dict[str, Any]
    stages: str
    pairings: list[tuple[Pairing, str, int]]
    """Each with the scope and the line of the other side."""


@dataclass
class LineFigures:
    """shares: by column of `lines()`, over all call paths to the line; order: those columns, the one that is
    shown first. rows: those of `lines()`, one for each call path. scopes: the heaviest first."""

    file: str
    line: int
    shares: dict[str, float] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    scopes: list[ScopeFigures] = field(default_factory=list)
    order: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        return next((self.shares[name] for name in self.order if name in self.shares), 0.0)

    def count_and_self(self, unit: str) -> tuple[str, str]:
        """In words `_count_and_self`; "" where there are no spans."""
        count, took = self._count_and_self(unit)
        return (count_text(count), duration_text(took / count, unit)) if count else ("", "")

    def has_no_time(self, unit: str) -> bool:
        """Whether there are spans, and what they took is no more than what records did."""
        count, took = self._count_and_self(unit)
        return bool(count) and not took

    def _count_and_self(self, unit: str) -> tuple[int, int]:
        """Of the scope with most self time, all call paths to it together: how many spans there are in all
        launches, and their self time."""
        sums: dict[tuple[str, str], list[int]] = {}
        for each in self.scopes:
            if each.row["kind"] not in ("async", GAP):
                own = sums.setdefault((each.row["scope"], each.row["kind"]), [0, 0])
                own[0] += int(each.row["count"])
                own[1] += int(each.row[f"self_{unit}"] or 0)
        count, took = max(sums.values(), key=lambda own: own[1], default=[0, 0])
        return count, took

    @property
    def wait_text(self) -> str:
        """What the line waits for: by samples where there are some, else by what its waits ended."""
        told = [row["waits_for"] for row in self.rows if row["waits_for"]]
        if told:
            return str(told[0])
        ended = [
            f"{scope}, line {line}"
            for each in self.scopes
            for pairing, scope, line in each.pairings
            if each.row["site"] == pairing.wait and pairing.waiting > 0
        ]
        return "; ".join(dict.fromkeys(ended))


def figures_of(kernel: Kernel, sites: Sites, witnesses: list[str]) -> list[LineFigures]:
    """One for each line of which anything is known, in the order of the file."""
    known: dict[tuple[str, int], LineFigures] = {}

    def at(row: dict[str, Any]) -> LineFigures:
        place = str(row["file"]), int(row["line"])
        return known.setdefault(place, LineFigures(*place, order=tuple(witnesses)))

    for row in _plain(kernel.lines):
        own = at(row)
        own.rows.append(row)
    for line in () if kernel.entry.lines is None else kernel.entry.lines.rows:
        shares = {"share_samples": line.sample_share, "self_share": line.self_share}
        own = at({"file": line.file, "line": line.line})
        own.shares = {name: share for name in witnesses if (share := shares[name]) is not None}
    numbers = _numbers(sites, kernel.kernel)
    pairings = _by_site(sites)
    for row in sorted(_plain(kernel.summary), key=lambda each: -(each["self_ns"] or 0)):
        number = numbers.get(tuple(row[name] for name in _PLACE), -1)
        stages = sites.stages[number] if number >= 0 else ""
        at(row).scopes.append(ScopeFigures({**row, "site": number}, stages, pairings.get(number, [])))
    return [known[place] for place in sorted(known)]


_PLACE = ("scope", "kind", "file", "line", "call_path")


def _plain(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows with None for what is missing."""
    rows: list[dict[str, Any]] = table.to_dict("records")  # type: ignore[assignment]
    return [
        {name: None if not isinstance(v, list | dict) and pd.isna(v) else v for name, v in row.items()}
        for row in rows
    ]


def _numbers(sites: Sites, kernel: str) -> dict[tuple[Any, ...], int]:
    own = sites.table[sites.table["kernel"].astype("str") == kernel]
    places = zip(*(own[name].tolist() for name in _PLACE), strict=True)
    return dict(zip(places, own.index.tolist(), strict=True))


def _by_site(sites: Sites) -> dict[int, list[tuple[Pairing, str, int]]]:
    scopes, lines = sites.table["scope"].astype("str").tolist(), sites.table["line"].tolist()
    told = defaultdict(list)
    for each in sites.pairings:
        told[each.issue].append((each, scopes[each.wait], int(lines[each.wait])))
        told[each.wait].append((each, scopes[each.issue], int(lines[each.issue])))
    return told
