"""Spans around code whose time is known, and times of bare launches, on a real device."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import profscope
from bench import known
from bench.kernels import matmul, surroundings
from profscope.device.record_cost import record_cost

_GPU = torch.cuda.is_available()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not _GPU, reason="needs an NVIDIA GPU")]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return known.rows("gpu")


def test_a_record_costs_a_few_cycles() -> None:
    cost = record_cost(torch.cuda.current_device())
    assert cost is not None
    assert 1 <= cost.read <= 40
    assert 0 <= cost.row <= 200


def test_a_longer_chain_is_longer_by_what_it_has_more(rows: list[dict[str, Any]]) -> None:
    """The shortest chain's span has the load of the argument in it, and so has each of the others."""
    chains = {row["asked"]: row["corrected"] for row in rows if row["kernel"] == "chain"}
    for length, corrected in chains.items():
        more = known.CYCLES_PER_FMA * (length - 16)
        assert corrected - chains[16] == pytest.approx(more, rel=0.01, abs=4)


def test_a_span_of_a_spin_is_what_the_bare_kernel_takes_for_it(rows: list[dict[str, Any]]) -> None:
    for row in (row for row in rows if row["kernel"] == "spin"):
        assert row["corrected"] == pytest.approx(row["by_hand"], rel=0.01, abs=8)


def test_records_inside_are_taken_out_of_what_is_around_them(rows: list[dict[str, Any]]) -> None:
    shapes = {tuple(row["asked"]): row for row in rows if row["kernel"] == "not nested"}
    for row in (row for row in rows if row["kernel"] == "nested"):
        without = shapes[tuple(row["asked"])]["corrected"]
        assert abs(row["corrected"] - without) < 0.4 * (row["raw"] - without)


def test_bare_launches_are_timed() -> None:
    """Shorter kernels than their launches, so that the GPU has to wait for the host."""
    workload = matmul(1024, (128, 128, 64), 8)
    with surroundings():
        inputs = workload.inputs("cuda")
        workload.launch(inputs)
        bare = inputs["c_ptr"].clone()
        with profscope.session(backend="gpu", baseline=20) as prof:
            for _ in range(50):
                inputs["c_ptr"].zero_()
                workload.launch(inputs)
                assert torch.equal(inputs["c_ptr"], bare)
    (row,) = prof.overhead().to_dict("records")
    assert row["basis"] == "measured"
    assert row["bare_launches"] >= 10
    assert row["slowdown_low"] < row["slowdown"] < row["slowdown_high"]
    assert 0.9 < row["slowdown"] < 1.5
    assert row["bare_registers"] > 0
    assert row["instructions"] > 0
