"""Options of a session as flags and as variables: each says there what it says in Python."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profscope import load
from profscope.commands.doctor import environment
from profscope.commands.run import add_flags, make_parser, option_names, run_options
from profscope.commands.run_variables import run_defaults
from profscope.errors import OptionError
from profscope.options import Options
from profscope.viewer.flags import in_flags
from tests.support.forks import ADD_PROGRAM, Forks
from tests.support.option_examples import example

PAGE = (Path(__file__).parents[2] / "docs" / "programs.md").read_text()


def parsed(words: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    add_flags(parser.add_argument_group())
    return vars(parser.parse_args(words))


def spelled(name: str, value: Any) -> str:
    if value is True:
        return f"--{name}"
    if isinstance(value, list):
        value = ",".join(map(str, value)) + "," * (len(value) == 1 and isinstance(value[0], int))
    return f"--{name.replace('_', '-')}={value}"


@given(st.lists(st.integers(0, 1000), min_size=1), st.integers(1, 1000))
def test_values_come_back_as_they_were(ctas: list[int], every: int) -> None:
    options = {"ctas": ctas, "every": every}
    assert parsed([spelled(name, value) for name, value in options.items()]) == options


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--ctas", "7,"], {"ctas": [7]}),
        (["--ctas", "3"], {"ctas": 3}),
        (["--instrument", "heavy"], {"instrument": "heavy"}),
        (["--instrument", "kernel-span,loop-spans"], {"instrument": ["kernel-span,loop-spans"]}),
    ],
)
def test_how_values_are_written(words: list[str], options: dict[str, Any]) -> None:
    assert parsed(words) == options
    Options(**options)


def test_a_run_records_some_ctas_unless_it_is_told_otherwise() -> None:
    assert run_options({}).ctas == 64
    assert run_options({"ctas": 1}).ctas == 1


def test_a_run_takes_evidence_unless_it_is_told_otherwise() -> None:
    every = Options(evidence=True).evidence_asked.witnesses
    assert run_options({}).evidence_asked.witnesses == every
    assert run_options(parsed(["--evidence", "counts"])).evidence_asked.witnesses == ("counts",)
    off = parsed(["--no-evidence"])
    assert run_options(off).evidence_asked.witnesses == ()
    assert Options().evidence_asked.witnesses == ()  # of a session


@pytest.mark.parametrize(
    ("words", "takes"),
    [
        (["--every", "often"], "a number, 1 or more"),
        (["--every", "0"], "a number, 1 or more"),
        (["--ctas", "1,x"], "a number, 1 or more, or a list, such as 0,17"),
        (["--overhead-pct", "-1"], "a percentage above 0, at most 100"),
        (
            ["--evidence", "counts,foo"],
            "true, false, or a list of counts, samples, counters, counters:METRIC, records, experiments, "
            "seconds:S",
        ),
        (["--backend", "foo"], "auto, gpu or emulator"),
        (["--measure", "foo"], "issue or latency"),
        (
            ["--instrument", "everything"],
            "light, default, heavy, or passes, which `profscope opt --list` shows",
        ),
        (["--kernels", "("], "a regular expression: missing ), unterminated subpattern at position 0"),
    ],
)
def test_what_a_flag_does_not_take_is_refused_in_words_of_a_command_line(
    words: list[str], takes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(words)
    assert f"argument {words[0]}: '{words[1]}' is not {takes}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "bad"), [("counts,foo", "'foo'"), ("counts,seconds:-1", "'seconds:-1': S of")]
)
def test_the_bad_part_of_evidence_is_named(text: str, bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(["--evidence", text])
    assert f"seconds:S: {bad}" in capsys.readouterr().err


def test_a_pass_that_is_wrong_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(["--instrument", "kernel-spam,loop-spans"])
    assert "`profscope opt --list` shows: unknown pass 'kernel-spam'; " in capsys.readouterr().err


def test_the_page_has_every_flag_and_no_other() -> None:
    parser, _ = make_parser()
    flags = {text for action in parser._actions for text in action.option_strings}
    rows = [line for line in PAGE.splitlines() if line.startswith("| `-")]
    documented = {flag for row in rows for flag in re.findall(r"`(--?[a-z-]+)", row.split("|")[1])}
    assert documented == flags - {"-h", "--help", "--version"}
    own = [action for action in parser._actions if not {"-h", "--version"} & {*action.option_strings}]
    assert len(own) <= 19, "what few need is left to session()"


# PROFSCOPE_RUN_*: defaults of the flags.

ACTIONS = make_parser()[1]


def test_each_flag_has_a_variable() -> None:
    given = {
        "PROFSCOPE_RUN_CTAS": "0,17",
        "PROFSCOPE_RUN_OVERHEAD_PCT": "2.5",
        "PROFSCOPE_RUN_EVIDENCE": "false",
        "PROFSCOPE_RUN_EVENTS": "true",
        "PROFSCOPE_RUN_OUTPUT": "mine.json",
        "PROFSCOPE_RUN_KERNELS": "",
        "PROFSCOPE_JOB": "7",
    }
    found = run_defaults(ACTIONS, given)
    assert found == {
        "ctas": [0, 17], "overhead_pct": 2.5, "evidence": False, "events": True, "output": "mine.json",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("PROFSCOPE_RUN_CTAS", "many", "'many' is not a number, 1 or more, or a list, such as 0,17"),
        ("PROFSCOPE_RUN_EVIDENCE", "counts,seconds:abc", "'seconds:abc': S of seconds:S is more than 0"),
        ("PROFSCOPE_RUN_EVENTS", "1", "'1' is not true or false"),
        ("PROFSCOPE_RUN_CTA", "1", "there are only PROFSCOPE_RUN_OUTPUT, PROFSCOPE_RUN_HANG_EXIT, "),
        (
            "PROFSCOPE_RUN_NO_EVIDENCE",
            "true",
            "there are only PROFSCOPE_RUN_OUTPUT, PROFSCOPE_RUN_HANG_EXIT, ",
        ),
    ],
)
def test_a_bad_variable_is_named(variable: str, text: str, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        run_defaults(ACTIONS, {variable: text})
    assert str(caught.value).startswith(f"{variable}: ")
    assert said in str(caught.value)


_RUN = """
import os, sys
sys.path.append(os.getcwd())  # the checkout, from which the program imports
os.chdir(sys.argv[1])
from profscope.__main__ import main
sys.exit(main(["run", "--backend", "emulator", "--every", "1", "-c", sys.argv[2]]))
"""


def test_the_command_line_has_the_last_word(
    tmp_path: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"OUTPUT": str(tmp_path / "t.json"), "CTAS": "0,2", "SPOOL": "", "QUIET": "true", "EVERY": "2"}
    for name, text in given.items():
        monkeypatch.setenv(f"PROFSCOPE_RUN_{name}", text)
    done = forks.run(_RUN, tmp_path, ADD_PROGRAM)
    assert (done.returncode, done.stderr) == (0, "")
    options = load(tmp_path / "t.json").metadata["options"]
    assert (options["ctas"], options["every"]) == ([0, 2], 1)


# Hints that name options as Python does, in words of a command line.


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("session(evidence=True) takes some", "`profscope run --evidence true` takes some"),
        ("session(instrument='heavy'), which", "`profscope run --instrument heavy`, which"),
        ("with wait=True launches wait", "with --wait launches wait"),
        ("of 32 CTAs (ctas=64), of 2 (ctas=0.5)", "of 32 CTAs (--ctas 64), of 2 (--ctas 0.5)"),
        ("also with every=n; collectives() needs none", "also with --every n; collectives() needs none"),
        ("ctas= names none of the 4 CTAs", "--ctas names none of the 4 CTAs"),
        ("pass `vary=` to try; limit_s=3", "pass `--vary` to try; --limit-s 3"),
        ("evidence=['counts', 'samples'].", "--evidence counts,samples."),
        # What has no flag, and what is no option.
        (
            "session(baseline=); a larger memory= holds more",
            "session(baseline=); a larger memory= holds more",
        ),
        ("num_warps=4, my.ctas=3, a-every=2, --ctas=64", "num_warps=4, my.ctas=3, a-every=2, --ctas=64"),
    ],
)
def test_options_become_flags(text: str, shown: str) -> None:
    assert in_flags(text) == shown


@pytest.mark.parametrize("name", option_names())
def test_what_an_option_becomes_can_be_given(name: str) -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser.add_argument_group())
    given = vars(parser.parse_args(shlex.split(in_flags(f"{name}={example(name)!r}"))))
    assert Options(**given) == Options(**{name: example(name)}) or name == "instrument"
    assert Options(**given).pipeline == Options(**{name: example(name)}).pipeline


def test_doctor_lists_what_is_set() -> None:
    assert environment({"PROFSCOPE_RUN_CTAS": "4", "HOME": "/root"}) == {"PROFSCOPE_RUN_CTAS": "4"}
