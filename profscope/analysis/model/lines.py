"""A kernel's source lines: call paths merged, lines ranked.

A line is one entry, whatever calls led to it: shares, samples, spans and work of its paths add up. Lines are
ranked by their share of PC samples if the kernel has enough of these, else by self time.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

import pandas as pd

from profscope.analysis.estimates import shares_between
from profscope.analysis.line_rows import GAP, stall_shares, wait_text
from profscope.analysis.model.entries import LineEntry, Lines, StallShare
from profscope.analysis.model.numbers import known_count, known_number

__all__ = [
    "NO_SAMPLES",
    "SAMPLES",
    "SPANS",
    "identity",
    "lines_entry",
    "merged_line",
    "total_of",
    "witness_of",
]

SAMPLES: Final = "samples"
SPANS: Final = "spans"
NO_SAMPLES: Final = "no samples: "
"""Begins what is not known of the lines of any kernel."""


def lines_entry(
    kernel_id: str, rows: pd.DataFrame, spans: pd.DataFrame, unit: str, not_measured: Sequence[str] = ()
) -> Lines:
    """rows: of one configuration, of `lines`; spans: of its summary."""
    own = _spans_at_lines(spans, unit)
    timed = rows[(rows["samples"] > 0) | _is_in(rows, own)]
    samples = int(rows["samples"].sum())
    names = _short_names(timed["file"])
    entries = [
        merged_line(kernel_id, names[str(place[0])], paths, own.get(place), samples)
        for place, paths in _by_line(timed)
    ]
    entries.sort(key=lambda entry: (-(entry.share or 0.0), entry.file, entry.line))
    return Lines(witness_of(rows), samples, tuple(entries), tuple(not_measured))


def witness_of(rows: pd.DataFrame) -> str:
    """The witness that ranks the lines of a kernel. rows: its rows of `lines`."""
    return SAMPLES if rows["share_samples"].notna().any() else SPANS


def total_of(values: Iterable[Any]) -> float | None:
    """The sum of the known values; None if none is known."""
    known = [float(value) for value in values if value is not None and not pd.isna(value)]
    return sum(known) if known else None


def _merged_stalls(lists: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """[stall, samples] of several paths added up, most first."""
    counts: Counter[str] = Counter()
    for stall, count in (each for one in lists for each in one):
        counts[str(stall)] += int(count)
    return [[stall, count] for stall, count in counts.most_common()]


def _merged_waits(lists: Iterable[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What several paths waited for, added up, most first."""
    together: dict[tuple[Any, ...], dict[str, Any]] = {}
    for wait in (each for one in lists for each in one):
        key = tuple(value for name, value in wait.items() if name != "samples")
        known = together.setdefault(key, {**wait, "samples": 0})
        known["samples"] += wait["samples"]
    return sorted(together.values(), key=lambda wait: -int(wait["samples"]))


def identity(*parts: str) -> str:
    """A short name that is the same in every session."""
    return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:12]


def merged_line(
    kernel_id: str, name: str, paths: Sequence[Mapping[Any, Any]], own: dict[str, Any] | None, samples: int
) -> LineEntry:
    """paths: the rows of a line; own: what its spans say; samples: of the kernel."""
    first = paths[0]
    line, counts = int(first["line"]), _merged_stalls(path["stall_counts"] for path in paths)
    stalled = sum(count for _, count in counts)
    here = sum(int(path["samples"]) for path in paths)
    share = total_of(path["share_samples"] for path in paths)
    low = high = None
    if share is not None:
        low, high = (float(bound[0]) for bound in shares_between(pd.array([here]).to_numpy(), samples))
    spans = own or {"self": None, "count": 0, "scope": ""}
    return LineEntry(
        id=f"{kernel_id}-{identity(name, str(line))[:8]}",
        file=str(first["file"]),
        line=line,
        source=str(first["source"]).strip(),
        call_paths=len({path["call_path"] for path in paths if path["call_path"]}),
        scope=str(spans["scope"]),
        self_share=total_of(path["self_share"] for path in paths),
        self_time=known_number(spans["self"]),
        spans=int(spans["count"]),
        share_samples=share,
        share_samples_low=low,
        share_samples_high=high,
        samples=here,
        stalls=tuple(StallShare(*each) for each in stall_shares(counts)),
        waits_for=wait_text(_merged_waits(path["waits"] for path in paths), stalled),
        bytes_at_most=known_count(total_of(path["bytes_at_most"] for path in paths)),
        flops=known_count(total_of(path["flops"] for path in paths)),
    )


def _by_line(rows: pd.DataFrame) -> Iterator[tuple[tuple[str, int], list[dict[Hashable, Any]]]]:
    lines: dict[tuple[str, int], list[dict[Hashable, Any]]] = {}
    for row in rows.to_dict("records"):
        lines.setdefault((str(row["file"]), int(row["line"])), []).append(row)
    yield from lines.items()


def _spans_at_lines(spans: pd.DataFrame, unit: str) -> dict[tuple[str, int], dict[str, Any]]:
    """By line its self time, and of the scope with most of it the name and how many spans there are."""
    lines: dict[tuple[str, int], dict[str, Any]] = {}
    rows = spans[~spans["kind"].isin([GAP, "async"])]
    columns = ("file", "line", "scope", "count", f"self_{unit}")
    for file, line, scope, count, own in zip(*(rows[name].tolist() for name in columns), strict=True):
        at = lines.setdefault((str(file), int(line)), {"self": 0, "scopes": {}})
        at["self"] += own
        sums = at["scopes"].setdefault(str(scope), [0, 0])
        sums[0] += own
        sums[1] += count
    for at in lines.values():
        scope, (_, count) = max(at.pop("scopes").items(), key=lambda each: each[1][0])
        at |= {"scope": scope, "count": count}
    return lines


def _is_in(rows: pd.DataFrame, places: dict[tuple[str, int], Any]) -> pd.Series[bool]:
    known = [(str(file), int(line)) in places for file, line in zip(rows["file"], rows["line"], strict=True)]
    return pd.Series(known, rows.index, dtype="bool")


def _short_names(files: pd.Series[str]) -> dict[str, str]:
    """By file, the name that is the same wherever the program stands: the last part of its path, and as many
    before as tell it from the others here."""
    names: dict[str, str] = {}
    left = {str(file): PurePath(str(file)).parts for file in files.unique()}
    for length in range(1, max(map(len, left.values()), default=0) + 1):
        tails = {file: "/".join(parts[-length:]) for file, parts in left.items()}
        often = Counter(tails.values())
        names |= {file: tail for file, tail in tails.items() if often[tail] == 1}
        left = {file: parts for file, parts in left.items() if often[tails[file]] > 1}
    return names | {file: file for file in left}
