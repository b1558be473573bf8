"""profscope view as it is run."""

import io
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from profscope.profiles import Profile, load
from profscope.traces.formats import newest_run
from profscope.viewer.cli import main
from tests.support.captured import captured
from tests.support.command_line import run
from tests.support.profiles import profile_metadata, regular_profile

# A laptop has neither; importing them must fail as it would there.
WITHOUT_GPU_PACKAGES = """
import sys
for name in ("triton", "torch"):
    sys.modules[name] = None
from profscope.viewer.cli import main
sys.exit(main(sys.argv[1:]))
"""


def run_alone(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run in a process of its own, piped, where triton and torch cannot be imported."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR")
    }
    command = [sys.executable, "-W", "error", "-c", WITHOUT_GPU_PACKAGES, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=Path(__file__).parents[2], check=False
    )


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("view") / "trace.json"
    regular_profile(launches=2, ctas=8, warps=4, iterations=6).save(path)
    return str(path)


def test_piped_output_is_plain_80_columns_and_complete(trace: str) -> None:
    done = run_alone(trace, "--show", "all")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    first = run(trace).stdout
    assert all(len(line) <= 80 for line in first.splitlines())
    for text in ("lines by their own time", "More: --source"):
        assert text in first
    for text in (
        "NVIDIA H200, sm_90, 132 SMs, clock 1.980 GHz",
        "triton 3.7.1",
        "4,224 in 8.0 KiB of profile memory, none dropped",
        "scope         line count",
        "│   ├ wait     matmul.py:26",
        "warp 3",
        "w wait:26",
    ):
        assert text in done.stdout
    assert "EMULATED" not in done.stdout


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (40, "scope line count self self%"),
        (60, "scope line count total self self% mean max"),
        (200, "scope line count total self self% mean p50 p90 p99 max"),
    ],
)
def test_short_lines_leave_columns_out_and_cut_no_number(trace: str, width: int, columns: str) -> None:
    lines = run(trace, "--width", str(width), "--show", "scopes").stdout.splitlines()
    assert max(map(len, run(trace, "--width", str(width)).stdout.splitlines())) <= width
    assert max(map(len, lines)) <= width
    head = next(line for line in lines if line.startswith("scope") and "line" in line)
    assert head.replace(" %", "%").split() == columns.split()
    wait = next(line for line in lines if line.startswith("wait") and "%" in line)
    assert len(wait.split()) == len(columns.split())
    assert "…" not in wait


def test_an_emulated_trace_says_so_first_and_speaks_of_cycles(tmp_path: Path) -> None:
    profile = regular_profile()
    Profile(profile.df, profile.launches, profile_metadata("emulator")).save(tmp_path / "t.json")
    done = run(str(tmp_path / "t.json"))
    assert done.stdout.splitlines()[0] == "EMULATED: cycles of a cost model, not GPU time"
    assert "cycles of warp time" in done.stdout
    assert "GHz" not in done.stdout


def test_an_empty_profile_says_what_to_check(tmp_path: Path) -> None:
    Profile(metadata=profile_metadata()).save(tmp_path / "empty.json")
    done = run(str(tmp_path / "empty.json"))
    assert done.returncode == 0
    assert "No launches recorded. Check that" in done.stdout
    assert json.loads(run(str(tmp_path / "empty.json"), "--format", "json").stdout)["timeline"] is None
    Profile(metadata=profile_metadata(notes=["all of it was left out"])).save(tmp_path / "empty.json")
    said = run(str(tmp_path / "empty.json")).stdout
    assert said.startswith("No launches recorded: all of it was left out\n")


def test_drops_and_notes_are_shown(tmp_path: Path) -> None:
    profile = regular_profile()
    launches = profile.launches.assign(dropped=profile.launches["dropped"] + 50)
    metadata = profile_metadata(notes=["A note that is long. " * 10])
    Profile(profile.df, launches, metadata).save(tmp_path / "t.json")
    done = run(str(tmp_path / "t.json"))
    assert "100 DROPPED (2.3%)" in done.stdout.partition("\nkernels ")[0], "they affect all that follows"
    assert "A note that is long. " * 9 in " ".join(done.stdout.split()), "notes are not cut"
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_perfetto_trace_shows_the_same(trace: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.pftrace.gz"
    load(trace).save(path)
    done = run(str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.replace(path.name, "trace.json") == run(trace).stdout
    path.write_bytes(path.read_bytes()[:-9])
    done = run(str(path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"profscope view: {path} is cut off: its ")


def test_without_a_trace_the_newest_of_a_run_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for second, name in enumerate(("profscope-2.pftrace.gz", "profscope.pftrace.gz", "other.pftrace.gz")):
        profile = regular_profile(launches=second + 1, ctas=1, warps=1)
        profile.save(name)
        os.utime(name, (second, second))
    (tmp_path / "profscope").mkdir()  # such as a checkout
    for words in ([], ["--source", "matmul.py:1"]):
        main(words)
        assert capsys.readouterr().err.startswith(
            "profscope view: profscope.pftrace.gz, the newest trace here"
        )
    assert "2 launches" in run().stdout
    (tmp_path / "profscope-3" / "rank=0").mkdir(parents=True)
    assert newest_run(tmp_path) == tmp_path / "profscope-3"
    (tmp_path / "profscope-4.pftrace.gz.partial").mkdir()
    os.utime("profscope-4.pftrace.gz.partial", (9e9, 9e9))
    assert newest_run(tmp_path) == tmp_path / "profscope-4.pftrace.gz.partial"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["t", "--kernels", "("], "--kernels: not a regular expression"),
        (["t", "--width", "9"], "--width: must be 40 or more"),
        (["t", "--top", "-1"], "--top"),
        (["t", "--zoom", "3us:1us"], "--zoom: '3us:1us': the end is before the start"),
        (["t", "--line", "x"], "not a line: 'x'; write it like kernels.py:16"),
        (["t", "--show", "nope"], "there is no 'nope'; there are: header, hangs, findings, kernels"),
        (["t", "--open", "--source"], "--source and --open are two views: ask for one"),
        (
            ["t", "--format", "csv"],
            "--format csv prints one table: add --show NAME (hangs, findings, kernels, ",
        ),
        (["t", "--format", "report", "--source"], "--format report is a view of its own: leave --source out"),
        (["t", "--serve", "--format", "json"], "--serve has one form only"),
        (
            ["t", "--show", "lines", "--zoom", "1us:2us"],
            "--zoom changes nothing in --show lines: leave it out",
        ),
        (["t", "--format", "report", "--line", "5"], "--line changes nothing in --format report"),
        (["t", "--source", "--zoom", "1us:2us"], "--zoom changes nothing in --source"),
        (["diff"], "the following arguments are required: A, B"),
        (["diff", "a", "b", "--fail-above", "much"], "not a percentage, such as 5%: 'much'"),
        (["diff", "a", "b", "--top", "x"], "not a count: 'x'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    usage, message = capsys.readouterr().err.splitlines()
    assert usage.startswith(f"usage: profscope {'diff' if words[0] == 'diff' else 'view'}")
    assert said in message


@pytest.fixture
def left_pipe() -> int:
    """The end to write to of a pipe whose reader has left."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    return write_end


@pytest.mark.parametrize("form", [[], ["--format", "json"]])
def test_output_that_cannot_be_written(form: list[str], trace: str, left_pipe: int) -> None:
    for target, outcome in (
        ("/dev/full", (1, "profscope view: No space left on device\n")),
        (left_pipe, (0, "")),
    ):
        err = io.StringIO()
        with open(target, "w") as out, redirect_stdout(out), redirect_stderr(err):
            assert (main([trace, *form]), err.getvalue()) == outcome


def coloured(trace: str, **variables: str) -> str:
    """What a terminal with colours gets."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"FORCE_COLOR": "1", "TERM": "xterm-256color", **variables}.items():
            patch.setenv(name, value)
        return run(trace).stdout


def test_a_scope_has_the_colour_that_it_has_in_the_report(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    profile = captured("attention-heavy-0")
    profile.save(path)
    seen = {
        f"#{int(red):02x}{int(green):02x}{int(blue):02x}"
        for red, green, blue in re.findall(
            r"48;2;(\d+);(\d+);(\d+)", coloured(str(path), COLORTERM="truecolor")
        )
    }
    profile.save(tmp_path / "t.html")
    facts = re.search(r'id="facts">(.*?)</script>', (tmp_path / "t.html").read_text())
    assert facts
    sites = json.loads(facts[1])["sites"]
    assert len(seen) > 4
    assert seen <= {
        colour for colour, kind in zip(sites["light"], sites["kind"], strict=True) if kind == "op"
    }


def two_kernels() -> Profile:
    """Kernel "busy" has most warp time, "slow" most launch time."""
    one = regular_profile(launches=2, ctas=2)
    df = one.df.assign(kernel=pd.Categorical(np.where(one.df["launch"] == 0, "busy", "slow")))
    ends = one.launches["start_ns"] + np.array([10, 90_000])
    return Profile(df, one.launches.assign(kernel=["busy", "slow"], end_ns=ends), one.metadata)


def test_kernels_have_one_order_everywhere(tmp_path: Path) -> None:
    two_kernels().save(tmp_path / "t.json")
    view = json.loads(run(str(tmp_path / "t.json"), "--format", "json").stdout)
    for part in ("kernels", "tables", "trees"):
        assert [row["kernel"] for row in view[part]] == ["slow", "busy"], part
    assert view["timeline"]["kernel"] == "slow"


def test_a_choice_restricts_all_that_is_shown(tmp_path: Path) -> None:
    two_kernels().save(tmp_path / "t.json")
    done = run(str(tmp_path / "t.json"), "--kernels", "busy", "--warp", "1", "--cta", "0")
    assert "slow" not in done.stdout
    assert "Shown     kernels busy, cta 0, warp 1: " in done.stdout
    assert "1 launch, 1 CTA, 1 warp, " in done.stdout
    assert "launch 0, CTA 0 on SM 0: " in done.stdout
    assert "warp 0" not in done.stdout
    header = run(str(tmp_path / "t.json"), "--warp", "1", "--cta", "0", "--show", "header").stdout
    assert "those of whole launches" in " ".join(header.split())
    view = json.loads(run(str(tmp_path / "t.json"), "--kernels", "busy", "--format", "json").stdout)
    assert [row["kernel"] for row in view["kernels"]] == ["busy"]
    assert (view["header"]["kernels"], view["header"]["launches"]) == (1, 1)
    assert view["header"]["spans"] * 2 == view["all_spans"]


@pytest.mark.parametrize(
    "asked",
    [
        ("--width", "160"),
        ("--show", "scopes", "--format", "csv"),
    ],
    ids=" ".join,
)
def test_names_cannot_steer_the_terminal(asked: tuple[str, ...], tmp_path: Path) -> None:
    profile = regular_profile()
    evil = "\x1b[31mred\x07\nnext\u202e [bold]rich[/bold]"
    df = profile.df.assign(scope=profile.df["scope"].cat.rename_categories({"wait": evil}))
    Profile(df, profile.launches, profile.metadata).save(tmp_path / "t.json")
    done = run(str(tmp_path / "t.json"), *asked)
    shown = done.stdout.replace("\\\\", "\\")
    assert "\\x1b[31mred\\x07" in shown
    assert "next\\u202e" in shown
    assert not {"\x1b", "\u202e"} & {*done.stdout}
