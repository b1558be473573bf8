"""Cut a recording to what pages and tests read of it: spans of some CTAs, of some launches.

    python -m bench.cut trace.pftrace.gz [--launches N] [--ctas N] [--others N] [--spans N] [--no-ptx]
        [--place FOLDER=NAME ...]

--launches: the first ones. --ctas: of each launch, spread over those that record; numbers of records are
scaled. --others: CTAs that do not record, of which the file keeps when they ran. --spans: of each warp the
first ones, about so many in all. --no-ptx: without PTX, which nothing but a view of it needs. PC samples,
counters and other code stay whole. --place: what stands for a folder of this machine in all texts.
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

import profscope
from profscope.instrument_passes.kept_text import packed, unpacked
from profscope.profiles import Profile
from profscope.schema import MEASURED_DTYPES
from profscope.traces.saving import save

__all__ = ["cut", "main", "moved"]

_OTHERS: Final = 512
_LEAST_SPANS: Final = 4  # of a warp
_SCALED: Final = ("ctas", "records", "dropped", "profile_bytes")
_COUNTED: Final = re.compile(r"\d+ of \d+ CTAs were recorded")  # a note of as many as there were
_PACKED: Final = ("ttgir", "ptx", "sass")  # texts that a profile keeps packed


def cut(profile: Profile, ctas: int, launches: int, others: int = _OTHERS, most_spans: int = 0) -> Profile:
    """At most so many CTAs that record of each launch, launches, other CTAs, and spans of all; 0: all."""
    tables = profile.tables
    kept = tables.launches[: launches or None].copy()
    spans = tables.df[tables.df["launch"].isin(kept["launch"])]
    of_ctas = tables.ctas[tables.ctas["launch"].isin(kept["launch"])]
    spans, of_ctas = (table[~_left_out(table, spans, ctas).to_numpy()] for table in (spans, of_ctas))
    for at, launch in kept["launch"].items():
        recorded, now = kept.at[at, "ctas"], spans.loc[spans["launch"] == launch, "cta"].nunique()
        for name in _SCALED if now else ():
            kept.at[at, name] = int(kept.at[at, name]) * now // recorded
    notes = [note for note in tables.metadata["notes"] if not (ctas and _COUNTED.search(note))]
    if 0 < most_spans < len(spans):
        spans = _first_of_warps(spans, most_spans)
        notes.append("of each warp only the first spans are kept")
    tables = replace(
        tables,
        metadata={**tables.metadata, "notes": notes},
        df=_renumbered(spans, len(tables.df)),
        launches=kept.reset_index(drop=True),
        ctas=_thinned(of_ctas, others).reset_index(drop=True),
    )
    return Profile.of(tables)


def _left_out(table: pd.DataFrame, spans: pd.DataFrame, most: int) -> pd.Series:
    """The rows of CTAs that record and are not among those chosen."""
    of_launch = spans.groupby("launch")["cta"].unique().to_dict()
    left = pd.Series(False, index=table.index)
    for launch, recorded in of_launch.items():
        if 0 < most < len(recorded):
            places = np.linspace(0, len(recorded) - 1, most).round().astype(int)
            others = np.delete(recorded, places)
            left |= (table["launch"] == launch) & table["cta"].isin(others)
    return left


def _first_of_warps(spans: pd.DataFrame, most: int) -> pd.DataFrame:
    """Of each warp as many: a span stands behind the one around it."""
    warps = spans.groupby(["launch", "cta", "warp"], observed=True, sort=False)
    return spans[warps.cumcount() < max(_LEAST_SPANS, most // warps.ngroups)]


def _renumbered(spans: pd.DataFrame, rows: int) -> pd.DataFrame:
    """Spans whose references to rows are those of the smaller table; -1 stays."""
    places = np.full(rows + 1, -1)  # the last one is that of -1
    places[spans.index.to_numpy()] = np.arange(len(spans))
    changed = {name: places[spans[name].to_numpy()].astype(spans[name].dtype) for name in ("parent", "wait")}
    return spans.assign(**changed).reset_index(drop=True)


def _thinned(ctas: pd.DataFrame, others: int) -> pd.DataFrame:
    """Those that record, and some of the others."""
    recorded = ctas["recorded"].to_numpy(bool)
    bare = np.flatnonzero(~recorded)
    if not others or len(bare) <= others:
        return ctas
    kept = recorded.copy()
    kept[bare[np.linspace(0, len(bare) - 1, others).astype(int)]] = True
    return ctas[kept]


def moved(profile: Profile, places: Mapping[str, str]) -> Profile:
    """The profile with other paths. places: folder -> what stands for it, "" for nothing."""
    pattern = re.compile("|".join(f"{re.escape(each)}(/?)" for each in sorted(places, key=len, reverse=True)))

    def replacement(match: re.Match[str]) -> str:
        place = places[match[0].rstrip("/")]
        return f"{place}/" if place else ""

    def change(text: str) -> str:
        return pattern.sub(replacement, text)

    names = ("df", "launches", "ctas", *MEASURED_DTYPES, "host", "events")
    frames = {name: _frame(getattr(profile.tables, name), change) for name in names}
    return Profile.of(replace(profile.tables, metadata=_document(profile.metadata, change), **frames))


def _document(value: Any, change: Callable[[str], str], name: str = "") -> Any:
    if isinstance(value, str):
        return packed(change(unpacked(value))) if name in _PACKED and value else change(value)
    if isinstance(value, Mapping):
        return {change(str(key)): _document(each, change, str(key)) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_document(each, change) for each in value]
    return value


def _frame(frame: pd.DataFrame, change: Callable[[str], str]) -> pd.DataFrame:
    """A table whose texts are changed."""
    frame = frame.copy()
    for name in frame.columns:
        if isinstance(frame[name].dtype, pd.CategoricalDtype):
            frame[name] = frame[name].cat.rename_categories(change)
        elif frame[name].dtype == object or pd.api.types.is_string_dtype(frame[name].dtype):
            frame[name] = frame[name].map(lambda each: change(each) if isinstance(each, str) else each)
    return frame


def main(argv: Sequence[str] | None = None) -> int:
    """Replace the file by what is left of it."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.cut", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("trace", type=Path)
    parser.add_argument("--launches", type=int, default=0)
    parser.add_argument("--ctas", type=int, default=0)
    parser.add_argument("--others", type=int, default=_OTHERS)
    parser.add_argument("--spans", type=int, default=0)
    parser.add_argument("--no-ptx", action="store_true")
    parser.add_argument("--place", action="append", default=[], metavar="FOLDER=NAME")
    options = parser.parse_args(argv)
    before, profile = options.trace.stat().st_size, profscope.load(options.trace)
    assert isinstance(profile, Profile)
    profile = cut(profile, options.ctas, options.launches, options.others, options.spans)
    if options.no_ptx:
        code = [{**each, "ptx": ""} for each in profile.metadata["code"]]
        profile = Profile.of(replace(profile.tables, metadata={**profile.metadata, "code": code}))
    if options.place:
        profile = moved(profile, dict(each.split("=", 1) for each in options.place))
    save(profile, options.trace)
    packed_more = gzip.compress(gzip.decompress(options.trace.read_bytes()), 9, mtime=0)
    options.trace.write_bytes(packed_more)
    print(f"{options.trace}: {before:,} bytes, now {options.trace.stat().st_size:,}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
