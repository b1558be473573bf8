"""A kernel in a few texts, and the command to run next: for a report without room for more."""

from __future__ import annotations

import re
import shlex
from enum import IntEnum
from pathlib import PurePath
from typing import Final

from profscope.analysis.breakdown import basis_text
from profscope.analysis.cause import NO_GAIN, between_text, gain_text
from profscope.analysis.model.entries import (
    FindingEntry,
    KernelEntry,
    KernelInBrief,
    ProfileModel,
    Source,
)
from profscope.analysis.model.numbers import plain
from profscope.analysis.texts import count_text, source_text, three_digits

__all__ = ["MOST_KERNELS", "Detail", "in_brief", "next_command"]

MOST_KERNELS: Final = 20
"""That a report tells of; of more, the rest is counted."""

_MOST_FINDINGS: Final = 3
_HASH_DIGITS: Final = 12
_OPTIONS: Final = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_LAUNCHERS: Final = ("-m", "-c")


class Detail(IntEnum):
    """Levels of detail of a kernel; each level has all of those before it."""

    FIRST_FINDING = 0  # behind share, bare time and verdict
    ACCOUNT = 1  # and configuration, grid, source
    FINDINGS = 2  # three of them
    EVIDENCE = 3  # of each finding, its advice, and what was not measured


def in_brief(entry: KernelEntry, detail: Detail) -> KernelInBrief:
    """Texts that there is no room for are ""."""
    findings = entry.findings[: _MOST_FINDINGS if detail >= Detail.FINDINGS else 1]
    has_account = detail >= Detail.ACCOUNT
    has_evidence = detail >= Detail.EVIDENCE
    missing = entry.findings_not_measured + entry.verdict_not_measured
    return KernelInBrief(
        id=entry.id,
        kernel=entry.kernel,
        variant=entry.variant,
        share=entry.share,
        bare_time=_time_text(entry, has_source=has_account),
        verdict=entry.verdict,
        configuration=_configuration_text(entry) if has_account else "",
        grid=" x ".join(map(str, entry.grid)) if has_account else "",
        source=_source_text(entry.source) if has_account else "",
        account=_account_text(entry) if has_account else "",
        findings=tuple(_finding_text(each, has_evidence=has_evidence) for each in findings)
        or ((entry.clean,) if entry.clean and has_evidence else ()),
        not_measured=missing if has_evidence else (),
    )


def _time_text(entry: KernelEntry, *, has_source: bool) -> str:
    """ "bare 27.7us (27.5us to 28us, 24 launches)"; of recorded launches if none was timed bare."""
    time = entry.bare_time or entry.time
    told = "bare" if entry.bare_time else "bare time not measured, recorded"
    if time is None:
        return "time not measured"
    low, median, high = ("".join(three_digits(each, time.unit)) for each in (time.p25, time.median, time.p75))
    launches = count_text(time.launches, "launch", "launches")
    median += " cycles" if time.unit == "cycles" else ""
    return f"{told} {median} ({low} to {high}, {launches}{f'; {time.source}' * has_source})"


def _configuration_text(entry: KernelEntry) -> str:
    """ "BLOCK=64, num_warps=4"."""
    of = entry.configuration
    options = {} if of is None else {name: getattr(of, name) for name in _OPTIONS}
    given = ({} if of is None else dict(of.constexprs)) | options
    return ", ".join(f"{name}={plain(value)}" for name, value in given.items() if value is not None)


def _source_text(source: Source | None) -> str:
    if source is None:
        return ""
    return f"{source_text(source.file, source.line)} sha256 {source.sha256[:_HASH_DIGITS]}"


def _account_text(entry: KernelEntry) -> str:
    """ "waiting: memory 93 %, issuing 7 % (by PC samples)"."""
    account = entry.account
    if account is None or not account.shares:
        return ""
    parts = ", ".join(f"{name} {100 * share:.1f} %" for name, share in account.shares.items())
    return f"{parts} (by {basis_text(account.basis)})"


def _finding_text(finding: FindingEntry, *, has_evidence: bool) -> str:
    """ "exposed-latency loops.py:24: 68 % (60 to 70 %), modelled": of the kernel's time."""
    gain = finding.gain
    between = between_text(gain.low, gain.high) if gain != NO_GAIN else ""
    text = f"{finding.finding} {source_text(finding.file, finding.line)}: {gain_text(gain.expected)}"
    text += f" ({between})" * bool(between) + f", {finding.basis}"
    if not has_evidence:
        return text
    advice = f". Try: {finding.advice}" if finding.advice else ""
    return f"{text}, confidence: {finding.confidence}; {finding.evidence}{advice}"


def next_command(model: ProfileModel, trace: str) -> str:
    """The most useful command on the kernel with the largest saving, or with the most time. trace: a path."""
    if not model.kernels:
        return "profscope doctor"
    kernel, first = next(
        ((each.kernel, each.own) for each in model.findings if each.own.gain_pct != 0),
        (model.kernels[0], None),
    )
    if (program := _program(model)) and not kernel.experiments:
        name = shlex.quote(f"^{re.escape(kernel.kernel)}$")
        return f"profscope explain --kernels {name} {program}"
    own = first or kernel.source
    if own is None or not own.line:
        return f"profscope view {shlex.quote(trace)} --format report"
    return f"profscope view {shlex.quote(trace)} --source {shlex.quote(source_text(own.file, own.line))}"


def _program(model: ProfileModel) -> str:
    """What `profscope run` ran, as `profscope explain` takes it; "" if it does not: a launcher of ranks, or a
    program of several ranks."""
    command = model.header.command or ""
    words = shlex.split(command)
    is_python = words and (words[0] in _LAUNCHERS or PurePath(words[0]).suffix == ".py")
    return command if is_python and model.header.ranks == 1 else ""
