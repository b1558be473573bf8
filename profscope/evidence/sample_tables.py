"""Sampled launches as a table: each sample with its place in the source, and with what it waited for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.estimates import expected_distance, variation_distance
from profscope.binaries.blame import blame
from profscope.binaries.rows import instructions
from profscope.errors import OptionError, ToolchainError
from profscope.evidence.subject import SampledLaunch
from profscope.instrument_passes.kept_text import packed
from profscope.schema import SAMPLE_DTYPES, samples_frame

__all__ = [
    "BARE",
    "GOLDEN",
    "Number",
    "classes_by_place",
    "divided_by_cause",
    "numbering",
    "sample_tables",
    "sampler_metadata",
    "summed_samples",
]

_MOST_PLACES: Final = 1000  # of one binary that are told one by one: a large kernel has some hundreds
GOLDEN: Final = 0.6180339887498949  # its multiples spread evenly over 0 to 1
_ONE: Final = ["kernel", "variant", "launch", "binary", "pc", "stall", "blamed_pc"]

BARE: Final[dict[str, Any]] = {"launch": -1, "binary": "bare"}
"""Of all samples: their launches have no row in the table of launches."""

# metadata["variants"]: by kernel its configurations, each at its number.
Variants = Mapping[str, Sequence[Mapping[str, Any]]]
Number = Callable[[str, str], int]
"""From a kernel and the key of a configuration to its number, `variant`."""


@dataclass(frozen=True)
class _Binary:
    """One binary: `places` by pc, `shares` one row per pc, stall and blamed pc, which add up to 1."""

    places: pd.DataFrame
    shares: pd.DataFrame
    instructions: list[list[Any]]
    sass: str
    notes: list[str]


def sample_tables(
    launches: Sequence[SampledLaunch], number: Number | None = None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table of samples and what is known of them: `Profile.samples` and `metadata["sampler"]`.

    There is one row for each instruction, reason and blamed instruction of a configuration. The samples of
    each add up to what was given. A stall with several causes is divided by `profscope.binaries.blame`, over
    all launches of the binary together, into whole samples: by systematic sampling (Madow and Madow, Annals
    of Mathematical Statistics 15, 1944), which favours none, and not into fractions, of which there would be
    more than samples. number: by default configurations are numbered as they come.

    Returns the table, columns of SAMPLE_DTYPES, and a JSON-able dict:

        period_cycles   a list, ascending: a sample every so many cycles of each SM
        launches, samples, dropped   int; dropped: that the hardware lost, of whatever kernel
        notes           what could not be told, for the user
        binaries        a list, one for each configuration: `kernel`, `variant`, `key`, `binary` ("bare"),
                        `launches`, `samples`, `dropped`, `period_cycles`; `apart`, [seen, expected]: the mean
                        distance by line of one launch from the next, and that expected of such counts
                        (`analysis.estimates`), null for a single launch; and of its last binary
                        `instructions`, for each place [file, line, call path, {class: how many}],
                        and `sass`, its instructions, a JSON list of [pc, text, file, line, call path] that
                        `instrument_passes.kept_text` has packed; "" where the binary cannot be read

    A binary that cannot be read, without Triton or for its PTX, has samples without places, and a note.
    """
    number = number or numbering({})
    groups: dict[tuple[bytes, str], list[SampledLaunch]] = {}
    for launch in launches:
        groups.setdefault((launch.subject.cubin, launch.subject.ptx), []).append(launch)
    parts: list[pd.DataFrame] = []
    about: dict[tuple[str, int], dict[str, Any]] = {}
    by_line: dict[tuple[str, int], list[pd.Series[Any]]] = {}
    notes: dict[str, None] = {}
    for (cubin, ptx), of_binary in groups.items():
        binary = _read(cubin, ptx, pd.concat([_stalls(launch) for launch in of_binary]))
        for at, launch in enumerate(of_binary):
            kernel, variant = key = launch.subject.kernel, number(launch.subject.kernel, launch.subject.key)
            rows = divided_by_cause(_stalls(launch), binary.shares, at * GOLDEN)
            rows = rows.assign(kernel=kernel, variant=variant, **BARE).merge(
                binary.places, on=["pc", "blamed_pc"]
            )
            parts.append(rows)
            entry = about.setdefault(key, _nothing(launch, variant))
            _add(entry, launch, int(rows["samples"].sum()))
            entry["instructions"] = binary.instructions
            entry["sass"] = binary.sass
            by_line.setdefault(key, []).append(rows.groupby(["file", "line"])["samples"].sum())
        callees = sum(launch.in_callees for launch in of_binary)
        said = binary.notes + [f"{callees} samples in noinline functions are left out"] * bool(callees)
        notes |= dict.fromkeys(f"{of_binary[0].subject.kernel}: {note}" for note in said)
    for key, counts in by_line.items():
        about[key]["apart"] = _apart(counts)
    return summed_samples(parts), sampler_metadata(about, list(notes))


def numbering(variants: Variants) -> Number:
    """A function from kernel and key to the number of the configuration; those that are not in
    `metadata["variants"]` get the next ones."""
    numbers = {
        kernel: {entry["key"]: number for number, entry in enumerate(of_kernel)}
        for kernel, of_kernel in variants.items()
    }

    def number(kernel: str, key: str) -> int:
        of_kernel = numbers.setdefault(kernel, {})
        return of_kernel.setdefault(key, len(of_kernel))

    return number


def _stalls(launch: SampledLaunch) -> pd.DataFrame:
    """pc, stall, samples. `not_issued` is a part of these, so it is not looked at."""
    rows = launch.rows[launch.rows["samples"] > 0]
    stall = pd.Series(np.array([*launch.reasons, ""], object)[rows["reason"]], dtype="str")
    columns = {"pc": rows["pc"].astype(np.int64), "samples": rows["samples"].astype(np.int64)}
    table = pd.DataFrame({**columns, "stall": stall})
    return table.groupby(["pc", "stall"], as_index=False, sort=True)[["samples"]].sum()


def _read(cubin: bytes, ptx: str, stalls: pd.DataFrame) -> _Binary:
    try:
        df = instructions(SimpleNamespace(asm={"cubin": cubin, "ptx": ptx}))
    except (OptionError, ToolchainError) as error:
        shares = stalls[["pc", "stall"]].drop_duplicates()
        shares = shares.assign(blamed_pc=shares["pc"], share=1.0)
        return _Binary(_places(None, shares), shares, [], "", [f"samples have no lines: {error}"])
    blamed = blame(df, stalls)
    total = blamed.groupby(["pc", "stall"], observed=True)["samples"].transform("sum")
    shares = blamed.assign(stall=blamed["stall"].astype("str"), share=blamed["samples"] / total)
    notes = list(df.attrs["notes"])
    outside = ~stalls["pc"].isin(df["pc"])
    if outside.any():
        lost = int(stalls.loc[outside, "samples"].sum())
        notes.append(f"{lost} samples are at no instruction of the binary, such as those of other functions")
    shares = shares.drop(columns="samples")
    return _Binary(_places(df, shares), shares, classes_by_place(df), _sass(df), notes)


def _sass(df: pd.DataFrame) -> str:
    columns = (df[name].tolist() for name in ("pc", "sass", "file", "line", "call_path"))
    return packed(json.dumps([list(row) for row in zip(*columns, strict=True)]))


def _places(df: pd.DataFrame | None, shares: pd.DataFrame) -> pd.DataFrame:
    """One row per pc and blamed pc, with what stands there."""
    pairs = shares[["pc", "blamed_pc"]].drop_duplicates()
    if df is None:
        nothing = dict.fromkeys(("file", "call_path", "class", "blamed_file", "blamed_class"), "")
        return pairs.assign(**nothing, line=0, blamed_line=0)
    texts = {"file": "str", "call_path": "str", "class": "str"}
    known = df[["pc", "file", "line", "call_path", "class"]].astype(texts)
    names = {"pc": "blamed_pc", "file": "blamed_file", "line": "blamed_line", "class": "blamed_class"}
    table = pairs.merge(known, on="pc", how="left")
    table = table.merge(known.drop(columns="call_path").rename(columns=names), on="blamed_pc", how="left")
    lines = ["line", "blamed_line"]
    return table.fillna(dict.fromkeys(lines, 0)).fillna("").astype(dict.fromkeys(lines, "int64"))


def divided_by_cause(stalls: pd.DataFrame, shares: pd.DataFrame, offset: float) -> pd.DataFrame:
    """pc, stall, blamed_pc, samples: whole samples that add up to those of each pc and stall.

    offset: where in the first sample to begin. Of the numbers offset, offset + 1, ... each cause gets those
    that fall into its stretch of 0 to `samples`; over offsets that are spread evenly, as many as it should.
    """
    rows = stalls.merge(shares, on=["pc", "stall"], sort=False)
    if not len(rows):
        return rows.drop(columns="share")
    key = rows[["pc", "stall"]]
    first = (key != key.shift()).any(axis=1).to_numpy()
    group = np.cumsum(first) - 1
    samples = rows["samples"].to_numpy()
    total = np.cumsum(rows["share"].to_numpy())
    ends = samples * (total - np.append(0.0, total)[np.flatnonzero(first)][group])
    begin = (offset + GOLDEN * group) % 1.0  # not alike for all pcs: what is left over would go to one side
    last = np.append(first[1:], True)
    upto = np.where(last, samples, np.clip(np.floor(ends + begin), 0, samples)).astype(np.int64)
    before = np.where(first, 0, np.append(0, upto[:-1]))
    rows = rows.assign(samples=upto - before)
    return rows.loc[rows["samples"] > 0, ["pc", "stall", "blamed_pc", "samples"]]


def classes_by_place(df: pd.DataFrame) -> list[list[Any]]:
    """By place how many instructions of each class; the smallest places together at the end, if many."""
    rows: dict[tuple[str, int, str], dict[str, int]] = {}
    columns = (df[name].tolist() for name in ("file", "line", "call_path", "class"))
    for file, line, path, cls in zip(*columns, strict=True):
        classes = rows.setdefault((file, line, path), {})
        classes[cls] = classes.get(cls, 0) + 1
    ordered = sorted(rows.items(), key=lambda row: -sum(row[1].values()))
    told = [[*place, classes] for place, classes in ordered[:_MOST_PLACES]]
    rest: dict[str, int] = {}
    for _, classes in ordered[_MOST_PLACES:]:
        for cls, count in classes.items():
            rest[cls] = rest.get(cls, 0) + count
    return [*told, *([["", 0, "", rest]] if rest else [])]


def _nothing(launch: SampledLaunch, variant: int) -> dict[str, Any]:
    subject = launch.subject
    about = {"kernel": subject.kernel, "variant": variant, "key": subject.key, "binary": BARE["binary"]}
    return {**about, "launches": 0, "samples": 0, "dropped": 0, "period_cycles": []}


def _add(entry: dict[str, Any], launch: SampledLaunch, samples: int) -> None:
    entry["launches"] += 1
    entry["samples"] += samples
    entry["dropped"] += launch.dropped
    entry["period_cycles"] = sorted({*entry["period_cycles"], 1 << launch.period_log2})


def _apart(launches: Sequence[pd.Series[Any]]) -> list[float] | None:
    """How far one launch is from the next, on average, and how far that is to be expected."""
    counts = [each for each in launches if each.sum() > 0]
    if len(counts) < 2:
        return None
    table = pd.concat(counts, axis="columns").fillna(0).to_numpy(np.float64).T
    seen = [variation_distance(*pair) for pair in pairwise(table)]
    expected = [
        expected_distance((one + other) / (one.sum() + other.sum()), int(one.sum()), int(other.sum()))
        for one, other in pairwise(table)
    ]
    return [float(np.mean(seen)), float(np.mean(expected))]


def summed_samples(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Rows of several launches as the table of samples."""
    if not parts:
        return samples_frame()
    table = pd.concat(parts, ignore_index=True)
    first = dict.fromkeys((name for name in SAMPLE_DTYPES if name not in (*_ONE, "samples")), "first")
    table = table.groupby(_ONE, as_index=False, sort=True).agg({**first, "samples": "sum"})
    return samples_frame({name: table[name] for name in SAMPLE_DTYPES})


def sampler_metadata(about: Mapping[tuple[str, int], dict[str, Any]], notes: list[str]) -> dict[str, Any]:
    """metadata["sampler"], see `sample_tables`. about: of binaries, by kernel and variant."""
    binaries = [about[key] for key in sorted(about)]
    periods = {cycles for entry in binaries for cycles in entry["period_cycles"]}
    figures = {name: sum(entry[name] for entry in binaries) for name in ("launches", "samples", "dropped")}
    return {"period_cycles": sorted(periods), **figures, "notes": notes, "binaries": binaries}
