"""--split-input-file and --verify-diagnostics."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profscope.commands.opt import Expected, expected_errors, main
from profscope.instrument_passes.errors import IRError
from tests.support.examples import examples

GOOD = """module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @good() {
    tt.return
  }
}
"""
CROSSED = """module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @crossed() {
    "profscope.begin"() {id = 0 : i32, kind = "op", name = "a", op = "a"} : () -> ()
    "profscope.begin"() {id = 1 : i32, kind = "op", name = "b", op = "b"} : () -> ()
    tt.call @f() : () -> ()
    // expected-error @+1 {{the end of span 0 does not close the innermost open span}}
    "profscope.end"() {id = 0 : i32} : () -> ()
    tt.return
  }
}
"""


def run(tmp_path: Path, text: str, *arguments: str) -> int:
    file = tmp_path / "in.mlir"
    file.write_text(text)
    return main([str(file), *arguments])


def test_split_modules_are_joined_as_they_were(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = f"{GOOD}// -----\n\n{GOOD}// -----   \n{GOOD}"
    assert run(tmp_path, text, "--split-input-file") == 0
    assert capfd.readouterr().out == text
    assert run(tmp_path, text) == 1
    assert "expected one module, found 3 top-level ops" in capfd.readouterr().err


@settings(max_examples=examples(30), deadline=None)
@given(blank=st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_lines_are_those_of_the_whole_file(
    blank: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    bad = GOOD.replace("tt.return", ")")
    text = "// -----\n".join("\n" * lines + GOOD for lines in blank) + "// -----\n" + bad
    file = tmp_path_factory.mktemp("split") / "in.mlir"
    file.write_text(text)
    line = text.split("\n").index("    )") + 1
    announced = text + f"// expected-error @{line - text.count(chr(10)) - 1:+d} {{{{expected}}}}\n"
    assert main([str(file), "--split-input-file", "-o", str(file) + ".out"]) == 1
    file.write_text(announced)
    assert main([str(file), "--split-input-file", "--verify-diagnostics", "-o", str(file) + ".out"]) == 0


def test_announced_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = f"{GOOD}// -----\n{CROSSED}"
    arguments = ("--split-input-file", "-p", "lower-records", "--verify-diagnostics")
    assert run(tmp_path, text, *arguments) == 0
    said = capfd.readouterr()
    assert said.err == ""
    assert "@good" in said.out
    assert "@crossed" not in said.out


def test_error_without_announcement_names_file_line_pass_and_op(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, CROSSED, "-p", "lower-records") == 1
    assert capfd.readouterr().err == (
        f"profscope-opt: {tmp_path}/in.mlir:7: pass lower-records: the end of span 0 does not close the "
        'innermost open span: "profscope.end"() {id = 0 : i32} : () -> ()\n'
    )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("@+1", "@+2", ":8: expected error 'the end of span 0"),
        ("the end of", "the start of", ":7: expected error 'the start of span 0"),
        ("// expected-error @+1", "// error", ":7: unexpected error: pass lower-records: the end of"),
    ],
)  # fmt: skip
def test_wrong_announcement(
    old: str, new: str, problem: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, CROSSED.replace(old, new), "-p", "lower-records", "--verify-diagnostics") == 1
    assert problem in capfd.readouterr().err


def test_announced_error_that_does_not_come(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, GOOD + "// expected-error @above {{x}}\n", "--verify-diagnostics") == 1
    assert ":5: expected error 'x' was not raised" in capfd.readouterr().err


def test_places() -> None:
    text = "// expected-error {{a}}\n// expected-error @below {{b}}\n// expected-error @-2 {{c}}\n"
    assert expected_errors(text, "f") == [Expected(1, "a"), Expected(3, "b"), Expected(1, "c")]


@pytest.mark.parametrize("comment", ["// expected-warning {{x}}", "// expected-error @somewhere {{x}}"])
def test_comments_that_cannot_be_read(comment: str) -> None:
    with pytest.raises(IRError, match=r"^f:2: cannot read 'expected-"):
        expected_errors(f"\n{comment}\n", "f")
