"""The header: what was profiled, with what, how much was recorded and what was lost.

The first screen has what one must know to read its figures, above them (`render_top`) or beside them, and
below them what was noted (`render_foot`); `--show header` has all of it (`render_header`).
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.text import Text

from profscope.analysis.corrections import are_corrected
from profscope.analysis.launch_durations import longest_first
from profscope.analysis.limits import bound_of, limits_of
from profscope.analysis.notes import UNSEEN
from profscope.analysis.overhead import budget_line
from profscope.analysis.trust_rules import DISTRUST
from profscope.analysis.values import value_problems
from profscope.options import Options
from profscope.profiles import Profile
from viewer.cells import fit_middle, pad, wrap
from viewer.groups import Group, differs_text, make_groups
from viewer.select import Selection
from viewer.units import bytes_text, count_text, duration_text, printable, share_text

__all__ = [
    "EMULATED",
    "Header",
    "make_header",
    "of_ctas",
    "of_launches",
    "of_scopes",
    "render_foot",
    "render_header",
    "render_top",
]

EMULATED = "EMULATED: cycles of a cost model, not GPU time"
CORRECTED = (
    "of scopes and warps are without what recording took, those of launches and CTAs as they were read"
)
SHOWN_SCOPES = 3
_SHOWN_BOUND = 3
_SHOWN_VARIANTS = 4
MEASURED = {
    "latency": "spans on loads end when their data has arrived; loads do not overlap",
    "issue": "spans on loads end at their issue; measure=latency ends them with their data",
}
_LABEL = 10
"""Cells of a row's name and what stands between it and the row."""

_LONGEST_NAME = 40
"""Cells of a kernel's name in front of a reason."""

_Row = tuple[str, Sequence[str], str]
"""Its name, its parts, and what stands between these."""

NO_LAUNCHES = "No launches recorded"
TO_CHECK = (
    "Check that a Triton kernel was launched inside the session, that kernels= matches its name, and that "
    "the session's backend is the one it ran on."
)


@dataclass(frozen=True)
class Header:
    """The facts about what is shown of a profile, which is all of it unless `chosen` says otherwise.

    verdict: whether its figures can be believed, in one line; "" where there is nothing to judge; in_brief:
    the same with the reason that weighs most. command: what `profscope run` ran, "" if it did not. variants:
    by kernel, what tells its configurations apart, of those that took longest. kernel: its name, "" where
    there are several. ranks: processes of a job. samples: of the hardware's sampler, over all binaries.
    chosen: what was asked for, by name; all_spans: those of the whole profile. clock_ghz and ns_uncertainty
    are (least, greatest), None when unknown. options: those of the session that were set. measure: what spans
    on loads end with, "issue" or "latency"; "" when unknown.
    records, dropped, profile_bytes: of whole launches, also where a part of each is shown.
    program: of all that ran around the kernels, where it was recorded. bound: what binds the longest kernels,
    if the hardware was asked. budget: what recording added, if it had a budget. values: what is wrong in
    probed tensors."""

    verdict: str
    in_brief: str
    command: str
    variants: list[str]
    kernel: str
    trace: str
    tool: str
    backend: str
    device: str
    clock_ghz: tuple[float, float] | None
    ns_uncertainty: tuple[float, float] | None
    versions: dict[str, str]
    options: dict[str, Any]
    measure: str
    corrected: bool
    chosen: dict[str, Any]
    kernels: int
    ranks: int
    launches: int
    samples: int
    ctas: int
    spans: int
    all_spans: int
    records: int
    dropped: int
    profile_bytes: int
    program: list[str]
    bound: list[str]
    budget: str
    values: str
    notes: list[str]


def make_header(
    profile: Profile, trace: str, selection: Selection, all_spans: int, whole: Profile | None = None
) -> Header:
    """Collect the facts about what was chosen of the trace of that name.

    whole: the launches of which that is a part, if it is one: the verdict is theirs.
    """
    launches, metadata = profile.launches, profile.metadata
    versions = {
        name: str(metadata[name]) for name in ("profscope", "triton", "torch", "python") if metadata.get(name)
    }
    names = launches["kernel"].unique()
    judged = (whole or profile).verdict if len(launches) else None
    return Header(
        verdict=judged.headline if judged else "",
        in_brief=judged.in_brief(longest_first(profile.tables, launches).index, _short) if judged else "",
        command=_command(metadata.get("program")),
        variants=_variants(profile),
        kernel=str(names[0]) if len(names) == 1 else "",
        trace=trace,
        tool=str(metadata.get("tool", "")),
        backend=str(metadata.get("backend", "")),
        device=_device(metadata.get("device") or {}),
        clock_ghz=_range(launches["clock_ghz"].to_numpy()),
        ns_uncertainty=_range(launches["ns_uncertainty"].to_numpy()),
        versions=versions,
        options=Options.not_default(metadata.get("options") or {}),
        measure=_measure(metadata),
        corrected=len(profile.tables.df) > 0 and are_corrected(profile.tables),
        chosen=selection.chosen,
        kernels=len(names),
        ranks=int(launches["rank"].nunique()),
        launches=len(launches),
        samples=0 if profile.tables.emulated else int(profile.samples["samples"].sum()),
        ctas=int(launches["ctas"].sum()),
        spans=len(profile.tables.df),
        all_spans=all_spans,
        records=int(launches["records"].sum()),
        dropped=int(launches["dropped"].sum()),
        profile_bytes=int(launches["profile_bytes"].sum()),
        program=_program(profile),
        bound=_bound(profile),
        budget=budget_line(metadata),
        values=value_problems(profile.tables),
        notes=[str(note) for note in metadata.get("notes") or ()],
    )


def _variants(profile: Profile) -> list[str]:
    """ "add_kernel #0 num_warps=4, #1 num_warps=8"."""
    by_kernel: dict[str, list[Group]] = {}
    groups = make_groups(profile)
    for key in longest_first(profile.tables, profile.launches).index:
        if groups[key].differs:
            by_kernel.setdefault(key[0], []).append(groups[key])
    said = []
    for kernel, longest in list(by_kernel.items())[:_SHOWN_BOUND]:
        own = sorted(longest[:_SHOWN_VARIANTS], key=lambda group: group.variant)
        told = [f"#{group.variant} {differs_text(group)}" for group in own]
        more = ["..."] * (len(longest) > len(own))
        said.append(f"{_short(kernel)} {', '.join([*told, *more])}")
    return said


def _command(program: object) -> str:
    """As one would type it; "" where another tool says something else of its program."""
    words = program.get("command") if isinstance(program, dict) else None
    return shlex.join(map(str, words)) if isinstance(words, list) else ""


def _program(profile: Profile) -> list[str]:
    """The longest scopes of the host's code, and what part of the GPU's time was Triton's."""
    said = []
    gpu_time = profile.program.gpu_time()
    triton = gpu_time.attrs["triton_share"]
    for (_, device), gpu in profile.program.gpu_gaps().attrs["devices"].items():
        busy = duration_text(gpu["busy_ns"], "ns")
        said.append(f"GPU {device} busy for {busy}, idle for {duration_text(gpu['idle_ns'], 'ns')}")
    if triton is not None:
        ran = int(gpu_time.loc[gpu_time["what"] == "Triton", "total_ns"].sum())
        said.append(f"{share_text(triton)} of its time is Triton's ({duration_text(ran, 'ns')})")
    if len(profile.host):
        scopes = profile.program.host_scopes()
        for row in scopes.nlargest(SHOWN_SCOPES, "total_ns").to_dict("records"):
            several = row["count"] > 1
            took = f"{row['count']:,} x " * several + duration_text(row["mean_ns"], "ns")
            launches = count_text(round(row["launches_each"]), "launch", "launches") + " each" * several
            said.append(f"scope {printable(row['path'])} {took}, {launches}")
    return said


def _bound(profile: Profile) -> list[str]:
    """Of the kernels whose launches took longest."""
    if not len(profile.counters):
        return []
    known = bound_of(limits_of(profile.counters))
    longest = longest_first(profile.tables, profile.launches).index
    order = [key for key in longest if key in known] + [key for key in known if key not in longest]
    return [f"{_short(kernel)} is {known[kernel, variant]}" for kernel, variant in order[:_SHOWN_BOUND]]


def _short(kernel: str) -> str:
    return fit_middle(kernel, _LONGEST_NAME)


def render_header(header: Header, width: int) -> list[Text]:
    """All of it: lines of at most `width` cells; what is too long for one goes on in the next."""
    size = _size(header)
    rows: list[_Row] = [
        ("Verdict", header.verdict.split(), " "),
        ("Command", header.command.split(), " "),
        ("Trace", [f"{header.trace}: {size[0]}", *size[1:]], ", "),
        ("Shown", _shown(header), ", "),
        ("Device", [part for part in (header.device or "unknown", *_clock(header)) if part], ", "),
        ("Versions", [f"{name} {version}" for name, version in header.versions.items()], "  "),
        ("Options", [f"{name}={value}" for name, value in header.options.items()], "  "),
        ("Measured", MEASURED.get(header.measure, "").split(), " "),
        ("Times", CORRECTED.split() if header.corrected else [], " "),
        ("Records", _records(header), ", "),
        ("Overhead", header.budget.split(), " "),
        ("Bound", header.bound, "; "),
        ("Values", header.values.split(), " "),
    ]
    rows += _noted(header)
    if header.launches:
        return [*_banner(header), *_render(header, rows, width)]
    # The notes are the first lines.
    rows = rows if UNSEEN in header.notes else [row for row in rows if row[0] != "Note"]
    return [*_banner(header), *_nothing(header, width), Text(), *_render(header, rows, width)]


def render_top(header: Header, width: int) -> list[Text]:
    """What one must know before the first figure: what was recorded, what is shown of it, whether to believe
    it, and what was lost. Where nothing was recorded, why, and all of the header."""
    if header.launches == 0:
        return render_header(header, width)
    size = _size(header)
    ctas = [part for part in size if part.endswith((" CTA", " CTAs"))]
    kernels = header.kernel or count_text(header.kernels, "kernel")
    on = f" on {header.device.split(', ')[0]}" if header.device else ""
    kernels += f" of {header.ranks} ranks" if header.ranks > 1 else ""
    rows: list[_Row] = [
        ("Command", header.command.split(), " "),
        ("Recorded", f"{kernels}{on}: {', '.join([size[0], *ctas])}".split(" "), " "),
        ("Variants", "; ".join(header.variants).split(), " "),
        ("Shown", _shown(header), ", "),
        ("Verdict", header.in_brief.split(), " "),
        ("Overhead", header.budget.split(), " "),
        ("Bound", header.bound, "; "),
        ("Values", header.values.split(), " "),
        ("Records", _records(header) if header.dropped else [], ", "),
    ]
    return [*_banner(header), *_render(header, rows, width)]


def render_foot(header: Header, width: int) -> list[Text]:
    """What was noted, and the program around the kernels; nothing where `render_top` has said it."""
    return _render(header, _noted(header), width) if header.launches else []


def of_launches(header: Header, unit: str) -> list[str]:
    """What is to be known of launches' times, beside them."""
    read = of_ctas(header)
    if unit == "ns" and header.backend != "emulator" and header.ns_uncertainty:
        read.append(f"timestamps +-{header.ns_uncertainty[1]:.0f} ns")
    return read


def of_ctas(header: Header) -> list[str]:
    """What is to be known of the times of CTAs as a whole, beside them."""
    return ["as read"] if header.corrected else []


def of_scopes(header: Header) -> list[str]:
    """What is to be known of the times of scopes and warps, beside them."""
    return ["without what recording took"] if header.corrected else []


def _banner(header: Header) -> list[Text]:
    return [Text(EMULATED, style="bold black on yellow")] if header.backend == "emulator" else []


def _noted(header: Header) -> list[_Row]:
    notes: list[_Row] = [("Note", note.split(" "), " ") for note in _alike_once(header.notes)]
    return [("Program", header.program, "; "), *notes]


def _render(header: Header, rows: Sequence[_Row], width: int) -> list[Text]:
    lines = []
    for name, parts, separator in rows:
        if not parts:
            continue
        alarming = (
            name == "Values"
            or (name == "Records" and header.dropped)
            or (name == "Verdict" and header.verdict.startswith(DISTRUST))
        )
        style = "bold red" if alarming else ""
        head = "bold yellow" if name == "Note" else "dim"
        for at, line in enumerate(wrap([printable(part) for part in parts], width - _LABEL, separator)):
            lines.append(Text.assemble((pad("" if at else name, _LABEL), head), (line, style)))
    return lines


def _nothing(header: Header, width: int) -> list[Text]:
    """Why nothing was recorded, by the notes; what to check where they do not say."""
    if not header.notes or UNSEEN in header.notes:
        said = f"{NO_LAUNCHES}. {TO_CHECK}"
    else:
        said = f"{NO_LAUNCHES}: {'; '.join(_alike_once(header.notes))}"
    return [Text(line, style="bold") for line in wrap(printable(said).split(" "), width)]


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


def _shown(header: Header) -> list[str]:
    """What was chosen of the trace; nothing if it is shown whole."""
    if not header.chosen:
        return []
    chosen = [f"{name} {value}" for name, value in header.chosen.items()]
    return [*chosen[:-1], f"{chosen[-1]}: {count_text(header.spans)} of {count_text(header.all_spans)} spans"]


def _measure(metadata: dict[str, Any]) -> str:
    """What loads were measured to: "latency" if those of any kernel were to their data; "" if unknown."""
    measured = {about.get("measure") or "" for about in (metadata.get("kernels") or {}).values()}
    return next((measure for measure in MEASURED if measure in measured), "")


def _device(device: dict[str, Any]) -> str:
    count = device.get("sm_count")
    return ", ".join(filter(None, [device.get("name"), device.get("arch"), f"{count} SMs" if count else ""]))


def _range(values: Any) -> tuple[float, float] | None:
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if len(known) else None


def _clock(header: Header) -> list[str]:
    if header.backend == "emulator" or header.clock_ghz is None:
        return []
    low, high = (f"{ghz:.3f}" for ghz in header.clock_ghz)
    clock = f"clock {low} GHz" if low == high else f"clock {low} to {high} GHz"
    return [clock, f"times +-{header.ns_uncertainty[1]:.0f} ns" if header.ns_uncertainty else ""]


def _records(header: Header) -> list[str]:
    if not header.records:
        return []
    share = header.dropped / (header.records + header.dropped)
    return [
        f"{count_text(header.records)} in {bytes_text(header.profile_bytes)} of profile memory",
        f"{count_text(header.dropped)} DROPPED ({share:.1%})" if header.dropped else "none dropped",
        *(["those of whole launches"] if {"cta", "sm", "warp"} & set(header.chosen) else []),
    ]
