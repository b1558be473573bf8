"""The first screen: what it leaves undone so that it is soon shown, its bars, and the program around."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import threading
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from rich.cells import cell_len

from profscope.analysis.breakdown import breakdown
from profscope.profiles import Profile, load
from profscope.traces.jobs.merging import merged
from profscope.traces.jobs.stack import Part
from profscope.viewer.cli import main
from profscope.viewer.header import render_foot, render_header, render_top
from profscope.viewer.input import imported_beside
from profscope.viewer.kernels import MOST_ACCOUNTS, render_account
from profscope.viewer.screen import show_first_screen
from tests.kernels.add import add_kernel
from tests.support import page_kernels
from tests.support.around import program
from tests.support.captured import captured
from tests.support.command_line import run
from tests.support.models import kernels, shown
from tests.support.profiles import profiles, regular_profile
from tests.support.sessions import session

DATA = Path(__file__).parents[1] / "data"

FIRST = ("findings", "kernels", "lines", "tree", "timeline")
FAULTS = """
import resource
import numpy as np
from profscope.viewer.input import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        arrays = [np.ones(1 << 18) for _ in range(8)]  # 2 MB each
        del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

given_back = faults()
keep_freed_memory()
print(given_back, faults())
"""


def of_two_ranks() -> Profile:
    """Merged; what a record costs is known, so that durations are corrected."""
    clock = {"clock": {"read_cycles": 2, "row_cycles": 18, "basis": "measured"}}
    parts = [captured("layer_norm-heavy-0", "attention-light-0"), captured("layer_norm-heavy-0")]
    tables = merged([Part(each.tables, f"part {rank}", rank) for rank, each in enumerate(parts)])
    return Profile.of(replace(tables, metadata=tables.metadata | clock))


def test_a_terminal_too_narrow_shows_what_one_of_40_columns_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some bars have a width that is less than a terminal's by a margin and a name."""
    path, end = str(tmp_path / "t.pftrace"), io.StringIO()
    profile = load(DATA / "plotting/waves.pftrace.gz")
    profile.save(path)
    expected = run(path, "--width", "40").stdout
    monkeypatch.setenv("COLUMNS", "39")
    assert main([path]) == 0
    assert capsys.readouterr() == (expected, "")
    show_first_screen(profile, "t.pftrace", end)
    assert "Where its time goes" in end.getvalue()


def test_figures_are_those_of_a_screen_with_percentiles(tmp_path: Path) -> None:
    """For these all durations are put in order, which is left out where they are not shown."""
    file = str(tmp_path / "t.json")
    of_two_ranks().save(file)
    first, with_scopes = (
        json.loads(run(file, "--format", "json", "--show", ",".join(shown)).stdout)
        for shown in (FIRST, (*FIRST, "scopes"))
    )
    assert with_scopes.pop("tables")[0]["rows"][0]["p99"] > 0
    assert {"header", "kernels", "trees", "timeline"} <= {name for name in first if first[name]}
    assert first == with_scopes


def test_a_finding_has_one_percentage_in_every_view(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """That of its kernel's time; of the time of all kernels it is less, and stands beside it."""
    names = ("gather", "column")
    profiles = [load(DATA / "evidence" / f"{name}.pftrace.gz") for name in names]
    profile = Profile.of(merged([Part(each.tables, names[at], at) for at, each in enumerate(profiles)]))
    (row,) = profile.findings().query("finding == 'bank-conflict'").to_dict("records")
    own, of_all = f"{row['gain_pct']:.0f}", f"{row['program_pct']:.0f} % of all kernels' time"
    assert float(own) > 1.3 * row["program_pct"]
    path = tmp_path / "two.pftrace"
    profile.save(path)
    profile.save(tmp_path / "two.html")
    assert main([str(path)]) == 0
    screen = capsys.readouterr().out
    title = "Findings, and how much of the kernel's time fixing each saves"
    assert title in screen
    assert re.search(rf"^ *{own}%  bank-conflict [^(]*\([^)]*{of_all}", screen, re.MULTILINE)
    assert re.search(rf"^ *{own} %  bank-conflict, .*{of_all}", repr(profile.findings()), re.MULTILINE)
    assert repr(profile.findings()).startswith(title)
    page = unescape((tmp_path / "two.html").read_text())
    assert f">{own} %</div><div><h3>bank-conflict" in page
    assert title in page
    assert of_all in page
    notebook = unescape(profile._repr_html_() or "")
    assert title in notebook
    assert f"<b>{own} % bank-conflict</b>" in notebook
    told = profile.report()
    brief = {each["kernel"]: each["findings"][0] for each in told["other_kernels"]}
    full = {each["kernel"]: each["findings"][0]["gain_pct"] for each in told["kernels"] if each["findings"]}
    assert f"{full.get(row['kernel'], row['gain_pct']):.0f}" == own
    assert f": {own} %" in brief.get(row["kernel"], f": {own} %")


def test_the_order_is_program_trust_kernels_and_then_each_of_the_three_longest(tmp_path: Path) -> None:
    x = torch.ones(4096)
    with session() as prof:
        for warps, ctas in ((4, 4), (8, 4), (4, 8), (4, 2)):
            add_kernel[(ctas,)](x, x, torch.empty_like(x), 4096, BLOCK=4096 // ctas, num_warps=warps)
    command = {"program": {"command": ["train.py", "--epochs", "1"]}}
    file = str(tmp_path / "t.json")
    Profile.of(replace(prof.tables, metadata=prof.metadata | command)).save(file)
    text = run(file, "--width", "160").stdout
    top = text.split("\n\n")[0].splitlines()
    heads = [line.split()[0] for line in top[1:] if not line.startswith(" ")]
    assert heads == ["Command", "Recorded", "Variants", "Verdict"]
    assert top[1].endswith("train.py --epochs 1")
    assert "#0 BLOCK=1024 num_warps=4, #1 BLOCK=1024 num_warps=8, #2 BLOCK=512 num_warps=4" in top[3]
    (document,) = [json.loads(run(file, "--format", "json").stdout)]
    longest = [row["variant"] for row in document["kernels"]]
    heads = [f"\nWhere the time of add_kernel #{variant} BLOCK=" for variant in longest]
    assert [head in text for head in heads] == [True] * 3 + [False]
    at = [text.index("\nkernels  launch time: first"), *(text.index(head) for head in heads[:3])]
    assert at == sorted(at)
    ends = [*at[2:], text.index(", spans on loads end at their issue")]
    for begin, end in zip(at[1:], ends, strict=True):  # bar, findings, lines
        part = text[begin:end]
        basis = part.index("(from CTA times and the cost model)")
        assert basis < part.index("\nFindings, ") < part.index("\nline spans")
    assert re.search(r"\n\d+ more findings?, of other kernels; --show findings has all\n", text)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc")
def test_memory_is_asked_for_once() -> None:
    given_back, kept = map(int, subprocess.check_output([sys.executable, "-c", FAULTS]).split())
    assert kept < given_back / 2


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_ctrl_c_does_not_wait_for_imports(error: type[BaseException]) -> None:
    """Since the thread that imports may wait for what the interrupted one has taken; others wait for it."""
    go_on, seen = threading.Event(), list[bool]()

    def work() -> None:
        seen.append(go_on.wait(0.2))
        raise ImportError("said by who imports it again")

    with pytest.raises(error), imported_beside(work):
        raise error
    assert seen == ([] if error is KeyboardInterrupt else [False])
    go_on.set()


def test_a_line_hides_other_kernels_and_says_how_many_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with session() as prof:
        page_kernels.run(stages=1)
    path = tmp_path / "t.json"
    prof.save(path)
    line = next(row for row in prof.lines().to_dict("records") if row["kernel"] == "softmax_kernel")["line"]
    hidden = int((prof.findings()["line"] != line).sum())
    assert hidden > 1
    assert main([str(path), "--line", f"page_kernels.py:{line}", "--width", "100"]) == 0
    shown = capsys.readouterr().out
    assert "softmax_kernel" in shown
    assert "matmul_kernel" not in shown
    assert f"\n{hidden} findings at other lines\n" in shown
    assert main([str(path), "--width", "100"]) == 0
    whole = capsys.readouterr().out
    assert "matmul_kernel" in whole
    assert "at other lines" not in whole


# Bars: they add up, fit the terminal, and what is unknown is shown as such.

MATMUL = DATA / "diff" / "matmul-1-stage.pftrace.gz"
NO_SAMPLES = "unknown: no PC samples: `profscope run --evidence true` takes some"


def first_screen(profile: Profile) -> list[str]:
    stream = io.StringIO()
    show_first_screen(profile, "trace", stream)
    return stream.getvalue().splitlines()


def drawn(profile: Profile, width: int) -> list[str]:
    entries = kernels(profile, parts=["accounts"])[:MOST_ACCOUNTS]
    lines, told = [], list[str]()
    for entry in entries:
        if entry.account:
            lines += render_account(entry.name, entry.account, "goes", width, told)
            told += entry.account.caveats
    return [line.plain for line in lines]


def test_the_first_screen_leads_with_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    profile = load(MATMUL)
    lines = first_screen(profile)
    at = lines.index("Where its time goes")
    assert at < next(n for n, line in enumerate(lines) if line.startswith("Findings, "))
    text = " ".join(map(str.strip, lines[at:]))
    table = breakdown(profile.tables)
    unknown = table.loc[table["part"] == "unknown", "share"].sum()
    assert f"· unknown {100 * unknown:.1f}%" in text
    assert "(from spans)" in text
    assert NO_SAMPLES in text
    assert "tail, imbalance, between-ctas are not in the bar: not every CTA of its launches is known" in text
    assert run(str(MATMUL), "--width", "80").stdout.splitlines().count("Where its time goes") == 1


@given(profiles(), st.sampled_from([40, 80]))
def test_bars_add_up_and_fit(profile: Profile, width: int) -> None:
    assume(len(profile.launches))
    lines = drawn(profile, width)
    assert all(cell_len(line) <= width for line in lines)
    bars = [line for line in lines if re.search(r"  [█▓▒░▚▖·-]+$", line)]
    assert 1 <= len(bars) <= 3
    assert {cell_len(bar) for bar in bars} == {width}
    legend = " ".join(line for line in lines if line.startswith("  "))
    for told in legend.split("(from ")[:-1]:
        assert sum(map(float, re.findall(r" ([\d.]+)%", told))) == pytest.approx(100.0)


# The program around the kernels.


def test_the_header_has_gpu_time_and_the_longest_scopes() -> None:
    profile = program()
    header = shown(profile)
    around = header.model.program
    text = " ".join(" ".join(line.plain for line in render_foot(header, 300)).split())
    (gpu,) = around.gpus
    assert f"GPU {gpu.device} busy for " in text
    assert around.triton_share == profile.program.gpu_time().attrs["triton_share"]
    assert f"; {100 * around.triton_share:.1f}% of its time is Triton's (" in text
    assert [scope.path for scope in around.scopes] == ["step", "step > backward", "step > forward"]
    assert re.search(r"; scope step \S+, 3 launches;", text), "once: neither 1 x nor each"
    for render, said in ((render_header, True), (render_foot, True), (render_top, False)):
        assert any("Program" in line.plain for line in render(header, 80)) == said


def test_notes_that_say_the_same_of_many_kernels_are_told_once() -> None:
    profile = regular_profile(launches=1, ctas=1, warps=1, iterations=1)
    notes = [f"k{at}: {at} of 64 CTAs were recorded" for at in range(1, 9)] + [
        "a: 2",
        "alone: something else",
    ]
    profile = replace(profile, metadata={**profile.metadata, "notes": notes})
    header = shown(profile)
    text = " ".join(" ".join(line.plain for line in render_header(header, 200)).split())
    assert "Note k1: 1 of 64 CTAs were recorded (and 7 notes like it, in --format json)" in text
    assert "k2: " not in text
    assert "Note alone: something else" in text
    assert list(header.header.notes) == notes
    foot = "\n".join(line.plain for line in render_foot(header, 200))
    assert " ".join(foot.split()) in text
    assert foot.count("Note") == 3
