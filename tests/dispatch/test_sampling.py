"""Sessions that record one launch in so many: what counts as a launch, and what they leave behind."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime._async_compile import AsyncCompileMode
from triton.runtime.jit import JITFunction

from tests.kernels.add import add_kernel
from tests.support.sessions import launch, session
from tests.support.validation import validate

# ruff: noqa: N803


def attributes() -> tuple[dict[str, Any], bool]:
    """Of all functions, and whether one of them has any of ours."""
    known = {name: value for name, value in vars(JITFunction).items() if name != "__slotnames__"}  # copy's
    return known, any("profscope" in name for name in vars(add_kernel))


@pytest.fixture(autouse=True)
def functions_come_back() -> Iterator[None]:
    before = attributes()
    yield
    assert attributes() == before


def counts(prof: Any) -> dict[str, tuple[int, int]]:
    found = prof.metadata["sampling"]["kernels"]
    return {name: (kernel["launches"], kernel["recorded"]) for name, kernel in found.items()}


def test_a_warm_up_is_no_launch(ran: list[str]) -> None:
    with session(every=2) as prof:
        for _ in range(3):
            x = torch.float32
            add_kernel.warmup(x, x, x, 2500, BLOCK=1024, grid=(3,))
        for _ in range(3):
            launch()
    assert ran == ["recorded", "bare", "recorded"]
    assert counts(prof) == {"add_kernel": (3, 2)}


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_kernels_left_out_by_their_names_never_run_another_binary() -> None:
    with session(every=2):
        _, bare = launch(), launch()
    with session(every=2, kernels="other") as prof:
        assert [launch() for _ in range(3)] == [bare] * 3
    assert counts(prof) == {}


def test_each_configuration_has_turns_of_its_own(ran: list[str]) -> None:
    """1, 16 and 17 are specialised apart: a constant, a multiple of 16, and neither."""
    with session(every=3) as prof:
        for n in (1, 16, 17, 1, 16, 17, 1):
            launch(n)
    assert ran == ["recorded"] * 3 + ["bare"] * 4
    assert counts(prof) == {"add_kernel": (7, 3)}


def name_with_block(specialization: Any) -> str:
    return f"named_{specialization.constants['BLOCK']}"


@triton.jit(repr=name_with_block)
def named_kernel(out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.zeros([BLOCK], tl.float32))


def test_a_function_that_names_its_binaries_is_counted_by_their_names() -> None:
    with session(every=3) as prof:
        for block in (32, 64, 64, 64, 32):
            named_kernel[(1,)](torch.empty(64), BLOCK=block)
    assert sorted(prof.launches["kernel"]) == ["named_32", "named_64"]
    assert counts(prof) == {"named_32": (2, 1), "named_64": (3, 1)}


def test_a_launch_that_fails_before_it_is_one_has_no_turn(ran: list[str]) -> None:
    x = torch.zeros(8)
    with session(every=2) as prof:
        with pytest.raises(ZeroDivisionError):
            add_kernel[lambda meta: 1 // 0](x, x, x, 8, BLOCK=1024)
        launch()
        launch()
    assert ran == ["recorded", "bare"]
    assert counts(prof) == {"add_kernel": (2, 1)}
    assert validate(prof.profile.tables) == []


@pytest.mark.parametrize("every", [1, 2])
def test_kernels_that_other_threads_compile(every: int, ran: list[str]) -> None:
    @triton.jit
    def fresh_kernel(out_ptr, VALUE: tl.constexpr):
        tl.store(out_ptr, VALUE)

    with ThreadPoolExecutor(2) as pool, session(every=every) as prof, AsyncCompileMode(pool):
        for _ in range(3):
            fresh_kernel[(1,)](torch.empty(1), VALUE=every)
    assert ran == ["bare" if number % every else "recorded" for number in range(3)]
    assert len(prof.launches) == ran.count("recorded")
