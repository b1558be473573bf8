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
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from profscope.analysis.source_code.annotated import annotate
from profscope.analysis.sources import sampled_code
from profscope.analysis.spans.ctas import launch_durations
from profscope.analysis.texts import NO_TIME, plain, tag
from profscope.evidence.tables import evidence, with_evidence
from profscope.profiles import Profile, diff, load
from profscope.schema import Tables
from profscope.threads import worker_pool
from profscope.traces.html.comparison import comparison_page, side_by_side
from profscope.traces.html.document import document, json_block
from profscope.traces.html.facts import best_places, pack
from profscope.traces.html.figures import duration_text
from profscope.traces.html.sites import known_sites
from profscope.traces.html.spans import chosen_ctas, ctas_of, times
from tests.support.around import program
from tests.support.captures import captured
from tests.support.command_line import run
from tests.support.examples import examples
from tests.support.profiles import launch_table, profile_metadata, profiles, regular_profile

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


def test_the_source_stands_in_it_as_text(matmul: Page) -> None:
    profile = load(DATA / "diff" / "matmul-1-stage.pftrace.gz")
    (source,) = profile.metadata["sources"]
    code = re.sub(r"\s+", "", "".join(matmul.texts))
    for line in source["text"].splitlines():
        assert re.sub(r"\s+", "", line) in code


def test_it_links_to_nothing_outside(matmul: Page) -> None:
    assert all(link.startswith("#") for link in matmul.links)


@settings(max_examples=examples(20), deadline=None)
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


@settings(max_examples=examples(30), deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=3), st.lists(st.integers(-(2**31), 2**32 - 1) | st.integers(-5, 300), max_size=9)
    )
)
def test_columns_are_read_back(columns: dict[str, list[int]]) -> None:
    index, text = pack({name: np.array(values, np.int64) for name, values in columns.items()})
    assert {name: values.tolist() for name, values in unpack(index, text).items()} == columns


def test_shares_of_kernels_are_of_all_that_ran() -> None:
    """Those without a section, too."""
    tables = regular_profile(launches=30, ctas=1, warps=1, iterations=1).tables
    names = [f"kernel_{launch}" for launch in tables.launches["launch"]]
    launches = tables.launches.assign(kernel=names, end_ns=tables.launches["start_ns"] + 1000)
    kernel = pd.Categorical([names[launch] for launch in tables.df["launch"]])
    several = replace(tables, launches=launches, df=tables.df.assign(kernel=kernel))
    with worker_pool() as pool:
        page = document(several, pool)
    assert "6 kernels that took less time have no section here" in page
    assert page.count("3.3 %</td><th") == 24


def test_a_larger_profile_shows_a_stated_selection() -> None:
    profile = regular_profile(2, 64, 4, 6)
    start, duration = times(profile.tables)
    ctas = ctas_of(profile.tables, start, duration)
    group = np.zeros(len(ctas), np.int64)
    each = int(ctas.rows[0])
    chosen = chosen_ctas(ctas, group, [5], most=10 * each)
    assert len(chosen) == 10
    assert {5, int(np.argmax(ctas.duration)), int(np.argmin(ctas.duration))} <= set(chosen.tolist())
    assert len(chosen_ctas(ctas, group, [], most=int(ctas.rows.sum()))) == len(ctas)


def test_a_finding_is_shown_in_a_cta_of_its_own_kernel() -> None:
    """Another kernel has ops at the line. This one has a loop there, the longest in the last CTA."""
    tables = regular_profile(2, 3, 1, 2).tables
    df, names = tables.df, np.array(["matmul_kernel", "other_kernel"])
    is_loop, launch = (df["kind"] == "loop").to_numpy(), df["launch"].to_numpy()
    line = df["line"].where(launch == 0, 22)
    df = df.assign(kernel=pd.Categorical(names[launch]), line=line)
    tables = replace(tables, df=df, launches=tables.launches.assign(kernel=pd.Categorical(names)))
    start, duration = times(tables)
    duration = np.where(is_loop & (df["cta"] < 2), duration // 2, duration)
    finding = SimpleNamespace(finding="exposed-load", line=22, file=df["file"][0])
    entry = SimpleNamespace(findings=[finding])
    kernel: Any = SimpleNamespace(kernel="matmul_kernel", variant=0, entry=entry)
    ctas, sites = ctas_of(tables, start, duration), known_sites(tables, duration)
    (place,) = best_places(kernel, ctas, tables.launches, sites, duration)
    assert (place["cta"], ctas.launch[place["at"]]) == (2, 0)


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


def test_shares_say_that_they_are_percent_and_little_is_not_nothing(tmp_path: Path) -> None:
    profile = regular_profile(1, 2, 1, 3)
    df = profile.tables.df
    short = df["scope"] == "load A"
    tables = replace(profile.tables, df=df.assign(duration_ns=df["duration_ns"].where(~short, 1)))
    longer = {"duration_ns": df["duration_ns"] * 1000, "start_ns": df["start_ns"]}
    tables = replace(
        tables, df=tables.df.assign(**{k: v.where(~short, tables.df[k]) for k, v in longer.items()})
    )
    page = page_of(Profile.of(tables), tmp_path)
    assert "spans %" in page.text
    assert "<0.1" in page.text


def test_a_time_of_0_is_explained(tmp_path: Path) -> None:
    profile = regular_profile(1, 2, 1, 3)
    df = profile.tables.df
    tables = replace(
        profile.tables, df=df.assign(duration_ns=df["duration_ns"].where(df["scope"] != "load A", 0))
    )
    assert NO_TIME in page_of(Profile.of(tables), tmp_path).text


def test_cycles_of_the_emulator_are_no_time(tmp_path: Path) -> None:
    profile = regular_profile(1, 4, 2, 3)
    metadata = {**profile.metadata, "backend": "emulator"}
    page = page_of(Profile.of(replace(profile.tables, metadata=metadata)), tmp_path)
    assert "EMULATED" in page.text
    assert page.facts["unit"] == "cycles"
    assert not re.search(r"\d (ns|us|ms)\b", page.text)


def test_a_million_spans_fit(tmp_path: Path) -> None:
    """Of as many spans as a page takes at most; on fewer, and by the span."""
    profile = regular_profile(1, 240, 4, 20, sms=132)
    profile.save(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    packed = re.search(r'id="data">([^<]*)<', text)
    assert packed is not None
    assert len(packed[1]) / len(profile.df) < 5.0
    assert len(text) - len(packed[1]) < 600_000


def test_a_diff_stands_side_by_side(tmp_path: Path) -> None:
    names = ("matmul-1-stage.pftrace.gz", "matmul-3-stages-0.pftrace.gz")
    a, b = (load(DATA / "diff" / name) for name in names)
    table = diff(a, b)
    page = Page(comparison_page(table, names, (a.metadata["sources"], b.metadata["sources"])))
    launch = table[table["kind"] == "launch"].iloc[0]
    assert f"{-launch['percent']:.1f} % faster, significant: a launch takes" in page.text
    low, high = (100 * launch[name] / launch["self_a"] for name in ("low", "high"))
    assert f", 95 % interval {low:+.1f} % to {high:+.1f} %." in page.text
    loop = table[(table["line_b"] == 33) & (table["kind"] != "async") & table["significant"]]["change"].sum()
    assert f"{loop / 1e6:.2f} M" in page.text
    (source,) = b.metadata["sources"]
    assert re.sub(r"\s+", "", "".join(page.texts)).count("acc=tl.dot(a,b,acc)") == 2
    assert source["name"] in page.text
    assert all(link.startswith("#") for link in page.links)
    assert "do not trust" not in page.text


def test_a_gain_of_launches_that_recording_has_changed_is_not_praised(tmp_path: Path) -> None:
    """Two recordings of an H200: the kernel of the second takes 1.75 times as long recorded as bare."""
    before, after = (str(RESULTS / f"nvidia-h200-3.6.0-2026-11-27-fla-{when}.pftrace.gz") for when in SIDES)
    path = tmp_path / "diff.html"
    assert run("diff", before, after, "--html", str(path)).returncode == 0
    page = path.read_text()
    assert (
        "The verdict of B is &quot;do not trust&quot;: recording has changed what its launches take" in page
    )
    assert 'class="verdict plain">38.8 % faster, significant' in page
    assert "verdict good" not in page


def test_the_margin_says_what_the_terminal_does(tmp_path: Path) -> None:
    """By line: the spans of the scope with most self time, and the self time of one of them."""
    profile = load(DATA / "diff" / "matmul-1-stage.pftrace.gz")
    page = page_of(profile, tmp_path)
    ((source,), _) = annotate(profile.tables, lambda file, line: "")
    lines = [line for block in source.blocks for line in block.lines if line.scopes and line.share]
    assert lines
    for line in lines:
        assert line.count is not None
        assert line.self_mean is not None
        texts = [f"{line.count:,}", duration_text(line.self_mean, "ns")]
        assert " ".join(texts) in page.text


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


def test_instructions_are_named_as_the_disassembler_does(tmp_path: Path) -> None:
    launch = captured("chase")
    kernel = launch.subject.kernel
    bare = Profile(launches=launch_table([0], [kernel]), metadata={"tool": "profscope"})
    profile = Profile.of(with_evidence(bare.tables, evidence([], [launch], [])))
    kept = sampled_code(profile.metadata, kernel, 0)
    assert kept is not None
    most = int(profile.samples.groupby("pc")["samples"].sum().idxmax())
    text = next(each.text for each in kept if each.pc == most)
    assert f"0x{most:04x} {' '.join(text.split())}" in page_of(profile, tmp_path).text


def test_an_emulated_page_has_cycles_and_every_grid(tmp_path: Path) -> None:
    profile = regular_profile(launches=3, ctas=2, warps=1, iterations=1)
    launches = profile.launches.assign(grid_x=np.array([4, 8, 8], np.int32))
    page = page_of(Profile(profile.df, launches, profile_metadata("emulator")), tmp_path)
    whole = Profile(profile.df, launches, profile_metadata("emulator"))
    median = float(launch_durations(whole.tables, "cycles").median())
    assert f"median launch {duration_text(median, 'cycles')} grid 8, 4" in page.text
    assert page.facts["launches"]["duration"] == launch_durations(whole.tables, "cycles").round().tolist()
    assert "Program" not in page.text
    assert "#program" not in page.links


def test_edited_sources_are_aligned() -> None:
    before, after = ["a", "moved = 1", "b", "c"], ["a", "added", "b", "c", "moved = 1"]
    pairs = list(side_by_side(before, after))
    assert pairs == [(0, 0), (1, None), (None, 1), (2, 2), (3, 3), (None, 4)]


LINES = st.lists(st.sampled_from(["a", "b", "c = 1", "d = f(x)", ""]), max_size=8)


@given(LINES, LINES)
def test_sides_keep_all_lines_in_their_order(before: list[str], after: list[str]) -> None:
    pairs = list(side_by_side(before, after))
    assert [a for a, _ in pairs if a is not None] == list(range(len(before)))
    assert [b for _, b in pairs if b is not None] == list(range(len(after)))
