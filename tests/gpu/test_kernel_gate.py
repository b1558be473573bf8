"""The fixture `kernel_gate` on a GPU: a kernel as it was, one 10 % slower, and one whose time is not steady.

Each is a project of its own, whose kernel does arithmetic for as many iterations as a file says.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import profscope
from tests.support.pytest_project import Project, Run

KERNELS = """
import triton
import triton.language as tl
from triton.language.extra.cuda import globaltimer

@triton.jit
def steady(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    for _ in range(n):
        x = x * 0.999 + 0.001
    tl.store(x_ptr + at, x)

@triton.jit
def unsteady(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    more = ((globaltimer() >> 12) % 8).to(tl.int32)  # of each launch another number
    for _ in range(n * (1 + 2 * more)):
        x = x * 0.999 + 0.001
    tl.store(x_ptr + at, x)
"""
TESTS = """
from pathlib import Path

import pytest
import torch
from gated_kernels import steady, unsteady

N = int(Path(__file__).with_name("iterations").read_text())

@pytest.mark.parametrize("bound", ["5%", "2%"])
def test_steady(kernel_gate, bound):
    x = torch.zeros(1 << 18, device="cuda")
    with kernel_gate(fail_above=bound):
        steady[(256,)](x, N, BLOCK=1024)
    torch.testing.assert_close(x, torch.full_like(x, x[0].item()))
    assert abs(x[0].item() - (1 - 0.999**N)) < 1e-2

def test_unsteady(kernel_gate):
    x = torch.zeros(128, device="cuda")
    with kernel_gate(fail_above="4%"):
        unsteady[(1,)](x, N, BLOCK=128)
"""
STEADY = ("-k", "steady and 5 and not unsteady")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Project:
    project = Project(tmp_path, monkeypatch, capsys)
    project.write(gated_kernels=KERNELS, test_kernels=TESTS)
    return project


def gated(project: Project, iterations: int, *options: str) -> Run:
    """No multiple of 16, of which Triton would make another binary."""
    (project.path / "iterations").write_text(str(iterations))
    return project.run(*options)


def test_a_kernel_as_it_was_passes(project: Project) -> None:
    assert gated(project, 20_001, *STEADY, "--update-kernel-baselines").outcomes == {"passed": 1}
    (path,) = project.baselines
    (timed,) = profscope.load(path).metadata["bare_times"]["steady"]
    assert len(timed["times"]) >= 20
    passed = gated(project, 20_001, *STEADY)
    assert passed.outcomes == {"passed": 1}
    passed.shows(["*::test_steady*: steady: *mean launch *; the bound is 5%"])
    assert "emulated" not in passed.text


def test_ten_percent_fail(project: Project) -> None:
    assert gated(project, 20_001, *STEADY, "--update-kernel-baselines").outcomes == {"passed": 1}
    failed = gated(project, 22_003, *STEADY)
    assert failed.outcomes == {"failed": 1}
    failed.shows(
        [
            "steady: *% slower (mean launch *), significant; the bound is 5%",
            "That is more than --fail-above 5%.",
        ]
    )


def test_times_that_are_too_noisy_for_the_bound_fail(project: Project) -> None:
    """Times of one launch that vary; and any times for a bound below what two sessions differ by."""
    failed = gated(project, 3_001, "-k", "unsteady or 2", "--update-kernel-baselines")
    assert failed.outcomes == {"failed": 2}
    failed.shows(
        [
            "steady: too noisy to tell: 3.* % against a bound of 2 %",
            "unsteady: too noisy to tell: * % against a bound of 4 %",
        ]
    )
    assert project.baselines == []
