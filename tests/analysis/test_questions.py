"""A question is one file: found by its name, asked of profiles and of sessions alike."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import profscope
from profscope.analysis.findings import FINDING_DTYPES
from profscope.analysis.questions import GROUPS, question_names
from profscope.errors import OptionError
from profscope.profiles import Profile
from profscope.schema import Tables
from tests.support.sessions import launch_add, session
from tests.support.validation import validate

ROOT = Path(__file__).parents[2]
QUESTION = '''"""How many spans there are."""

from profscope.schema import Tables



def how_many(tables: Tables) -> int:
    """The spans of a profile."""
    return len(tables.df)
'''
ASK = """
import profscope
prof = profscope.Profile()
assert "how_many" in dir(prof)
print(prof.how_many(), prof.how_many.__doc__)
"""


def test_a_file_in_the_folder_is_a_question(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "profscope", tmp_path / "profscope", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "profscope" / "analysis" / "how_many.py").write_text(QUESTION)
    ran = subprocess.run(
        [sys.executable, "-c", ASK], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert ran.stderr == ""
    assert ran.stdout == "0 The spans of a profile.\n"


def test_a_session_offers_what_a_profile_offers() -> None:
    with session() as prof:
        launch_add()
    public = {name for name in dir(Profile()) if not name.startswith("_")}
    tables = {each.name for each in fields(Tables)} - {"metadata"}
    questions = {"summary", "lines", "breakdown", "limits", "findings", "overhead", "verdict", "hangs"}
    others = {"brief", "report", "program", "ranks", "timeline", "plot", "save", "show", "tables"}
    assert public == tables | questions | others | {"metadata", "of", "emulated", "unit"}
    assert public - {"of", "emulated", "unit"} <= set(dir(prof))
    assert prof.timeline.overlap().equals(prof.profile.timeline.overlap())
    assert prof.summary().equals(prof.profile.summary())
    assert validate(prof.tables) == []


def test_what_type_checkers_are_told_is_there() -> None:
    source = (ROOT / "profscope" / "profiles.py").read_text()
    told = source.split("if TYPE_CHECKING:  # for type checkers")[1].split("else:")[0]
    assert set(_declared(told)) == question_names() - {"verdict"}  # which is an attribute
    source = (ROOT / "profscope" / "analysis" / "questions.py").read_text()
    for group in GROUPS:
        told = source.split(f"class {group.__name__}(Group)")[1].split("\n\n\n")[0]
        assert set(_declared(told)) == question_names(group.name)
        asked = getattr(Profile(), group.name)
        assert all(getattr(asked, name).__func__.__name__ == name for name in question_names(group.name))
        assert {name for name in dir(asked) if not name.startswith("_")} == question_names(group.name)


def _declared(source: str) -> list[str]:
    """The functions that lines define."""
    return [line.split("def ")[1].split("(")[0] for line in source.splitlines() if "def " in line]


@pytest.mark.parametrize(
    ("name", "place"),
    [("skew", "prof.ranks.skew()"), ("host_times", "prof.program.host_times()"), ("line", "prof.lines()")],
)
def test_an_error_names_the_nearest_question(name: str, place: str) -> None:
    with pytest.raises(AttributeError, match=f"{name!r}; did you mean {re.escape(place)}\\?"):
        getattr(Profile(), name)
    group = Profile().program if name == "skew" else Profile().ranks
    with pytest.raises(AttributeError, match=re.escape(place)):
        getattr(group, name)


@pytest.mark.parametrize("name", ["nothing", "spans", "_summary", "a b", "__len__"])
def test_what_is_no_question_is_no_attribute(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(Profile(), name)
    assert not hasattr(Profile(), name)


def _asked(prof: Profile) -> dict[str, Any]:
    """By question, group and all, its answer."""
    asked = {("", name): getattr(prof, name)() for name in question_names() - {"verdict"}}
    for group in GROUPS:
        of_group = getattr(prof, group.name)
        asked |= {(group.name, name): getattr(of_group, name)() for name in question_names(group.name)}
    return {".".join(filter(None, key)): answer for key, answer in asked.items()}


def test_a_question_has_the_same_columns_whatever_is_known() -> None:
    """Of nothing, of an H200 without evidence, of one with it, of the emulator, and of torch.compile."""
    with session() as emulated:
        launch_add()
    traces = ["diff/matmul-1-stage", "evidence/scatter", "compiled_model"]
    profiles = [Profile(), emulated.profile]
    profiles += [profscope.load(ROOT / "tests/data" / f"{trace}.pftrace.gz") for trace in traces]
    first, *others = [
        {
            name: answer.dtypes.astype(str).to_dict()
            for name, answer in _asked(profile).items()
            if isinstance(answer, pd.DataFrame)
        }
        for profile in profiles
    ]
    metrics = first.pop("program.host_scopes")  # with a column for each of the user's metrics
    for other in others:
        assert set(metrics) <= set(other.pop("program.host_scopes"))
        assert {name: list(columns.items()) for name, columns in other.items()} == {
            name: list(columns.items()) for name, columns in first.items()
        }
    assert first["findings"].keys() == FINDING_DTYPES.keys()


def test_a_question_is_printed_without_the_columns_that_have_no_value() -> None:
    prof = profscope.load(ROOT / "tests/data/diff/matmul-1-stage.pftrace.gz")
    lines = prof.lines()
    assert lines["share_samples"].isna().all()
    with pd.option_context("display.max_columns", None, "display.width", 2000):
        shown = repr(lines), lines._repr_html_()
        assert all("self_share" in text and "share_samples" not in text for text in shown)
        assert "share_samples" in repr(lines[["share_samples"]])  # what is asked for is printed
    assert list(lines.copy()) == list(lines)


def test_every_question_whose_rows_are_of_kernels_can_be_asked_of_some() -> None:
    prof = profscope.load(ROOT / "tests/data/compiled_model.pftrace.gz")
    names = [*dict.fromkeys(prof.launches["kernel"])]
    own = [name for name in names if "gelu" in name]
    assert 0 < len(own) < len(names)
    asked = [(prof, ""), *((getattr(prof, group.name), group.name) for group in GROUPS)]
    for whose, group in asked:
        for name in question_names(group) - {"verdict"}:
            ask = getattr(whose, name)
            whole = ask()
            if "kernel" not in getattr(whole, "columns", ()):
                assert "kernels" not in inspect.signature(ask).parameters
                with pytest.raises(TypeError, match="kernels"):
                    ask(kernels="gelu")
                continue
            assert inspect.signature(ask).parameters["kernels"].default is None
            chosen = ask(kernels="gelu")
            expected = whole[whole["kernel"].isin(own)].reset_index(drop=True)
            pd.testing.assert_frame_equal(chosen, expected[chosen.columns])
            with pytest.raises(
                OptionError, match=rf"kernels='softmax' matches no kernel; there are: {names[0]}, "
            ):
                ask(kernels="softmax")
            with pytest.raises(OptionError, match=r"kernels='\(' is not a regular expression"):
                ask(kernels="(")


def test_the_heaviest_lines() -> None:
    prof = profscope.load(ROOT / "tests/data/diff/matmul-1-stage.pftrace.gz")
    whole, chosen = prof.lines(), prof.lines(kernels="^matmul", top=2)
    assert len(whole) > 2
    pd.testing.assert_frame_equal(chosen, whole[chosen.columns].head(2))
    with pytest.raises(OptionError, match="top=0 is not a number of lines"):
        prof.lines(top=0)


def test_a_printed_answer_leaves_out_no_figure() -> None:
    """pandas leaves out the columns in the middle."""
    table = loaded_lines()
    text = repr(table)
    assert "..." not in text.splitlines()[0]
    assert max(map(len, text.splitlines())) <= 122  # and a backslash
    assert all(name in text for name in ("self_share", "share_samples", "waits_for", "active_threads"))
    assert "variant" not in text, "there is one alone"
    assert text.splitlines()[-1] == f"{len(table) - 20} more rows"


def loaded_lines() -> pd.DataFrame:
    return profscope.load(Path(__file__).parents[1] / "data" / "advice" / "bev-pool.pftrace.gz").lines()
