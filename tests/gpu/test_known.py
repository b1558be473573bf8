"""Spans around code whose time is known, and times of bare launches, on a real device."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import profscope
from bench import known
from bench.kernels import attention, matmul, softmax, surroundings
from profscope.launching.null_builds import SHIFTS, NullBuilds, null_build
from profscope.recording.record_cost import record_cost

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
        with profscope.session(backend="gpu", baseline=2) as prof:
            for number in range(104):
                inputs["c_ptr"].zero_()
                workload.launch(inputs)
                assert torch.equal(inputs["c_ptr"], bare)
                if number == 3:
                    null_builds_of(prof).wait()
    (row,) = prof.overhead().to_dict("records")
    assert row["basis"] == "measured"
    assert row["bare_launches"] >= 10
    assert row["null_builds"] == 4
    assert 0 < row["layout_noise"] < 0.2
    assert row["slowdown_low"] < row["slowdown"] < row["slowdown_high"]
    assert 0.9 < row["slowdown"] < 1.5
    assert row["bare_registers"] > 0
    assert row["instructions"] > 0


def null_builds_of(prof: profscope.Session) -> NullBuilds:
    assert prof._running is not None
    return prof._running.keeping.null_builds


def test_null_builds_compute_the_same_bits() -> None:
    for workload in (softmax(64, 1000), matmul(512, (128, 128, 64), 8), attention(2, 256)):
        with surroundings():
            inputs = workload.inputs("cuda")
            bare = workload.launch(inputs)
            outputs = [each for each in inputs.values() if isinstance(each, torch.Tensor)]
            expected = [each.clone() for each in outputs]
            function = workload.fn
            values = {**inputs, **workload.constexprs}
            arguments = [values[name] for name in function.arg_names]
            for shift in SHIFTS:
                null = null_build(bare, shift)
                for name in ("c_ptr", "out_ptr"):
                    if name in inputs:
                        inputs[name].zero_()
                null[(*workload.grid, 1, 1)[:3]](*arguments)
                assert all(map(torch.equal, outputs, expected))
                assert null.n_regs == bare.n_regs
