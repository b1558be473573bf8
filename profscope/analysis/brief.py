"""A profile in 4 KB of text, for agents: all kernels, and as much of each as there is room for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from profscope.analysis.model.build import profile_model
from profscope.analysis.model.entries import KernelEntry, ProfileModel
from profscope.analysis.model.in_brief import MOST_KERNELS, Detail, in_brief, next_command
from profscope.analysis.texts import clipped, count_text, printable
from profscope.schema import Tables

__all__ = ["MOST_BYTES", "brief"]

MOST_BYTES: Final = 4096
"""Of the text in UTF-8."""

_MISSING: Final = "not measured: "
_NAME: Final = 48  # characters of a name, if there is little room
_TEXT: Final = 240  # of a line about the whole profile
_HANG_LINES: Final = 6
_MISSING_BYTES: Final = MOST_BYTES // 4  # of what was not measured


def brief(
    tables: Tables, whole: Tables | None = None, trace: str = "TRACE", says: Callable[[str], str] = str
) -> str:
    """The report of a profile, as text of at most 4,096 bytes.

    For each kernel: share, bare time, verdict, account and findings; then missing evidence and the command to
    run next. It has at most 20 kernels, those with the longest launches. If not all fits, details are left
    out, those of short kernels first.

    whole: as in `report`. trace: the file of the tables, for the command. says: missing evidence, in the
    words of a command line.
    """
    model = profile_model(tables, whole, parts=("findings", "accounts"), detailed=MOST_KERNELS)
    head = _head(model, trace)
    foot: list[str] = []

    def kernels(details: Sequence[Detail]) -> list[str]:
        told = enumerate(zip(model.kernels, details, strict=False), 1)
        lines = (line for at, (entry, detail) in told for line in _kernel(at, entry, detail, says))
        return [line for line in lines if not _is_said(line, foot)]

    details = [Detail.FIRST_FINDING] * min(MOST_KERNELS, len(model.kernels))
    while details and not _fits(head, kernels(details), _foot(model, len(details), trace)):
        details = details[:-1]  # names in an alphabet of several bytes a letter
    foot = _foot(model, len(details), trace)
    for text in model.not_measured:
        longer = [*foot[:-1], f"{_MISSING}{printable(says(text))}", foot[-1]]
        if len("\n".join(longer).encode()) <= _MISSING_BYTES and _fits(head, kernels(details), longer):
            foot = longer
    for detail in list(Detail)[1:]:
        for at in range(len(details)):
            more = [*details[:at], detail, *details[at + 1 :]]
            if details[at] < detail - 1 or not _fits(head, kernels(more), foot):
                break
            details = more
    return _text(head, kernels(details), foot)


def _text(*parts: Sequence[str]) -> str:
    return "\n".join([line for part in parts for line in part]) + "\n"


def _fits(*parts: Sequence[str]) -> bool:
    return len(_text(*parts).encode()) <= MOST_BYTES


def _kernel(at: int, entry: KernelEntry, detail: Detail, says: Callable[[str], str]) -> Iterator[str]:
    own = in_brief(entry, detail)
    name = printable(entry.name)
    if detail == Detail.FIRST_FINDING and len(name) > _NAME:
        name = f"{name[: _NAME - 13]}...{name[-10:]}"  # Inductor's end with what tells them apart
    share = "" if own.share is None else f"{100 * own.share:.1f} %, "
    yield f"{at}. {name}: {share}{own.bare_time}; {own.verdict}"
    if detail >= Detail.ACCOUNT:
        parts = (f"grid {own.grid}", own.configuration, own.source)
        yield "   " + printable("; ".join(filter(None, parts)))
    if own.account:
        yield f"   account: {own.account}"
    yield from (f"   {printable(each)}" for each in own.findings)
    yield from (f"   {_MISSING}{printable(says(each))}" for each in own.not_measured)


def _is_said(line: str, foot: Sequence[str]) -> bool:
    """Whether a line of a kernel says what the foot does: "not measured: findings: add: no samples"."""
    _, is_missing, text = line.partition(f"   {_MISSING}")
    return bool(is_missing) and any(each.endswith(f": {text}") for each in foot)


def _head(model: ProfileModel, trace: str) -> list[str]:
    header, device = model.header, model.header.device
    lines = [
        f"{model.schema} in brief: {clipped(trace, _TEXT)}, {count_text(len(model.kernels), 'kernel')}, "
        f"{count_text(header.launches, 'recorded launch', 'recorded launches')}"
    ]
    if model.emulated:
        lines.append("EMULATED: cycles of a cost model, not GPU time")
    elif device.name:
        told = [device.name, device.arch]
        told += [] if device.sm_count is None else [f"{device.sm_count} SMs"]
        told += [_clock_text(device.min_clock_ghz, device.max_clock_ghz)]
        lines.append("GPU: " + ", ".join(clipped(each, _NAME) for each in told if each))
    versions = ", ".join(f"{name} {version}" for name, version in header.versions.items())
    lines.append(f"versions: {versions}")
    lines.append(f"verdict: {model.verdict.brief}")
    lines += [line for text in header.hangs for line in text.splitlines()][:_HANG_LINES]
    lines.append(
        "kernels: share of all time, quartiles; findings: what fixing each saves of the kernel's time"
    )
    return [clipped(printable(line), 2 * _TEXT) for line in lines]


def _clock_text(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "clock not measured"
    return f"clock {low:.3f} to {high:.3f} GHz"


def _foot(model: ProfileModel, shown: int, trace: str) -> list[str]:
    """The last line is the command."""
    rest = model.kernels[shown:]
    share = sum(each.share or 0.0 for each in rest)
    left = [f"left out: {count_text(len(rest), 'kernel')}, {100 * share:.1f} % of the time"] if rest else []
    command = next_command(model, trace)
    if len(command.encode()) > _TEXT * 2:
        command = "profscope doctor"
    return [*left, f"next: {printable(command)}"]
