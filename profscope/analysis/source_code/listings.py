"""The code behind source lines: TTGIR, PTX and SASS, if a profile has them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from profscope.analysis.line_rows import stall_counts, stall_shares, stall_text
from profscope.analysis.sources import sampled_code
from profscope.analysis.variants import codes_of, rows_of, variant_entry
from profscope.binaries.ptx import read_ptx
from profscope.instrument_passes.analyses.places import Places, is_library
from profscope.instrument_passes.errors import IRError
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.kept_text import unpacked
from profscope.schema import Tables

__all__ = ["FORMS", "Instruction", "Listing", "listings"]

FORMS = ("ttgir", "ptx", "sass")

_NO_CODE = re.compile(r"\s*(?:$|//|\.loc\b|\.file\b|\.section\b|\.b(?:8|16|32|64)\b|[{}]\s*$)")
_LOCATION = re.compile(r"\s*loc\(#?\w*\)\s*$")


@dataclass(frozen=True)
class Instruction:
    """One instruction or op. number: its pc, which is shown in hexadecimal, or its line in the text. share:
    of the binary's samples, None if it was not sampled."""

    number: int
    is_pc: bool
    text: str
    share: float | None
    samples: int
    stalls: str


@dataclass(frozen=True)
class Listing:
    """By file and line, the instructions there in the order of the binary; notes: which binary it is, or why
    there is none."""

    code: dict[tuple[str, int], list[Instruction]]
    notes: list[str]


def listings(tables: Tables, kernel: str, variant: int, form: str) -> Listing:
    """The code of one variant's binary at each line of the source. form: one of FORMS."""
    if form == "sass":
        return _sass(tables, kernel, variant)
    entry = _entry(tables, kernel, variant)
    if entry is None:
        return Listing(
            {}, [f"{kernel}: this profile has no {form.upper()}: one that a session has recorded has it"]
        )
    try:
        placed = list(_ttgir(unpacked(entry["ttgir"])) if form == "ttgir" else _ptx(unpacked(entry["ptx"])))
    except IRError as error:
        return Listing({}, [f"{kernel}: its {form.upper()} cannot be read: {error}"])
    code: dict[tuple[str, int], list[Instruction]] = {}
    for place, number, text in placed:
        code.setdefault(place, []).append(Instruction(number, False, text, None, 0, ""))
    note = f"{kernel}: {form.upper()} of the binary that recorded, with its records"
    if _has_second_body(tables, kernel, variant):
        note += "; each line twice, for CTAs that do not record have code of their own"
    return Listing(code, [note])


def _entry(tables: Tables, kernel: str, variant: int) -> dict[str, Any] | None:
    """The binary that recorded."""
    key = variant_entry(tables.metadata, kernel, variant).get("key") or ""
    return next(iter(codes_of(tables.metadata, kernel, key)), None)


def _has_second_body(tables: Tables, kernel: str, variant: int) -> bool:
    builds = variant_entry(tables.metadata, kernel, variant).get("builds") or []
    return any(build.get("twin") for build in builds)


def _ttgir(text: str) -> Iterator[tuple[tuple[str, int], int, str]]:
    """Each op with its place and its line of the text; of an op with regions its head."""
    places = Places()
    for op in parse(text).walk():
        place = places.of(op)
        yield (place.file, place.line), op.line, _LOCATION.sub("", op.first_line)


def _ptx(text: str) -> Iterator[tuple[tuple[str, int], int, str]]:
    for number, (line, chain) in enumerate(zip(text.splitlines(), read_ptx(text).chains, strict=True), 1):
        if not _NO_CODE.match(line) and chain:
            frame = next((frame for frame in chain if not is_library(frame.file)), chain[-1])
            yield (frame.file, frame.line), number, line.partition("//")[0].rstrip()


def _sass(tables: Tables, kernel: str, variant: int) -> Listing:
    """Of the bare binary, whose samples `lines()` ranks by."""
    if tables.emulated:
        return Listing({}, [f"{kernel}: the emulator runs PTX; SASS needs a GPU"])
    try:
        instructions = sampled_code(tables.metadata, kernel, variant)
    except (IRError, ValueError) as error:
        return Listing({}, [f"{kernel}: its SASS cannot be read: {error}"])
    if instructions is None:
        return Listing(
            {}, [f"{kernel}: this profile has no SASS: session(evidence=True) keeps that of what it samples"]
        )
    mine = rows_of(tables.samples, kernel, variant)
    total = int(mine["samples"].sum())
    by_pc: dict[int, pd.DataFrame] = {int(str(pc)): part for pc, part in mine.groupby("pc")}
    code: dict[tuple[str, int], list[Instruction]] = {}
    for pc, text, file, line in instructions:
        part = by_pc.get(pc)
        count = 0 if part is None else int(part["samples"].sum())
        stalls = "" if part is None else stall_text(stall_shares(stall_counts(part)))
        share = count / total if total else None
        code.setdefault((file, line), []).append(Instruction(pc, True, text, share, count, stalls))
    return Listing(code, [f"{kernel}: SASS of the bare binary, with its {total:,} samples"])
