"""The page as text: what stands in it, and that nothing hostile becomes part of it."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from profscope.analysis.spans.ctas import launch_durations
from profscope.analysis.texts import plain, tag
from profscope.profiles import Profile, load
from profscope.schema import Tables
from profscope.traces.html.document import json_block
from profscope.traces.html.figures import duration_text
from tests.support.around import program
from tests.support.examples import examples
from tests.support.profiles import profile_metadata, profiles, regular_profile

DATA = Path(__file__).parents[2] / "data"
RESULTS = Path(__file__).parents[3] / "bench" / "results"
SIDES = ("before", "after")
HOSTILE = st.sampled_from(
    ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", '" onmouseover="alert(1)', "<!--",
     "javascript:alert(1)", "&lt;b&gt;", "]]>", "\u202eevil", "\x00", "http://evil.example/x"]
) | st.text(max_size=6)  # fmt: skip


def unpack(index: list[list[Any]], text: str) -> dict[str, NDArray[Any]]:
    """Packed columns again, as the page's script reads them."""
    data = zlib.decompress(base64.b64decode(text), -zlib.MAX_WBITS)
    columns, at = {}, 0
    for name, kind, count in index:
        size = int(kind[1])
        planes = np.frombuffer(data, np.uint8, count * size, at).reshape(size, count)
        columns[name] = np.ascontiguousarray(planes.T).view(f"<{kind}").reshape(count)
        at += count * size
    return columns


class Page(HTMLParser):
    """The elements of a page with the names of their attributes, what links there are, and the data."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: Counter[tuple[str, ...]] = Counter()
        self.links: set[str] = set()
        self.texts: list[str] = []
        self.facts: Any = {}
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag, *(name for name, _ in attrs)] += 1
        self.links |= {str(value) for name, value in attrs if name in ("href", "src", "action", "srcset")}
        self._inside = dict(attrs).get("id") or tag

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_data(self, data: str) -> None:
        if self._inside == "facts" and not self.facts:
            self.facts = json.loads(data)
            assert not set("<>&") & set(data)
        elif self._inside not in ("script", "style", "data"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))


def page_of(profile: Profile, folder: Path) -> Page:
    profile.save(folder / "report.html")
    return Page((folder / "report.html").read_text())


@pytest.fixture(scope="module")
def matmul(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Of a matmul that an H200 ran."""
    return page_of(load(DATA / "diff" / "matmul-1-stage.pftrace.gz"), tmp_path_factory.mktemp("page"))


def test_findings_stand_in_it_with_evidence_and_advice(matmul: Page) -> None:
    profile = load(DATA / "diff" / "matmul-1-stage.pftrace.gz")
    for row in profile.findings().to_dict("records"):
        assert f"{row['gain_pct']:.0f} %" in matmul.text
        assert row["evidence"] in matmul.text
        assert row["advice"] in matmul.text


def test_a_bar_adds_up_to_the_time_of_the_kernel(tmp_path: Path) -> None:
    profile = load(DATA / "diff" / "matmul-1-stage.pftrace.gz")
    profile.save(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    (bar,) = re.findall(r'<div class="stack">(.*?)</div>', page)
    assert sum(map(float, re.findall(r"width:([\d.]+)%", bar))) == pytest.approx(100.0)
    for name, share in profile.report()["kernels"][0]["account"]["shares"].items():
        assert re.search(rf'title="{name} ({100 * share:.0f}|\d+\.\d) %"', bar)
    assert "no PC samples: session(evidence=True) takes some" in page


@settings(max_examples=examples(10), deadline=None)
@given(profile=profiles(names=HOSTILE, max_actions=6))
def test_no_name_becomes_markup(profile: Profile, tmp_path_factory: pytest.TempPathFactory) -> None:
    page = page_of(profile, tmp_path_factory.mktemp("hostile"))
    allowed = re.compile(r"[a-z]+|data-[a-z]+|aria-[a-z]+|http-equiv|h[1-4]")
    for element in page.elements:
        assert all(allowed.fullmatch(name) for name in element)
        assert not any(name.startswith("on") or name in ("src", "srcdoc") for name in element[1:])
    assert page.elements["script",] == 1
    assert page.elements["script", "type", "id"] == 2
    assert not {
        element for element in page.elements if element[0] in ("img", "iframe", "object", "link", "base")
    }
    assert all(link.startswith("#") for link in page.links)


@given(st.text() | HOSTILE | st.just("\ud800"))
def test_no_text_becomes_markup(text: str) -> None:
    page = Page(tag("p", text, title=text, data_x=text) + json_block("facts", [text]))
    assert page.elements == {("p", "title", "data-x"): 1, ("script", "type", "id"): 1}
    assert page.facts == [plain(text)]
    assert plain(text).isprintable() or set(plain(text)) & {"\n", "\t"}


def test_hostile_metadata_stays_text(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    profile = regular_profile(1, 2, 2, 2)
    text = f"def kernel():\n    {evil}\n"
    about = {"notes": [evil], "device": {"name": evil}, "options": {evil: evil}, "triton": evil}
    source = {"name": evil, "file": "/src/kernels/matmul.py", "line": 9, "text": text, "sha256": ""}
    page = page_of(replace(profile, metadata={**profile.metadata, **about, "sources": [source]}), tmp_path)
    assert page.elements["script",] == 1
    assert page.text.count("alert(1)") >= 4


def test_spans_are_read_back_as_they_were(tmp_path: Path) -> None:
    profile = load(DATA / "findings" / "starving-partition.json.gz")
    page = page_of(profile, tmp_path)
    text = (tmp_path / "report.html").read_text()
    packed = re.search(r'id="data">([^<]*)<', text)
    assert packed is not None
    columns = unpack(page.facts["columns"], packed[1])
    df = profile.df
    np.testing.assert_array_equal(columns["duration"], df["duration_ns"])
    np.testing.assert_array_equal(np.cumsum(columns["iteration"].astype(np.int64)), df["iteration"])
    first = np.cumsum(columns["warp_spans"]) - columns["warp_spans"]
    start = columns["begin"].astype(np.int64)
    since = np.cumsum(start) - np.repeat(np.cumsum(start)[first] - start[first], columns["warp_spans"])
    np.testing.assert_array_equal(since, df["start_ns"] - profile.launches["start_ns"].iloc[0])
    flights = np.flatnonzero(df["kind"] == "async")
    np.testing.assert_array_equal(flights - columns["issue"], df["parent"].to_numpy()[flights])
    np.testing.assert_array_equal(flights + columns["wait"], df["wait"].to_numpy()[flights])


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (Tables(), "No launches were recorded."),
        (replace(regular_profile(1, 1, 1, 1).tables, df=Tables().df), "No spans were recorded"),
        (
            replace(Tables(), metadata={"notes": ["this is a part of the trace: cta 0"]}),
            "This is a part of the trace: cta 0.",
        ),
    ],
)  # fmt: skip
def test_what_is_missing_is_said(tables: Tables, said: str, tmp_path: Path) -> None:
    assert said in page_of(Profile.of(tables), tmp_path).text


def test_a_histogram_is_of_what_is_judged(tmp_path: Path) -> None:
    """As the summary is: each configuration has its own."""
    profile = regular_profile(4, 2, 1, 3)
    launches = profile.launches.assign(variant=np.array([0, 0, 1, 1], np.int32))
    page = page_of(Profile.of(replace(profile.tables, launches=launches)), tmp_path)
    configurations = [profile.df["launch"] < 2, profile.df["launch"] >= 2]
    assert len(page.facts["kernels"]) == 2
    for kernel, own in zip(page.facts["kernels"], configurations, strict=True):
        told: Counter[int] = Counter()
        for _, first, counts in kernel["histograms"]:
            told.update({first + at: count for at, count in enumerate(counts) if count})
        eighths = np.rint(8 * np.log2(np.maximum(profile.df["duration_ns"][own], 1)))  # of a doubling
        assert told == Counter(eighths.astype(int).tolist())


def test_the_program_around_the_kernels_has_a_section_and_is_in_the_timeline(tmp_path: Path) -> None:
    profile = program()
    page = page_of(profile, tmp_path)
    scopes = profile.program.host_scopes()
    assert "Scopes of the host" in page.text
    for row in scopes.to_dict("records"):
        assert f"{row['count']:,} {duration_text(row['mean_ns'], 'ns')}" in page.text
    share = profile.program.gpu_time().attrs["triton_share"]
    assert f"Triton's kernels {100 * share:.1f} % of GPU time" in page.text
    around = page.facts["around"]
    assert sum(track["count"] for track in around["tracks"]) == len(profile.host) + len(profile.events)
    assert {track["process"] for track in around["tracks"]} == {"host", "GPU 0"}
    packed = re.search(r'id="data">([^<]*)<', (tmp_path / "report.html").read_text())
    assert packed is not None
    columns = unpack(page.facts["columns"], packed[1])
    names = [around["names"][at] for at in columns["around_name"]]
    step = names.index("step")
    assert columns["around_begin"][step] == pytest.approx(-9000, abs=1)
    assert columns["around_duration"][step] == profile.program.host_scopes()["total_ns"][0]
    assert columns["around_launch"].tolist().count(0) == 1
    assert "#program" in page.links


def test_an_emulated_page_has_cycles_and_every_grid(tmp_path: Path) -> None:
    profile = regular_profile(launches=3, ctas=2, warps=1, iterations=1)
    launches = profile.launches.assign(grid_x=np.array([4, 8, 8], np.int32))
    page = page_of(Profile(profile.df, launches, profile_metadata("emulator")), tmp_path)
    whole = Profile(profile.df, launches, profile_metadata("emulator"))
    median = float(launch_durations(whole.tables).median())
    assert f"median launch {duration_text(median, 'cycles')} grid 8, 4" in page.text
    assert page.facts["launches"]["duration"] == launch_durations(whole.tables).round().tolist()
    assert "Program" not in page.text
    assert "#program" not in page.links


def test_a_roof_is_told_as_a_limit_and_not_as_a_saving(tmp_path: Path) -> None:
    profile = load(DATA / "evidence" / "gather.pftrace.gz")
    assert profile.findings()["finding"].tolist() == ["uncoalesced-load", "l2-bound"]
    page_of(profile, tmp_path)
    page = (tmp_path / "report.html").read_text()
    causes, title, roofs = page.partition('<p class="lead">At a limit of the hardware')
    assert title
    assert "<h3>uncoalesced-load " in causes
    assert ">limit</div><div><h3>l2-bound " in roofs
