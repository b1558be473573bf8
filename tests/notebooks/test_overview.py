"""What a notebook shows of a profile: verdict, findings and lines; and no name becomes markup in it."""

from __future__ import annotations

import pickle
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

import profscope
from profscope.errors import DrawError
from profscope.profiles import Profile, load
from profscope.traces.html import notebook
from tests.support.profiles import regular_profile

DATA = Path(__file__).parents[1] / "data"
EVIL = "</td><script>alert(1)</script><img src=x onerror=alert(1)>\u202e"


class Shown(HTMLParser):
    """The elements of some HTML, their attributes, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_data(self, data: str) -> None:
        self.text += data


ELEMENTS = {"div", "p", "b", "i", "ul", "li", "code", "details", "summary"}
ELEMENTS |= {"table", "thead", "tbody", "tr", "th", "td"}


def shown(profile: Profile) -> Shown:
    html = profile._repr_html_()
    assert html is not None
    page = Shown(html)
    assert page.elements <= ELEMENTS
    assert page.attributes <= {"open", "scope"}
    return page


def shown_html(table: pd.DataFrame) -> str:
    html = str(table._repr_html_())
    assert Shown(html).elements <= ELEMENTS
    return Shown(html).text


def test_it_has_verdict_findings_and_lines() -> None:
    prof = load(DATA / "findings" / "starving-partition.json.gz")
    text = shown(prof).text
    finding = prof.findings().iloc[0]
    assert "1 kernel, 1 launch, 3,484 spans, 0 dropped records, gpu, NVIDIA H200" in text
    assert "Verdict: trust with care" in text
    assert f"{finding['gain_pct']:.0f} % partition-starved at planted_kernels.py:67" in text
    assert str(finding["evidence"]) in text
    assert str(finding["advice"]) in text
    top = prof.lines().iloc[0]
    assert f"{100 * top['self_share']:.1f} %planted_kernels.py:{top['line']}" in text
    assert len(text) < 3000


def test_a_table_without_findings_says_so() -> None:
    findings = load(DATA / "compiled_model.pftrace.gz").findings()
    first, text = next(iter(findings.attrs["clean"].items()))
    for said in (repr(findings), str(findings), shown_html(findings)):
        assert said.startswith("No findings.")
        assert f"{first}: {text}" in said
    found = load(DATA / "findings" / "starving-partition.json.gz").findings()
    assert repr(found[found["gain_pct"] > 1000]) == "No findings."
    assert "matmul_ws_kernel" in repr(found)
    for name in ("finding", "evidence", "advice"):
        assert str(found[name].iloc[0]) in " ".join(repr(found).split())
    assert repr(found[["finding", "line"]]) == repr(pd.DataFrame(found[["finding", "line"]]))


def test_findings_are_a_table_whose_sentences_are_whole() -> None:
    findings = load(DATA / "findings" / "starving-partition.json.gz").findings()
    findings["evidence"] = "waits & waits " * 30
    made = [
        findings, findings.copy(), findings[findings["gain_pct"] > 8], findings[["evidence"]],
        findings.sort_values("gain_pct"), pickle.loads(pickle.dumps(findings)), pd.concat([findings] * 2),
    ]  # fmt: skip
    for each in made:
        assert isinstance(each, pd.DataFrame)
        assert ("waits &amp; waits " * 30).strip() in str(each._repr_html_())
        assert each.attrs == findings.attrs
    assert type(findings["evidence"]) is pd.Series
    pd.testing.assert_frame_equal(findings, made[5])
    assert pd.get_option("display.max_colwidth") == 50


def test_without_findings_it_says_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    no_spans = load(DATA / "compiled_model.pftrace.gz")
    clean = set(no_spans.findings().attrs["clean"].values())
    assert clean
    assert all(text in shown(no_spans).text for text in list(clean)[:3])
    prof = regular_profile(launches=1, ctas=4, warps=2, iterations=2)
    assert "of time, by spans" in shown(prof).text
    monkeypatch.setattr(notebook, "MOST_SPANS", 10)
    assert "of time, by spans" not in shown(prof).text


def test_no_name_becomes_markup() -> None:
    prof = load(DATA / "findings" / "starving-partition.json.gz")
    tables = prof.tables
    df = tables.df.assign(
        kernel=EVIL,
        file=tables.df["file"].cat.rename_categories(lambda name: f"{EVIL}{name}"),
        scope=tables.df["scope"].cat.rename_categories(lambda name: f"{name}{EVIL}"),
    )
    df["kernel"] = df["kernel"].astype("category")
    device = {"name": EVIL, "sm_count": 132, "arch": EVIL}
    metadata = {**tables.metadata, "device": device, "kernels": {}, "variants": {}}
    evil = Profile.of(replace(tables, df=df, launches=tables.launches.assign(kernel=EVIL), metadata=metadata))
    page = shown(evil)
    assert "<script>" in page.text  # as text
    assert "\u202e" not in page.text
    verdict = Shown(evil.verdict._repr_html_())
    assert verdict.elements <= ELEMENTS
    assert "<script>" in verdict.text


def test_a_session_that_is_open_is_not_read() -> None:
    session = profscope.session(backend="emulator")
    assert session._repr_html_() is None
    with session:
        assert session._repr_html_() is None
        assert repr(session) == "<Session: open, not read yet>"


def test_show_outside_of_a_notebook() -> None:
    prof = Profile()
    with pytest.raises(DrawError, match=r"this is none: prof\.save\('report.html'\) writes it to a file"):
        prof.show()
    with pytest.raises(DrawError, match="height=40 is a number of pixels, 100 to 10,000"):
        prof.show(height=40)


def test_findings_and_differences_say_in_a_cell_what_they_say_in_a_terminal() -> None:
    findings = load(DATA / "findings" / "starving-partition.json.gz").findings()
    text = shown_html(findings)
    assert [line.strip() for line in repr(findings).splitlines() if line.strip()[:4] == "Try:"]
    for line in repr(findings).splitlines()[1:]:
        assert " ".join(line.split()) in " ".join(text.split()), line
    assert "evidence_values" not in text
    one, three = (load(DATA / "diff" / f"matmul-{name}.pftrace.gz") for name in ("1-stage", "3-stages-0"))
    difference = profscope.diff(one, three)
    text = " ".join(shown_html(difference).split())
    assert "Time: 161k cycles in A, 62.2k cycles in B (-61.4%)" in text
    for line in difference.launches:
        assert line in text
    assert "dot wait acc363.92M109k-3.81M-97.2" in text
    assert "load a34580k--580k-100.0" in text
    assert "configuration" not in text


def test_a_cell_with_many_kernels_shows_the_times_and_twenty_rows_of_each() -> None:
    one = load(DATA / "compiled_model.pftrace.gz")
    difference = profscope.diff(one, one)
    text = " ".join(shown_html(difference).split())
    assert all(line in text for line in difference.launches)
