"""What unfolds below a source line: its scopes, what they wait for, its stalls, and its instructions."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from profscope.analysis.markup import Markup, tag
from profscope.traces.html.figures import count_text, duration_text, percent_text, place_text
from profscope.traces.html.kernels import Kernel
from profscope.traces.html.line_figures import LineFigures, ScopeFigures

__all__ = ["details_of"]

_MOST: Final = 12
_ISSUED: Final = "selected"
_SASS: Final = ("SASS at", "instruction", "samples", "stalls", "because of")
_HEADS: Final = ("scope", "share", "count", "self", "mean", "p50", "p99", "longest", "stage", "called by")


def details_of(kernel: Kernel, own: LineFigures, unit: str) -> Markup:
    """All of it, in a block."""
    parts = [_scopes(own, unit), _waits(own, unit), _stalls(own), _instructions(kernel, own)]
    shown = [part for part in parts if part is not None]
    goes = tag("button", "Find it in the timeline", type="button", class_="go-search",
               data_file=own.file, data_line=own.line)  # fmt: skip
    return tag("div", *shown, goes if own.scopes else None, class_="more")


def _scopes(own: LineFigures, unit: str) -> Markup | None:
    if not own.scopes:
        return None
    rows = [tag("tr", *(tag("td", cell) for cell in _scope(each, unit))) for each in own.scopes]
    heads = (tag("th", head, scope="col") for head in _HEADS)
    return tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows))


def _scope(figures_of_scope: ScopeFigures, unit: str) -> list[str]:
    """Its share and count, the self time of a span, and what whole spans took."""
    row = figures_of_scope.row
    in_flight = row["kind"] == "async"
    each = None if in_flight else float(row[f"self_{unit}"] or 0) / max(1, int(row["count"]))
    figures = [each, *(row[f"{name}_{unit}"] for name in ("mean", "p50", "p99", "max"))]
    times = ["" if figure is None else duration_text(float(figure), unit) for figure in figures]
    share = "in flight" if in_flight else percent_text(float(row["share"] or 0))
    return [
        str(row["scope"]),
        share,
        count_text(int(row["count"])),
        *times,
        figures_of_scope.stages,
        str(row["call_path"]),
    ]


def _waits(own: LineFigures, unit: str) -> Markup | None:
    texts = []
    for each in own.scopes:
        for pairing, scope, line in each.pairings:
            in_flight = duration_text(pairing.in_flight, unit)
            waiting = duration_text(pairing.waiting, unit)
            if each.row["site"] == pairing.wait:
                texts.append(
                    f"{each.row['scope']} ends {scope}, line {line}: in flight {in_flight}, waits {waiting}"
                )
            else:
                ended = f"{each.row['scope']} is ended by {scope}, line {line}"
                texts.append(f"{ended}, after {in_flight}; that waits {waiting}")
    texts += [str(row["waits_for"]) for row in own.rows if row["waits_for"]]
    items = (tag("li", text) for text in dict.fromkeys(texts))
    return tag("div", tag("h4", "Waits"), tag("ul", *items)) if texts else None


def _stalls(own: LineFigures) -> Markup | None:
    counts: Counter[str] = Counter()
    for row in own.rows:
        for stall, count in row["stall_counts"] or []:
            counts[stall] += count
    total = sum(counts.values())
    if not total:
        return None
    bars = [
        tag("li", _bar(count / total), tag("span", percent_text(count / total)), f" {stall}")
        for stall, count in counts.most_common(_MOST)
        if stall != _ISSUED
    ]  # fmt: skip
    title = f"Why warps do not go on here ({count_text(total, 'sample')})"
    return tag("div", tag("h4", title), tag("ul", *bars, class_="bars")) if bars else None


def _bar(share: float) -> Markup:
    return tag("i", style=f"--share:{100 * share:.1f}%")


def _instructions(kernel: Kernel, own: LineFigures) -> Markup | None:
    """The instructions of the line at which the sampler found warps."""
    rows = kernel.sampled.get((own.file, own.line))
    if not rows:
        return None
    cells = [tag("tr", *(tag("td", cell) for cell in _instruction(row))) for row in rows[:_MOST]]
    left = len(rows) - len(cells)
    heads = (tag("th", head, scope="col") for head in _SASS)
    return tag(
        "div",
        tag("h4", "Instructions"),
        tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *cells)),
        tag("p", f"{left} more", class_="dim") if left > 0 else None,
    )


def _instruction(row: dict[str, Any]) -> list[str]:
    stalls = ", ".join(f"{stall} {percent_text(n / row['samples'])}" for stall, n in row["stalls"][:3])
    blamed = row["blamed"]
    cause = f"{blamed[1] or 'instruction'} at {place_text(blamed[0], blamed[2])}" if blamed else ""
    return [f"0x{row['pc']:04x}", row["text"] or str(row["class"]), count_text(row["samples"]), stalls, cause]
