"""A product that all programs along an axis of the grid compute is computed for nothing by all but one."""

from __future__ import annotations

import inspect

import pytest
import triton
import triton.language as tl

from profscope.analysis.diagnosis.programs_alike import multiplied_alike
from tests.support.kernel_facts import facts_in
from tests.support.sessions import session

torch = pytest.importorskip("torch")

# ruff: noqa: N803


@triton.jit
def scored_values_kernel(q_ptr, k_ptr, v_ptr, count_ptr, out_ptr, HOW: tl.constexpr, SIDE: tl.constexpr):
    """Scores times a program's columns of values; HOW: whether programs along axis 1 have the same."""
    at, part = tl.arange(0, SIDE), tl.program_id(1)
    tile = tl.program_id(0)
    if HOW == "counted":
        tile = tl.atomic_add(count_ptr, 1) // tl.num_programs(1)
    rows = tile * SIDE + at
    q = tl.load(q_ptr + rows[:, None] * SIDE + at[None, :])
    if HOW == "scaled":
        q = (q * (1.0 / (1 + part))).to(tl.float16)
    k = tl.load(k_ptr + rows[None, :] * SIDE + at[:, None])  # loaded
    score = tl.dot(q, k).to(tl.float16)
    v = tl.load(v_ptr + rows[:, None] * 2 * SIDE + part * SIDE + at[None, :])
    tl.store(out_ptr + rows[:, None] * 2 * SIDE + part * SIDE + at[None, :], tl.dot(score, v))


@pytest.mark.parametrize(("how", "is_alike"), [("alike", True), ("scaled", False), ("counted", False)])
def test_programs_with_the_same_operands_multiply_alike(how: str, is_alike: bool) -> None:
    q, k = torch.rand(64, 32).half(), torch.rand(64, 32).half()
    v, count = torch.rand(64, 64).half(), torch.zeros(1, dtype=torch.int32)
    with session() as prof:
        scored_values_kernel[(2, 2)](q, k, v, count, torch.empty(64, 64), HOW=how, SIDE=32)
    found = list(multiplied_alike(facts_in(prof.profile.tables)))
    assert [each.finding for each in found] == (["redundant-load"] if is_alike else [])
    source, first = inspect.getsourcelines(scored_values_kernel.fn)
    lines = {first + at for at, text in enumerate(source) if "q = tl.load" in text or "# loaded" in text}
    assert {each.line for each in found} <= lines
