"""Findings of the corpus' recordings against the faults that its kernels have: how many are right.

    python -m bench.diagnose                 the recordings of the repository; needs no GPU
    python -m bench.diagnose --corpus DIR    those of another folder: bench/corpus/without_counters has
                                             experiments instead of counters; bench/corpus/recordings of
                                             `git worktree add DIR 1a7651aa` has 712 kernels
    python -m bench.diagnose --live DIR      record the kernels on this machine's GPU into DIR, and judge
                                             that; with --without-counters by what needs no permission
    python -m bench.diagnose --fit           fit the intervals of gains (`rules/intervals.py`)

`times.json` beside the recordings has the expected causes and lines, and what fixing the fault saved. A case
is right if the first finding names the cause and the line; a kernel without a fault must have no finding but
what it is bound by. Faults that cost less than 10 % are not judged.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import profscope
from bench.corpus.cases import CASES
from bench.corpus.recording import RECORDINGS, WITHOUT_COUNTERS, prepared, record
from bench.kernels import surroundings
from profscope.analysis.cause import RESULT
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, kernel_analyses
from profscope.analysis.rules.diagnose import diagnose
from profscope.analysis.rules.intervals import SPREADS, angle, kind_of, share_of
from profscope.analysis.rules.kernel import kernel_of
from profscope.analysis.rules.thresholds import WIDEST_PCT
from profscope.profiles import Profile, load

__all__ = [
    "RECORDINGS",
    "WITHOUT_COUNTERS",
    "Judged",
    "cases",
    "emulated",
    "judge",
    "main",
    "spreads",
    "totals",
]

_LEAST_REAL_PCT: Final = 10.0  # what fixing must bring for a fault to be judged
_WITHIN: Final = 1.5  # times the real gain, or the real gain times the predicted one
_SHOWN: Final = 3  # findings of a row
# A fault of the launch has no line.
_OF_LAUNCHES: Final = ("idle-sms", "tail", "tiny-ctas", "low-occupancy", "too-many-warps")
# What a small launch, as the emulator's are, has whatever the kernel.
_OF_SIZE: Final = ("idle-sms", "tail", "tiny-ctas")
# Faults of a product may stand at the product as well as at what it is given.
_OF_DOTS: Final = (
    "small-mma", "no-tensor-cores", "mma-not-overlapped", "partition-starved", "too-many-warps",
)  # fmt: skip

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Judged:
    """A case and its findings.

    real_pct: what fixing it brought; NaN if unknown, None for a kernel without a fault. bounds: of the gain
    of the first finding.
    """

    name: str
    causes: tuple[str, ...]
    real_pct: float | None
    found: tuple[tuple[str, int, float], ...]
    bounds: tuple[float, float]
    right_cause: bool
    right_line: bool

    @property
    def listed_only(self) -> bool:
        """Whether the fault costs too little to be judged."""
        return self.real_pct is not None and self.real_pct < _LEAST_REAL_PCT

    @property
    def false(self) -> bool:
        """Whether a kernel without a fault has a finding."""
        return self.real_pct is None and any(not name.endswith(RESULT) for name, _, _ in self.found)

    @property
    def gain_is_near(self) -> bool:
        """Whether the first finding's gain and the real one are alike."""
        if self.real_pct is None or not self.found:
            return False
        return self.real_pct / _WITHIN <= self.found[0][2] <= self.real_pct * _WITHIN

    @property
    def gain_is_between(self) -> bool:
        """Whether the real gain is in the first finding's interval."""
        return self.real_pct is not None and self.bounds[0] <= self.real_pct <= self.bounds[1]


def cases(folder: Path = RECORDINGS) -> list[dict[str, Any]]:
    """Rows of `times.json`: name, causes, lines, file in the folder, and gain, a share of the time."""
    rows: list[dict[str, Any]] = json.loads((folder / "times.json").read_text())["rows"]
    return rows


def emulated(name: str) -> Judged:
    """What is found of a case that the emulator runs, small."""
    case = CASES[name]
    with surroundings():
        launch = prepared(case.prepare, True)
        with profscope.session() as profile:
            launch()
    row = {"name": name, "causes": case.causes, "lines": case.lines, "gain": math.nan}
    return judge(row, profile.profile, besides=_OF_SIZE)


def judge(case: Mapping[str, Any], profile: Profile, besides: Collection[str] = ()) -> Judged:
    """A row of `times.json` and its recording. besides: findings that are left out."""
    table = profile.findings()
    table = table[~table["finding"].isin(besides)]
    found = tuple(table[["finding", "line", "gain_pct"]].itertuples(index=False, name=None))
    cause, line = found[0][:2] if found else ("", 0)
    bounds = tuple(table[["gain_low_pct", "gain_high_pct"]].iloc[0]) if found else (0.0, 0.0)
    # What is loaded twice is loaded at two lines, either of which can go: the finding names both.
    earlier = re.search(r"line (\d+) already loaded", " ".join(table["evidence"].head(1)))
    line = int(earlier[1]) if earlier and int(earlier[1]) in case["lines"] else line
    lines = {
        *_lines_of_statements(profile, case["lines"]),
        *_lines_called(profile, case["lines"]),
        *(_lines_of_dots(profile) if cause in _OF_DOTS else ()),
    }
    return Judged(
        case["name"],
        tuple(case["causes"]),
        100 * case["gain"] if case["causes"] else None,
        found,
        bounds,
        cause in case["causes"],
        not case["lines"] or cause in _OF_LAUNCHES or line in lines,
    )


def totals(judged: Sequence[Judged]) -> dict[str, tuple[int, int]]:
    """How many of how many."""
    faults = [each for each in judged if each.real_pct is not None and not each.listed_only]
    faultless = [each for each in judged if each.real_pct is None]
    named = [each for each in faults if each.right_cause]
    stated = [each for each in named if each.found and not math.isnan(each.found[0][2])]
    found = {
        "first finding right, cause and line": (sum(each.right_line for each in named), len(faults)),
        "kernels without a fault that have a finding": (
            sum(each.false for each in faultless),
            len(faultless),
        ),
    }
    if stated:
        found |= {
            f"gain within {_WITHIN} times the real one": (
                sum(each.gain_is_near for each in stated),
                len(stated),
            ),
            "real gain in the interval": (sum(each.gain_is_between for each in stated), len(stated)),
        }
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.diagnose", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--corpus", type=Path, default=RECORDINGS, help="a folder with times.json")
    source.add_argument(
        "--live", type=Path, metavar="DIR", help="record on this machine's GPU into DIR first"
    )
    parser.add_argument("--without-counters", action="store_true", help="record own counts and experiments")
    parser.add_argument("--fit", action="store_true", help="print the spreads of gains instead")
    options = parser.parse_args(argv)
    folder = options.live or options.corpus
    if options.live is not None:
        _record(options.live, without_counters=options.without_counters)
    rows = cases(folder)
    if options.fit:
        print("\n".join(spreads(rows, folder)))
        return 0
    judged = [judge(row, _loaded(folder / row["file"])) for row in rows]
    print("\n".join([*_table(judged), "", *_by_cause(judged), "", *_totals(judged)]))
    return 0


def _loaded(path: Path) -> Profile:
    """A recording; those of commit 1a7651aa have another name for what was observed."""
    profile = load(path)
    if "hardware" not in profile.metadata:
        return profile
    metadata = dict(profile.metadata)
    metadata["evidence"] = metadata.pop("hardware")
    return Profile.of(replace(profile.tables, metadata=metadata))


def _record(folder: Path, *, without_counters: bool) -> None:
    """Record each kernel of the corpus, one after the other, with what fixing its fault brings here."""
    folder.mkdir(parents=True, exist_ok=True)
    with surroundings():
        rows = [
            record(case, small=False, out=folder, without_counters=without_counters)
            for case in CASES.values()
        ]
    (folder / "times.json").write_text(json.dumps({"rows": rows}, indent=1))


def _table(judged: Sequence[Judged]) -> Iterator[str]:
    yield f"{'':6} {'case':32} {'expected':34} {'real':>5}  findings: line, gain in %"
    for each in judged:
        real = "" if each.real_pct is None or math.isnan(each.real_pct) else f"{each.real_pct:.0f} %"
        found = "; ".join(f"{name} {line}, {gain:.0f}" for name, line, gain in each.found[:_SHOWN])
        found += f"  [{each.bounds[0]:.0f}, {each.bounds[1]:.0f}]"
        yield f"{_mark(each):6} {each.name:32} {', '.join(each.causes):34} {real:>5}  {found}"


def _mark(each: Judged) -> str:
    if each.listed_only:
        return "small"
    if each.real_pct is None:
        return "FALSE" if each.false else "ok"
    return "ok" if each.right_cause and each.right_line else "line" if each.right_cause else "WRONG"


def _by_cause(judged: Sequence[Judged]) -> Iterator[str]:
    """How many are right, by the first expected cause."""
    faults = [each for each in judged if each.causes and not each.listed_only]
    every = Counter(each.causes[0] for each in faults)
    right = Counter(each.causes[0] for each in faults if each.right_cause and each.right_line)
    yield from (f"{right[cause]:4} of {count:3}  {cause}" for cause, count in sorted(every.items()))


def _totals(judged: Sequence[Judged]) -> Iterator[str]:
    for what, (count, of) in totals(judged).items():
        yield f"{what}: {count} of {of}"
    small = [f"{each.name} ({each.real_pct:.0f} %)" for each in judged if each.listed_only]
    yield f"not judged, fixing brings less than {_LEAST_REAL_PCT:.0f} %: {', '.join(small) or 'none'}"


def _lines_of_statements(profile: Profile, marked: Collection[int]) -> set[int]:
    """All lines of the statements that have a marked line."""
    found = set(marked)
    for source in profile.metadata["sources"]:
        for node in ast.walk(ast.parse(source["text"])):
            if isinstance(node, ast.stmt) and not hasattr(node, "body") and node.end_lineno is not None:
                lines = range(source["line"] + node.lineno - 1, source["line"] + node.end_lineno)
                found |= set(lines) if found.intersection(lines) else set()
    return found


def _lines_called(profile: Profile, marked: Collection[int]) -> set[int]:
    """The lines of functions that are called at a marked line."""
    paths = profile.counts[["line", "call_path"]].drop_duplicates()
    callers = paths["call_path"].astype(str).str.findall(r":(\d+)")
    through = [bool(set(marked) & set(map(int, numbers))) for numbers in callers]
    return set(paths["line"][through].tolist())


def _lines_of_dots(profile: Profile) -> set[int]:
    sources: list[dict[str, Any]] = profile.metadata["sources"]
    return {
        source["line"] + at
        for source in sources
        for at, text in enumerate(source["text"].splitlines())
        if "tl.dot(" in text
    }


# How far real gains are from calculated ones.


def spreads(rows: Sequence[Mapping[str, Any]], folder: Path) -> Iterator[str]:
    """The rows of `intervals.SPREADS`, fitted to the cases whose first finding is right. Then, by kind and
    for those that are stated, how many gains of each round are in the intervals of the fit to all other
    rounds, and how wide these are."""
    known = []
    for row in rows:
        first = _first(_loaded(folder / row["file"])) if row["causes"] else None
        if first is not None and first[0] in row["causes"] and 100 * row["gain"] >= _LEAST_REAL_PCT:
            known.append((kind_of(first[0]), row.get("round", 0), first[1], 100 * row["gain"]))
    kinds, rounds, gains, real = (np.array(each) for each in zip(*known, strict=True))
    at = np.array([angle(each) for each in gains])
    off = np.array([angle(each) for each in real]) - at
    width, inside = np.zeros(len(known)), np.zeros(len(known), np.bool_)
    for kind in SPREADS:
        of_kind = kinds == kind
        low, high = _fitted(off[of_kind])
        yield f'    "{kind}": Spread({low:.3f}, {high:.3f}),'
        for number in set(rounds[of_kind]) if len(set(rounds)) > 1 else ():
            low, high = _fitted(off[of_kind & (rounds != number)])
            for case in np.flatnonzero(of_kind & (rounds == number)):
                width[case] = share_of(at[case] + high) - share_of(at[case] + low)
                inside[case] = low <= off[case] <= high
    if len(set(rounds)) == 1:
        return
    stated = width <= WIDEST_PCT
    for name, chosen in [*((kind, kinds == kind) for kind in SPREADS), ("all", stated | True)]:
        told = chosen & stated
        yield (
            f"{name}, rounds left out: {inside[chosen].sum()} of {chosen.sum()} in their intervals; "
            f"stated: {inside[told].sum()} of {told.sum()}, median width {np.median(width[told]):.1f} points"
        )


def _first(profile: Profile) -> tuple[str, float] | None:
    """The first finding of a profile's kernel, and its calculated gain in percent."""
    (judged,) = kernel_analyses(profile.tables)
    kernel = kernel_of(judged) if isinstance(judged, KernelAnalysis) else None
    first = None if kernel is None else next(diagnose(kernel), None)
    return None if first is None or not first.weight else (first.finding, first.weight)


def _fitted(off: Floats) -> tuple[float, float]:
    """What 5 % of the differences are below, and what 5 % are above, of one more that is not among them
    (conformal prediction: V. Vovk et al., 2005); 0 is between them."""
    low, high = np.quantile(off, [0.05, 0.95], method="weibull")
    return min(0.0, float(low)), max(0.0, float(high))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
