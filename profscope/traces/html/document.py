"""`.html`: a page in one file for a browser, which needs no network; not a trace to be loaded again.

What stands in it, from top to bottom, with its script, its style and their data.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import Executor
from functools import cache
from pathlib import Path
from typing import Any, Final

import pandas as pd

from profscope.analysis.kernels.hanging import hang_texts
from profscope.analysis.source_code.annotated import Sums, annotate, stages_by_place
from profscope.analysis.spans.rows import Ints
from profscope.analysis.texts import Child, Markup, joined, plain, tag
from profscope.schema import Tables
from profscope.traces.exporters import Piece
from profscope.traces.html.facts import best_places, page_facts, shown_ctas
from profscope.traces.html.kernels import MOST_KERNELS, kernels_of, model_of
from profscope.traces.html.program import program_of
from profscope.traces.html.source import source_of
from profscope.traces.html.spans import Ctas, Sites, known_sites, times
from profscope.traces.html.verdicts import about, experiments_of, findings_of, heading_of, kernel_table
from profscope.version import __version__

__all__ = [
    "WEB",
    "document",
    "json_block",
    "page_of",
    "pieces",
    "script",
    "style",
]

_NAVIGATION: Final[tuple[tuple[str, str], ...]] = (
    ("findings", "Findings"),
    ("source", "Source"),
    ("program", "Program"),
    ("timeline", "Timeline"),
    ("distributions", "Distributions"),
    ("about", "About"),
)
_NO_FORMS: Final = "base-uri 'none'; form-action 'none'"
_NO_LAUNCHES: Final = "No launches were recorded."
_HOW: Final = "A session records the Triton kernels launched inside it: with profscope.session() as prof."
_CORRECTED: Final = (
    "Recording time is subtracted from times of scopes and lines; launches, copies in flight, the timeline "
    "and the distributions have times as read."
)
_NO_SPANS: Final = "No spans were recorded in these launches: there is no timeline to draw."
_NO_CHARTS: Final = "Histograms and charts are drawn of single spans, and there are none."
_PART: Final = "this is a part of the trace"


def pieces(tables: Tables, pool: Executor) -> Iterator[Piece]:
    """The file's bytes."""
    yield document(tables, pool).encode()


def document(tables: Tables, pool: Executor) -> str:
    """The whole file. `pool` has threads for what can run beside the rest."""
    drawn = pool.submit(_drawn, tables)
    model, sources = model_of(tables, pool)
    kernels = kernels_of(tables, model)
    start, duration, sites, ctas, launches = drawn.result()
    sums = Sums(sources.lines, sources.summary, stages_by_place(sites.table, sites.stages))
    made, _ = annotate(tables, lambda file, line: "", "sass", MOST_KERNELS, sums)
    annotated = {(each.kernel, each.variant): each for each in made}
    best = [best_places(kernel, ctas, launches, sites, duration) for kernel in kernels]
    wanted = [place["at"] for own in best for place in own if place.get("level") == "cta"]
    facts, packed, selection = page_facts(tables, kernels, ctas, launches, sites, start, duration, wanted)
    sections: list[Child] = [*_parts(tables), *_hangs(tables), kernel_table(kernels, model)]
    for number, (kernel, places) in enumerate(zip(kernels, best, strict=True)):
        parts = (
            tag(
                "section",
                heading_of(kernel, model),
                findings_of(kernel, places),
                experiments_of(kernel.entry),
                class_="findings",
            ),
            tag(
                "section",
                source_of(annotated.get((kernel.kernel, kernel.variant)), kernel.entry),
                class_="source",
                # The link leads to that of the kernel that is shown: the script hands the name on.
                id=None if number else "source",
            ),
        )
        sections.append(tag("article", *parts, class_="of-kernel", data_kernel=number))
    if not kernels and not model.header.hangs:
        sections += [tag("h1", _NO_LAUNCHES), tag("p", _HOW, class_="none")]
    around = program_of(tables, is_drawn=bool(facts["around"]["tracks"]))
    sections.append(around)
    if len(tables.launches):
        sections.append(_drawn_by_script(tables, "Timeline", "timeline-view", _NO_SPANS))
        sections.append(_drawn_by_script(tables, "Distributions", "charts", _NO_CHARTS))
    told = {text for kernel in kernels if kernel.entry.lines for text in kernel.entry.lines.not_measured}
    missing = [text for text in sources.lines_not_measured if text.partition(": ")[2] not in told]
    notes = [f"not measured: {text}" for text in missing]
    notes += [_CORRECTED] if model.header.corrected else []
    sections.append(tag("section", about(model, notes, selection), id="about"))
    title = f"{kernels[0].kernel} · profscope" if kernels else "profscope"
    has = {"findings": bool(kernels), "source": bool(kernels), "program": around is not None}
    has |= dict.fromkeys(("timeline", "distributions"), bool(len(tables.launches)))
    links = tuple(link for link in _NAVIGATION if has.get(link[0], True))
    return page_of(title, links, sections, json_block("facts", facts), packed, emulated=tables.emulated)


def _drawn(tables: Tables) -> tuple[Ints, Ints, Sites, Ctas, pd.DataFrame]:
    """What the page draws, whatever is said of it: when spans began and how long they took, their sites, the
    CTAs, and the launches of these."""
    start, duration = times(tables)
    return start, duration, known_sites(tables, duration), *shown_ctas(tables, start, duration)


def page_of(
    title: str,
    navigation: tuple[tuple[str, str], ...],
    sections: list[Child],
    facts: Markup,
    packed: str,
    *,
    emulated: bool,
) -> str:
    """A file: head, navigation, sections, data, script.

    Its policy lets no script run but its own, and nothing be fetched.
    """
    code, digest = script()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src '{digest}'; {_NO_FORMS}"
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"profscope {__version__}"),
        tag("title", title),
        Markup(f"<style>{style()}</style>"),
    )
    links = [tag("a", text, href=f"#{name}") for name, text in navigation]
    badge = (
        tag("span", "EMULATED", class_="badge", title="cycles of a cost model, not GPU time")
        if emulated
        else None
    )
    top = tag(
        "header",
        tag("a", "Skip to the findings", href="#findings", class_="skip"),
        tag("b", "profscope", class_="name"),
        badge,
        tag("nav", *links, aria_label="Sections"),
        tag("button", "Dark or light", type="button", id="theme"),
        class_="top",
    )
    body = (
        top,
        tag("main", *sections, id="findings"),
        facts,
        Markup(f'<script type="text/plain" id="data">{packed}</script>'),
        Markup(f"<script>{code}</script>"),
    )
    page = joined([tag("head", *head), tag("body", *body)])
    return f'<!doctype html>\n<html lang="en">{page}</html>\n'


def _parts(tables: Tables) -> list[Child]:
    """That a profile is a part of a trace stands above all that it says."""
    notes = (str(note) for note in tables.metadata.get("notes") or ())
    return [tag("p", f"T{note[1:]}.", class_="part") for note in notes if note.startswith(_PART)]


def _hangs(tables: Tables) -> list[Child]:
    """Launches that did not end."""
    texts = hang_texts(tables)
    return [
        tag("section", tag("h2", "Launches that did not end"), *(tag("pre", each) for each in texts))
    ] * bool(texts)


def _drawn_by_script(tables: Tables, title: str, holder: str, without_spans: str) -> Markup:
    """A section that the script fills."""
    parts: list[Child] = [tag("p", without_spans, class_="none")]
    if len(tables.df):
        needs = tag("p", "This part is drawn by the script in this file.", class_="none")
        parts = [tag("div", id=holder), tag("noscript", needs)]
    return tag("section", tag("h2", title), *parts, id=title.lower())


WEB = Path(__file__).parent / "web"


@cache
def script() -> tuple[str, str]:
    """The text of the script, and its hash as a Content-Security-Policy has it."""
    text = (WEB / "report.js").read_text()
    return text, "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def style() -> str:
    """The text of the style."""
    return (WEB / "report.css").read_text()


def json_block(identity: str, value: Any) -> Markup:
    """Data for the page's script, as an element that no browser executes.

    What would not be seen of a name is spelled out, as everywhere on the page. json.dumps writes ASCII; `<`,
    `>` and `&` are escaped besides, so that nothing in it can end the element.
    """
    text = json.dumps(_shown(value), separators=(",", ":"), allow_nan=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(f'<script type="application/json" id="{identity}">{text}</script>')


def _shown(value: Any) -> Any:
    """The same with `plain` texts."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {plain(key): _shown(each) for key, each in value.items()}
    return [_shown(each) for each in value] if isinstance(value, list | tuple) else value
