"""The page: what stands in it, from top to bottom."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Final

from profscope.analysis.corrections import are_corrected
from profscope.analysis.span_rows import only_trials
from profscope.schema import Tables
from profscope.traces.html.bundle import script, style
from profscope.traces.html.facts import best_places, page_facts, shown_ctas
from profscope.traces.html.kernels import MOST_KERNELS, answers, kernels_of
from profscope.traces.html.markup import Child, Markup, joined, json_block, tag
from profscope.traces.html.program import program_of
from profscope.traces.html.sites import known_sites
from profscope.traces.html.source import source_of
from profscope.traces.html.spans import times
from profscope.traces.html.verdicts import about, findings_of, heading_of, kernel_table
from profscope.version import __version__

__all__ = ["document", "page_of"]

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
_TRIALS: Final = "Only an autotuner's trials were recorded, which stand in the timeline alone."
_CORRECTED: Final = (
    "Times of scopes and lines are without what recording took; those of launches, of copies in flight, of "
    "the timeline and of the distributions are as they were read."
)
_NO_SPANS: Final = "No spans were recorded in these launches."
_SUMS: Final = "These launches kept sums, which have no single spans: there is no timeline to draw."


def document(tables: Tables, pool: Executor) -> str:
    """The whole file. `pool` has threads for what can run beside the rest."""
    said = answers(tables, pool)
    kernels = kernels_of(tables, said)
    whole = sum(kernel.total_time for kernel in kernels)
    left_out, kernels = max(0, len(kernels) - MOST_KERNELS), kernels[:MOST_KERNELS]
    start, duration = times(tables)
    sites = known_sites(tables, duration)
    ctas, launches = shown_ctas(tables, start, duration)
    best = [best_places(kernel, ctas, launches, sites, duration) for kernel in kernels]
    wanted = [place["at"] for own in best for place in own if place.get("level") == "cta"]
    facts, packed, selection = page_facts(tables, kernels, ctas, launches, sites, start, duration, wanted)
    unit = str(facts["unit"])
    sections: list[Child] = [kernel_table(kernels, left_out, whole)]
    for number, (kernel, places) in enumerate(zip(kernels, best, strict=True)):
        parts = (
            tag(
                "section",
                heading_of(kernel, tables),
                findings_of(kernel, said.findings, places),
                class_="findings",
            ),
            tag("section", source_of(kernel, tables, sites, unit), class_="source"),
        )
        sections.append(tag("article", *parts, class_="of-kernel", data_kernel=number))
    if not kernels:
        sections.append(tag("p", _TRIALS if only_trials(tables.launches) else _NO_LAUNCHES, class_="none"))
    around = program_of(tables, is_drawn=bool(facts["around"]["tracks"]))
    sections += [around, _timeline(tables), _distributions(tables)]
    missing = [str(text) for text in said.lines.attrs.get("not_measured") or ()]
    missing += [str(text) for text in said.roofline.attrs.get("not_measured") or ()]
    sections.append(tag("section", about(tables, missing, selection), id="about"))
    missing += [_CORRECTED] if len(tables.df) and are_corrected(tables) else []
    title = f"{kernels[0].kernel} · profscope" if kernels else "profscope"
    links = tuple(link for link in _NAVIGATION if around is not None or link[0] != "program")
    return page_of(title, links, sections, json_block("facts", facts), packed, emulated=tables.emulated)


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


def _timeline(tables: Tables) -> Markup:
    head = tag("h2", "Timeline")
    if not len(tables.df):
        kept_sums = bool((tables.launches["keeps"] == "sums").any())
        return tag("section", head, tag("p", _SUMS if kept_sums else _NO_SPANS, class_="none"), id="timeline")
    return tag("section", head, tag("div", id="timeline-view"), _needs_script(), id="timeline")


def _distributions(tables: Tables) -> Markup:
    head = tag("h2", "Distributions")
    if not len(tables.df):
        return tag("section", head, tag("p", "They need single spans.", class_="none"), id="distributions")
    return tag("section", head, tag("div", id="charts"), _needs_script(), id="distributions")


def _needs_script() -> Markup:
    return tag("noscript", tag("p", "This part is drawn by the script in this file.", class_="none"))
