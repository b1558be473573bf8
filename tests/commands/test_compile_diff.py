"""profscope compile-diff, as it is run: what two Tritons, or two files, make of a kernel."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import triton

from profscope.__main__ import main
from profscope.profiles import Profile
from tests.kernels.matmul import matmul_kernel
from tests.support.sessions import session

ROOT = Path(__file__).parents[2]
OTHER = next(iter(sorted((ROOT / ".matrix").glob("*/.installed"))), None)
KERNEL = """
import triton
import triton.language as tl


@triton.jit
def scaled(x):
    return x * 2


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, scaled(x), mask=at < n)
"""


@pytest.fixture
def kernel(tmp_path: Path) -> str:
    (tmp_path / "kernels.py").write_text(KERNEL)
    return f"{tmp_path}/kernels.py:scale_kernel"


@pytest.fixture(scope="module")
def like(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A trace with a configuration of the kernel, and one of a matmul."""
    a, b, c = (torch.ones(64, 64, dtype=torch.float16) for _ in "abc")
    tiles = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": 8}
    with session() as prof:
        matmul_kernel[(4,)](a, b, c, *(64,) * 6, **tiles, num_stages=3, num_warps=2)
    (entry,) = prof.metadata["variants"]["matmul_kernel"]
    known = [["tt.divisibility", 16]]
    told = {
        "constexprs": {"BLOCK": 1024},
        "signature": {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"},
        "specialisation": {"x_ptr": known, "out_ptr": known, "n": known},
    }
    variants = {"matmul_kernel": [entry], "scale_kernel": [{"variant": 0, "key": "", "builds": [], **told}]}
    trace = tmp_path_factory.mktemp("like") / "trace.json.gz"
    Profile.of(replace(prof.tables, metadata=prof.metadata | {"variants": variants})).save(trace)
    return str(trace)


def wrapper(folder: Path, first: Path | None = None) -> str:
    """An environment whose Python is this one, with a folder to look in first."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    path = f'PYTHONPATH="{first}:$PYTHONPATH" ' if first else ""
    python.write_text(f'#!/bin/sh\n{path}exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return str(folder)


def test_one_compiler_twice_has_no_row(
    kernel: str, like: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environments = [wrapper(tmp_path / name) for name in "ab"]
    tritons = [word for each in environments for word in ("--triton", each)]
    assert main(["compile-diff", kernel, *tritons, "--like", like, "--fail-on", "."]) == 0
    told = capsys.readouterr().out
    assert told == f"scale_kernel, cuda:90, Triton {triton.__version__}: the compiled code is the same\n"


def test_a_kernel_that_moved_in_its_file_has_no_row(
    kernel: str, like: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below another function, and below what it calls no more."""
    head, helper, own = KERNEL.split("@triton.jit")
    (tmp_path / "moved.py").write_text(f"{head}# a remark\n\n@triton.jit{own}\n\n@triton.jit{helper}")
    words = ["compile-diff", kernel, f"{tmp_path}/moved.py:scale_kernel", "--like", like]
    assert main([*words, "--fail-on", "."]) == 0
    assert "the compiled code is the same" in capsys.readouterr().out


def test_a_kernel_in_a_file_of_another_name_has_no_row(
    kernel: str, like: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "copied.py").write_text(KERNEL)
    words = ["compile-diff", kernel, f"{tmp_path}/copied.py:scale_kernel", "--like", like]
    assert main([*words, "--fail-on", "."]) == 0
    assert "the compiled code is the same" in capsys.readouterr().out


def test_other_arithmetic_is_never_called_the_same(
    like: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (("plus", "x + 1"), ("times", "x * 1000")):
        (tmp_path / f"{name}.py").write_text(KERNEL.replace("x * 2", text))
    kernels = [f"{tmp_path}/{name}.py:scale_kernel" for name in ("plus", "times")]
    assert main(["compile-diff", *kernels, "--like", like]) == 0
    told = capsys.readouterr().out
    assert "the same" not in told
    assert "no compared fact of the code differs" in told or " -> " in told


def test_a_change_of_the_source_is_told_and_may_fail(
    kernel: str, like: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "odd.py").write_text(KERNEL.replace("mask=at < n)", "mask=at < n * 3 - 1)", 1))
    words = ["compile-diff", kernel, f"{tmp_path}/odd.py:scale_kernel", "--like", like]
    assert main([*words, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    first = told["changes"][0]
    assert (first["fact"], first["a"], first["b"], first["line"]) == ("load width", "16 B", "4 B", 14)
    assert (told["kernels"], told["target"]) == (["scale_kernel"], "cuda:90")
    assert told["triton_a"] == told["triton_b"] == triton.__version__
    assert main([*words, "--fail-on", "load width"]) == 3
    assert main([*words, "--fail-on", "fp8"]) == 0


def test_the_configuration_of_a_trace_is_compiled(like: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = f"{ROOT}/tests/kernels/matmul.py:matmul_kernel"
    assert main(["compile-diff", file, file, "--like", like]) == 0
    assert "the compiled code is the same" in capsys.readouterr().out
    assert main(["compile-diff", file.replace("_kernel", ""), file, "--like", like]) == 1
    assert "has no attribute 'matmul'" in capsys.readouterr().err
    words = ["compile-diff", f"{ROOT}/tests/kernels/add.py:add_kernel", "--triton", sys.executable]
    assert main([*words, "--like", like]) == 1
    said = capsys.readouterr().err
    assert "no configuration 0 of add_kernel; its kernels: matmul_kernel, scale_kernel" in said


@pytest.mark.skipif(OTHER is None, reason="make matrix has installed no other Triton")
@pytest.mark.parametrize("how", ["a folder", "an environment"])
def test_two_tritons_are_compared(
    how: str, kernel: str, like: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert OTHER is not None
    folder = OTHER.parent
    named = str(folder) if how == "a folder" else wrapper(tmp_path / "env", folder)
    assert main(["compile-diff", kernel, "--triton", named, "--like", like]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"scale_kernel, cuda:90, Triton {folder.name} and {triton.__version__}: ")


def test_other_targets_have_facts_without_ptx(
    kernel: str, like: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "less.py").write_text(KERNEL.replace("    at =", "    tl.debug_barrier()\n    at ="))
    words = ["compile-diff", kernel, f"{tmp_path}/less.py:scale_kernel", "--target", "hip:gfx942"]
    assert main([*words, "--like", like]) == 0
    assert "less.py:13 ops: none -> barrier 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        ([], 2, "name another kernel, or another Triton"),
        (["--triton", "nowhere"], 2, "--triton nowhere: no Python"),
        (["--triton", sys.executable, "--target", "sm_90"], 1, "cannot compile scale_kernel: "),
        (["--triton", sys.executable, "--variant", "1"], 1, "no configuration 1 of scale_kernel"),
        (["--triton", "/bin/false"], 1, "/bin/false cannot compile scale_kernel: exit status 1"),
    ],
)
def test_what_cannot_be_compiled_is_said_in_a_line(
    kernel: str, like: str, words: list[str], status: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        ended = main(["compile-diff", kernel, "--like", like, *words])
    except SystemExit as left:
        ended = int(str(left.code))
    assert ended == status
    assert says in capsys.readouterr().err
