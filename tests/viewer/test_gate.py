"""`profscope diff --fail-above` of programs that the emulator ran, as a CI job runs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import profscope
from tests.kernels.matmul import matmul_kernel
from tests.support.command_line import run
from tests.support.sessions import count, launch_collatz, session

Program = tuple[tuple[Any, ...], ...]
"""What it launches: the name of a kernel, and what that takes."""


def launch(kernel: str, *sizes: int) -> None:
    if kernel == "product":
        group, stages = sizes
        a, b, c = (torch.ones(64, 64, dtype=torch.float16) for _ in "abc")
        tiles = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": group}
        matmul_kernel[(4,)](a, b, c, *(64,) * 6, **tiles, num_stages=stages, num_warps=2)
    else:
        {"count": count, "collatz": launch_collatz}[kernel](*sizes)


def both(stages: int = 3) -> Program:
    """Two configurations of one kernel."""
    return ("product", 4, stages), ("product", 8, stages)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gate")


@pytest.fixture(scope="module")
def saved(folder: Path) -> Callable[[Program], str]:
    """The trace of a program, recorded once for all tests that compare it with others."""

    @cache
    def of(program: Program) -> str:
        with session() as prof:
            for each in program:
                launch(*each)
        path = folder / f"{abs(hash(program))}.parquet"
        prof.save(path)
        return str(path)

    return of


@pytest.fixture
def gate(saved: Callable[[Program], str]) -> Callable[..., tuple[int, dict[str, Any], str]]:
    """The exit status, what --format json prints, and stderr, of two programs compared."""

    def of(a: Program, b: Program) -> tuple[int, dict[str, Any], str]:
        done = run("diff", saved(a), saved(b), "--fail-above", "5%", "--format", "json")
        difference = profscope.diff(saved(a), saved(b))  # whose verdict is the same
        assert bool(difference.failed(above=5)) == (done.returncode != 0)
        told = [line.removeprefix("not judged: ") for line in done.stderr.splitlines() if ": only in" in line]
        assert difference.not_judged == told
        return done.returncode, json.loads(done.stdout), done.stderr

    return of


def test_two_configurations_of_other_stages_are_compared_each_with_its_own(
    gate: Any, saved: Callable[[Program], str]
) -> None:
    status, shown, errors = gate(both(), both(stages=1))
    assert (status, errors) == (3, "")
    for group, each in zip(
        (4, 8), sorted(shown["kernels"], key=lambda each: each["configuration"]), strict=True
    ):
        assert (each["configuration"], each["differs"]) == (f"GROUP_M={group}", "num_stages 3 -> 1")
        assert each["regressed"]
        assert each["launch"]["percent"] > 10
    assert shown["program"]["changed_a"] == shown["program"]["changed_b"] == 1
    assert shown["program"]["not_judged"] == []
    text = run("diff", saved(both()), saved(both(stages=1))).stdout
    for group in (4, 8):
        assert f"matmul_kernel, GROUP_M={group} (num_stages 3 -> 1): " in text


def test_an_unchanged_program_passes_however_often_it_launches(
    gate: Any, saved: Callable[[Program], str]
) -> None:
    once, often = ((*both(), *[("count", 8, 24)] * times) for times in (1, 3))
    status, shown, errors = gate(once, often)
    assert (status, errors) == (0, "")
    assert {each["launch"]["status"] for each in shown["kernels"]} == {"same"}
    assert (shown["program"]["changed_a"], shown["program"]["changed_b"]) == (0, 0)
    text = run("diff", saved(once), saved(often)).stdout
    assert " in B, 3 and 5 launches; no launch changed" in " ".join(text.split())


def test_a_slower_kernel_is_not_hidden_by_small_launches(gate: Any) -> None:
    def program(steps: int, small: int) -> Program:
        return (*[("count", steps, 64)] * 2, *[("count", steps // 4, 4)] * small)

    status, shown, _ = gate(program(128, 2), program(192, 12))
    assert status == 3
    assert all(each["regressed"] for each in shown["kernels"])


def test_what_is_in_one_program_only_is_not_judged(gate: Any, saved: Callable[[Program], str]) -> None:
    """Too much of it fails the gate, if there is a bound; a little does not."""
    before, after = (*both(), ("count", 64, 30)), (*both(), ("collatz", 30))
    status, shown, errors = gate(before, after)
    assert status == 4
    assert "not judged: count_kernel: only in A (" in errors
    assert "not judged: collatz_kernel: only in B (" in errors
    told = shown["program"]
    assert told["changed_a"] == told["not_judged_a"] > 0.05
    assert sum(each["b"] for each in told["not_judged"]) == pytest.approx(told["not_judged_b"])
    assert run("diff", saved(before), saved(after)).returncode == 0
    status, shown, errors = gate(both(), (*both() * 6, ("count", 1, 1)))
    assert status == 0
    assert errors.startswith("not judged: count_kernel: only in B (")
    assert 0 < shown["program"]["not_judged_b"] < 0.05
