"""`profscope diff --fail-above` of programs that the emulator ran, as a CI job runs it."""

from __future__ import annotations

import importlib.util
import itertools
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

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

Launches = tuple["Launch", ...]
NAME = "gate_kernels"


class Launch(NamedTuple):
    """Of a kernel in the module of a name, and how often. columns: of a row."""

    kernel: str = "product"
    rows: int = 0
    act: int = 0
    stages: int = 3
    columns: int = 512
    module: str = NAME
    times: int = 1

    def run(self, kernel: Any) -> None:
        if self.kernel == "product":
            a = torch.ones(32, 128, dtype=torch.float16)
            b, c = torch.ones(128, 32).half(), torch.empty(32, 32).half()
            tile = {"BM": 32, "BK": 16, "ACT": self.act, "num_stages": self.stages, "num_warps": 2}
            kernel[(1,)](a, b, c, 128, **tile)
        else:
            x, out = torch.ones(self.rows, self.columns), torch.empty(self.rows)
            kernel[(self.rows,)](x, out, self.columns, BLOCK=128, num_warps=1)


def both(stages: int = 3, module: str = NAME) -> Launches:
    return tuple(Launch(act=act, stages=stages, module=module) for act in (0, 1))


def row_sums(rows: int, times: int = 1, columns: int = 512) -> Launches:
    return (Launch("row_sums", rows, times=times, columns=columns),)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gate")


@pytest.fixture(scope="module")
def kernel_of(folder: Path) -> Callable[[Launch], Any]:
    """The kernel in its module, where `row_sums` may have another name."""

    @cache
    def module_of(name: str, row_sums: str) -> Any:
        path = folder / f"{name}.py"
        path.write_text(SOURCE.replace("def row_sums(", f"def {row_sums}("))
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def of(launch: Launch) -> Any:
        sums = "row_sums" if launch.kernel == "product" else launch.kernel
        return getattr(module_of(launch.module, sums), launch.kernel)

    return of


@pytest.fixture(scope="module")
def saved(folder: Path, kernel_of: Callable[[Launch], Any]) -> Callable[[Launches], str]:
    """The trace of a program, recorded once for all tests that compare it with others."""
    count = itertools.count()

    @cache
    def of(program: Launches) -> str:
        with session() as prof:
            for launch in program:
                for _ in range(launch.times):
                    launch.run(kernel_of(launch))
        path = folder / f"{next(count)}.parquet"
        prof.save(path)
        return str(path)

    return of


@pytest.fixture
def gate(saved: Callable[[Launches], str]) -> Callable[..., tuple[int, dict[str, Any], str]]:
    """The exit status, what --format json prints, and stderr, of two programs compared."""

    def of(a: Launches, b: Launches) -> tuple[int, dict[str, Any], str]:
        done = run("diff", saved(a), saved(b), "--fail-above", "5%", "--format", "json")
        difference = profscope.diff(saved(a), saved(b))  # whose verdict is the same
        assert bool(difference.failed(above=5)) == (done.returncode != 0)
        told = [line.removeprefix("not judged: ") for line in done.stderr.splitlines() if ": only in" in line]
        assert difference.not_judged == told
        return done.returncode, json.loads(done.stdout), done.stderr

    return of


def test_two_configurations_of_other_stages_are_compared_each_with_its_own(
    gate: Any, saved: Callable[[Launches], str]
) -> None:
    status, shown, errors = gate(both(), both(stages=1))
    assert (status, errors) == (3, "")
    for act, each in enumerate(sorted(shown["kernels"], key=lambda each: each["configuration"])):
        assert (each["configuration"], each["differs"]) == (f"ACT={act}", "num_stages 3 -> 1")
        assert each["regressed"]
        assert each["launch"]["percent"] > 50
    assert shown["program"]["changed_a"] == shown["program"]["changed_b"] == 1
    assert shown["program"]["not_judged"] == []
    text = run("diff", saved(both()), saved(both(stages=1))).stdout
    for act in (0, 1):
        assert f"product, ACT={act} (num_stages 3 -> 1): " in text


def test_an_unchanged_program_passes_however_often_it_launches(
    gate: Any, saved: Callable[[Launches], str]
) -> None:
    once, often = ((*both(), *row_sums(24, times)) for times in (1, 3))
    status, shown, errors = gate(once, often)
    assert (status, errors) == (0, "")
    assert {each["launch"]["status"] for each in shown["kernels"]} == {"same"}
    assert (shown["program"]["changed_a"], shown["program"]["changed_b"]) == (0, 0)
    text = run("diff", saved(once), saved(often)).stdout
    assert " in B, 3 and 5 launches; no launch changed" in " ".join(text.split())


def test_a_slower_kernel_is_not_hidden_by_small_launches(gate: Any) -> None:
    def program(columns: int, small: int) -> Launches:
        return (*row_sums(64, 2, columns), *row_sums(4, small, columns // 4))

    status, shown, _ = gate(program(4096, 2), program(6144, 12))
    assert status == 3
    assert all(each["regressed"] for each in shown["kernels"])


def test_what_is_in_one_program_only_is_not_judged(gate: Any) -> None:
    """Too much of it fails the gate; a little does not."""
    renamed = Launch("sums_of_rows", 8, module="gate_kernels_renamed")
    status, shown, errors = gate((*both(), *row_sums(8)), (*both(), renamed))
    assert status == 4
    assert "not judged: row_sums: only in A (" in errors
    assert "not judged: sums_of_rows: only in B (" in errors
    told = shown["program"]
    assert told["changed_a"] == told["not_judged_a"] > 0.05
    assert sum(each["b"] for each in told["not_judged"]) == pytest.approx(told["not_judged_b"])
    status, shown, errors = gate(both(), (*both() * 6, *row_sums(8, 1, 128)))
    assert status == 0
    assert errors.startswith("not judged: row_sums: only in B (")
    assert 0 < shown["program"]["not_judged_b"] < 0.05


def test_without_a_bound_nothing_fails(saved: Callable[[Launches], str]) -> None:
    paths = [saved((*both(), *row_sums(8))), saved((*both(stages=1), *row_sums(40)))]
    done = run("diff", *paths)
    assert (done.returncode, done.stderr) == (0, "")
    assert profscope.diff(*paths).attrs["program"]["not_judged_a"] > 0
