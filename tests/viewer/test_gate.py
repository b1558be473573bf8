"""`profscope diff --fail-above` of programs that the emulator ran, as a CI job runs it."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import profscope
from tests.support.command_line import run
from tests.support.sessions import session

SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def product(a_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BK: tl.constexpr, ACT: tl.constexpr):
    rows = tl.arange(0, BM)
    depth = tl.arange(0, BK)
    a_ptr += tl.program_id(0) * BM * K
    acc = tl.zeros((BM, BM), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + (k + depth)[None, :])
        b = tl.load(b_ptr + (k + depth)[:, None] * BM + rows[None, :])
        acc = tl.dot(a, b, acc)
    if ACT:
        acc = tl.exp(acc)
    c_ptr += tl.program_id(0) * BM * BM
    tl.store(c_ptr + rows[:, None] * BM + rows[None, :], acc.to(tl.float16))


@triton.jit
def row_sums(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + tl.program_id(0) * n + at, mask=at < n, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(acc, 0))
"""

Kernels = Any


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gate")


@pytest.fixture(scope="module")
def module_of(folder: Path) -> Callable[..., Kernels]:
    """The kernels as a module of a name, and `row_sums` under another name."""

    def of(name: str, row_sums: str = "row_sums") -> Kernels:
        path = folder / f"{name}.py"
        path.write_text(SOURCE.replace("def row_sums(", f"def {row_sums}("))
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return of


@pytest.fixture(scope="module")
def kernels(module_of: Callable[..., Kernels]) -> Kernels:
    return module_of("gate_kernels")


def product(kernels: Kernels, act: int, stages: int = 3, size: int = 32) -> None:
    a, b = torch.ones(32, 128, dtype=torch.float16), torch.ones(128, size, dtype=torch.float16)
    c = torch.empty(32, size, dtype=torch.float16)
    kernels.product[(32 // size,)](a, b, c, 128, BM=size, BK=16, ACT=act, num_stages=stages, num_warps=2)


def row_sums(kernel: Any, rows: int, times: int = 1, columns: int = 512) -> None:
    x, out = torch.ones(rows, columns), torch.empty(rows)
    for _ in range(times):
        kernel[(rows,)](x, out, columns, BLOCK=128, num_warps=1)


def both(kernels: Kernels, stages: int = 3, size: int = 32) -> None:
    for act in (0, 1):
        product(kernels, act, stages, size)


@pytest.fixture
def gate(folder: Path) -> Callable[..., tuple[int, dict[str, Any], str]]:
    """The exit status, what --json prints, and stderr, of two programs compared."""

    def of(a: Callable[[], None], b: Callable[[], None], *more: str) -> tuple[int, dict[str, Any], str]:
        paths = []
        for name, program in (("a", a), ("b", b)):
            with session() as prof:
                program()
            paths.append(str(folder / f"{name}.parquet"))
            prof.save(paths[-1])
        done = run("diff", *paths, "--fail-above", "5%", "--format", "json", *more)
        return done.returncode, json.loads(done.stdout), done.stderr

    return of


def test_two_configurations_of_other_stages_are_compared_each_with_its_own(
    kernels: Kernels, gate: Any, folder: Path
) -> None:
    status, shown, errors = gate(lambda: both(kernels), lambda: both(kernels, stages=1))
    assert (status, errors) == (3, "")
    for act, each in enumerate(sorted(shown["kernels"], key=lambda each: each["configuration"])):
        assert (each["configuration"], each["differs"]) == (f"ACT={act}", "num_stages 3 -> 1")
        assert each["regressed"]
        assert each["launch"]["percent"] > 50
    assert shown["program"]["changed_a"] == shown["program"]["changed_b"] == 1
    assert shown["program"]["not_judged"] == []
    traces = [str(folder / f"{name}.parquet") for name in "ab"]
    page = folder / "diff.html"
    text = run("diff", *traces, "--html", str(page)).stdout
    for act in (0, 1):
        heading = f"product, ACT={act} (num_stages 3 -> 1)"
        assert f"{heading}: " in text
        assert f"<h2>{heading.replace('>', '&gt;')}</h2>" in page.read_text()


def test_an_unchanged_program_passes_however_often_it_launches(
    kernels: Kernels, gate: Any, folder: Path
) -> None:
    def program(times: int) -> None:
        both(kernels)
        row_sums(kernels.row_sums, 24, times)

    status, shown, errors = gate(lambda: program(1), lambda: program(3))
    assert (status, errors) == (0, "")
    assert all(each["says"].startswith("the same, ") for each in shown["kernels"])
    assert (shown["program"]["changed_a"], shown["program"]["changed_b"]) == (0, 0)
    text = run("diff", *(str(folder / f"{name}.parquet") for name in "ab")).stdout
    assert " in B, 3 and 5 launches; no launch changed" in " ".join(text.split())


def test_more_launches_of_one_size_are_no_regression(kernels: Kernels, gate: Any) -> None:
    """The mean of all launches would grow: a large launch takes longer than a small one."""

    def program(large: int, small: int, kernel: Any) -> None:
        row_sums(kernel, 3000, large, 128)
        row_sums(kernel, 4, small, 128)

    status, shown, _ = gate(lambda: program(2, 2, kernels.row_sums), lambda: program(3, 2, kernels.row_sums))
    assert status == 0
    large, small = sorted(shown["kernels"], key=lambda each: -int(each["grid_a"]))
    assert (large["grid_a"], large["grid_b"], large["configuration"]) == ("3000", "3000", "grid 3000")
    assert (small["grid_a"], small["configuration"]) == ("4", "grid 4")
    assert large["launch"]["self_a"] > small["launch"]["self_a"]


def test_a_slower_kernel_is_not_hidden_by_small_launches(kernels: Kernels, gate: Any) -> None:
    def program(columns: int, small: int) -> None:
        row_sums(kernels.row_sums, 64, 2, columns)
        row_sums(kernels.row_sums, 4, small, columns // 4)

    status, shown, _ = gate(lambda: program(4096, 2), lambda: program(6144, 12))
    assert status == 3
    assert all(each["regressed"] for each in shown["kernels"])


def test_a_kernel_in_another_module_is_the_same_one(
    kernels: Kernels, module_of: Callable[..., Kernels], gate: Any
) -> None:
    moved = module_of("gate_kernels_moved")
    status, shown, errors = gate(lambda: both(kernels), lambda: both(moved))
    assert (status, errors) == (0, "")
    assert {each["differs"] for each in shown["kernels"]} == {"module gate_kernels -> gate_kernels_moved"}
    assert {each["launch"]["status"] for each in shown["kernels"]} == {"same"}
    status, _, _ = gate(lambda: both(kernels), lambda: both(moved, stages=1))
    assert status == 3


def test_other_tile_sizes_are_compared_and_named(kernels: Kernels, gate: Any) -> None:
    status, shown, errors = gate(lambda: both(kernels, size=32), lambda: both(kernels, size=16))
    assert status in (0, 3)
    assert errors == ""
    told = sorted((each["configuration"], each["differs"]) for each in shown["kernels"])
    assert told == [(f"ACT={act}", "BM 32 -> 16, grid 1 -> 2") for act in (0, 1)]


def test_what_is_in_one_program_only_is_not_judged(
    kernels: Kernels, module_of: Callable[..., Kernels], gate: Any
) -> None:
    """Too much of it fails the gate; a little does not."""
    renamed = module_of("gate_kernels_renamed", "sums_of_rows")

    def program(kernel: Any, columns: int = 512) -> None:
        both(kernels)
        row_sums(kernel, 8, 1, columns)

    status, shown, errors = gate(lambda: program(kernels.row_sums), lambda: program(renamed.sums_of_rows))
    assert status == 4
    assert "not judged: row_sums: only in A (" in errors
    assert "not judged: sums_of_rows: only in B (" in errors
    told = shown["program"]
    assert told["changed_a"] == told["not_judged_a"] > 0.05
    assert sum(each["b"] for each in told["not_judged"]) == pytest.approx(told["not_judged_b"])

    def added() -> None:
        for _ in range(6):
            both(kernels)
        row_sums(kernels.row_sums, 8, 1, 128)

    status, shown, errors = gate(lambda: both(kernels), added)
    assert status == 0
    assert errors.startswith("not judged: row_sums: only in B (")
    assert 0 < shown["program"]["not_judged_b"] < 0.05


def test_another_grid_of_the_same_constexprs_is_other_work(kernels: Kernels, gate: Any) -> None:
    status, shown, errors = gate(
        lambda: row_sums(kernels.row_sums, 8),
        lambda: (row_sums(kernels.row_sums, 8), row_sums(kernels.row_sums, 40)),
    )
    assert status == 4
    assert "not judged: row_sums, grid 40: only in B (" in errors
    assert {each["configuration"]: each["launch"]["status"] for each in shown["kernels"]} == {
        "grid 8": "same",
        "grid 40": "appeared",
    }


def test_a_regression_comes_before_what_was_not_judged(kernels: Kernels, gate: Any) -> None:
    status, _, errors = gate(
        lambda: both(kernels), lambda: (both(kernels, stages=1), row_sums(kernels.row_sums, 8))
    )
    assert status == 3
    assert "not judged: row_sums: only in B (" in errors


def test_without_a_bound_nothing_fails(kernels: Kernels, folder: Path) -> None:
    paths = []
    for stages in (3, 1):
        with session() as prof:
            both(kernels, stages)
            row_sums(kernels.row_sums, stages)
        paths.append(folder / f"free-{stages}.pftrace.gz")
        prof.save(paths[-1])
    page = folder / "free.html"
    done = run("diff", *map(str, paths), "--html", str(page))
    assert (done.returncode, done.stderr) == (0, "")
    assert profscope.diff(*paths).attrs["program"]["not_judged_a"] > 0
    assert 'class="verdict plain">Only A has launches of this kernel.' in page.read_text()
