"""The header: the kernels, the device, the options, recorded and lost launches.

The first screen has the facts for reading its figures above them (`render_top`) or next to them, and notes
below them (`render_foot`); `--show header` has everything (`render_header`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from profscope.analysis.model.entries import KernelEntry, ProfileModel
from profscope.analysis.model.header import Header, Program
from profscope.analysis.model.labels import differs_text, short_name
from profscope.analysis.texts import UNSEEN, clipped
from profscope.analysis.trust_rules import DISTRUST
from profscope.viewer.flags import in_flags
from profscope.viewer.grid import pad, wrap
from profscope.viewer.units import bytes_text, count_text, duration_text, printable, share_text

__all__ = [
    "EMULATED",
    "Shown",
    "of_ctas",
    "of_launches",
    "of_scopes",
    "render_foot",
    "render_hangs",
    "render_header",
    "render_top",
]

EMULATED = "EMULATED: cycles of a cost model, not GPU time"
CORRECTED = "scopes and warps: recording time subtracted; launches and CTAs: as read"
_SHOWN_KERNELS = 4
_SHOWN_VARIANTS = 4
_SHOWN_OPTIONS = 10
_SHOWN_VALUE = 32  # characters
_MOST_GPUS = 4
MEASURED = {
    "latency": "spans on loads end when their data has arrived; loads do not overlap",
    "issue": "spans on loads end at their issue; `profscope run --measure latency` ends them with their data",
}
_LABEL = 10
"""Cells of a row's name and what stands between it and the row."""

_Row = tuple[str, Sequence[str], str]
"""Its name, its parts, and what stands between these."""

NO_LAUNCHES = "No launches recorded"
TO_CHECK = (
    "Check that a Triton kernel was launched inside the session, that kernels= matches its name, and that "
    "backend= is the one it ran on."
)


@dataclass(frozen=True)
class Shown:
    """The model, and the shown part of the trace of this name. chosen: the selection, by name; all_spans: of
    the whole trace."""

    model: ProfileModel
    trace: str
    chosen: Mapping[str, Any]
    all_spans: int

    @property
    def header(self) -> Header:
        return self.model.header


def _variants(model: ProfileModel) -> list[str]:
    """ "add_kernel #0 num_warps=4, #1 num_warps=8"."""
    by_kernel: dict[str, list[KernelEntry]] = {}
    for entry in model.kernels:
        if entry.differs:
            by_kernel.setdefault(entry.kernel, []).append(entry)
    said = []
    for kernel, longest in by_kernel.items():
        own = sorted(longest[:_SHOWN_VARIANTS], key=lambda entry: entry.variant)
        told = [f"{entry.label} {differs_text(entry.differs)}" for entry in own]
        more = ["..."] * (len(longest) > len(own))
        said.append(f"{short_name(kernel)} {', '.join([*told, *more])}")
    return said


def _launched(model: ProfileModel) -> list[str]:
    """How kernels were launched: "add_kernel by a grid of 64 x 2, num_warps=4". `_variants` tells that of
    those with several configurations."""
    said = []
    for entry in model.kernels:
        of = entry.configuration
        if of is None or entry.differs:
            continue
        clusters = of.num_ctas if (of.num_ctas or 1) > 1 else None
        options = {"num_warps": of.num_warps, "num_stages": of.num_stages, "num_ctas": clusters}
        given = {**options, "maxnreg": of.maxnreg, **of.constexprs}
        told = [
            f"{name}={clipped(str(value), _SHOWN_VALUE)}"
            for name, value in given.items()
            if value is not None
        ]
        sides = " x ".join(f"{side:,}" for side in entry.grid)
        grid = sides.removesuffix(" x 1").removesuffix(" x 1")
        more = ["..."] * (len(told) > _SHOWN_OPTIONS)
        grids = f"{entry.grids:,} grids, first" if entry.grids > 1 else "a grid of"
        by = f"{short_name(entry.name)} by {grids} {grid}"
        said.append(", ".join([by, *map(printable, told[:_SHOWN_OPTIONS]), *more]))
    return said


def _program(program: Program) -> list[str]:
    """What the GPUs did, what part of that was Triton's, and the longest scopes of the host's code."""
    said = []
    by_work = sorted(program.gpus, key=lambda gpu: gpu.busy_ns)
    for gpu in program.gpus if len(by_work) <= _MOST_GPUS else (by_work[0], by_work[-1]):
        busy, idle = (duration_text(time, "ns") for time in (gpu.busy_ns, gpu.idle_ns))
        whose = f"GPU {gpu.device}" + f" of rank {gpu.rank}" * (gpu.rank >= 0 and len(by_work) > 1)
        said.append(f"{whose} busy for {busy}, idle for {idle}")
    if len(by_work) > _MOST_GPUS:
        said.append(f"the other {len(by_work) - 2:,} GPUs between these")
    if program.triton_share is not None and program.triton_ns is not None:
        ran = duration_text(program.triton_ns, "ns")
        said.append(f"{share_text(program.triton_share)} of its time is Triton's ({ran})")
    for scope in program.scopes:
        several = scope.count > 1
        took = f"{scope.count:,} x " * several + duration_text(scope.mean_ns, "ns")
        launches = count_text(round(scope.launches_each), "launch", "launches") + " each" * several
        said.append(f"scope {printable(scope.path)} {took}, {launches}")
    return said


def _bound(model: ProfileModel) -> list[str]:
    """What binds the kernels."""
    return [f"{short_name(entry.name)} is {entry.limits.bound}" for entry in model.kernels if entry.limits]


def _of_kernels(said: Sequence[str], most: int | None = None) -> list[str]:
    """The words of what is said of kernels, of no more than the first `most`."""
    left = len(said[most:]) if most is not None else 0
    more = [f"{count_text(left, 'more kernel')} in --show header"] if left else []
    return "; ".join([*said[:most], *more]).split()


def render_header(shown: Shown, width: int) -> list[Text]:
    """The whole header: lines of at most `width` cells; longer ones are wrapped."""
    header, size = shown.header, _size(shown.header)
    rows: list[_Row] = [
        ("Verdict", shown.model.verdict.headline.split() if header.launches else [], " "),
        ("Command", (header.command or "").split(), " "),
        ("Trace", [f"{shown.trace}: {size[0]}", *size[1:]], ", "),
        ("Shown", _chosen(shown), ", "),
        ("Device", [part for part in (_device(header) or "unknown", *_clock(shown.model)) if part], ", "),
        ("Launched", _of_kernels(_launched(shown.model)) if header.launches else [], " "),
        ("Variants", _of_kernels(_variants(shown.model)), " "),
        ("Versions", [f"{name} {version}" for name, version in header.versions.items()], "  "),
        ("Options", [f"{name}={value}" for name, value in header.options.items()], "  "),
        ("Measured", MEASURED.get(header.measure or "", "").split(), " "),
        ("Times", CORRECTED.split() if header.corrected else [], " "),
        ("Records", _records(shown), ", "),
        ("Overhead", (header.overhead or "").split(), " "),
        ("Bound", _of_kernels(_bound(shown.model)), " "),
    ]
    rows += _noted(shown.model)
    if header.launches or header.hangs:
        return [*_banner(header), *render_hangs(header.hangs, width), *_render(shown.model, rows, width)]
    # The notes are the first lines.
    rows = rows if UNSEEN in header.notes else [row for row in rows if row[0] != "Note"]
    return [*_banner(header), *_nothing(header, width), Text(), *_render(shown.model, rows, width)]


def render_top(shown: Shown, width: int) -> list[Text]:
    """The facts above the first figure: recording, selection, verdict and losses. If nothing was recorded,
    the reason, and the whole header."""
    header = shown.header
    if header.launches == 0:
        return render_header(shown, width)
    size = _size(header)
    ctas = [part for part in size if part.endswith((" CTA", " CTAs"))]
    kernels = count_text(header.kernels, "kernel") if header.kernels > 1 else shown.model.kernels[0].kernel
    on = f" on {header.device.name}" if header.device.name else ""
    kernels += f" of {header.ranks} ranks" if header.ranks > 1 else ""
    rows: list[_Row] = [
        ("Command", (header.command or "").split(), " "),
        ("Recorded", f"{kernels}{on}: {', '.join([size[0], *ctas])}".split(" "), " "),
        ("Launched", _of_kernels(_launched(shown.model), _SHOWN_KERNELS), " "),
        ("Variants", _of_kernels(_variants(shown.model), _SHOWN_KERNELS), " "),
        ("Shown", _chosen(shown), ", "),
        ("Verdict", shown.model.verdict.brief.split(), " "),
        ("Overhead", (header.overhead or "").split(), " "),
        ("Bound", _of_kernels(_bound(shown.model), _SHOWN_KERNELS), " "),
        ("Records", _records(shown) if header.dropped else [], ", "),
    ]
    return [*_banner(header), *render_hangs(header.hangs, width), *_render(shown.model, rows, width)]


def render_hangs(texts: Sequence[str], width: int) -> list[Text]:
    """Launches that did not end, above all else that is said of them."""
    lines = []
    for text in texts:
        for at, line in enumerate(text.splitlines()):
            indent = " " * (len(line) - len(line.lstrip()))
            told = wrap(printable(line.strip()).split(" "), width - len(indent) - 2)
            style = "" if at else "bold red"
            lines += [Text(f"{indent}{'  ' * (number > 0)}{each}", style) for number, each in enumerate(told)]
    return lines


def render_foot(shown: Shown, width: int) -> list[Text]:
    """Notes, and the program around the kernels; empty if `render_top` has them."""
    return _render(shown.model, _noted(shown.model), width) if shown.header.launches else []


def of_launches(model: ProfileModel) -> list[str]:
    """The remark on launches' times."""
    uncertainty = model.header.device.time_uncertainty_ns
    if model.unit == "ns" and not model.emulated and uncertainty:
        return [f"timestamps +-{uncertainty:.0f} ns"]
    return []


def of_ctas(header: Header) -> list[str]:
    """The remark on the times of whole CTAs."""
    return ["as read"] if header.corrected else []


def of_scopes(header: Header) -> list[str]:
    """The remark on the times of scopes and warps."""
    return ["recording time subtracted"] if header.corrected else []


def _banner(header: Header) -> list[Text]:
    return [Text(EMULATED, style="bold black on yellow")] if header.backend == "emulator" else []


def _noted(model: ProfileModel) -> list[_Row]:
    notes: list[_Row] = [("Note", in_flags(note).split(" "), " ") for note in _alike_once(model.header.notes)]
    return [("Program", _program(model.program), "; "), *notes]


def _render(model: ProfileModel, rows: Sequence[_Row], width: int) -> list[Text]:
    lines = []
    for name, parts, separator in rows:
        if not parts:
            continue
        alarming = (
            name == "Values"
            or (name == "Records" and model.header.dropped)
            or (name == "Verdict" and model.verdict.label == DISTRUST)
        )
        style = "bold red" if alarming else ""
        head = "bold yellow" if name == "Note" else "dim"
        for at, line in enumerate(wrap([printable(part) for part in parts], width - _LABEL, separator)):
            lines.append(Text.assemble((pad("" if at else name, _LABEL), head), (line, style)))
    return lines


def _nothing(header: Header, width: int) -> list[Text]:
    """Why nothing was recorded, by the notes; what to check where they do not say."""
    if "hang_s" in header.options:
        return [Text(f"No launch was reported to hang: none took {header.options['hang_s']:g} s.", "bold")]
    if not header.notes or UNSEEN in header.notes:
        said = f"{NO_LAUNCHES}. {TO_CHECK}"
    else:
        said = f"{NO_LAUNCHES}: {'; '.join(_alike_once(header.notes))}"
    return [Text(line, style="bold") for line in wrap(printable(in_flags(said)).split(" "), width)]


def _alike_once(notes: Sequence[str]) -> list[str]:
    """Of notes that say the same of several kernels, but for the numbers in it, the first one."""
    alike: dict[str, list[str]] = {}
    for note in notes:
        _, colon, said = note.partition(": ")
        alike.setdefault(re.sub(r"\d+", "0", said) if colon else note, []).append(note)
    return [
        own[0]
        + (f" (and {count_text(len(own) - 1, 'note')} like it, in --format json)" if len(own) > 1 else "")
        for own in alike.values()
    ]


def _size(header: Header) -> list[str]:
    counts = (
        (header.launches, "launch", "launches"),
        (header.kernels, "kernel", "kernels"),
        (header.ctas, "CTA", "CTAs"),
        (header.spans, "span", "spans"),
        (header.samples, "sample", "samples"),
    )
    # Other tools' traces may not say how many CTAs; most sessions sample nothing.
    known = [each for each in counts if each[0] or each[1] not in ("CTA", "sample")]
    return [f"{count_text(count)} {one if count == 1 else many}" for count, one, many in known]


def _chosen(shown: Shown) -> list[str]:
    """What was chosen of the trace; nothing if it is shown whole."""
    if not shown.chosen:
        return []
    chosen = [f"{name} {value}" for name, value in shown.chosen.items()]
    spans = f"{count_text(shown.header.spans)} of {count_text(shown.all_spans)} spans"
    return [*chosen[:-1], f"{chosen[-1]}: {spans}"]


def _device(header: Header) -> str:
    device = header.device
    count = f"{device.sm_count} SMs" if device.sm_count else ""
    return ", ".join(filter(None, [device.name, device.arch, count]))


def _clock(model: ProfileModel) -> list[str]:
    device = model.header.device
    if device.min_clock_ghz is None or device.max_clock_ghz is None:
        return []
    low, high = (f"{ghz:.3f}" for ghz in (device.min_clock_ghz, device.max_clock_ghz))
    clock = f"clock {low} GHz" if low == high else f"clock {low} to {high} GHz"
    uncertainty = device.time_uncertainty_ns
    return [clock, f"times +-{uncertainty:.0f} ns" if uncertainty is not None else ""]


def _records(shown: Shown) -> list[str]:
    header = shown.header
    if not header.records:
        return []
    share = header.dropped / (header.records + header.dropped)
    return [
        f"{count_text(header.records)} in {bytes_text(header.profile_bytes)} of profile memory",
        f"{count_text(header.dropped)} DROPPED ({share:.1%})" if header.dropped else "none dropped",
        *(["those of whole launches"] if {"cta", "sm", "warp"} & set(shown.chosen) else []),
    ]
