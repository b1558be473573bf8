"""A profile in few words, for programs: the model, bounded. What automated tuners and CI read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final, NamedTuple

from profscope.analysis.cause import gain_text
from profscope.analysis.model.build import profile_model
from profscope.analysis.model.entries import (
    FindingEntry,
    KernelEntry,
    KernelInBrief,
    LeftOut,
    LeftOutOfModel,
    ProfileModel,
)
from profscope.analysis.model.numbers import plain
from profscope.analysis.texts import kernel_of_note, source_text
from profscope.schema import Tables

__all__ = ["MOST_CHARACTERS", "bounded", "report"]

MOST_CHARACTERS: Final = 20_000
"""Of the report as JSON, indented by one."""

_OPTIONS: Final = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_DIGITS: Final = 6
"""Of each number: significant ones."""


class _Size(NamedTuple):
    """How much is told: kernels, other than in brief; rows of each of their sections; notes; characters of a
    text."""

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
    _Size(0, 0, 0, 120),
    _Size(0, 0, 0, 60),
)
_ALL: Final = 1 << 30
_LEAST_KERNEL: Final = 100
"""Characters of a kernel in brief, at least."""


def report(tables: Tables, whole: Tables | None = None, top: int | None = None) -> dict[str, Any]:
    """What there is to know of a profile, as JSON-able data of at most MOST_CHARACTERS characters.

    It is the model that all views show (`profscope/analysis/model/entries.py`), with the lines, findings and
    details of kernels that there is room for. Its keys are always there, as docs/views.md and
    `profscope/analysis/report.schema.json` have them; None where a figure is not known, and then
    `not_measured` says why. Durations are in `unit`, every other number has its unit in its key. Each
    configuration of a kernel has an entry of its own, those whose launches took longest first: in `kernels`,
    or, if there is no room, in brief in `other_kernels`, with its share, configuration and first finding.
    `left_out` counts the rest. Rows have an `id` that is the same in the next session.

    whole: if the tables have some CTAs, SMs or warps of their launches only, those of the whole launches: the
    verdict, what recording cost, accounts, findings, overlap and critical path are then of these.
    top: so many rows of each section, 0 for all, of all kernels, however long that is.
    """
    if top is None:
        return bounded(profile_model(tables, whole, detailed=_SIZES[0].kernels))
    size = _Size(_ALL, top or _ALL, _ALL, 0)
    return _told(profile_model(tables, whole), size)


def bounded(model: ProfileModel) -> dict[str, Any]:
    """The model as JSON-able data of at most MOST_CHARACTERS characters. Detail goes first, then texts, and
    kernels last, those whose launches took least."""
    for size in _SIZES:
        told = _told(model, size)
        if _fits(told):
            return told
    others = min(len(model.kernels), MOST_CHARACTERS // _LEAST_KERNEL)
    while others and not _fits(told := _told(model, _SIZES[-1], others)):
        others = others * 7 // 8
    return told if others else _told(model, _SIZES[-1], 0)


def _told(model: ProfileModel, size: _Size, others: int = _ALL) -> dict[str, Any]:
    told: dict[str, Any] = plain(_cut(model, size, others), size.characters, _DIGITS)
    return told


def _fits(told: dict[str, Any]) -> bool:
    return len(json.dumps(told, indent=1)) <= MOST_CHARACTERS


def _cut(model: ProfileModel, size: _Size, others: int) -> ProfileModel:
    """The model with no more of anything than this; what is missing counts as left out. others: at most so
    many kernels in brief."""
    told = size.kernels + others
    rest = model.kernels[told:]
    notes = _most_important_notes(model)
    return replace(
        model,
        header=replace(model.header, notes=tuple(notes[: size.notes])),
        kernels=tuple(_cut_kernel(each, size) for each in model.kernels[: size.kernels]),
        other_kernels=tuple(_in_brief(each) for each in model.kernels[size.kernels : told]),
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


def _in_brief(entry: KernelEntry) -> KernelInBrief:
    of = entry.configuration
    options = {} if of is None else {name: getattr(of, name) for name in _OPTIONS}
    given = ({} if of is None else dict(of.constexprs)) | options
    first = entry.findings[0] if entry.findings else None
    return KernelInBrief(
        id=entry.id,
        kernel=entry.kernel,
        variant=entry.variant,
        share=entry.share,
        configuration=", ".join(
            f"{name}={plain(value)}" for name, value in given.items() if value is not None
        ),
        finding="" if first is None else _finding_text(first),
    )


def _finding_text(finding: FindingEntry) -> str:
    """ "exposed-latency loops.py:24: 68 % of the kernel's time"."""
    gain = gain_text(finding.gain.expected) + " of the kernel's time" * (finding.gain_pct is not None)
    return f"{finding.finding} {source_text(finding.file, finding.line)}: {gain}"


def _most_important_notes(model: ProfileModel) -> list[str]:
    """Those on no kernel first, then each kernel's, those whose launches took longest first."""
    place = {kernel: at for at, kernel in enumerate(dict.fromkeys(each.kernel for each in model.kernels))}
    return sorted(model.header.notes, key=lambda note: place.get(kernel_of_note(note), -1))
