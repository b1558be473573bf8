"""A profile in few words, for programs such as tuners and CI: the model, bounded."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final, NamedTuple

from profscope.analysis.model.build import profile_model
from profscope.analysis.model.entries import (
    KernelEntry,
    LeftOut,
    LeftOutOfModel,
    ProfileModel,
)
from profscope.analysis.model.in_brief import MOST_KERNELS, Detail, in_brief, next_command
from profscope.analysis.model.numbers import plain
from profscope.analysis.texts import kernel_of_note
from profscope.schema import Tables

__all__ = ["MOST_CHARACTERS", "bounded", "report"]

MOST_CHARACTERS: Final = 20_000
"""Of the report as JSON, indented by one."""

_DIGITS: Final = 6
"""Of each number: significant ones."""


class _Size(NamedTuple):
    """How much is told: kernels, other than in brief; rows of each of their sections; notes; characters of a
    text; and of the kernels in brief."""

    kernels: int
    rows: int
    notes: int
    characters: int
    brief: Detail = Detail.EVIDENCE


_SIZES: Final = (
    _Size(8, 12, 12, 400),
    _Size(6, 8, 8, 400),
    _Size(4, 6, 6, 400),
    _Size(4, 3, 4, 400),
    _Size(3, 3, 3, 400),
    _Size(3, 3, 3, 240, Detail.FINDINGS),
    _Size(3, 2, 3, 240, Detail.FINDINGS),
    _Size(2, 3, 3, 240, Detail.FINDINGS),
    _Size(1, 2, 2, 240, Detail.FINDINGS),
    _Size(1, 1, 1, 240, Detail.FINDINGS),
    _Size(0, 0, 1, 240, Detail.FINDINGS),
    _Size(0, 0, 1, 120, Detail.ACCOUNT),
    _Size(0, 0, 1, 60, Detail.FIRST_FINDING),
)
_ALL: Final = 1 << 30


def report(
    tables: Tables, whole: Tables | None = None, top: int | None = None, trace: str = "TRACE"
) -> dict[str, Any]:
    """The report of a profile, as JSON-able data of at most MOST_CHARACTERS characters.

    It is the model that all views show (`profscope/analysis/model/entries.py`), with the lines, findings and
    details of kernels that there is room for. Its keys are always there, as docs/views.md and
    `profscope/analysis/report.schema.json` have them; None if a figure is unknown, and then
    `not_measured` says why. Durations are in `unit`, every other number has its unit in its key. Each
    configuration of a kernel has an entry of its own, those whose launches took longest first: in `kernels`,
    or, if there is no room, in brief in `other_kernels`: 20 in all. `left_out` counts the rest. Rows have an
    `id` that is the same in the next session.

    whole: if the tables have some CTAs, SMs or warps of their launches only, those of the whole launches: the
    verdict, overhead, accounts, findings, overlap and critical path are then of these. top: so many rows of
    each section, 0 for all, of all kernels, however long that is. trace: the file of the tables, for
    `next_command`.
    """
    model = profile_model(tables, whole, detailed=MOST_KERNELS if top is None else 0)
    model = replace(model, next_command=next_command(model, trace))
    return bounded(model) if top is None else _told(model, _Size(_ALL, top or _ALL, _ALL, 0))


def bounded(model: ProfileModel) -> dict[str, Any]:
    """The model as JSON-able data of at most MOST_CHARACTERS characters. Detail goes first, then texts, and
    kernels last, those whose launches took least."""
    for size in _SIZES:
        told = _told(model, size)
        if len(json.dumps(told, indent=1)) <= MOST_CHARACTERS:
            break
    return told


def _told(model: ProfileModel, size: _Size) -> dict[str, Any]:
    told: dict[str, Any] = plain(_cut(model, size), size.characters, _DIGITS)
    told["next_command"] = model.next_command  # which is not one if it is cut
    return told


def _cut(model: ProfileModel, size: _Size) -> ProfileModel:
    """The model with no more of anything than this; what is missing counts as left out."""
    told = max(size.kernels, MOST_KERNELS)
    rest = model.kernels[told:]
    notes = _most_important_notes(model)
    return replace(
        model,
        header=replace(model.header, notes=tuple(notes[: size.notes])),
        kernels=tuple(_cut_kernel(each, size) for each in model.kernels[: size.kernels]),
        other_kernels=tuple(in_brief(each, size.brief) for each in model.kernels[size.kernels : told]),
        left_out=LeftOutOfModel(
            kernels=len(rest),
            time=float(sum(each.time.total for each in rest if each.time is not None)),
            share=float(sum(each.share or 0.0 for each in rest)),
            notes=max(0, len(notes) - size.notes),
        ),
    )


def _cut_kernel(entry: KernelEntry, size: _Size) -> KernelEntry:
    lines = entry.lines
    left_out = LeftOut(
        lines=0 if lines is None else max(0, len(lines.rows) - size.rows),
        findings=max(0, len(entry.findings) - size.rows),
        experiments=max(0, len(entry.experiments) - size.rows),
    )
    return replace(
        entry,
        reasons=entry.reasons[: max(size.rows, 3)],
        lines=None if lines is None else replace(lines, rows=lines.rows[: size.rows]),
        findings=entry.findings[: size.rows],
        experiments=entry.experiments[: size.rows],
        critical_path=entry.critical_path[: size.rows],
        left_out=left_out,
    )


def _most_important_notes(model: ProfileModel) -> list[str]:
    """Those on no kernel first, then each kernel's, those whose launches took longest first."""
    place = {kernel: at for at, kernel in enumerate(dict.fromkeys(each.kernel for each in model.kernels))}
    return sorted(model.header.notes, key=lambda note: place.get(kernel_of_note(note), -1))
