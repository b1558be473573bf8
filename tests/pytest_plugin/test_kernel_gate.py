"""The fixture `kernel_gate` in projects of its own, on the emulator."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import profscope
from profscope.profiles import Profile
from tests.support.pytest_project import PLUGIN, Project

ROOT = Path(__file__).parents[2]
GPU_TRACE = ROOT / "tests" / "data" / "diff" / "matmul-1-stage.pftrace.gz"
KERNELS = """
import triton
import triton.language as tl

@triton.jit
def halved(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, at < n)
    tl.store(out_ptr + at, x / 2, at < n)
"""
SLOWER = KERNELS.replace("tl.load(x_ptr + at,", "tl.load(x_ptr + at * 37 % n,")
TESTS = """
import pytest
import torch
from gated_kernels import halved

@pytest.mark.parametrize("n", [100, 2000], ids=["a/b::c [\\u00e9] 'x'", "two blocks"])
def test_halved(kernel_gate, n):
    x = torch.ones(n)
    with kernel_gate(fail_above="5%", backend="emulator"):
        halved[(-(-n // 1024),)](x, x, n, BLOCK=1024)
    assert x.unique().tolist() == [0.5]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Project:
    project = Project(tmp_path, monkeypatch, capsys)
    project.write(gated_kernels=KERNELS, test_kernels=TESTS)
    return project


def rewritten(path: Path, **metadata: Any) -> None:
    """The baseline as if it had been recorded elsewhere."""
    tables = profscope.load(path).tables
    Profile.of(replace(tables, metadata=tables.metadata | metadata)).save(path)


def test_a_missing_baseline_fails_each_time_until_it_is_written(project: Project) -> None:
    for _ in range(2):
        missing = project.run("-k", "two")
        assert missing.outcomes == {"failed": 1}
        missing.shows(["*there is no baseline at .profscope/baselines/*two_blocks*"])
    assert project.baselines == []
    assert project.run("--update-kernel-baselines").outcomes == {"passed": 2}
    assert len(project.baselines) == 2
    passed = project.run()
    assert passed.outcomes == {"passed": 2}
    passed.shows(["*two blocks*: halved: the same, mean launch*(emulated cycles, no GPU time)*"])


def test_a_slower_kernel_fails_with_the_screen_of_diff_and_its_finding(project: Project) -> None:
    project.run("-k", "two", "--update-kernel-baselines")
    project.write(gated_kernels=SLOWER)
    failed = project.run("-k", "two")
    assert failed.outcomes == {"failed": 1}
    failed.shows(
        [
            "kernel_gate: against .profscope/baselines/*(emulated cycles, no GPU time)",
            "halved: *% slower (mean launch *), significant; the bound is 5%",
            "EMULATED: cycles of a cost model, not GPU time",
            "That is more than --fail-above 5%.",
            "scope *line *A *B *change*",
            "Findings that appeared:",
            "*uncoalesced-load, halved*",
            "All of it: profscope diff *",
        ]
    )
    assert "Traceback" not in failed.text


def test_baselines_of_other_machines_are_refused_by_name(project: Project) -> None:
    project.run("-k", "two", "--update-kernel-baselines")
    (path,) = project.baselines
    known = path.read_bytes()
    rewritten(path, triton="3.0.0", device={"name": "NVIDIA Nonesuch", "arch": "sm_80"})
    failed = project.run("-k", "two")
    assert failed.outcomes == {"failed": 1}
    failed.shows(
        [
            "the baseline is of NVIDIA Nonesuch, this is *--kernel-baseline*",
            "Triton 3.0.0 built the baseline's*",
        ]
    )
    shutil.copy(GPU_TRACE, path)
    project.run("-k", "two").shows(
        ["*no verdict against*", "the baseline is of NVIDIA H200*", "the second profile is EMULATED*"]
    )
    path.write_bytes(known[:100])
    broken = project.run("-k", "two")
    assert broken.outcomes == {"failed": 1}
    assert "Traceback" not in broken.text


def test_blocks_that_cannot_be_judged_fail(project: Project) -> None:
    project.write(
        test_kernels="""
        import profscope
        import pytest
        import torch
        import triton
        import triton.language as tl
        from gated_kernels import halved

        @triton.jit
        def waiting(flag_ptr, x_ptr):
            while tl.load(flag_ptr, volatile=True) == 0:
                pass
            tl.store(x_ptr, 1.0)

        X = torch.ones(64)

        def test_nothing(kernel_gate):
            with kernel_gate(fail_above=5, backend="emulator"):
                halved[(0,)](X, X, 64, BLOCK=64)

        def test_held(kernel_gate):
            with kernel_gate(fail_above=5, backend="emulator"):
                held = halved[(1,)](X, X, 64, BLOCK=64)
                held[(1, 1, 1)](X, X, 64, 64)

        def test_waiting(kernel_gate):
            with kernel_gate(fail_above=5, backend="emulator"):
                waiting[(1,)](torch.ones(1, dtype=torch.int32), X)

        def test_session(kernel_gate):
            with profscope.session(backend="emulator"), kernel_gate(fail_above=5, backend="emulator"):
                halved[(1,)](X, X, 64, BLOCK=64)

        def test_error(kernel_gate):
            with kernel_gate(fail_above=5, backend="emulator"):
                raise KeyError("of the body")

        def test_bound(kernel_gate):
            with kernel_gate(fail_above="much", backend="emulator"):
                pass
        """
    )
    done = project.run("--update-kernel-baselines")
    assert done.outcomes == {"failed": 6}
    done.shows(
        [
            "kernel_gate: no launch kernel*(...) of a Triton kernel was seen*",
            "kernel_gate: a kernel was launched otherwise than kernel*",
            "kernel_gate: waiting cannot be launched again: it may wait for what another kernel writes",
            "kernel_gate: a profscope session is already active*",
            "*KeyError: 'of the body'",
            "*OptionError: not a percentage, such as 5%: 'much'",
        ]
    )
    assert project.baselines == []


def test_an_autotuned_kernel_is_judged_by_what_was_chosen(project: Project) -> None:
    project.write(
        test_kernels="""
        import torch
        import triton
        from gated_kernels import halved

        configs = [triton.Config({"BLOCK": size}) for size in (64, 128)]
        tuned = triton.autotune(configs, key=["n"])(halved)

        def test_tuned(kernel_gate):
            x, y = torch.ones(256), torch.empty(256)
            with kernel_gate(fail_above=5, backend="emulator"):
                tuned[lambda given: (256 // given["BLOCK"],)](x, y, 256)
            assert y.unique().tolist() == [0.5]
        """
    )
    assert project.run("--update-kernel-baselines").outcomes == {"passed": 1}
    (path,) = project.baselines
    (timed,) = profscope.load(path).metadata["bare_times"]["halved"]
    assert timed["grid"] in ([4, 1, 1], [2, 1, 1])
    assert project.run().outcomes == {"passed": 1}


def test_each_configuration_and_each_block_is_judged(project: Project) -> None:
    """Two grids of one kernel in the first block; the second has a baseline of its own."""
    project.write(
        test_kernels="""
        import torch
        from gated_kernels import halved

        def test_blocks(kernel_gate):
            x, y = torch.ones(4096), torch.ones(4096)
            with kernel_gate(fail_above=5, backend="emulator"):
                for grid in (1, 2, 1):
                    halved[(grid,)](x, x, 4096, BLOCK=1024)
            with kernel_gate(fail_above=5, backend="emulator"):
                halved[(4,)](x, y, 4096, BLOCK=1024)
            assert [x[0], x[1024], x[-1], y[-1]] == [0.125, 0.5, 1, 0.5]
        """
    )
    assert project.run("--update-kernel-baselines").outcomes == {"passed": 1}
    second, first = project.baselines  # "-2" sorts before ".pftrace.gz"
    assert second.name == first.name.replace(".pftrace.gz", "-2.pftrace.gz")
    (timed,) = profscope.load(first).metadata["bare_times"].values()
    assert [each["grid"] for each in timed] == [[1, 1, 1], [2, 1, 1]]
    passed = project.run()
    assert passed.outcomes == {"passed": 1}
    passed.shows(["*halved, grid [12]: the same*"] * 2 + ["*halved: the same*"])


def test_a_retry_is_judged_as_the_first_attempt(project: Project) -> None:
    """As plugins do that run a failed test again, in the same process."""
    project.write(
        conftest="""
        from _pytest.runner import runtestprotocol

        def pytest_runtest_protocol(item, nextitem):
            for attempt in range(2):
                item._initrequest()
                reports = runtestprotocol(item, nextitem=nextitem, log=False)
            for report in reports:
                item.ihook.pytest_runtest_logreport(report=report)
            return True
        """
    )
    assert project.run("-k", "two").outcomes == {"failed": 1}
    assert project.run("-k", "two", "--update-kernel-baselines").outcomes == {"passed": 1}
    assert len(project.baselines) == 1
    assert project.run("-k", "two").outcomes == {"passed": 1}


def test_with_xdist_baselines_have_the_same_names_and_the_summary_is_complete(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With groups, too, which xdist writes into the tests' ids."""
    assert project.run("--update-kernel-baselines").outcomes == {"passed": 2}
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{project.path}")
    words = [sys.executable, "-m", "pytest", *PLUGIN, "-n", "2", "--dist", "loadgroup", "-v"]
    done = subprocess.run(words, cwd=project.path, check=True, capture_output=True, text=True)
    assert done.stdout.count("halved: the same") == 2


def test_pytest_loads_nothing_of_profscope_unless_the_fixture_is_used(tmp_path: Path) -> None:
    heavy = ["torch", "triton", "pandas", "numpy", "rich"]
    light = ["profscope.instrument_passes", "profscope.pytest", "profscope.version"]
    (tmp_path / "test_modules.py").write_text(
        f"import sys\ndef test_modules():\n    assert not {{*{heavy}}} & {{*sys.modules}}\n"
        f"    assert sorted(each for each in sys.modules if each.startswith('profscope.')) == {light}\n"
    )
    words = [sys.executable, "-m", "pytest", *PLUGIN]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stdout
