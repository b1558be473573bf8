"""A profile in few words, for programs: the model, bounded. What automated tuners and CI read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final, NamedTuple

from profscope.analysis.model.build import profile_model
from profscope.analysis.model.entries import KernelEntry, LeftOut, LeftOutOfModel, ProfileModel
from profscope.analysis.model.numbers import plain
from profscope.analysis.texts import kernel_of_note
from profscope.schema import Tables

__all__ = ["MOST_CHARACTERS", "bounded", "report"]

MOST_CHARACTERS: Final = 20_000
"""Of the report as JSON, indented by one."""

_DIGITS: Final = 6
"""Of each number: significant ones."""


class _Size(NamedTuple):
    """How much is told: kernels; rows of each of their sections; notes; characters of a text."""

    kernels: int
    rows: int
    notes: int
    characters: int


_SIZES: Final = (
    _Size(8, 12, 12, 240),
    _Size(6, 8, 8, 240),
    _Size(4, 6, 6, 240),
    _Size(4, 3, 4, 240),
    _Size(3, 3, 3, 240),
    _Size(3, 2, 3, 240),
    _Size(2, 3, 3, 240),
    _Size(1, 2, 2, 240),
    _Size(1, 1, 1, 120),
    _Size(1, 0, 0, 60),
    _Size(0, 0, 0, 60),
)


def report(tables: Tables, whole: Tables | None = None) -> dict[str, Any]:
    """What there is to know of a profile, as JSON-able data of at most MOST_CHARACTERS characters.

    It is the model that all views show (`profscope/analysis/model/entries.py`), with the kernels, lines and
    findings that there is room for. Its keys are always there, as docs/views.md and
    `profscope/analysis/report.schema.json` have them; None where a figure is not known, and then
    `not_measured` says why. Durations are in `unit`, every other number has its unit in its key. Each
    configuration of a kernel has an entry of its own, those whose launches took longest first; `left_out`
    counts what there was no room for. Rows have an `id` that is the same in the next session.

    whole: if the tables have some CTAs, SMs or warps of their launches only, those of the whole launches: the
    verdict, what recording cost, accounts, findings, overlap and critical path are then of these.
    """
    return bounded(profile_model(tables, whole, detailed=_SIZES[0].kernels))


def bounded(model: ProfileModel) -> dict[str, Any]:
    """The model as JSON-able data of at most MOST_CHARACTERS characters."""
    told: dict[str, Any] = {}
    for size in _SIZES:
        told = plain(_cut(model, size), size.characters, _DIGITS)
        if len(json.dumps(told, indent=1)) <= MOST_CHARACTERS:
            break
    return told


def _cut(model: ProfileModel, size: _Size) -> ProfileModel:
    """The model with no more of anything than this; what is missing counts as left out."""
    rest = model.kernels[size.kernels :]
    notes = _most_important_notes(model)
    return replace(
        model,
        header=replace(model.header, notes=tuple(notes[: size.notes])),
        kernels=tuple(_cut_kernel(each, size) for each in model.kernels[: size.kernels]),
        left_out=LeftOutOfModel(
            kernels=len(rest),
            time=float(sum(each.time.total for each in rest if each.time is not None)),
            notes=max(0, len(notes) - size.notes),
        ),
    )


def _cut_kernel(entry: KernelEntry, size: _Size) -> KernelEntry:
    lines = entry.lines
    left_out = LeftOut(
        lines=0 if lines is None else max(0, len(lines.rows) - size.rows),
        findings=max(0, len(entry.findings) - size.rows),
    )
    return replace(
        entry,
        reasons=entry.reasons[: max(size.rows, 3)],
        lines=None if lines is None else replace(lines, rows=lines.rows[: size.rows]),
        findings=entry.findings[: size.rows],
        critical_path=entry.critical_path[: size.rows],
        left_out=left_out,
    )


def _most_important_notes(model: ProfileModel) -> list[str]:
    """Those on no kernel first, then each kernel's, those whose launches took longest first."""
    place = {kernel: at for at, kernel in enumerate(dict.fromkeys(each.kernel for each in model.kernels))}
    return sorted(model.header.notes, key=lambda note: place.get(kernel_of_note(note), -1))
