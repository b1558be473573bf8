"""`explain` of launches that are out of the ordinary, and of tries that cannot be launched: each is a row."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import profscope
from profscope.errors import CompileError
from tests.kernels.reductions import row_sums_kernel
from tests.support.page_kernels import matmul_kernel

pytestmark = pytest.mark.usefixtures("builds_are_shared")

EMULATOR = {"backend": "emulator"}
# ruff: noqa: N803


@triton.jit
def scaled(x_ptr, D: tl.constexpr, ACT: tl.constexpr, BLOCK: tl.constexpr = 64):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    if ACT is not None:
        x = tl.exp(x)
    tl.store(x_ptr + at, x * D)


def explained(**changed: Any) -> Any:
    x = torch.ones(64)
    return profscope.explain(scaled, x, **{"D": 2, "ACT": "exp", "grid": (1,), **EMULATOR, **changed})


def rows(found: Any) -> dict[str, dict[str, Any]]:
    return found.tries.set_index("options").to_dict("index")


def test_none_is_a_value_of_a_constexpr() -> None:
    tried = rows(explained(vary={"ACT": [None]}))["ACT=None"]
    assert tried["failed"] == ""
    assert tried["same_results"] == "different", "exp() is left out"


def test_a_value_of_another_type_is_tried() -> None:
    found = rows(explained(vary={"D": [2, 2.0, 4.0]}))
    assert list(found) == ["as launched", "D=4.0", "D=2.0"], "2 is what was launched"
    assert found["D=2.0"]["failed"] == "the compiler makes the same code"
    assert "D=True" in rows(explained(D=1, vary={"D": [True]}))


def test_a_default_is_tried_and_sizes_of_a_grid_may_be_numbers_of_numpy() -> None:
    assert "BLOCK=64" in rows(explained(grid=(np.int64(1),), vary={"BLOCK": [64]}))


@pytest.mark.parametrize("given", [ValueError("not 32"), 1])
def test_a_grid_function_may_refuse_one_value(given: Any) -> None:
    def grid(meta: dict[str, Any]) -> Any:
        if meta["BLOCK"] != 32:
            return (64 // meta["BLOCK"],)
        if isinstance(given, Exception):
            raise given
        return given

    found = rows(explained(grid=grid, vary={"BLOCK": [32, 16]}))
    says = "ValueError: not 32" if isinstance(given, Exception) else f"the grid function returns {given!r};"
    assert found["BLOCK=32"]["failed"].startswith(says)
    assert found["BLOCK=16"]["same_results"] == "bit-equal"


@triton.jit
def stores_far(x_ptr, far_ptr, FAR: tl.constexpr):
    tl.store(x_ptr, tl.load(x_ptr) + 1.0)
    tl.store(far_ptr + FAR, 1.0)


def tuned(*configs: triton.Config) -> Any:
    return triton.autotune(list(configs), key=[])(stores_far)


def test_a_configuration_that_fails_at_launch_is_a_row() -> None:
    far = 1 << 40
    kernel = tuned(*(triton.Config({"FAR": value}, num_warps=1) for value in (far, 0, far + 1)))
    x = torch.zeros(1)
    found = profscope.explain(kernel, x, torch.zeros(1), grid=(1,), **EMULATOR)
    assert x.item() == 0.0, "what the failing ones stored is restored"
    tried = rows(found)
    for value in (far, far + 1):
        assert "out of bounds" in tried[f"FAR={value}, num_warps=1, num_stages=3"]["failed"]
    assert found.best == found.launched == "FAR=0, num_warps=1, num_stages=3"
    assert tried[found.best]["same_results"] == "bit-equal"


def test_if_all_tries_fail_the_last_line_says_so() -> None:
    far = 1 << 40
    found = profscope.explain(
        stores_far, torch.zeros(1), torch.zeros(1), grid=(1,), FAR=0, vary={"FAR": [far]}, **EMULATOR
    )
    failed = rows(found)[f"FAR={far}"]["failed"]
    assert "(its memory: 0 to 4)" in failed
    assert failed.endswith("; the grid stays (1,), as it is no function")
    lines = repr(found).splitlines()
    assert failed in " ".join(lines), "all of it is shown"
    assert max(map(len, lines)) <= 110
    assert lines[-1] == "best: as launched; nothing that was tried could be timed, as said above"


def test_what_is_known_without_findings_is_shown_whole() -> None:
    tensors = (torch.ones(32, 32).half() for _ in range(3))
    found = profscope.explain(matmul_kernel, *tensors, 32, grid=(16,), M=32, STAGES=3, **EMULATOR)
    assert not len(found.findings)
    (known,) = found.findings.attrs["clean"].values()
    assert known in " ".join(repr(found).splitlines())
    assert max(map(len, repr(found).splitlines())) <= 110


def test_without_a_configuration_that_can_be_launched() -> None:
    kernel = tuned(triton.Config({"FAR": 1 << 40}), triton.Config({"FAR": 1 << 41}))
    says = rf"no configuration of stores_far can be launched; FAR={1 << 40}, .*out of bounds"
    with pytest.raises(CompileError, match=says):
        profscope.explain(kernel, torch.zeros(1), torch.zeros(1), grid=(1,), **EMULATOR)


def test_configurations_whose_results_differ_each_time() -> None:
    number = itertools.count()
    config = triton.Config({"FAR": 0}, pre_hook=lambda named: named["x_ptr"].fill_(next(number)))
    found = profscope.explain(tuned(config), torch.zeros(1), torch.zeros(1), grid=(1,), **EMULATOR)
    assert rows(found)[found.launched]["same_results"] == "different"
    assert found.best == found.launched


def test_the_account_is_of_the_launch_not_of_what_its_hooks_launch() -> None:
    """A hook launches the same function, in another configuration and for longer."""
    other = torch.ones(1 << 16)

    def hook(named: dict[str, Any]) -> None:
        scaled[(64,)](other, 1, "exp", BLOCK=1024)

    config = triton.Config({"BLOCK": 64}, num_warps=1, pre_hook=hook)
    kernel = triton.autotune([config], key=[])(scaled)
    found = profscope.explain(kernel, torch.ones(64), D=2, ACT=None, grid=(1,), **EMULATOR)
    launches = found.profile.launches
    assert len(launches) == 2
    own = launches[launches["variant"] == found.variant].iloc[0]
    assert own["grid_x"] == 1
    assert set(found.findings["variant"]) == {found.variant}
    lines = repr(found).splitlines()
    assert sum(line.startswith("█████") for line in lines) == 1
    assert any("idle-sms 94%" in line for line in lines), "one CTA on 16 SMs"


def test_the_account_divides_the_time_that_is_printed_above_it() -> None:
    x = torch.ones(512, 64, dtype=torch.float16)
    found = profscope.explain(
        row_sums_kernel, x, torch.zeros(512), 512, 64, grid=(1,), limit_s=1e-9, **EMULATOR
    )
    (account,) = found.profile.overhead().to_dict("records")
    bare_kcycles = found.tries["kcycles"].iloc[0]
    assert account["bare_ns"] * 1.25 / 1e3 == pytest.approx(bare_kcycles, rel=0.02)
    # the account's cycles are those of four warps that end together
    of_a_warp = found.profile.samples["samples"].sum() / 4 / 1e3
    assert of_a_warp == pytest.approx(bare_kcycles, rel=0.02)
