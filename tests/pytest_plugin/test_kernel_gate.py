"""The fixture `kernel_gate` in projects of its own, on the emulator."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import profscope.pytest.measuring
from profscope.profiles import Profile
from profscope.viewer import comparison, diff_command  # noqa: F401  likewise

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
GPU_TRACE = ROOT / "tests" / "data" / "diff" / "matmul-1-stage.pftrace.gz"
PLUGIN = ("-p", "profscope.pytest", "-p", "no:cacheprovider")
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
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.syspathinsert()
    pytester.makepyfile(gated_kernels=KERNELS, test_kernels=TESTS)
    return pytester


def gated(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    return project.runpytest_inprocess(*PLUGIN, *options)


def baselines(project: pytest.Pytester) -> list[Path]:
    return sorted(project.path.glob(".profscope/baselines/*.pftrace.gz"))


def rewritten(path: Path, **metadata: Any) -> None:
    """The baseline as if it had been recorded elsewhere."""
    tables = profscope.load(path).tables
    Profile.of(replace(tables, metadata=tables.metadata | metadata)).save(path)


def test_a_missing_baseline_fails_each_time_until_it_is_written(project: pytest.Pytester) -> None:
    for _ in range(2):
        missing = gated(project, "-k", "two")
        missing.assert_outcomes(failed=1, deselected=1)
        missing.stdout.fnmatch_lines(["*there is no baseline at .profscope/baselines/*two_blocks*"])
    assert baselines(project) == []
    gated(project, "--update-kernel-baselines").assert_outcomes(passed=2)
    assert len(baselines(project)) == 2
    passed = gated(project)
    passed.assert_outcomes(passed=2)
    passed.stdout.fnmatch_lines(
        ["*two blocks*: halved: the same, mean launch*(emulated cycles, no GPU time)*"]
    )


def test_a_slower_kernel_fails_with_the_screen_of_diff_and_its_finding(project: pytest.Pytester) -> None:
    gated(project, "-k", "two", "--update-kernel-baselines")
    project.makepyfile(gated_kernels=SLOWER)
    failed = gated(project, "-k", "two")
    failed.assert_outcomes(failed=1, deselected=1)
    failed.stdout.fnmatch_lines(
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
    assert "Traceback" not in failed.stdout.str()


def test_baselines_of_other_machines_are_refused_by_name(project: pytest.Pytester) -> None:
    gated(project, "-k", "two", "--update-kernel-baselines")
    (path,) = baselines(project)
    known = path.read_bytes()
    rewritten(path, triton="3.0.0", device={"name": "NVIDIA Nonesuch", "arch": "sm_80"})
    failed = gated(project, "-k", "two")
    failed.assert_outcomes(failed=1, deselected=1)
    failed.stdout.fnmatch_lines(
        [
            "the baseline is of NVIDIA Nonesuch, this is *--kernel-baseline*",
            "Triton 3.0.0 built the baseline's*",
        ]
    )
    shutil.copy(GPU_TRACE, path)
    gated(project, "-k", "two").stdout.fnmatch_lines(
        ["*no verdict against*", "the baseline is of NVIDIA H200*", "the second profile is EMULATED*"]
    )
    path.write_bytes(known[:100])
    broken = gated(project, "-k", "two")
    broken.assert_outcomes(failed=1, deselected=1)
    assert "Traceback" not in broken.stdout.str()


def test_blocks_that_cannot_be_judged_fail(project: pytest.Pytester) -> None:
    project.makepyfile(
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
    done = gated(project, "--update-kernel-baselines")
    done.assert_outcomes(failed=6)
    done.stdout.fnmatch_lines(
        [
            "kernel_gate: no launch kernel*(...) of a Triton kernel was seen*",
            "kernel_gate: a kernel was launched otherwise than kernel*",
            "kernel_gate: waiting cannot be launched again: it may wait for what another kernel writes",
            "kernel_gate: a profscope session is already active*",
            "*KeyError: 'of the body'",
            "*OptionError: not a percentage, such as 5%: 'much'",
        ]
    )
    assert baselines(project) == []


def test_an_autotuned_kernel_is_judged_by_what_was_chosen(project: pytest.Pytester) -> None:
    project.makepyfile(
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
    gated(project, "--update-kernel-baselines").assert_outcomes(passed=1)
    (path,) = baselines(project)
    (timed,) = profscope.load(path).metadata["bare_times"]["halved"]
    assert timed["grid"] in ([4, 1, 1], [2, 1, 1])
    gated(project).assert_outcomes(passed=1)


def test_each_configuration_and_each_block_is_judged(project: pytest.Pytester) -> None:
    """Two grids of one kernel in the first block; the second has a baseline of its own."""
    project.makepyfile(
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
    gated(project, "--update-kernel-baselines").assert_outcomes(passed=1)
    second, first = baselines(project)  # "-2" sorts before ".pftrace.gz"
    assert second.name == first.name.replace(".pftrace.gz", "-2.pftrace.gz")
    (timed,) = profscope.load(first).metadata["bare_times"].values()
    assert [each["grid"] for each in timed] == [[1, 1, 1], [2, 1, 1]]
    passed = gated(project)
    passed.assert_outcomes(passed=1)
    passed.stdout.fnmatch_lines(["*halved, grid [12]: the same*"] * 2 + ["*halved: the same*"])


def test_a_retry_is_judged_as_the_first_attempt(project: pytest.Pytester) -> None:
    """As plugins do that run a failed test again, in the same process."""
    project.makeconftest(
        """
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
    gated(project, "-k", "two").assert_outcomes(failed=1, deselected=1)
    gated(project, "-k", "two", "--update-kernel-baselines").assert_outcomes(passed=1, deselected=1)
    assert len(baselines(project)) == 1
    gated(project, "-k", "two").assert_outcomes(passed=1, deselected=1)


def test_with_xdist_baselines_have_the_same_names_and_the_summary_is_complete(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With groups, too, which xdist writes into the tests' ids."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{project.path}")
    words = [sys.executable, "-m", "pytest", *PLUGIN, "-n", "2", "--dist", "loadgroup"]
    subprocess.run([*words, "--update-kernel-baselines"], cwd=project.path, check=True, capture_output=True)
    gated(project).assert_outcomes(passed=2)
    done = subprocess.run([*words, "-v"], cwd=project.path, check=True, capture_output=True, text=True)
    assert done.stdout.count("halved: the same") == 2


def test_pytest_loads_nothing_of_profscope_unless_the_fixture_is_used(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_modules():
            heavy = {"torch", "triton", "pandas", "numpy", "rich"}
            assert not heavy & {*sys.modules}
            loaded = {name for name in sys.modules if name.startswith("profscope.")}
            assert loaded == {f"profscope.{name}" for name in ("version", "instrument_passes", "pytest")}
        """
    )
    words = [sys.executable, "-m", "pytest", *PLUGIN]
    done = subprocess.run(
        words, cwd=pytester.path, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stdout
