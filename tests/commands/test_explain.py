"""`profscope explain`: a program runs as by itself, and then one of its kernels is explained."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.forks import Forks

ROOT = Path(__file__).parents[2]
_EXPLAIN = """
import os, sys
os.environ["PROFSCOPE_EMULATOR"] = "1"
os.chdir({folder!r})
sys.path.append({root!r})
from profscope.__main__ import main
sys.exit(main(["explain", *sys.argv[1:]]))
"""
_PROGRAM = """
import sys, torch, triton
import triton.language as tl
from tests.support.page_kernels import run, softmax_kernel

@triton.autotune([triton.Config({"STEP": step}, num_warps=1) for step in (64, 128)], key=["count"])
@triton.jit
def tuned(x_ptr, count, STEP: tl.constexpr):
    at = tl.program_id(0) * STEP + tl.arange(0, STEP)
    tl.store(x_ptr + at, tl.load(x_ptr + at, at < count) + 1, at < count)

print("program", __name__, sys.argv[1:])
"""
_SOFTMAX = "x = torch.randn(32, 100)\nsoftmax_kernel[(32,)](x, x, 100, BLOCK=128)\n"

# For what is said of the launch alone: no experiment has the time.
NOTHING_TRIED = ("--limit-s", "0.001")

Explain = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def explain(forks: Forks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Explain:
    """Explains a program that begins as _PROGRAM and goes on with `code`."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)

    def of(code: str, *flags: str, behind: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        (tmp_path / "program.py").write_text(_PROGRAM + code)
        return forks.run(
            _EXPLAIN.format(folder=str(tmp_path), root=str(ROOT)), *flags, "program.py", "a", "-o", *behind
        )

    return of


def test_the_kernel_with_most_time_is_explained(explain: Explain) -> None:
    ran = explain("run(1)", *NOTHING_TRIED)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[:3] == [
        "program __main__ ['a', '-o']",
        "EMULATED: cycles of a cost model, not GPU time",
        lines[2],
    ]
    assert lines[2].startswith("matmul_kernel, as launched: ")
    assert lines[-1].startswith("best: ")


def test_launches_count_as_often_as_they_were(explain: Explain) -> None:
    more = "x = torch.randn(32, 100)\nfor _ in range(40): softmax_kernel[(32,)](x, x, 100, BLOCK=128)\n"
    ran = explain(f"run(1)\n{more}", *NOTHING_TRIED)
    assert "softmax_kernel, as launched: " in ran.stdout
    assert "matmul_kernel" not in ran.stdout


def test_a_constexpr_that_there_is_not(explain: Explain) -> None:
    ran = explain(_SOFTMAX, "--vary", "BLOK=256")
    assert (ran.returncode, ran.stderr.splitlines()[-1]) == (
        2,
        "profscope explain: --vary: 'BLOK' is no constexpr of softmax_kernel; these are BLOCK",
    )


def test_a_kernel_that_was_not_launched(explain: Explain) -> None:
    ran = explain("run(1)", "--kernels", "matmul$")
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1] == (
        "profscope explain: no launched kernel matches 'matmul$'; there are: matmul_kernel, softmax_kernel"
    )
    ran = explain("")
    assert ran.returncode == 2
    assert "the program launched no Triton kernel" in ran.stderr


def test_a_kernel_may_be_named_behind_the_program(explain: Explain) -> None:
    ran = explain("run(1)", *NOTHING_TRIED, behind=["--kernels", "softmax"])
    assert ran.stdout.startswith("program __main__ ['a', '-o']\n")
    assert "softmax_kernel, as launched: " in ran.stdout
    ran = explain(_SOFTMAX, *NOTHING_TRIED, "--", behind=["--kernels", "matmul"])
    assert ran.stdout.startswith("program __main__ ['a', '-o', '--kernels', 'matmul']\n")
    assert "softmax_kernel, as launched: " in ran.stdout


def test_a_program_that_fails_is_not_explained(explain: Explain) -> None:
    ran = explain("run(1)\nsys.exit(7)")
    assert (ran.returncode, ran.stdout) == (7, "program __main__ ['a', '-o']\n")
    ran = explain("run(1)\n1 / 0")
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert "profscope/commands" not in ran.stderr


def test_a_program_that_another_one_replaces_is_not_explained(explain: Explain) -> None:
    ran = explain("run(1)\nimport os\nos.execv(sys.executable, ['python', '-c', 'raise SystemExit(5)'])")
    assert ran.returncode == 5
    said = "profscope explain: os.execv() replaces the program by `python -c 'raise SystemExit(5)'`"
    assert ran.stderr == f"{said}; nothing is explained\n"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--limit-s", "0"], "--limit-s 0.0 must be a number of seconds above 0"),
        (["--kernels", "("], "--kernels"),
        (["--vary", "STEP"], "argument --vary: 'STEP' has no values; write it like BLOCK=64,128"),
        (["--vary", "STEP=1,"], "argument --vary: 'STEP=1,' has no values"),
    ],
)
def test_wrong_usage(explain: Explain, flags: list[str], says: str) -> None:
    ran = explain("run(1)", *flags)
    assert ran.returncode == 2
    assert says in ran.stderr
    assert ran.stdout == ""


_LENGTHS = """
import atexit

@triton.jit
def counted(lengths_ptr, x_ptr):
    total = tl.zeros((128,), tl.float32)
    for step in range(tl.load(lengths_ptr)):
        total += tl.load(x_ptr + step * 128 + tl.arange(0, 128))
    tl.store(x_ptr + tl.arange(0, 128), total)

lengths = torch.full((1,), 100, dtype=torch.int32)
counted[(1,)](lengths, torch.zeros(100, 128))
lengths.zero_()
atexit.register(lambda: print("at exit", lengths.item()))
"""


def test_a_launch_has_the_contents_that_it_had(explain: Explain) -> None:
    """The program changes its arguments afterwards, and finds them as it left them when it exits."""
    lines = explain(_LENGTHS, *NOTHING_TRIED).stdout.splitlines()
    assert float(lines[2].removeprefix("counted, as launched: ").split()[0]) > 40  # 400 cycles a step
    assert lines[-1] == "at exit 0"
    assert not any("may have changed" in line for line in lines)
    ran = explain(_LENGTHS, *NOTHING_TRIED, "--memory", "0")
    assert "Its arguments may have changed since the launch: a copy takes 1 MiB" in ran.stdout
