"""The page in a real browser: what it draws, what keys and clicks do, and that it stays silent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from profscope.profiles import Profile, load
from tests.support.browser import NEEDED, opened, why_no_browser, window
from tests.support.profiles import regular_profile

DATA = Path(__file__).parents[2] / "data"
EVIL = "</script><img src=x onerror=\"document.title='evil'\"><script>document.title='evil'</script>"

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


def test_keys_zoom_pan_and_fit(page: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    size = "t.to - t.from"
    ask(page, "t.fit()")
    whole = ask(page, size)
    page.find_element("css selector", "canvas.canvas").send_keys("")
    ActionChains(page).key_down("w").pause(0.4).key_up("w").perform()
    near = ask(page, size)
    assert near < 0.7 * whole
    begin = ask(page, "t.from")
    ActionChains(page).key_down("d").pause(0.2).key_up("d").perform()
    assert ask(page, "t.from") > begin
    keys(page, "f")
    assert ask(page, size) == pytest.approx(whole)


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
    assert ask(page, "t.found.value") == f"{matching:,} here, {matching:,} in all"
    field.send_keys(Keys.ENTER)
    first = ask(page, "t.chosen.item")
    field.send_keys(Keys.ENTER)
    assert ask(page, "t.chosen.item") != first
    field.clear()
    field.send_keys("nothing of this name")
    assert ask(page, "t.found.value") == "nothing"
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


def test_histograms_count_every_span(page: Any, profile: Profile) -> None:
    totals = page.execute_script(
        "return profscope.timeline.profile.facts.histograms.map((h) => h[1].reduce((a, b) => a + b, 0))"
    )
    assert sum(totals) == len(profile.df)
    charts = page.execute_script(
        "return [...document.querySelectorAll('.plot')].map((p) => p.children.length)"
    )
    assert len(charts) == 5
    assert all(charts)


def test_hostile_names_are_only_names(driver: Any, tmp_path: Path) -> None:
    profile = regular_profile(2, 6, 2, 3)
    df, launches = profile.tables.df, profile.launches
    named = {
        name: df[name].cat.rename_categories(lambda old: old + EVIL) for name in ("scope", "kernel", "file")
    }
    evil = Profile(
        df.assign(**named),
        launches.assign(kernel=launches["kernel"] + EVIL),
        {**profile.metadata, "notes": [EVIL]},
    )
    evil.save(tmp_path / "evil.html")
    opened(driver, tmp_path / "evil.html")
    ask(driver, "(t.goTo('cta', 0, 23), t.step(1, 0))")
    ask(driver, "(t.range = [0, 1e9], t.panel.show())")
    ask(driver, "t.goTo('launch', 1, 0)")
    assert driver.execute_script("return document.images.length") == 0
    assert "evil" not in driver.title.replace(EVIL, "")
    assert EVIL in driver.find_element("css selector", "h1").text
