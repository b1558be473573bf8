"""The result of `explain`: the profile, the findings with the savings of their remedies, and all trials."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from profscope.analysis.breakdown import Account, apportioned, basis_text, time_accounts
from profscope.analysis.cause import FINDINGS_TITLE, between_text, gain_text
from profscope.analysis.estimates import ratio_of
from profscope.analysis.experiments import experiments_text
from profscope.analysis.line_rows import witnesses
from profscope.analysis.rules.tested import experiment_of
from profscope.experiments.arguments import DIFFERENT, TOLERANCE
from profscope.profiles import Profile
from profscope.tuning.remedies import REMEDIES
from profscope.tuning.trials import AS_LAUNCHED, Trial

__all__ = ["Explanation", "tries_table", "with_measured"]

_WIDTH: Final = 100
_MOST_FINDINGS: Final = 3
_NO_BREAK: Final = "\u00a0"
_CELLS: Final = "█▓▒░▚▖"


@dataclass(frozen=True, repr=False)
class Explanation:
    """kernel, variant: in `profile`, of the launch that is explained, also if it could not be recorded.
    `profile` has the table `experiments`, so its findings and its file have their measurements. findings: of
    the launch, as `profile.findings()`, and two columns more. tries: a row for each try, the fastest first.
    launched: the row of the launch. note: differences from the program's launch, else "".

    findings["tried"]: the best of the tries that a finding's advice names with the same results, else the
    experiment that tests it, "" if there is neither; measured_pct: its saving in percent of the bare time,
    missing if nothing was tried.

    tries: options; us, low_us, high_us: the bare time and its 95 % interval; same_results: "bit-equal",
    "close" (attrs["tolerance"]) or "different", as the first launch; finding: whose advice it is, "" if none;
    failed: why it was not timed, else "". attrs["unit"] is "us"; on the emulator it is "kcycles", thousands
    of cycles of its cost model, and the columns are kcycles, low_kcycles and high_kcycles. attrs["left_out"]:
    tries for which `limit_s` left no time.
    """

    kernel: str
    variant: int
    profile: Profile
    findings: pd.DataFrame
    tries: pd.DataFrame
    launched: str
    note: str

    @property
    def experiments(self) -> pd.DataFrame:
        """The cost of each line, measured by leaving it out: `profile.experiments`."""
        return self.profile.experiments

    @property
    def best(self) -> str:
        """The options of the fastest try with the same results; `launched` if none is surely faster."""
        unit = self.tries.attrs["unit"]
        own = self.tries[self.tries["options"] == self.launched].iloc[0]
        same = self.tries[(self.tries["failed"] == "") & (self.tries["same_results"] != DIFFERENT)]
        faster = same[same[f"high_{unit}"] < own[unit]]
        return str(faster["options"].iloc[0]) if len(faster) else self.launched

    def __repr__(self) -> str:
        return self.text()

    def text(self, most_findings: int | None = _MOST_FINDINGS) -> str:
        """The text that `print` shows. most_findings: None for all of them."""
        return "\n".join(self._lines(most_findings))

    def _lines(self, most: int | None) -> Iterator[str]:
        unit = self.tries.attrs["unit"]
        if self.profile.tables.emulated:
            yield "EMULATED: cycles of a cost model, not GPU time"
        own = self.tries[self.tries["options"] == self.launched].iloc[0]
        yield f"{self.kernel}, {self.launched}: {_interval(own, unit)} {unit}, bare"
        yield from textwrap.wrap(self.note, _WIDTH)
        yield from self._account()
        yield from self._findings(most)
        yield from experiments_text(self.experiments)
        yield from self._tries(unit)

    def _account(self) -> Iterator[str]:
        tables = self.profile.tables
        for account in time_accounts(tables, witnesses(tables), [(self.kernel, self.variant)]).values():
            yield from _bar(account)

    def _findings(self, most: int | None) -> Iterator[str]:
        if not len(self.findings):
            # Which has what experiments refute, too.
            yield from textwrap.wrap(next(iter(self.findings.attrs["clean"].values()), "no finding"), _WIDTH)
            return
        yield FINDINGS_TITLE
        for row in self.findings[:most].to_dict("records"):
            place = f" {row['file'].rpartition('/')[2]}:{row['line']}" if row["line"] else ""
            told = f"{gain_text(row['gain_pct']):>5}  {row['finding']}{place}"
            if between := between_text(row["gain_low_pct"], row["gain_high_pct"]):
                told += f" ({between})" if row["gain_pct"] else ""
            if row["tried"]:
                pct = row["measured_pct"]
                told += f"; {row['tried']} " + (
                    f"saved {pct:.1f} %" if pct >= 0 else f"cost {-pct:.1f} % more"
                )
                told += _beside_range(row)
            elif row["finding"] not in REMEDIES and row["gain_pct"] != 0:
                told += "; no option tests this: edit the kernel"
            yield told
            for text in (row["evidence"], f"Try: {row['advice']}"):
                yield from textwrap.wrap(text, _WIDTH, initial_indent=" " * 7, subsequent_indent=" " * 7)
        if most is not None and len(self.findings) > most:
            yield f"{len(self.findings) - most} more in .findings"
        for text in self.findings.attrs.get("refuted", ()):
            yield from textwrap.wrap(f"refuted by experiment: {text}", _WIDTH)

    def _tries(self, unit: str) -> Iterator[str]:
        shown = [
            (row["options"], _interval(row, unit), row["same_results"], row["finding"])
            for row in self.tries[self.tries["failed"] == ""].to_dict("records")
        ]
        time = unit if self.profile.tables.emulated else f"{unit} (95 %)"
        yield from _columns([("tried", time, "results", "for"), *shown])
        for row in self.tries[self.tries["failed"] != ""].to_dict("records"):
            yield from textwrap.wrap(f"{row['options']}: {row['failed']}", _WIDTH)
        if left := self.tries.attrs["left_out"]:
            yield f"out of time (limit_s=) before {', '.join(left)}"
        yield self._conclusion(unit)

    def _conclusion(self, unit: str) -> str:
        if self.best == self.launched:
            ran = self.tries[self.tries["failed"] == ""]
            if len(ran) > 1 and self.launched != AS_LAUNCHED:
                longer = 100 * (ran[unit].iloc[1] / ran[unit].iloc[0] - 1)
                return f"best: {self.launched}; the next takes {longer:.1f} % longer"
            faster = "nothing was tried"
            if len(ran) > 1:
                faster = "nothing that was tried is faster, with the same results"
            elif len(self.tries) > 1:
                faster = "nothing that was tried could be timed, as said above"
            elif not self.tries.attrs["left_out"]:
                faster += ": no option tests these findings; pass `vary=` to try constexprs"
            return f"best: {self.launched}; {faster}"
        times = self.tries.set_index("options")[unit]
        saved = 100 * (1 - times[self.best] / times[self.launched])
        suggested = (self.tries["finding"] != "") & (self.tries["options"] == self.best)
        explained = suggested.any() or (self.findings["gain_pct"] > 0).any()
        told = "" if explained else "; no finding explains that"
        return f"best: {self.best}, {saved:.1f} % less time{told}"


def _beside_range(row: Mapping[Any, Any]) -> str:
    """What to say of a finding if what its advice saved is not in the range that was predicted."""
    if row["measured_pct"] < row["gain_low_pct"]:
        return ", less than predicted"
    return ", more than predicted" if row["measured_pct"] > row["gain_high_pct"] else ""


def tries_table(tried: Sequence[Trial], unit: str, left_out: Sequence[str]) -> pd.DataFrame:
    """See `Explanation.tries`. tried: the first with a time is what others are compared with."""
    base = next(each.pairs for each in tried if each.pairs is not None)
    own = (*base.first, *base.second)
    bare = ratio_of([1.0] * len(own), own)
    rows = []
    for each in tried:
        interval: tuple[float | None, ...] = (None, None, None)
        if each.pairs is base:
            interval = tuple(bare)
        elif each.pairs is not None:
            interval = tuple(bare.ratio * share for share in each.pairs.ratio)
        finding = ", ".join(each.findings)
        rows.append((each.options, *interval, each.same_results, finding, each.failed))
    dtypes = {
        "options": "str", unit: "float64", f"low_{unit}": "float64", f"high_{unit}": "float64",
        "same_results": "str", "finding": "str", "failed": "str",
    }  # fmt: skip
    table = pd.DataFrame(rows, columns=list(dtypes)).astype(dtypes)
    table = table.sort_values(unit, kind="stable", na_position="last", ignore_index=True)
    table.attrs = {"unit": unit, "tolerance": TOLERANCE, "left_out": list(left_out)}
    return table


def with_measured(findings: pd.DataFrame, tried: Sequence[Trial], experiments: pd.DataFrame) -> pd.DataFrame:
    """The findings with the columns `tried` and `measured_pct`."""
    best: dict[str, Trial] = {}
    for each in tried:
        if each.saved_pct is None:
            continue
        for name in each.findings:
            if name not in best or each.saved_pct > (best[name].saved_pct or 0.0):
                best[name] = each
    own: list[tuple[str, float | None]] = []
    for name, file, line in zip(findings["finding"], findings["file"], findings["line"], strict=True):
        test = experiment_of(name, file, line, experiments)
        if name in best:
            own.append((best[name].options, best[name].saved_pct))
        elif test is not None:
            own.append((f"{test['experiment']} ({test['op']})", test["saved_pct"]))
        else:
            own.append(("", None))
    told = findings.copy()
    told.attrs = dict(findings.attrs)
    told["tried"] = pd.Series([options for options, _ in own], dtype="str")
    told["measured_pct"] = pd.Series([saved_pct for _, saved_pct in own], dtype="float64")
    return told


def _bar(account: Account) -> Iterator[str]:
    cells = apportioned(account.shares.values(), _WIDTH)
    symbols = [_CELLS[at % len(_CELLS)] for at in range(len(cells))]
    yield "".join(symbol * count for symbol, count in zip(symbols, cells, strict=True))
    named = zip(symbols, account.shares.items(), strict=True)
    parts = [f"{symbol} {name} {share:.0%}" for symbol, (name, share) in named]
    whole = [part.replace(" ", _NO_BREAK) for part in (*parts, f"(from {basis_text(account.basis)})")]
    yield from (line.replace(_NO_BREAK, " ") for line in textwrap.wrap("  ".join(whole), _WIDTH))


def _interval(row: Any, unit: str) -> str:
    """ "27.7 (27.5 to 28)", without an interval where it is a point."""
    time, low, high = row[unit], row[f"low_{unit}"], row[f"high_{unit}"]
    return f"{time:.4g}" if low == high else f"{time:.4g} ({low:.4g} to {high:.4g})"


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
