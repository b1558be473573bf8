"""What a run refuses before the program starts: one line, and nothing is left behind."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from profscope import __main__ as door
from profscope.around.job import rank
from profscope.commands.output import claim, free_for_ranks, with_rank
from profscope.commands.program import parse, program, program_parser
from profscope.errors import SessionError
from profscope.store.chunks import SpoolWriter, chunk_parts
from profscope.traces.chrome.text import FIRST_LINE_START


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that fails the test if it is run; its folder is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    path = tmp_path / "never.py"
    path.write_text("raise AssertionError('the program ran')")
    return path


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["absent.py"], 2, "there is no script 'absent.py'; -m runs a module, -c code"),
        (["there.json"], 2, "'there.json' is a trace: profscope view shows it"),
        (["ls"], 2, "not a Python program"),
        (["-o", "trace.txt", "never.py"], 2, "cannot save 'trace.txt': the suffix must be one of .json"),
        (["--spool", "there.json/x", "never.py"], 1, "--spool there.json/x: cannot write a file in "),
        (["--spool", "/proc/x", "never.py"], 1, "--spool /proc/x: cannot write a file in /proc: "),
        (["-o", "folder.json", "never.py"], 2, "cannot write 'folder.json': it is a folder"),
        (["-o", "folder/", "never.py"], 2, "cannot save 'folder/': the suffix must be one of .json"),
        (["-o", "there.json/", "never.py"], 2, "cannot save 'there.json/': the suffix must be one of"),
        (
            ["-o", "no/such/t.json", "never.py"],
            1,
            "cannot write 'no/such/t.json': there is no folder 'no/such'",
        ),
        (["-o", "link.json", "never.py"], 1, "cannot write 'link.json': there is no folder '"),
        (["-o", "there.json", "never.py"], 2, "cannot write 'there.json': profscope did not write the file"),
        *(
            (
                ["-o", "t.json", "--spool", spool, "never.py"],
                2,
                f"--spool {spool}: the run writes the trace to 't.js",
            )
            for spool in ("t.json.partial", "t.json.partial/x", "folder/../t.json.partial", "t.json")
        ),
        (
            ["--spool", "profscope.pftrace.gz.partial", "never.py"],
            2,
            "--spool profscope.pftrace.gz.partial: the run writes the trace to 'profscope.pftrace.gz'",
        ),
        (
            ["-o", "", "never.py"],
            2,
            "-o '': it is empty; name a trace: .pftrace or .json, either with .gz, or .parq",
        ),
        (["-o", "/proc/t.json", "never.py"], 1, "cannot write '/proc/t.json': "),
        (["--backend", "gpu", "never.py"], 1, "there is no GPU here; use --backend emulator\n"),
    ],
)
def test_what_cannot_be_is_one_line(
    script: Path, words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("there.json").write_text("precious")
    Path("folder.json").mkdir()
    Path("folder").mkdir()
    Path("folder/notes.txt").write_text("precious")
    Path("link.json").symlink_to("no/such/t.json")
    before = sorted(Path().rglob("*"))
    assert door.main(["run", *words]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("profscope run: ")
    assert said in err
    assert err.count("\n") == 1
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a program: a script, -m module or -c code"),
        (["-m"], "name a program"),
        (["--colour", "red", "x.py"], "unrecognized arguments: --colour"),
        (["-"], "there is no script"),
    ],
)
def test_wrong_usage_is_said_with_the_usage(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = door.main(["run", *words])
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "given", "how", "rest"),
    [
        (["never.py", "-o", "x"], (None, False), "", ["never.py", "-o", "x"]),
        (["-o", "x", "never.py", "--", "-q"], ("x", False), "", ["never.py", "--", "-q"]),
        (["--output=x", "-q", "never.py"], ("x", True), "", ["never.py"]),
        (["-q", "-m", "pkg.mod", "-c"], (None, True), "-m", ["pkg.mod", "-c"]),
        (["-mpkg", "x"], (None, False), "-m", ["pkg", "x"]),
        (["-c", "print(1)", "-h"], (None, False), "-c", ["print(1)", "-h"]),
        (["-q", "--", "-odd.py", "x"], (None, True), "", ["-odd.py", "x"]),
    ],
)
def test_the_program_begins_where_flags_end(
    script: Path, words: list[str], given: tuple[str | None, bool], how: str, rest: list[str]
) -> None:
    Path("-odd.py").touch()
    parser = program_parser("run", "", "")
    actions = [parser.add_argument("-o", "--output"), parser.add_argument("-q", action="store_true")]
    flags, chosen = parse(parser, words, actions)
    assert (flags.output, flags.q) == given
    assert (chosen.how, [chosen.name, *chosen.arguments]) == (how, rest)


def test_a_command_written_in_python_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "torchrun"
    command.write_text("#!/usr/bin/env python\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = program("", ["torchrun", "train.py"])
    assert (found.name, found.arguments, found.is_launcher) == (str(command), ("train.py",), True)


def test_ranks_have_names_of_their_own(script: Path) -> None:
    assert rank({"RANK": "3", "PMI_RANK": "4"}) == 3
    assert rank({"OMPI_COMM_WORLD_RANK": "1"}) == 1
    assert rank({"RANK": "first"}) is None
    assert with_rank("a/t.v2.json.gz", 3) == Path("a/t.v2/rank=3/trace.json.gz")
    outputs = [claim("t.json", number=number) for number in (None, 0, 1)]
    assert [each.name for each in outputs] == ["t.json", "t/rank=0/trace.json", "t/rank=1/trace.json"]
    assert [each.whole for each in outputs] == ["t.json", "t", "t"]
    for each in outputs:
        each.release()
    assert list(Path().iterdir()) == [Path("never.py")]


def test_ranks_write_nothing_among_other_files(script: Path) -> None:
    Path("profscope").mkdir()
    Path("profscope/__init__.py").touch()
    assert claim(None, number=1).name == "profscope-2/rank=1/trace.pftrace.gz"
    assert free_for_ranks() == "profscope-3.pftrace.gz"


def test_without_a_name_the_first_free_one_is_taken(script: Path) -> None:
    first = claim(None, number=None)
    second = claim(None, number=None)
    assert first.path == script.parent / "profscope.pftrace.gz"
    assert (first.name, second.name) == ("profscope.pftrace.gz", "profscope-2.pftrace.gz")
    first.release()
    second.release()


def test_a_run_replaces_what_it_is_told_to(script: Path) -> None:
    left = Path("t.json.partial")
    left.mkdir()
    SpoolWriter(left, {}).close()  # of a run that was killed before its first launch
    (left / "y.spool").touch()
    Path("t.json").write_bytes(FIRST_LINE_START)
    output = claim("t.json", number=None)
    assert list(left.iterdir()) == []
    with pytest.raises(BlockingIOError):
        fcntl.flock(os.open(left, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    output.release()
    assert not left.exists()
    assert Path("t.json").read_bytes() == FIRST_LINE_START, "until there is another trace"


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("number", [None, 0])
def test_a_run_keeps_the_launches_of_one_that_was_killed(
    script: Path, damaged: bool, number: int | None
) -> None:
    folder = with_rank("t.json", number).with_name(
        "t.json.partial" if number is None else "trace.json.partial"
    )
    for killed in (1, 2, 4):
        folder.mkdir(parents=True)
        Path(f"{folder}.3").mkdir(exist_ok=True)
        spool = b"".join(chunk_parts("launch", b"of a run that was killed"))
        (folder / "x.spool").write_bytes(spool[:-40] if damaged else spool)
        output = claim("t.json", number=number)
        assert list(folder.iterdir()) == []
        assert output.kept == f"{folder}.{killed}"
        assert (Path(output.kept) / "x.spool").read_bytes() in spool
        with pytest.raises(SessionError, match=r"^another run is writing"):
            claim("t.json", number=number)
        output.release()
        assert not folder.exists()
    assert claim("t.json", number=number).kept == ""


@pytest.mark.parametrize("name", ["model.pt", "x.spool", "launch=0/spans.parquet"])
@pytest.mark.parametrize("folder", ["t.json.partial", "t/rank=0/trace.json.partial"])
def test_a_run_does_not_empty_a_folder_of_others(script: Path, folder: str, name: str) -> None:
    theirs = Path(folder, name)
    theirs.parent.mkdir(parents=True)
    theirs.write_text("of somebody else")
    with pytest.raises(SessionError, match=rf"profscope did not write '{theirs}'; move it, or choose"):
        claim("t.json", number=0 if "rank" in folder else None)
    assert theirs.read_text() == "of somebody else"


@pytest.mark.parametrize("given", ["t.pftrace.gz", None])
@pytest.mark.parametrize("name", ["rank=2/model.pt", "rank=7", "rank=3/a/b"])
def test_a_job_does_not_remove_the_ranks_of_others(script: Path, given: str | None, name: str) -> None:
    theirs = Path("t" if given else "profscope", name)
    theirs.parent.mkdir(parents=True)
    theirs.write_text("of somebody else")
    with pytest.raises(SessionError, match=rf"this job has 2 ranks, and profscope did not write '{theirs}'"):
        claim(given, number=0, of=2)
    assert [path for path in Path().rglob("*") if path.is_file()] == [script.relative_to(Path.cwd()), theirs]


def test_a_link_in_place_of_a_rank_is_an_error_before_the_program(script: Path) -> None:
    Path("weights").mkdir()
    Path("t").mkdir()
    Path("t/rank=6").symlink_to("../weights")
    with pytest.raises(SessionError, match="profscope did not write 't/rank=6'"):
        claim("t.json", number=0, of=2)
    assert Path("t/rank=6").is_symlink()


def test_a_job_does_not_remove_the_ranks_of_one_that_runs(script: Path) -> None:
    other = claim("t.json", number=3)
    with pytest.raises(SessionError, match="another run is writing in 't/rank=3'"):
        claim("t.json", number=0, of=2)
    other.release()
    claim("t.json", number=0, of=2).release()


def test_a_job_keeps_what_a_rank_recorded_until_it_was_killed(script: Path) -> None:
    spools = [Path(f"t/rank={number}/trace.json.partial/x.spool") for number in (2, 3)]
    for spool in spools:
        spool.parent.mkdir(parents=True)
        spool.write_bytes(b"".join(chunk_parts("launch", b"of a run that was killed")))
    output = claim("t.json", number=0, of=2)
    assert output.remove_ranks_from(2) == [
        f"rank={number} of an earlier run is left: it holds launches of a run that was killed"
        for number in (2, 3)
    ]
    assert all(spool.exists() for spool in spools)
    output.release()


def test_ranks_that_changed_while_the_program_ran_are_left(script: Path) -> None:
    Path("t/rank=2").mkdir(parents=True)
    Path("t/rank=3/x.json.partial").mkdir(parents=True)
    SpoolWriter(Path("t/rank=3/x.json.partial"), {}).close()
    output = claim("t.json", number=0, of=2)
    Path("t/rank=2/model.pt").write_text("saved by the program")
    theirs = Path("t/rank=2/model.pt").absolute()
    assert output.remove_ranks_from(2) == [
        f"rank=2 of an earlier run is left: profscope did not write {str(theirs)!r}"
    ]
    assert sorted(os.listdir("t")) == ["rank=0", "rank=2"]
    output.release()
