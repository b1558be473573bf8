"""Findings beside the experiments at their lines: what one saved is the gain, what it refutes goes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pandas as pd

from profscope.instrument_passes.passes.ablate import CONTIGUOUS, OFF

__all__ = ["checked"]

_REFUTED_PCT: Final = 1.0


class _Test(NamedTuple):
    """how: the experiment. ops: how the names of its ops begin. repairs: whether it does what a repair does.
    bounds: whether no repair saves more."""

    how: str
    ops: tuple[str, ...]
    repairs: bool = False
    bounds: bool = True


_TESTS: Final[Mapping[str, _Test]] = {
    "uncoalesced-load": _Test(CONTIGUOUS, ("load", "async copy"), repairs=True),
    "uncoalesced-store": _Test(CONTIGUOUS, ("store",), repairs=True),
    "atomics": _Test(OFF, ("atomic",)),
    # Without a conversion a kernel may need less shared memory, too, and what is around it moves.
    "layout-conversion": _Test(OFF, ("convert layout",), bounds=False),
    "serial-reduction": _Test(OFF, ("reduce",)),
    "slow-math": _Test(OFF, ("precise", "div", "sqrt", "exp", "log", "sin", "cos")),
}


def checked(findings: pd.DataFrame, experiments: pd.DataFrame) -> pd.DataFrame:
    """The findings; if an experiment at its line tests one, `tried` and `measured_pct` say which and what it
    saved. If it does what a repair would, its saving and interval are the gain; else the gain is at most
    that. Cycles of the emulator are no gain.

    A finding whose experiment saves nothing is left out: attrs["refuted"] has a line for each.
    """
    told, refuted = findings.copy(), []
    told.attrs = dict(findings.attrs)
    emulated = "kcycles" in experiments
    for at, row in findings.iterrows():
        test = _TESTS.get(str(row["finding"]))
        own = None if test is None else _at_line(experiments, row, test)
        if test is None or own is None:
            continue
        if own["high_pct"] < _REFUTED_PCT and test.repairs:
            refuted.append(
                f"{row['finding']} at line {row['line']}: {test.how} saves {own['saved_pct']:.1f} %"
            )
            told = told.drop(index=at)
            continue
        if not told.loc[at, "tried"]:
            told.loc[at, ["tried", "measured_pct"]] = [f"{test.how} ({own['op']})", own["saved_pct"]]
        if test.bounds and not emulated:
            gain = _gain(row, own, repairs=test.repairs)
            told.loc[at, ["gain_pct", "gain_low_pct", "gain_high_pct"]] = gain
    told.attrs["refuted"] = refuted
    return told.reset_index(drop=True)


def _at_line(experiments: pd.DataFrame, finding: Any, test: _Test) -> pd.Series[Any] | None:
    """The valid experiment of this kind at the finding's line that saved most; None if there is none."""
    at_line = experiments[
        experiments["valid"]
        & (experiments["experiment"] == test.how)
        & (experiments["line"] == finding["line"])
        & (experiments["file"] == finding["file"])
        & experiments["op"].str.startswith(test.ops)
    ]
    return None if not len(at_line) else at_line.loc[at_line["saved_pct"].idxmax()]


def _gain(finding: Any, own: Any, *, repairs: bool) -> list[float]:
    """Gain, and the ends of its interval."""
    if repairs:
        return [max(0.0, own[name]) for name in ("saved_pct", "low_pct", "high_pct")]
    most = max(0.0, float(own["high_pct"]))
    given = [float(finding[name]) for name in ("gain_pct", "gain_low_pct", "gain_high_pct")]
    if all(map(math.isnan, given)):
        return [math.nan, math.nan, most]
    return [min(each, most) for each in given]
