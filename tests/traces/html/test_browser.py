"""The page in a real browser: what it draws, what keys and clicks do, and that it stays silent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from profscope.profiles import Profile, load
from profscope.traces.html.figures import duration_text
from profscope.traces.jobs.merging import merged
from profscope.traces.jobs.stack import Part
from tests.support.all_views import Views
from tests.support.around import program
from tests.support.browser import NEEDED, opened, why_no_browser, window
from tests.support.profiles import regular_profile

DATA = Path(__file__).parents[2] / "data"
EVIL = "</script><img src=x onerror=\"document.title='evil'\"><script>document.title='evil'</script>"
UNSEEN = "\u202eb\x1b[31m"
SEEN = "\\u202eb\\x1b[31m"

if why_no_browser() and not os.environ.get(NEEDED):
    pytest.skip(f"the page is not tried in a browser: {why_no_browser()}", allow_module_level=True)


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with window() as opened_window:
        yield opened_window
        errors = [entry for entry in opened_window.get_log("browser") if entry["level"] != "INFO"]
        assert errors == []


@pytest.fixture(scope="module")
def profile() -> Profile:
    """A warp-specialised matmul that an H200 ran, with a finding."""
    return load(DATA / "findings" / "starving-partition.json.gz")


@pytest.fixture(scope="module")
def page(driver: Any, profile: Profile, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("page") / "report.html"
    profile.save(path)
    return opened(driver, path)


def ask(page: Any, code: str) -> Any:
    return page.execute_script(f"const t = profscope.timeline; return {code}")


def click(page: Any, selector: str) -> None:
    button = page.find_element("css selector", selector)
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
    button.click()


def keys(page: Any, *sent: str) -> None:
    page.find_element("css selector", "canvas.canvas").send_keys(*sent)


def test_all_spans_are_drawn_where_they_belong(page: Any, profile: Profile) -> None:
    df = profile.df
    assert ask(page, "t.profile.spans.count") == len(df)
    assert ask(page, "t.level.kind") == "cta"  # the launch recorded one
    drawn = ask(page, "t.level.rows.reduce((sum, row) => sum + row.count, 0)")
    assert drawn == len(df)
    assert ask(page, "t.level.arcs.length") == int((df["wait"] >= 0).sum())
    labels = ask(page, "t.level.rows.map((row) => row.label).filter(Boolean)")
    assert {"default, warp 0", "partition0, warp 4", "partition1, warp 8", "in flight"} <= set(labels)


def test_a_selection_has_the_right_totals(page: Any, profile: Profile) -> None:
    found = ask(page, "(t.range = [t.level.from - 1, t.level.to + 1], [...t.panel.statistics().found])")
    sites = ask(page, "t.profile.sites.scope")
    lines = ask(page, "t.profile.sites.line")
    rows = [(sites[key], lines[key], each["count"], each["total"]) for key, each in found]
    told = pd.DataFrame(rows, columns=["scope", "line", "count", "total"]).groupby(["scope", "line"]).sum()
    known = profile.df.groupby(["scope", "line"], observed=True)["duration_ns"].agg(["count", "sum"])
    assert told["count"].to_dict() == known["count"].to_dict()
    assert told["total"].to_dict() == known["sum"].to_dict()
    ask(page, "(t.range = null, t.panel.show())")


def test_semantic_zoom_goes_out_and_in(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    keys(page, Keys.ESCAPE)
    assert ask(page, "t.level.kind") == "sm"
    keys(page, Keys.ESCAPE)
    assert ask(page, "t.level.kind") == "launch"
    keys(page, Keys.ARROW_RIGHT, Keys.ENTER)
    assert ask(page, "t.level.kind") == "sm"
    ask(page, "t.zoom(0.01, 600, 34)")
    assert ask(page, "t.level.kind") == "cta"


def test_search_counts_and_steps(page: Any, profile: Profile) -> None:
    from selenium.webdriver.common.keys import Keys

    field = page.find_element("css selector", "input[type=search]")
    field.send_keys("tma load")
    matching = int(profile.df["scope"].astype(str).str.contains("tma load").sum())
    assert ask(page, "t.search.found.value") == f"{matching:,} here, {matching:,} in all"
    field.send_keys(Keys.ENTER)
    first = ask(page, "t.chosen.item")
    field.send_keys(Keys.ENTER)
    assert ask(page, "t.chosen.item") != first
    field.clear()
    field.send_keys("nothing of this name")
    assert ask(page, "t.search.found.value") == "nothing"
    field.clear()
    field.send_keys(" ", Keys.BACKSPACE)


def test_a_finding_leads_to_its_line_and_cta(page: Any, profile: Profile) -> None:
    line = int(profile.findings()["line"].iloc[0])
    click(page, ".go-line")
    marked = page.find_element("css selector", ".marked")
    assert marked.get_attribute("data-line") == str(line)
    assert marked.get_attribute("open") is not None
    click(page, ".go-cta")
    assert ask(page, "t.level.kind") == "cta"
    assert ask(page, "t.profile.sites.line[t.profile.spans.site[t.chosen.item]]") == line


def test_the_program_stands_around_the_launches(driver: Any, tmp_path: Path) -> None:
    """Scopes and events of the host, and streams of the GPU: named, searched, and a kernel leads inside."""
    from selenium.webdriver.common.keys import Keys

    profile = program()
    profile.save(tmp_path / "program.html")
    opened(driver, tmp_path / "program.html")
    ask(driver, "t.show(t.levelOf('program'))")
    rows = "t.level.rows.filter((row) => row.what === 'around')"
    drawn = ask(driver, f"{rows}.reduce((sum, row) => sum + row.count, 0)")
    assert drawn == len(profile.host) + len(profile.events)
    labels = set(ask(driver, f"{rows}.map((row) => row.label).filter(Boolean)"))
    assert labels == {"host thread 100", "host thread 200", "GPU 0 stream 7", "GPU 0 stream 8"}
    field = driver.find_element("css selector", "input[type=search]")
    field.send_keys("forward", Keys.ENTER)
    assert ask(driver, "t.search.found.value") == "1 here, 1 in all"
    assert "forward" in driver.find_element("css selector", ".panel").text
    of_launch = "t.level.rows.find((row) => row.items.some((i) => t.profile.around.launch[i] === 0))"
    inside = f"t.into({of_launch}, {of_launch}.items.find((i) => t.profile.around.launch[i] === 0))"
    ask(driver, f"(row => {inside})()")
    assert ask(driver, "t.level.kind") == "launch"
    ask(driver, "t.show(t.levelOf('program'))")
    ask(driver, "t.setWindow(0, t.profile.launches.duration[0])")
    row = "t.level.rows.find((row) => row.what === 'launch')"
    ask(driver, f"t.zoom(0.5, t.width / 2, 24 + {row}.y + 2)")
    assert ask(driver, "[t.level.kind, t.level.launch]") == ["launch", 0], "what fills the view is entered"
    assert ask(driver, "document.documentElement.scrollWidth <= window.innerWidth")


def test_hostile_names_are_only_names(driver: Any, tmp_path: Path) -> None:
    profile = regular_profile(2, 6, 2, 3)
    df, launches = profile.tables.df, profile.launches
    named = {
        name: df[name].cat.rename_categories(lambda old: old + EVIL + UNSEEN)
        for name in ("scope", "kernel", "file")
    }
    evil = Profile(
        df.assign(**named),
        launches.assign(kernel=launches["kernel"] + EVIL + UNSEEN),
        {**profile.metadata, "notes": [EVIL + UNSEEN]},
    )
    evil.save(tmp_path / "evil.html")
    opened(driver, tmp_path / "evil.html")
    ask(driver, "(t.goTo('cta', 0, 23), t.step(1, 0))")
    panel = driver.find_element("css selector", ".panel").text
    ask(driver, "(t.range = [0, 1e9], t.panel.show())")
    ask(driver, "t.goTo('launch', 1, 0)")
    written = driver.execute_script("return document.title + document.body.textContent")
    assert not {"\u202e", "\x1b"} & {*written}
    assert SEEN in panel
    options = [each.text for each in driver.find_elements("css selector", "#distributions option")]
    assert any(EVIL in each for each in options)
    assert [each for each in options if EVIL in each and SEEN not in each] == []
    assert driver.execute_script("return document.images.length") == 0
    assert "evil" not in driver.title.replace(EVIL, "")
    assert EVIL in driver.find_element("css selector", "h1").text


_FIGURES = """
const text = (element) => (element ? element.textContent.trim() : null);
const kernels = [...document.querySelectorAll('nav.kernels tbody tr')].map((row) => [...row.cells].map(text));
const facts = (article) =>
  [...article.querySelectorAll('dl.facts > div')].map((each) => [...each.children].map(text));
const finding = (card) => [
  card.querySelector('h3').firstChild.textContent.trim(), text(card.querySelector('.gain')),
  Number(card.querySelector('.go-line').dataset.line),
];
const line = (row) => [
  row.dataset.line, text(row.querySelector('.share')), ...[...row.querySelectorAll('summary > .n')].map(text),
];
const articles = [...document.querySelectorAll('article.of-kernel')].map((article) => ({
  kernel: text(article.querySelector('h1')),
  facts: Object.fromEntries(facts(article)),
  findings: [...article.querySelectorAll('ol.findings > li')].map(finding),
  lines: [...article.querySelectorAll('details.row')].map(line),
}));
return { kernels, articles };
"""


def test_the_page_has_the_figures_of_the_other_views(driver: Any, tmp_path: Path) -> None:
    """Three kernels that an H200 ran, as `profscope view` tells of them."""
    names = ("starving-partition", "bank-conflict", "uncoalesced-load")
    parts = [
        Part(load(DATA / "findings" / f"{name}.json.gz").tables, name, rank)
        for rank, name in enumerate(names)
    ]
    profile = Profile.of(merged(parts))
    views = Views(profile, tmp_path)
    profile.save(tmp_path / "t.html")
    found = opened(driver, tmp_path / "t.html").execute_script(_FIGURES)
    screen = views.ask("--show", "kernels,findings", "--top", "0")
    rows = {row["kernel"]: row for row in screen["kernels"]}
    assert [cells[1] for cells in found["kernels"]] == list(rows)
    findings = {kernel: row["findings"] for kernel, row in rows.items()}
    assert any(findings.values())
    for share, kernel, launches, median, finding, _ in found["kernels"]:
        assert share == f"{100 * rows[kernel]['share']:.1f} %"
        assert launches == str(rows[kernel]["launches"])
        assert median == duration_text(rows[kernel]["time"]["median"], "ns")
        assert finding == "".join(
            f"{one['finding']}, {one['gain_pct']:.0f} %" for one in findings[kernel][:1]
        )
    sources = {
        source["kernel"]: [line for block in source["blocks"] for line in block["lines"] if line["scopes"]]
        for source in views.ask("--source")
    }
    launch_of = dict(zip(profile.launches["kernel"], profile.launches["launch"], strict=True))
    for article in found["articles"]:
        kernel = article["kernel"]
        assert article["findings"] == [
            [one["finding"], f"{one['gain_pct']:.0f} %", one["line"]] for one in findings[kernel]
        ]
        assert article["facts"]["CTAs recorded"].startswith(f"{rows[kernel]['ctas']['recorded']} of ")
        lines = sources[kernel]
        assert len(lines) == len(article["lines"]) > 3
        of_view = {str(line["line"]): line for line in lines}
        for number, share, count, self_time in article["lines"]:
            known = of_view[number]
            assert share in ("", "<0.1", f"{100 * known['share']:.1f}")
            assert count == f"{known['count']:,}"
            assert self_time == duration_text(known["self_mean"], "ns")
        drawn = ask(
            driver, f"t.profile.launches.ctas[t.profile.launches.number.indexOf({launch_of[kernel]})].length"
        )
        assert drawn == rows[kernel]["ctas"]["recorded"]
