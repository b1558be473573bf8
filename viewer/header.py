"""The header: what was profiled, with what, how much was recorded and what was lost."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.text import Text

from profscope.profiles import Profile
from viewer.cells import fit, pad
from viewer.units import bytes_text, count_text, printable

__all__ = ["EMULATED", "Header", "make_header", "render_header"]

EMULATED = "EMULATED: cycles of a cost model, not GPU time"
MEASURED = {
    "issue": "spans on loads end at their issue; measure=latency ends them with their data",
    "latency": "spans on loads end when their data has arrived; loads do not overlap",
}
NO_LAUNCHES = (
    "No launches recorded. Check that a Triton kernel was launched inside the session,",
    "that kernels= matches its name, and that the session's backend is the one it ran on.",
)


@dataclass(frozen=True)
class Header:
    """The facts about a profile; clock_ghz and ns_uncertainty are (least, greatest), None when unknown.

    measure: what spans on loads end with, "issue" or "latency"; "" when unknown.
    """

    trace: str
    tool: str
    backend: str
    device: str
    clock_ghz: tuple[float, float] | None
    ns_uncertainty: tuple[float, float] | None
    versions: dict[str, str]
    options: dict[str, Any]
    measure: str
    kernels: int
    launches: int
    ctas: int
    spans: int
    records: int
    dropped: int
    profile_bytes: int
    notes: list[str]


def make_header(profile: Profile, trace: str) -> Header:
    """Collect the facts; `trace` is the file's name."""
    launches, metadata = profile.launches, profile.metadata
    versions = {
        name: str(metadata[name]) for name in ("profscope", "triton", "torch", "python") if metadata.get(name)
    }
    return Header(
        trace=trace,
        tool=str(metadata.get("tool", "")),
        backend=str(metadata.get("backend", "")),
        device=_device(metadata.get("device") or {}),
        clock_ghz=_range(launches["clock_ghz"].to_numpy()),
        ns_uncertainty=_range(launches["ns_uncertainty"].to_numpy()),
        versions=versions,
        options=dict(metadata.get("options") or {}),
        measure=_measure(metadata),
        kernels=int(launches["kernel"].nunique()),
        launches=len(launches),
        ctas=int(launches["ctas"].sum()),
        spans=len(profile.df),
        records=int(launches["records"].sum()),
        dropped=int(launches["dropped"].sum()),
        profile_bytes=int(launches["profile_bytes"].sum()),
        notes=[str(note) for note in metadata.get("notes") or ()],
    )


def render_header(header: Header, width: int) -> list[Text]:
    """Lines of at most `width` cells but for notes, which are never cut."""
    counts = (
        (header.launches, "launch", "launches"),
        (header.kernels, "kernel", "kernels"),
        (header.ctas, "CTA", "CTAs"),
        (header.spans, "span", "spans"),
    )
    size = ", ".join(f"{count_text(count)} {one if count == 1 else many}" for count, one, many in counts)
    rows = [
        ("Trace", f"{header.trace}: {size}"),
        ("Device", ", ".join(filter(None, [header.device or "unknown", _clock(header)]))),
        ("Versions", "  ".join(f"{name} {version}" for name, version in header.versions.items())),
        ("Options", "  ".join(f"{name}={value}" for name, value in header.options.items() if value)),
        ("Measured", MEASURED.get(header.measure, "")),
        ("Records", _records(header)),
    ]
    lines = [Text(EMULATED, style="bold black on yellow")] if header.backend == "emulator" else []
    label = max(len(name) for name, _ in rows) + 2
    for name, value in rows:
        if value:
            lines.append(Text.assemble((pad(name, label), "dim"), fit(printable(value), width - label)))
    if header.dropped:
        lines[-1].stylize("bold red", label)
    for note in header.notes:
        lines.append(Text.assemble((pad("Note", label), "bold yellow"), printable(note)))
    if header.launches == 0:
        lines += [Text(), *(Text(line) for line in NO_LAUNCHES)]
    return lines


def _measure(metadata: dict[str, Any]) -> str:
    """What loads were measured to: "latency" if those of any kernel were to their data; "" if unknown."""
    found = {about.get("measure", "") for about in (metadata.get("kernels") or {}).values()}
    return next((measure for measure in ("latency", "issue") if measure in found), "")


def _device(device: dict[str, Any]) -> str:
    count = device.get("sm_count")
    return ", ".join(filter(None, [device.get("name"), device.get("arch"), f"{count} SMs" if count else ""]))


def _range(values: Any) -> tuple[float, float] | None:
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if len(known) else None


def _clock(header: Header) -> str:
    if header.backend == "emulator" or header.clock_ghz is None:
        return ""
    low, high = (f"{ghz:.3f}" for ghz in header.clock_ghz)
    text = f"clock {low} GHz" if low == high else f"clock {low} to {high} GHz"
    return text + (f", times +-{header.ns_uncertainty[1]:.0f} ns" if header.ns_uncertainty else "")


def _records(header: Header) -> str:
    if not header.records:
        return ""
    size = f"{bytes_text(header.profile_bytes)} of profile memory"
    if not header.dropped:
        return f"{count_text(header.records)} in {size}, none dropped"
    share = header.dropped / (header.records + header.dropped)
    return f"{count_text(header.records)} in {size}; {count_text(header.dropped)} DROPPED ({share:.1%})"
