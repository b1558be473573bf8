"""The first screen of the page: what was profiled, whether it can be believed, and what holds it back."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from profscope.analysis.cause import between_text, gain_text
from profscope.analysis.limits import bound_of, limits_of
from profscope.analysis.markup import Child, Markup, joined, tag
from profscope.analysis.span_rows import grid_ctas
from profscope.analysis.time_account import OTHER, UNKNOWN, apportioned
from profscope.options import Options
from profscope.schema import Tables
from profscope.traces.html.figures import count_text, duration_text, percent_text, place_text
from profscope.traces.html.kernels import Kernel

__all__ = ["about", "findings_of", "heading_of", "kernel_table"]

_VERSIONS: Final = ("backend", "profscope", "triton", "torch", "python")
_MOST_LISTED: Final = 4
_TONES: Final = {
    "trust": "good",
    "emulated": "plain",
    "trust with care": "care",
    "do not trust": "bad",
}
_LABELS: Final = {
    "trust": "These figures can be trusted",
    "emulated": "Emulated: cycles of a cost model, not GPU time",
    "trust with care": "Trust these figures with care",
    "do not trust": "Do not trust these figures",
}


def heading_of(kernel: Kernel, tables: Tables) -> Markup:
    """The kernel, its facts, the verdict with its reasons, and where the time goes."""
    return joined([tag("h1", kernel.name), _facts(kernel, tables), _verdict(kernel), _account(kernel)])


def _facts(kernel: Kernel, tables: Tables) -> Markup:
    own = kernel.launches
    known = own[own["grid_x"] > 0]
    warps = [str(count) for count in dict.fromkeys(known["num_warps"].tolist())]
    device = tables.metadata.get("device")
    name = str(device.get("name", "")) if isinstance(device, dict) else ""
    facts = [("launches", count_text(len(own)))]
    ranks = sorted(set(own["rank"].tolist()) - {-1})
    facts += [("ranks", _listed([str(rank) for rank in ranks]))] if len(ranks) > 1 else []
    facts += [("median launch", _median(kernel))] if kernel.launch_time is not None else []
    facts += [("grid", _listed(_grids(known))), ("warps a CTA", _listed(warps))] if len(known) else []
    recorded, grid = int(own["ctas"].sum()), int(grid_ctas(own).sum())
    if 0 < recorded < grid and len(known):
        facts.append(("CTAs recorded", f"{count_text(recorded)} of {count_text(grid)}"))
    dropped = int(own["dropped"].sum())
    facts += [("records dropped", count_text(dropped))] if dropped else []
    facts += [("on", name)] if name and not tables.emulated else []
    counters = tables.counters
    measured = counters[(counters["kernel"] == kernel.kernel) & (counters["variant"] == kernel.variant)]
    facts += [("hardware", text) for text in bound_of(limits_of(measured)).values()]
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


def _verdict(kernel: Kernel) -> Markup | None:
    said = kernel.verdict
    if said is None:
        return None
    items = [tag("li", tag("b", reason.rule), " ", reason.text) for reason in said.reasons]
    items += [tag("li", tag("b", "not measured"), " ", text, class_="dim") for text in said.not_measured]
    title = _LABELS.get(said.label, said.label)
    if not items:
        return tag("p", title, class_=f"verdict {_TONES.get(said.label, 'plain')}")
    shown: list[Child] = [
        tag("summary", title, tag("small", ", ".join(reason.rule for reason in said.reasons)))
    ]
    return tag("details", *shown, tag("ul", *items), class_=f"verdict {_TONES.get(said.label, 'plain')}")


def _account(kernel: Kernel) -> Markup | None:
    """One bar, which adds up to the launches' time, with its legend."""
    account = kernel.account
    if account is None:
        return None
    tenths = apportioned(account.shares.values(), 1000)
    parts, names = [], []
    for at, (name, count) in enumerate(zip(account.shares, tenths, strict=True)):
        colour = f"{name if name in (UNKNOWN, OTHER) else f's{at}'}"
        text = f"{name} {percent_text(count / 1000)}"
        parts.append(tag("i", class_=colour, title=text, style=f"width:{count / 10:.1f}%"))
        names.append(tag("li", tag("i", class_=colour), text))
    missing = [f"{UNKNOWN}: {account.advice}"] if account.advice else []
    missing += [f"without {text}" for text in account.not_measured if text.startswith("idle-sms")]
    return tag(
        "div",
        tag("h2", "Where its time goes"),
        tag("div", *parts, class_="stack"),
        tag("ul", *names, tag("li", f"from {', '.join(account.basis)}", class_="dim")),
        *(tag("p", text, class_="dim") for text in missing),
        class_="account",
    )


def findings_of(kernel: Kernel, said: pd.DataFrame, best: list[dict[str, Any]]) -> Markup:
    """What holds the kernel back, the largest gain first. best: by finding, where the timeline shows it."""
    cards = [_card(row, where) for row, where in zip(kernel.findings.to_dict("records"), best, strict=True)]
    clean = said.attrs.get("clean") or {}
    missing = [text for text in said.attrs.get("not_measured") or [] if text.startswith(kernel.kernel)]
    if not cards:
        texts = _clean(clean, kernel)
        cards = [tag("p", texts or "Nothing was found that mending would make 5 % faster.", class_="none")]
    items = (tag("li", text) for text in missing)
    below = tag("details", tag("summary", "What could not be judged"), tag("ul", *items), class_="quiet")
    return joined(
        [
            tag("h2", "What holds it back", id=None),
            tag(
                "p",
                "The percentage is how much of a launch it costs, at most without hardware=True.",
                class_="lead",
            )
            if len(kernel.findings)
            else None,
            tag("ol", *cards, class_="findings") if len(kernel.findings) else joined(cards),
            below if missing else None,
        ]
    )


def _clean(clean: dict[str, str], kernel: Kernel) -> str:
    """What the findings say of a kernel that has none."""
    return clean.get(f"{kernel.kernel} #{kernel.variant}") or clean.get(kernel.kernel, "")


def _card(row: dict[Any, Any], where: dict[str, Any]) -> Markup:
    place = place_text(str(row["file"]), int(row["line"]))
    gain = float(row["gain_pct"])
    between = between_text(row["gain_low_pct"], row["gain_high_pct"]) if gain else ""
    go: list[Child] = []
    if row["line"]:
        go.append(
            tag("button", "Show the line", type="button", class_="go-line",
                data_file=str(row["file"]), data_line=int(row["line"]))
        )  # fmt: skip
    if where:
        text = f"Show it in CTA {where['cta']}" if where.get("level") == "cta" else "Show the launch"
        go.append(
            tag("button", text, type="button", class_="go-cta", data_at=int(where["at"]),
                data_level=str(where["level"]), data_line=int(row["line"]), data_file=str(row["file"]))
        )  # fmt: skip
    return tag(
        "li",
        tag("div", f"{gain:.0f} %" if gain > 0 else "!", class_="gain", title="of a launch, at most"),
        tag(
            "div",
            tag("h3", str(row["finding"]), " ", tag("span", place, class_="place"),
                tag("small", ", ".join(filter(None, (between, f"confidence: {row['confidence']}"))))),
            tag("p", str(row["evidence"])),
            tag("p", tag("b", "Try: "), str(row["advice"]), class_="advice"),
            tag("p", *go, class_="go") if go else None,
        ),
        style=f"--gain:{gain if gain > 0 else 0.0:.1f}%",
    )  # fmt: skip


def kernel_table(kernels: list[Kernel], left_out: int, whole: float) -> Markup | None:
    """A row for each kernel to choose from; none where there is one. whole: with those left out."""
    if len(kernels) < 2:
        return None
    rows = []
    for number, kernel in enumerate(kernels):
        best = kernel.findings.iloc[0] if len(kernel.findings) else None
        label = "" if kernel.verdict is None else kernel.verdict.label
        share = kernel.total_time / (whole or 1.0)
        rows.append(
            tag(
                "tr",
                tag("td", tag("i", style=f"--share:{100 * share:.2f}%"), percent_text(share), class_="share"),
                tag("th", _choice(kernel, number), scope="row"),
                tag("td", count_text(len(kernel.launches)), class_="n"),
                tag("td", _median(kernel), class_="n"),
                tag("td", "" if best is None else f"{best['finding']}, {gain_text(best['gain_pct'])}"),
                tag("td", label),
            )
        )  # fmt: skip
    heads = ("share of time", "kernel", "launches", "median launch", "first finding", "verdict")
    titles = (tag("th", head, scope="col") for head in heads)
    more = f"{count_text(left_out, 'kernel')} that took less time have no section here." if left_out else None
    return tag(
        "nav",
        tag("table", tag("thead", tag("tr", *titles)), tag("tbody", *rows)),
        tag("p", more, class_="dim") if more else None,
        class_="kernels",
        aria_label="Kernels",
    )  # fmt: skip


def _choice(kernel: Kernel, number: int) -> Markup:
    return tag("button", kernel.name, type="button", class_="kernel", data_kernel=number)


def _median(kernel: Kernel) -> str:
    return "" if kernel.launch_time is None else duration_text(kernel.launch_time, kernel.unit)


def _device(device: Any) -> str:
    if not isinstance(device, dict):
        return ""
    count = device.get("sm_count")
    parts = (device.get("name"), device.get("arch"), f"{count} SMs" if count else "")
    return ", ".join(str(part) for part in parts if part)


def _chosen_options(options: dict[str, Any]) -> list[str]:
    """Those that are not what they are by default."""
    return [f"{name}={value}" for name, value in Options.not_default(options).items()]


def about(tables: Tables, said: list[str], selection: str) -> Markup:
    """How the profile was taken: versions, options, notes, and what this page has not."""
    metadata = tables.metadata
    facts = [
        ("device", _device(metadata.get("device"))),
        *((name, str(metadata.get(name) or "")) for name in _VERSIONS),
        ("options", ", ".join(_chosen_options(metadata.get("options") or {})) or "as they are by default"),
        ("in this page", selection),
    ]
    notes = [
        *(str(note) for note in metadata.get("notes") or ()),
        *said,
    ]
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
