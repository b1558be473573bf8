"""The first screen of the page: the kernels, the verdict, and the findings."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from profscope.analysis.breakdown import OTHER, UNKNOWN, Account, basis_text
from profscope.analysis.cause import FINDINGS_TITLE, gain_text, qualified_text
from profscope.analysis.experiments import EXPERIMENTS_TITLE, TEXT_ROWS
from profscope.analysis.model.entries import ExperimentEntry, FindingEntry, KernelEntry, ProfileModel
from profscope.analysis.texts import Child, Markup, joined, source_text, tag
from profscope.traces.html.figures import count_text, duration_text, percent_text, table
from profscope.traces.html.kernels import Kernel

__all__ = ["about", "experiments_of", "findings_of", "heading_of", "kernel_table"]

_MOST_LISTED: Final = 4
_ROOFS_TITLE: Final = "At a limit of the hardware: only less of this work makes the kernel faster"
_TONES: Final = {
    "trust": "good",
    "emulated": "plain",
    "trust with care": "care",
    "do not trust": "bad",
}
_LABELS: Final = {
    "trust": "The spans can be trusted",
    "emulated": "Emulated: cycles of a cost model, not GPU time",
    "trust with care": "Trust the spans with care",
    "do not trust": "Do not trust the spans",
}


def heading_of(kernel: Kernel, model: ProfileModel) -> Markup:
    """The kernel, its facts, the verdict with its reasons, and where the time goes."""
    return joined(
        [
            tag("h1", kernel.name),
            _facts(kernel, model),
            _verdict(kernel.entry),
            _account(kernel.entry.account),
        ]
    )


def _facts(kernel: Kernel, model: ProfileModel) -> Markup:
    own, entry = kernel.launches, kernel.entry
    known = own[own["grid_x"] > 0]
    warps = [str(count) for count in dict.fromkeys(known["num_warps"].tolist())]
    facts = [("launches", count_text(entry.launches))]
    ranks = sorted(set(own["rank"].tolist()) - {-1})
    facts += [("ranks", _listed([str(rank) for rank in ranks]))] if len(ranks) > 1 else []
    facts += [("median launch", _median(entry))] if entry.time is not None else []
    facts += [("grid", _listed(_grids(known))), ("warps a CTA", _listed(warps))] if len(known) else []
    ctas = entry.ctas
    if 0 < ctas.recorded < ctas.grid and len(known):
        facts.append(("CTAs recorded", f"{count_text(ctas.recorded)} of {count_text(ctas.grid)}"))
    dropped = entry.records.dropped
    facts += [("records dropped", count_text(dropped))] if dropped else []
    device = model.header.device.name
    facts += [("on", device)] if device and not model.emulated else []
    facts += [("hardware", entry.limits.bound)] if entry.limits else []
    return tag("dl", *(tag("div", tag("dt", term), tag("dd", text)) for term, text in facts), class_="facts")


def _grids(launches: pd.DataFrame) -> list[str]:
    """Those of all launches, the most frequent first: "4", "128 x 8"."""
    counts = launches.groupby(["grid_x", "grid_y", "grid_z"], sort=False).size()
    sizes: list[tuple[int, ...]] = list(counts.sort_values(ascending=False, kind="stable").index)
    return [" x ".join(map(str, size)).removesuffix(" x 1").removesuffix(" x 1") for size in sizes]


def _listed(texts: list[str]) -> str:
    """The first ones, and how many more there are."""
    more = len(texts) - _MOST_LISTED
    return ", ".join(texts[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _verdict(entry: KernelEntry) -> Markup:
    items = [tag("li", tag("b", reason.rule), " ", reason.text) for reason in entry.reasons]
    items += [
        tag("li", tag("b", "not measured"), " ", text, class_="dim") for text in entry.verdict_not_measured
    ]
    title, tone = _LABELS.get(entry.verdict, entry.verdict), _TONES.get(entry.verdict, "plain")
    if not items:
        return tag("p", title, class_=f"verdict {tone}")
    rules = ", ".join(reason.rule for reason in entry.reasons)
    summary = tag("summary", title, tag("small", rules))
    return tag("details", summary, tag("ul", *items), class_=f"verdict {tone}")


def _account(account: Account | None) -> Markup | None:
    """One bar, which adds up to the launches' time, with its legend."""
    if account is None:
        return None
    parts, names = [], []
    for at, (name, share) in enumerate(account.shares.items()):
        colour = name if name in (UNKNOWN, OTHER) else f"s{at}"
        text = f"{name} {percent_text(share)}"
        parts.append(tag("i", class_=colour, title=text, style=f"width:{100 * share:.1f}%"))
        names.append(tag("li", tag("i", class_=colour), text))
    return tag(
        "div",
        tag("h2", "Where its time goes"),
        tag("div", *parts, class_="stack"),
        tag("ul", *names, tag("li", f"from {basis_text(account.basis)}", class_="dim")),
        *(tag("p", text, class_="dim") for text in account.caveats),
        class_="account",
    )


def findings_of(kernel: Kernel, best: list[dict[str, Any]]) -> Markup:
    """Causes that slow the kernel, the largest gain first, then roofs: limits of the hardware, not faults.

    best: by finding, where the timeline shows it.
    """
    entry = kernel.entry
    pairs = [*zip(entry.findings, best, strict=True)]
    cards = [_card(own, where) for own, where in pairs if not _is_roof(own)]
    roofs = [_card(own, where) for own, where in pairs if _is_roof(own)]
    nothing = entry.clean or "No finding saves 5 % or more."
    items = (tag("li", text) for text in entry.findings_not_measured)
    below = tag("details", tag("summary", "What could not be judged"), tag("ul", *items), class_="quiet")
    return joined(
        [
            tag("h2", "What holds it back", id=None),
            tag("p", f"{FINDINGS_TITLE}.", class_="lead") if cards else None,
            tag("ol", *cards, class_="findings") if cards else None,
            None if cards or roofs else tag("p", nothing, class_="none"),
            tag("p", _ROOFS_TITLE, class_="lead") if roofs else None,
            tag("ol", *roofs, class_="findings") if roofs else None,
            below if entry.findings_not_measured else None,
        ]
    )


def _is_roof(own: FindingEntry) -> bool:
    return own.gain_pct == 0


def _card(own: FindingEntry, where: dict[str, Any]) -> Markup:
    place, gain = source_text(own.file, own.line), own.gain_pct or 0.0
    known = qualified_text(own.gain, own.program_pct, own.confidence, own.basis)
    go: list[Child] = []
    if own.line:
        go.append(
            tag("button", "Show the line", type="button", class_="go-line",
                data_file=own.file, data_line=own.line)
        )  # fmt: skip
    if where:
        text = f"Show it in CTA {where['cta']}" if where.get("level") == "cta" else "Show the launch"
        go.append(
            tag("button", text, type="button", class_="go-cta", data_at=int(where["at"]),
                data_level=str(where["level"]), data_line=own.line, data_file=own.file)
        )  # fmt: skip
    if _is_roof(own):
        saved = tag("div", "limit", class_="gain", style="color: var(--dim)", title=_ROOFS_TITLE)
    else:
        text = "?" if own.gain_pct is None else gain_text(gain)
        saved = tag("div", text, class_="gain", title="of the kernel's time")
    return tag(
        "li",
        saved,
        tag(
            "div",
            tag("h3", own.finding, " ", tag("span", place, class_="place"),
                tag("small", known)),
            tag("p", own.evidence),
            tag("p", tag("b", "Try: "), own.advice, class_="advice"),
            tag("p", *go, class_="go") if go else None,
        ),
        style=f"--gain:{gain:.1f}%",
    )  # fmt: skip


def kernel_table(kernels: list[Kernel], model: ProfileModel) -> Markup | None:
    """A row for each kernel to choose from; none if there is one."""
    if len(kernels) < 2:
        return None
    rows = []
    for number, kernel in enumerate(kernels):
        entry = kernel.entry
        best = next(iter(entry.findings), None)
        share = entry.share or 0.0
        rows.append(
            tag(
                "tr",
                tag("td", tag("i", style=f"--share:{100 * share:.2f}%"), percent_text(share), class_="share"),
                tag("th", _choice(kernel, number), scope="row"),
                tag("td", count_text(entry.launches), class_="n"),
                tag("td", _median(entry), class_="n"),
                tag("td", "" if best is None else f"{best.finding}, {gain_text(best.gain.expected)}"),
                tag("td", entry.verdict),
            )
        )  # fmt: skip
    finding = "first finding, of the kernel's time"
    heads = ("share of time", "kernel", "launches", "median launch", finding, "verdict")
    left_out = len(model.kernels) - len(kernels)
    more = f"{count_text(left_out, 'kernel')} that took less time have no section here." if left_out else None
    return tag(
        "nav",
        table(heads, rows),
        tag("p", more, class_="dim") if more else None,
        class_="kernels",
        aria_label="Kernels",
    )  # fmt: skip


def _choice(kernel: Kernel, number: int) -> Markup:
    return tag("button", kernel.name, type="button", class_="kernel", data_kernel=number)


def _median(entry: KernelEntry) -> str:
    return "" if entry.time is None else duration_text(entry.time.median, entry.time.unit)


def about(model: ProfileModel, said: list[str], selection: str) -> Markup:
    """How the profile was taken: versions, options, notes, and what this page has not."""
    header, device = model.header, model.header.device
    count = f"{device.sm_count} SMs" if device.sm_count else ""
    options = [f"{name}={value}" for name, value in header.options.items()]
    facts = [
        ("device", ", ".join(filter(None, (device.name, device.arch, count)))),
        ("backend", header.backend),
        *header.versions.items(),
        ("options", ", ".join(options) or "as they are by default"),
        ("in this page", selection),
    ]
    notes = [*header.notes, *said]
    return joined(
        [
            tag("h2", "About this profile"),
            tag(
                "dl",
                *(tag("div", tag("dt", n), tag("dd", text)) for n, text in facts if text),
                class_="about",
            ),
            tag("ul", *(tag("li", note) for note in dict.fromkeys(notes)), class_="notes") if notes else None,
        ]
    )


_EXPERIMENT: Final = ("saved (95 % interval)", "experiment", "op", "line", "")


def experiments_of(entry: KernelEntry) -> Markup | None:
    """The parts that saved most; None without experiments."""
    timed = [each for each in entry.experiments if each.saved_pct is not None]
    if not timed:
        return None
    left = len(entry.experiments) - TEXT_ROWS
    more = f"{count_text(left, 'more row')} in prof.experiments." if left > 0 else None
    return joined(
        [
            tag("h2", "What each line costs"),
            tag("p", f"Bare time {EXPERIMENTS_TITLE}.", class_="lead"),
            table(_EXPERIMENT, map(_experiment, timed[:TEXT_ROWS])),
            tag("p", more, class_="dim") if more else None,
        ]
    )


def _experiment(own: ExperimentEntry) -> Markup:
    saved = f"{own.saved_pct:.1f} %"
    if own.low_pct != own.high_pct:  # cycles are the same each time
        saved += f" ({own.low_pct:.1f} to {own.high_pct:.1f})"
    cells = (
        tag("td", saved, class_="n"),
        tag("td", own.experiment),
        tag("td", own.op),
        tag("td", source_text(own.file, own.line)),
        tag("td", own.why_not, class_="dim"),
    )
    return tag("tr", *cells)
