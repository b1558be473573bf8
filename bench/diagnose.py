"""Findings of the corpus' recordings against the faults that its kernels have: how many are right.

    python -m bench.diagnose [--kept-apart | --all] [--round N] [--emulator]      needs no GPU

By default it judges the half that rules may be written by; --kept-apart judges the other half. Cases of all
rounds but the first were written by somebody who had not read the rules, and recorded once there were rules.
--emulator runs the cases, small, on the emulator, and judges those whose faults it can show: what a launch of
few CTAs leaves idle is no finding then, and nobody knows the real gain.
`bench/corpus/recordings` has a recording of each case, from an H200 or, of rounds 10 to 12, an H100; and in
`times.json` the expected causes and lines, and what fixing it saved. To stay small, they are cut: of cases
with many spans some CTAs, or the first spans of each warp, are left; if all CTAs take about the same time, a
file has 512 of those that do not record. So their totals over CTAs are not those of the launch.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import profscope
from bench.corpus.cases import CASES
from bench.corpus.recording import prepared
from bench.kernels import surroundings
from profscope.analysis.cause import NOISE_PCT
from profscope.profiles import Profile, load

__all__ = [
    "EMULATED",
    "RECORDINGS",
    "Judged",
    "cases",
    "emulated",
    "emulated_names",
    "emulated_profile",
    "judge",
    "main",
    "totals",
]

RECORDINGS: Final = Path(__file__).parent / "corpus" / "recordings"
_LEAST_REAL_PCT: Final = 10.0  # what mending must bring for a fault to be judged
_WITHIN: Final = 1.5  # times the real gain, or the real gain times the predicted one
_SHOWN: Final = 3  # findings of a row
# A fault of the launch has no line.
_OF_LAUNCHES: Final = ("idle-sms", "tail", "tiny-ctas", "low-occupancy", "too-many-warps")
# What a small launch has whatever the kernel.
_OF_SIZE: Final = ("idle-sms", "tail", "tiny-ctas")
# What the emulator cannot show of any kernel: it has no registers, and no SM of it is idle in a large launch.
_UNSEEN: Final = frozenset({"register-spills", *_OF_SIZE})
EMULATED: Final = 80  # the compute capability that the emulator stands for
# Faults of a product may stand at the product as well as at what it is given.
_OF_DOTS: Final = (
    "small-mma", "no-tensor-cores", "mma-not-overlapped", "partition-starved", "too-many-warps",
)  # fmt: skip


@dataclass(frozen=True)
class Judged:
    """A case and its findings.

    real_pct: what mending it brought; NaN if nobody knows, None for a kernel without a fault. bounds: of the
    gain of the top finding.
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
        """Whether a kernel without a fault has a finding that promises something."""
        return self.real_pct is None and any(gain >= NOISE_PCT for _, _, gain in self.found)

    @property
    def gain_is_near(self) -> bool:
        """Whether the top finding's gain and the real one are alike."""
        if self.real_pct is None or not self.found:
            return False
        return self.real_pct / _WITHIN <= self.found[0][2] <= self.real_pct * _WITHIN

    @property
    def gain_is_between(self) -> bool:
        """Whether the real gain is in the top finding's interval."""
        return self.real_pct is not None and self.bounds[0] <= self.real_pct <= self.bounds[1]


def cases() -> list[dict[str, Any]]:
    """Rows of `times.json`: name, half, causes, lines, file in RECORDINGS, gain (a share of the time), and
    times in us."""
    rows: list[dict[str, Any]] = json.loads((RECORDINGS / "times.json").read_text())["rows"]
    return rows


def emulated_profile(name: str) -> Profile:
    """A case of the corpus, run small on the emulator."""
    with surroundings():
        launch = prepared(CASES[name].prepare, True)
        with profscope.session() as profile:
            launch()
    return profile


def emulated(name: str) -> Judged:
    """What is found of a case that the emulator has run."""
    case, profile = CASES[name], emulated_profile(name)
    row = {"name": name, "causes": case.causes, "lines": case.lines, "gain": math.nan}
    return judge(row, profile, besides=_OF_SIZE)


def emulated_names(half: str) -> list[str]:
    """The cases of a half, or of both ("all"), that the emulator runs and shows."""
    small = {row["name"] for row in cases() if row["causes"] and 100 * row["gain"] < _LEAST_REAL_PCT}
    return [
        name
        for name, case in CASES.items()
        if (not case.causes or (case.emulator and case.causes[0] not in _UNSEEN))
        and case.least <= EMULATED and half in (case.half, "all") and name not in small
    ]  # fmt: skip


def judge(case: dict[str, Any], profile: Profile, besides: Collection[str] = ()) -> Judged:
    """A row of `times.json` and its recording. besides: findings that are left out."""
    table = profile.findings()
    numbers = ["gain_pct", "gain_low_pct", "gain_high_pct"]
    table[[each for each in numbers if each not in table]] = 0.0
    table = table[~table["finding"].isin(besides)]
    found = tuple(table.reindex(columns=["finding", "line", "gain_pct"]).itertuples(index=False, name=None))
    cause, line = found[0][:2] if found else ("", 0)
    bounds = tuple(table[["gain_low_pct", "gain_high_pct"]].iloc[0]) if found else (0.0, 0.0)
    # What is loaded twice is loaded at two lines, either of which can go: the finding names both.
    earlier = re.search(r"the one that line (\d+) has loaded", " ".join(table["evidence"].head(1)))
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
    known = [each for each in named if each.real_pct is not None and not math.isnan(each.real_pct)]
    found = {
        "top finding right, cause and line": (sum(each.right_line for each in named), len(faults)),
        f"faultless kernels with a finding above {NOISE_PCT:.0f} %": (
            sum(each.false for each in faultless),
            len(faultless),
        ),
    }
    if known:
        found |= {
            f"gain within {_WITHIN} times the real one, where the cause is right": (
                sum(each.gain_is_near for each in known),
                len(known),
            ),
            "real gain between gain_low_pct and gain_high_pct, where the cause is right": (
                sum(each.gain_is_between for each in known),
                len(known),
            ),
        }
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.diagnose", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    half = parser.add_mutually_exclusive_group()
    half.add_argument("--kept-apart", action="store_true", help="the half that no rule was written by")
    half.add_argument("--all", action="store_true", help="both halves")
    parser.add_argument("--round", type=int, help="only the cases that were written then: 1, 2 or 6 to 14")
    parser.add_argument("--emulator", action="store_true", help="run the cases, small, on the emulator")
    options = parser.parse_args(argv)
    chosen = "all" if options.all else "kept apart" if options.kept_apart else "open"
    rounds = {options.round} if options.round else {case.round for case in CASES.values()}
    if options.emulator:
        names = emulated_names(chosen)
        judged = [emulated(name) for name in names if CASES[name].round in rounds]
    else:
        judged = [
            judge(case, load(RECORDINGS / case["file"]))
            for case in cases()
            if chosen in (case["half"], "all") and case["round"] in rounds
        ]
    sys.stdout.write("\n".join([*_table(judged), "", *_confusion(judged), "", *_totals(judged)]) + "\n")
    return 0


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


def _confusion(judged: Sequence[Judged]) -> Iterator[str]:
    wrong = Counter(
        (each.causes[0], each.found[0][0] if each.found else "nothing")
        for each in judged
        if each.causes and not each.listed_only and not each.right_cause
    )
    yield "taken for another cause:" if wrong else "no cause is taken for another one"
    for (cause, found), count in sorted(wrong.items()):
        yield f"  {cause}: {found}, {count} times" if count > 1 else f"  {cause}: {found}"


def _totals(judged: Sequence[Judged]) -> Iterator[str]:
    for what, (count, of) in totals(judged).items():
        yield f"{what}: {count} of {of}"
    small = [f"{each.name} ({each.real_pct:.0f} %)" for each in judged if each.listed_only]
    yield f"not judged, mending brings less than {_LEAST_REAL_PCT:.0f} %: {', '.join(small) or 'none'}"


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


if __name__ == "__main__":
    raise SystemExit(main())
