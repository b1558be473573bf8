"""The entries of the model: frozen dataclasses; they become JSON field by field.

Durations are in the model's `unit`, "ns", or "cycles" on the emulator; every other number has its unit in its
name. Shares are of 1. None means unknown; every number is finite.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from profscope.analysis.breakdown import Account
from profscope.analysis.cause import Gain
from profscope.analysis.line_rows import stall_text
from profscope.analysis.model.header import Header, Program
from profscope.analysis.trust_rules import Reason

__all__ = [
    "SCHEMA",
    "Configuration",
    "Ctas",
    "EvidenceValue",
    "ExperimentEntry",
    "FindingEntry",
    "KernelEntry",
    "KernelFinding",
    "KernelInBrief",
    "LaunchTimes",
    "LeftOut",
    "LeftOutOfModel",
    "Limits",
    "LineEntry",
    "Lines",
    "MovedBytes",
    "PathStep",
    "ProfileModel",
    "Records",
    "Resources",
    "Slowdown",
    "Source",
    "StallShare",
    "Tail",
    "VerdictEntry",
    "Work",
]

SCHEMA: Final = "profscope-model/2"


@dataclass(frozen=True)
class VerdictEntry:
    """Whether the figures can be trusted. headline: the label and the reasons in short; brief: the label and
    the reason that weighs most, with its figures."""

    label: str
    headline: str
    brief: str


@dataclass(frozen=True)
class LaunchTimes:
    """How long launches took as a whole, in `unit`: the median and the quartiles, as everywhere."""

    unit: str
    launches: int
    total: float
    median: float
    p25: float
    p75: float
    min: float
    max: float
    source: str


@dataclass(frozen=True)
class Slowdown:
    """Recorded time over bare time, and its 95 % interval."""

    ratio: float | None
    low_ratio: float | None
    high_ratio: float | None
    basis: str


@dataclass(frozen=True)
class Resources:
    """Resources of the two binaries; spills in the compiler's units."""

    recorded: Mapping[str, int | None]
    bare: Mapping[str, int | None] | None


@dataclass(frozen=True)
class Ctas:
    """CTAs of all launches: of the grids, recorded, and unfinished ones."""

    grid: int
    recorded: int
    unfinished: int


@dataclass(frozen=True)
class Records:
    """Records of all launches."""

    kept: int
    dropped: int
    per_warp: float | None
    memory_bytes: int


@dataclass(frozen=True)
class Configuration:
    """The launch configuration of a kernel: constexprs, and the launch options that were set."""

    constexprs: Mapping[str, Any]
    num_warps: int | None
    num_stages: int | None
    num_ctas: int | None
    maxnreg: int | None


@dataclass(frozen=True)
class Source:
    """The place of a kernel's `def`, and the hash of its text."""

    file: str
    line: int
    sha256: str


@dataclass(frozen=True)
class Limits:
    """The limit of the kernel, by the counters of bare launches: "bound by L2 (83 %)"."""

    bound: str
    peak_pct: Mapping[str, float | None]


@dataclass(frozen=True)
class EvidenceValue:
    """A figure and its unit."""

    value: float | None
    unit: str


@dataclass(frozen=True)
class FindingEntry:
    """A cause that holds the kernel back. evidence_values: the figures of the evidence, by name. gain_pct: of
    the kernel's time, between gain_low_pct and gain_high_pct; program_pct: of that of all. basis: "measured"
    if an experiment saved the gain, else "modelled"."""

    id: str
    finding: str
    file: str
    line: int
    evidence: str
    evidence_values: Mapping[str, EvidenceValue]
    advice: str
    gain_pct: float | None
    gain_low_pct: float | None
    gain_high_pct: float | None
    program_pct: float | None
    confidence: str
    basis: str

    @property
    def gain(self) -> Gain:
        """NaN if unknown."""
        told = (self.gain_pct, self.gain_low_pct, self.gain_high_pct)
        expected, low, high = (math.nan if each is None else each for each in told)
        return Gain(expected, low, high)


@dataclass(frozen=True)
class ExperimentEntry:
    """The saving by leaving out or changing one part of the kernel, of its bare time: a row of
    `prof.experiments`."""

    file: str
    line: int
    op: str
    experiment: str
    saved_pct: float | None
    low_pct: float | None
    high_pct: float | None
    time_us: float | None
    time_kcycles: float | None
    valid: bool
    why_not: str


@dataclass(frozen=True)
class StallShare:
    """A share of a line's samples."""

    stall: str
    share: float


@dataclass(frozen=True)
class LineEntry:
    """A source line, all call paths to it together.

    self_share, self_time: of its spans, over the kernel's warp time; spans: how many, of the scope that is
    named. share_samples: of the samples of the bare binary, with its 95 % interval.
    """

    id: str
    file: str
    line: int
    source: str
    call_paths: int
    scope: str
    self_share: float | None
    self_time: float | None
    spans: int
    share_samples: float | None
    share_samples_low: float | None
    share_samples_high: float | None
    samples: int
    stalls: tuple[StallShare, ...]
    waits_for: str
    bytes_at_most: int | None
    flops: int | None

    @property
    def share(self) -> float | None:
        """By the witness that leads."""
        return self.self_share if self.share_samples is None else self.share_samples

    @property
    def stalls_text(self) -> str:
        return stall_text((each.stall, each.share) for each in self.stalls)


@dataclass(frozen=True)
class Lines:
    """witness: ranks the lines, "samples" if the kernel has enough of them, else "spans". samples: number of
    the bare binary's. not_measured: unknown facts of its lines, and why."""

    witness: str
    samples: int
    rows: tuple[LineEntry, ...]
    not_measured: tuple[str, ...]


@dataclass(frozen=True)
class PathStep:
    """A scope on the way that decides when a CTA ends. earlier_pct: how much sooner it would end if the scope
    took a quarter less."""

    scope: str
    file: str
    line: int
    cycles: int
    share: float | None
    earlier_pct: float | None


@dataclass(frozen=True)
class Tail:
    """How launches end: the part of all slots for CTAs that is empty once the last CTA has begun."""

    tail_pct: float
    ctas: int
    waves: float
    sms_used: int


@dataclass(frozen=True)
class MovedBytes:
    """Bytes that an op moved at most: masked lanes count, too."""

    bytes_at_most: int
    gb_per_s_at_most: float | None


@dataclass(frozen=True)
class Work:
    """FLOPs and bytes of the ops of all launches, by their types and recorded executions."""

    flops: int | None
    tflop_per_s: float | None
    bytes_by_op: Mapping[str, MovedBytes]


@dataclass(frozen=True)
class LeftOut:
    """Parts left out for lack of room."""

    lines: int
    findings: int
    experiments: int


@dataclass(frozen=True)
class KernelEntry:
    """One configuration of a kernel.

    id: the same in the next session. label: "#1" if the kernel has several configurations, else ""; differs:
    options that vary among them. launches_seen: with unrecorded launches. untimed: launches without records
    or without an end; no time includes them. share: of the time of all launches. clean: the text if there is
    no finding. experiments: the largest saving first. The sections from `account` on are None or empty if not
    asked for, or unknown.
    """

    id: str
    kernel: str
    variant: int
    label: str
    differs: Mapping[str, Any]
    configuration: Configuration | None
    source: Source | None
    grid: tuple[int, ...]
    grids: int
    num_ctas: int
    num_warps: int
    launches: int
    launches_seen: int
    untimed: int
    ctas: Ctas
    share: float | None
    time: LaunchTimes | None
    bare_time: LaunchTimes | None
    recorded_over_bare: Slowdown
    resources: Resources
    records: Records
    verdict: str
    reasons: tuple[Reason, ...]
    verdict_not_measured: tuple[str, ...]
    limits: Limits | None
    account: Account | None
    findings: tuple[FindingEntry, ...]
    clean: str
    findings_not_measured: tuple[str, ...]
    experiments: tuple[ExperimentEntry, ...]
    lines: Lines | None
    overlap: Mapping[str, Mapping[str, float | None]] | None
    critical_path: tuple[PathStep, ...]
    tail: Tail | None
    work: Work | None
    left_out: LeftOut

    @property
    def name(self) -> str:
        """With its number where it has several."""
        return f"{self.kernel} {self.label}".rstrip()


@dataclass(frozen=True)
class KernelInBrief:
    """A configuration for which a report has no room for more: texts, "" if unknown or if there is no room.
    configuration: "BLOCK=64, num_warps=4"; findings: at most three, each with its saving of the kernel's
    time."""

    id: str
    kernel: str
    variant: int
    share: float | None
    bare_time: str
    verdict: str
    configuration: str
    grid: str
    source: str
    account: str
    findings: tuple[str, ...]
    not_measured: tuple[str, ...]


class KernelFinding(NamedTuple):
    """A finding, and the kernel that it is of."""

    kernel: KernelEntry
    own: FindingEntry


@dataclass(frozen=True)
class LeftOutOfModel:
    """Kernels for which there was no room, not even in brief. time, share: of their launches, in `unit` and
    over the time of all launches."""

    kernels: int
    time: float
    share: float
    notes: int


@dataclass(frozen=True)
class ProfileModel:
    """All that views show of a profile. Kernels are in order of their launches' time; other_kernels: the next
    ones, in brief. not_measured: unknown facts, and why. next_command: the command to run next.
    """

    schema: str
    unit: str
    emulated: bool
    header: Header
    verdict: VerdictEntry
    program: Program
    kernels: tuple[KernelEntry, ...]
    other_kernels: tuple[KernelInBrief, ...]
    left_out: LeftOutOfModel
    not_measured: tuple[str, ...]
    next_command: str

    @property
    def findings(self) -> list[KernelFinding]:
        """Those of all kernels, what saves most of the program's time first."""
        rows = [KernelFinding(kernel, own) for kernel in self.kernels for own in kernel.findings]
        return sorted(rows, key=lambda row: (-(row.own.program_pct or 0.0), -(row.own.gain_pct or 0.0)))
