"""The rows of one pair of variants, each with the figures of either side and the test of its change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from profscope.analysis.comparing.chance import Sample, compared, sample_of_ctas, sample_of_launches
from profscope.analysis.comparing.figures import Durations, Figures
from profscope.analysis.comparing.floors import Floor
from profscope.analysis.comparing.places import Lines, matched
from profscope.analysis.span_rows import Floats, Ints

__all__ = ["LAUNCH", "Operand", "alone", "tested"]

LAUNCH = "launch"
"""The kind of the row that compares whole launches."""


@dataclass(frozen=True, eq=False)
class Operand:
    """One side of a pair: its rows' figures, and what whole launches took."""

    figures: Figures
    durations: Durations

    @property
    def is_single(self) -> bool:
        """Whether one launch is all there is."""
        return len(self.figures.launches) < 2 and len(self.durations.took) < 2


def tested(kernel: str, a: Operand, b: Operand, lines: Lines, floor: Floor, *, exact: bool) -> pd.DataFrame:
    """Columns of `differences` but for the variants and those that follow from all rows; and `probability`.

    exact: whether figures have no noise, as the emulator's.
    """
    parts = [_of_launches(kernel, a.durations, b.durations, floor, exact=exact)]
    parts += [_of_rows(kernel, a.figures, b.figures, lines, floor, exact=exact)]
    return pd.concat([part for part in parts if len(part)], ignore_index=True)


def alone(kernel: str, durations: Durations, *, in_b: bool) -> pd.DataFrame:
    """The row of a variant that is in one profile only."""
    took = sample_of_launches(durations.took[None, :]).mean if len(durations.took) else np.zeros(1)
    side, other = ("b", "a") if in_b else ("a", "b")
    change = took if in_b else -took
    row = {"kernel": kernel, "scope": kernel, "kind": LAUNCH, "status": "appeared" if in_b else "went"}
    figures: dict[str, Any] = {"change": change, "low": change, "high": change, "probability": 0.0}
    figures["percent"] = np.nan if in_b else -100.0
    figures |= {f"self_{side}": took, f"total_{side}": took, f"count_{side}": 1.0}
    figures |= {f"self_{other}": 0.0, f"total_{other}": 0.0, f"count_{other}": 0.0}
    figures |= {f"launches_{side}": len(durations.took), f"launches_{other}": 0}
    return pd.DataFrame(row | {"file": "", "line_a": 0, "line_b": 0, "call_path": ""} | figures, index=[0])


def _of_launches(kernel: str, a: Durations, b: Durations, floor: Floor, *, exact: bool) -> pd.DataFrame:
    if not len(a.took) or not len(b.took):
        return pd.DataFrame()
    samples = [sample_of_launches(each.took[None, :]) for each in (a, b)]
    size = floor.relative * np.maximum(samples[0].mean, samples[1].mean) + a.unsure + b.unsure
    table = _with_tests(samples[0], samples[1], size, exact=exact)
    place: dict[str, Any] = {
        "kernel": kernel,
        "scope": kernel,
        "kind": LAUNCH,
        "file": "",
        "line_a": 0,
        "line_b": 0,
        "call_path": "",
    }
    figures = {
        f"{name}_{side}": each.mean
        for name in ("self", "total")
        for side, each in zip("ab", samples, strict=True)
    }
    counts = {"count_a": 1.0, "count_b": 1.0, "launches_a": len(a.took), "launches_b": len(b.took)}
    return table.assign(**place, **figures, **counts, status="same")


def _of_rows(kernel: str, a: Figures, b: Figures, lines: Lines, floor: Floor, *, exact: bool) -> pd.DataFrame:
    if a.places.empty or b.places.empty:
        return pd.DataFrame()
    pairs = matched(a.places, b.places, lines)
    row_a, row_b = (
        np.array([-1 if pair[at] is None else pair[at] for pair in pairs], np.int64) for at in (0, 1)
    )
    in_a, in_b = row_a >= 0, row_b >= 0
    place_a, place_b = a.places.iloc[row_a], b.places.iloc[row_b]
    place: dict[str, Any] = {
        name: np.where(in_b, place_b[name].astype("str").to_numpy(), place_a[name].astype("str").to_numpy())
        for name in ("scope", "kind", "file", "call_path")
    }
    in_flight = place["kind"] == "async"
    totals = [_taken(each.total, row) for each, row in ((a, row_a), (b, row_b))]
    owns = [_taken(each.own, row) for each, row in ((a, row_a), (b, row_b))]
    if a.ctas is not None and b.ctas is not None:
        samples = [
            sample_of_ctas(_taken(each.ctas, row), each.scale)
            for each, row in ((a, row_a), (b, row_b))
            if each.ctas is not None
        ]
    else:
        samples = [
            sample_of_launches(np.where(in_flight[:, None], total, own))
            for total, own in zip(totals, owns, strict=True)
        ]
    size = floor.relative * np.maximum(samples[0].mean, samples[1].mean)
    size += floor.share * max(a.warp_time, b.warp_time)
    table = _with_tests(samples[0], samples[1], size, exact=exact).assign(kernel=kernel, **place)
    for side, figures, row, own, total in zip("ab", (a, b), (row_a, row_b), owns, totals, strict=True):
        table[f"self_{side}"] = sample_of_launches(own).mean
        table[f"total_{side}"] = sample_of_launches(total).mean
        table[f"count_{side}"] = _taken(figures.count, row).mean(axis=1)
        table[f"launches_{side}"] = len(figures.launches)
    table["line_a"] = np.where(in_a, place_a["line"].to_numpy(), 0)
    table["line_b"] = np.where(in_b, place_b["line"].to_numpy(), 0)
    table["status"] = np.where(in_a & in_b, "same", np.where(in_b, "appeared", "went"))
    return table


def _with_tests(a: Sample, b: Sample, floor: Floats, *, exact: bool) -> pd.DataFrame:
    if exact:
        a, b = (Sample(each.mean, np.zeros(len(each)), np.ones(len(each))) for each in (a, b))
    test = compared(a, b, floor)
    columns = {"change": test.change, "low": test.low, "high": test.high, "probability": test.probability}
    with np.errstate(divide="ignore", invalid="ignore"):
        percent = np.where(a.mean > 0, 100 * test.change / a.mean, np.nan)
    return pd.DataFrame(columns | {"percent": percent})


def _taken(figures: Floats, rows: Ints) -> Floats:
    """The figures of rows; zeros for a row that is not there, -1."""
    with_none = np.vstack([figures, np.zeros((1, figures.shape[1]))])
    return np.asarray(with_none[rows], np.float64)
