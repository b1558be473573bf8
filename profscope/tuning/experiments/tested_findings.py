"""Findings tested by experiments: what an experiment saved is the gain, or it refutes the finding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pandas as pd

from profscope.analysis.cause import NOISE_PCT, Quantity, cited
from profscope.analysis.rules.diagnose import RULES
from profscope.instrument_passes.ablation.rewrite import CONTIGUOUS, OFF

__all__ = ["with_experiments"]

_REFUTED_PCT: Final = 1.0
_GAIN: Final = ("gain_pct", "gain_low_pct", "gain_high_pct")
_SAVED: Final = ("saved_pct", "low_pct", "high_pct")


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
    # A repair of these changes what is around them, too.
    "layout-conversion": _Test(OFF, ("convert layout",), bounds=False),
    "serial-reduction": _Test(OFF, ("reduce",), bounds=False),
    "slow-math": _Test(OFF, ("precise", "div", "sqrt", "exp", "log", "sin", "cos")),
}


def with_experiments(findings: pd.DataFrame, experiments: pd.DataFrame) -> pd.DataFrame:
    """The findings; if an experiment at its line tests one, `tried` and `measured_pct` say which and what it
    saved. If it does what a repair would, its saving and interval are the gain; else the gain is at most
    that. Cycles of the emulator are no gain.

    A finding whose experiment saves nothing is left out: attrs["refuted"] has a line for each. An access that
    saves time at neighbouring addresses is a finding, also if nothing else was measured.
    """
    emulated = "kcycles" in experiments
    rows: list[dict[str, Any]] = []
    refuted: list[str] = []
    for given in findings.to_dict("records"):
        row = {str(name): value for name, value in given.items()}
        test = _TESTS.get(row["finding"])
        own = None if test is None else _at_line(experiments, row, test)
        if test is None or own is None:
            rows.append(row)
        elif test.repairs and own["high_pct"] < _REFUTED_PCT:
            saved = f"{test.how} saves {own['saved_pct']:.1f} %"
            refuted.append(f"{row['finding']} at line {row['line']}: {saved}")
        else:
            if not row["tried"]:
                row |= {"tried": f"{test.how} ({own['op']})", "measured_pct": own["saved_pct"]}
            if test.bounds and not emulated:
                row |= zip(_GAIN, _gain(row, own, repairs=test.repairs), strict=True)
            rows.append(row)
    told = pd.DataFrame(rows, columns=findings.columns).astype(findings.dtypes)
    found = _scattered(told, experiments)
    if len(found):
        told = pd.concat([told, found.reindex(columns=told.columns)]).astype(told.dtypes)
        told = told.sort_values("gain_pct", ascending=False, kind="stable", na_position="last")
    told.attrs = dict(findings.attrs) | {"refuted": refuted}
    return told.reset_index(drop=True)


def _scattered(findings: pd.DataFrame, experiments: pd.DataFrame) -> pd.DataFrame:
    """Findings of accesses that save time at neighbouring addresses and of which no finding says so."""
    named = findings[
        findings["finding"].isin(("uncoalesced-load", "uncoalesced-store", "unvectorized-access"))
    ]
    known = set(zip(named["file"], named["line"], strict=True))
    rows = []
    for row in experiments.to_dict("records"):
        place = row["file"], row["line"]
        if (
            row["experiment"] != CONTIGUOUS
            or not row["valid"]
            or row["low_pct"] < NOISE_PCT
            or place in known
        ):
            continue
        name = "uncoalesced-store" if row["op"].startswith("store") else "uncoalesced-load"
        evidence = cited(
            "with as many bytes at neighbouring addresses a launch takes {saved} less",
            saved=Quantity(row["saved_pct"], "% of the time"),
        )
        gains = dict.fromkeys(_GAIN, math.nan)
        if "us" in experiments:
            gains = {name: row[own] for name, own in zip(_GAIN, _SAVED, strict=True)}
        rows.append(
            {
                "kernel": row["kernel"], "variant": row["variant"], "finding": name, "file": row["file"],
                "line": row["line"], "evidence": evidence.text, "evidence_values": evidence.values,
                "advice": next(rule.advice for rule in RULES if rule.name == name), **gains,
                "program_pct": math.nan, "confidence": "high", "tried": f"{CONTIGUOUS} ({row['op']})",
                "measured_pct": row["saved_pct"],
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


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
        return [max(0.0, own[name]) for name in _SAVED]
    most = max(0.0, float(own["high_pct"]))
    given = [float(finding[name]) for name in _GAIN]
    if all(map(math.isnan, given)):
        return [math.nan, math.nan, most]
    return [min(each, most) for each in given]
