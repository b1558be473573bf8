"""profscope opt as a user meets it: exit codes, streams, one-line errors."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import profscope
from profscope.commands.opt import main
from profscope.instrument_passes import LEVELS
from profscope.instrument_passes.passes import TRITONS
from profscope.instrument_passes.toolchain import triton_version
from tests.support.full_disk import full_disk

INPUTS = Path(__file__).parent.parent / "passes" / "inputs"
ADD = INPUTS / "add.ttgir"
CROSSED = """module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @crossed() {
    "profscope.begin"() {id = 0 : i32, kind = "op", name = "a", op = "a"} : () -> ()
    "profscope.begin"() {id = 1 : i32, kind = "op", name = "b", op = "b"} : () -> ()
    tt.call @f() : () -> ()
    "profscope.end"() {id = 0 : i32} : () -> ()
    tt.return
  }
}
"""
OTHER_TRITON = "{}.{}".format(*next(version for version in TRITONS if version != triton_version()))


def test_no_passes_print_the_file_byte_for_byte(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    for file in INPUTS.glob("*.ttgir"):
        assert main([str(file), "-p", ""]) == 0
        assert capfdbinary.readouterr() == (file.read_bytes(), b"")


def test_odd_bytes_survive(tmp_path: Path) -> None:
    text = (
        ADD.read_bytes().replace(b"\n", b"\r\n").replace(b"add.py", "größe.py".encode())
        + b"// end, no newline"
    )
    (tmp_path / "in.ttgir").write_bytes(text)
    assert main([str(tmp_path / "in.ttgir"), "-o", str(tmp_path / "out.ttgir")]) == 0
    assert (tmp_path / "out.ttgir").read_bytes() == text


@pytest.mark.parametrize("is_input", [True, False])
def test_a_disk_that_fills_up_leaves_the_file_as_it_was(
    is_input: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.ttgir"
    path.write_bytes(ADD.read_bytes())
    with full_disk(1000):
        assert main([str(path if is_input else ADD), "-p", "heavy", "-o", str(path)]) == 1
    assert capfd.readouterr().err == f"profscope opt: cannot write -o {path}: File too large\n"
    assert path.read_bytes() == ADD.read_bytes()
    assert os.listdir(tmp_path) == ["out.ttgir"]
    assert main([str(path if is_input else ADD), "-p", "heavy", "-o", str(path)]) == 0
    assert "profscope.begin" in path.read_text()


def test_a_device_can_be_written_to() -> None:
    assert main([str(ADD), "-o", os.devnull]) == 0


def test_reads_standard_input(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(ADD.read_bytes())))
    assert main(["-", "-p", "kernel-span"]) == 0
    assert b'"profscope.begin"() {id = 0' in capfdbinary.readouterr().out


def test_list_names_passes_options_and_defaults(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    listed = capfd.readouterr().out
    assert "op-spans: one span around every op of the chosen classes\n    classes=load;store;" in listed
    for name in ("kernel-span", "loop-spans", "iteration-spans", "lower-records", "allocate-buffer"):
        assert f"\n{name}: " in f"\n{listed}"


def test_an_error_names_file_line_pass_and_op(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.mlir").write_text(CROSSED)
    assert main([str(tmp_path / "in.mlir"), "-p", "lower-records"]) == 1
    assert capfd.readouterr().err == (
        f"profscope opt: {tmp_path}/in.mlir:6: pass lower-records: the end of span 0 does not close the "
        'innermost open span: "profscope.end"() {id = 0 : i32} : () -> ()\n'
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-p", "no-such-pass"], 2, "unknown pass 'no-such-pass'; known passes: ablate, allocate-buffer,"),
        (["-p", "op-spans{kinds=load}"], 2, "pass op-spans has no option 'kinds'; it takes: classes"),
        (["-p", "op-spans{classes=lode}"], 2, "pass op-spans: unknown op class 'lode'; classes: load,"),
        (["-p", "kernel-span,"], 2, "the pipeline 'kernel-span,' ends with a comma"),
        (["-p", "kernel-span{"], 2, "cannot read the pipeline at 'kernel-span{'"),
        (["-p", "allocate-buffer"], 1, "add.ttgir:3: pass allocate-buffer: no manifest; run lower-records"),
        (["-o", "/no/such/folder/out.ttgir"], 1, "cannot write -o /no/such/folder/out.ttgir: there is no "),
        (["-p", "lower-records,op-spans"], 2, "op-spans cannot come after lower-records; put it before"),
        (["-p", "allocate-buffer,lower-records"], 2, "lower-records cannot come after allocate-buffer;"),
        (["-p", "light,kernel-span"], 2, "kernel-span is in the pipeline twice; leave one out"),
        (["-p", "lower-records,lower-records{ctas=3}"], 2, "lower-records is in the pipeline twice;"),
        (["-p", "heavy{classes=load}"], 2, "heavy is a level and takes no options; write its passes out: "),
    ],
)  # fmt: skip
def test_errors_are_one_line(
    arguments: list[str], code: int, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([str(ADD), *arguments]) == code
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.startswith("profscope opt: ")
    assert message in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--triton", "new"], "argument --triton: 'new' is none of 3.6, 3.7, 3.8, 3.9"),
        (["--triton", "3.5"], "argument --triton: '3.5' is none of 3.6"),
        (["--triton", "3.10"], "argument --triton: '3.10' is none of 3.6"),
        (["-o", ""], "-o '': it is empty; name a file, or - for standard output"),
        (["--no-such"], "unrecognized arguments: --no-such"),
        (["-p", "light", "-p", "op-spans"], "argument -p: given twice; join the passes with commas"),
        (["--list"], "--list is about all passes; leave the file and -p out"),
        (["--list", "--cost"], "argument --cost: not allowed with argument --list"),
        (["--cost", "--triton", OTHER_TRITON], "--cost uses the installed Triton, which is "),
        (["--verify", "--triton", OTHER_TRITON], "--verify uses the installed Triton, which is "),
    ],
)  # fmt: skip
def test_wrong_usage_exits_with_2(
    arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([str(ADD), *arguments])
    assert exit_.value.code == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1].startswith("profscope opt: error: ")
    assert message in said.err.splitlines()[-1]


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_stands_for_its_passes(level: str, capfd: pytest.CaptureFixture[str]) -> None:
    printed = []
    for pipeline in (level, LEVELS[level]):
        assert main([str(ADD), "-p", f"{pipeline},lower-records"]) == 0
        printed.append(capfd.readouterr().out)
    assert printed[0] == printed[1] != ""


def test_lowered_records_are_not_lowered_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lowered, allocated = tmp_path / "lowered.ttgir", tmp_path / "allocated.ttgir"
    assert main([str(ADD), "-p", "light,lower-records", "-o", str(lowered)]) == 0
    assert main([str(lowered), "-p", "allocate-buffer", "-o", str(allocated)]) == 0
    again = "the records are lowered already; run the pass on what they were lowered from"
    for file, pipeline, message in (
        (lowered, "op-spans", f"pass op-spans: {again}"),
        (allocated, "lower-records", f"pass lower-records: {again}"),
        (allocated, "allocate-buffer", "pass allocate-buffer: no profscope.buffer; the module's buffer is"),
    ):
        assert main([str(file), "-p", pipeline]) == 1
        assert f"{file}:3: {message}" in capfd.readouterr().err


def test_version_examples_and_exit_codes(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])
    assert exit_.value.code == 0
    assert capfd.readouterr().out == f"profscope opt {profscope.__version__}\n"
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capfd.readouterr().out
    assert re.search(r"exit status: 0 .* 1 .* 2\s.*; 130 ", said, re.DOTALL)
    examples = re.findall(r"^  .*profscope opt (.*)", said.partition("examples:")[2], re.MULTILINE)
    assert len(examples) == 3
    assert main([str(ADD), *shlex.split(examples[0].partition(" ")[2])]) == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ":1: expected one module, found 0 top-level ops"),
        (b'{"traceEvents": []}', ":1: "),
        (b"module {\n\xff\xfe\n}", ":2: not text, so not TTGIR"),
        (ADD.read_bytes()[:900], ": expected "),
        (ADD.read_bytes().replace(b"public", b"private"), ":3: pass kernel-span: expected one public"),
        (ADD.read_bytes().replace(b"cuda:90", b"tpu:9"), ": cannot instrument for target 'tpu:9'"),
    ],
)  # fmt: skip
def test_bad_files(content: bytes, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "bad.ttgir", tmp_path / "out.ttgir"
    file.write_bytes(content)
    out.write_text("as it was")
    assert main([str(file), "-p", "kernel-span,lower-records", "-o", str(out)]) == 1
    said = capfd.readouterr().err
    assert said.startswith(f"profscope opt: {file}:")
    assert message in said
    assert said.count("\n") == 1
    assert out.read_text() == "as it was"


def test_missing_file(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such.ttgir"]) == 1
    assert "'no-such.ttgir'" in capfd.readouterr().err


def test_runs_without_triton_and_is_quick_to_start() -> None:
    """With Triton out of reach all but --verify works, and nothing imports it."""
    script = (
        "import sys\n"
        "for name in ('triton', 'torch', 'pandas', 'rich', 'profscope.viewer'):\n"
        "    sys.modules[name] = None\n"
        "from profscope.commands.opt import main\n"
        f"assert main([{str(ADD)!r}, '-p', 'kernel-span,lower-records,allocate-buffer']) == 0\n"
        f"assert main([{str(ADD)!r}, '--verify']) == 1\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "profscope opt: this needs Triton, which is not installed: pip install triton\n"
    assert "global_scratch_alloc" in done.stdout


def test_closed_pipe_is_quiet() -> None:
    command = f"{sys.executable} -m profscope.commands.opt {INPUTS / 'matmul_sm80.ttgir'} | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_verify_names_line_and_op(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([str(ADD), "--verify", "-p", "kernel-span,lower-records,allocate-buffer"]) == 0
    capfd.readouterr()
    bad = tmp_path / "bad.ttgir"
    bad.write_text(ADD.read_text().replace("tt.store %1, %2,", "tt.store %2, %2,"))
    line = next(i for i, text in enumerate(bad.read_text().splitlines(), 1) if "tt.store" in text)
    assert main([str(bad), "--verify"]) == 1
    said = capfd.readouterr().err
    assert said.startswith(
        f"profscope opt: {bad}:{line}: Triton rejects the module: use of value '%2' expects"
    )
    assert "tt.store %2, %2" in said
    assert said.count("\n") == 1


def test_verify_reports_what_the_verifier_says(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A wrong op with a source location must be named at its line in the file, not in the kernel."""
    bad = tmp_path / "bad.ttgir"
    wrong = "{end = 512 : i32, start = 0 : i32} : tensor<1024xi32, #blocked> loc(#loc25)"
    bad.write_text(re.sub(r"\{end = 1024.*", wrong, ADD.read_text()))
    line = next(i for i, text in enumerate(bad.read_text().splitlines(), 1) if "tt.make_range" in text)
    assert main([str(bad), "--verify"]) == 1
    assert capfd.readouterr().err.startswith(f"profscope opt: {bad}:{line}: Triton rejects the module: ")
