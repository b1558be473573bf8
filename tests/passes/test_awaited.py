"""Waits on barriers are named after what they wait for, not after the loop whose location they have."""

from __future__ import annotations

import pytest

from profscope.instrument_passes.analyses.places import awaited
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.pipeline import parse_pipeline, run_pipeline
from tests.kernels import aot, attention, matmul_tma, matmul_ws
from tests.kernels.spec import CUDA90, CUDA100, Spec

TMA, WS, ATTENTION = (kernel.specs()[0] for kernel in (matmul_tma, matmul_ws, attention))


def named(spec: Spec, target: str, op: str) -> list[str]:
    """The names of spans on an op, in program order, each once where neighbours are alike."""
    module = parse(aot.ttgir(spec, target), spec.name)
    run_pipeline(module, parse_pipeline("op-spans"), PassContext())
    begins = [each for each in module.walk() if each.name == "profscope.begin"]
    names = [each.attributes["name"].strip('"') for each in begins if each.attributes["op"] == f'"{op}"']
    return [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]


@pytest.mark.parametrize(
    ("spec", "target", "waits"),
    [
        # For the tiles that TMA loads; on Blackwell also for the products, which are issued there.
        pytest.param(TMA, CUDA90, ["barrier wait a, b"], id="tma-90"),
        pytest.param(TMA, CUDA100, ["barrier wait a, b", "barrier wait acc"], id="tma-100"),
        # The producer waits until buffers are free. Its loads have no name, nor have the waits for them.
        pytest.param(WS, CUDA90, [f"barrier wait{name}" for name in (" a", " b", " a", "")], id="ws-90"),
        pytest.param(ATTENTION, CUDA100, ["barrier wait scores", "barrier wait acc"], id="attention-100"),
    ],
)  # fmt: skip
def test_waits(spec: Spec, target: str, waits: list[str]) -> None:
    names = named(spec, target, "ttng.wait_barrier")
    assert names[: len(waits)] == waits
    assert set(names) == set(waits)


def test_blackwell_consumers_wait_for_the_loads_as_those_are_called() -> None:
    """Triton gives the load of b the location of the dot."""
    loads = named(WS, CUDA100, "ttng.async_tma_copy_global_to_local")
    wanted = ", ".join(name.removeprefix("tma load ") for name in loads)
    assert f"barrier wait {wanted}" in named(WS, CUDA100, "ttng.wait_barrier")


@pytest.mark.parametrize("target", [CUDA90, CUDA100])
def test_what_prepares_a_barrier_says_for_what(target: str) -> None:
    for op, label in (("ttng.barrier_expect", "barrier expect"), ("ttng.init_barrier", "barrier init")):
        names = set(named(TMA, target, op))
        assert f"{label} a, b" in names
        assert names <= {f"{label} a, b", f"{label} acc"}
    products = set(named(TMA, target, "ttng.init_barrier")) - {"barrier init a, b"}
    assert products == ({"barrier init acc"} if target == CUDA100 else set())


def test_names_of_its_own_are_kept() -> None:
    """A wait for tensor-core work stands on the line of the dot, whose name is right."""
    module = parse(aot.ttgir(TMA, CUDA100), "k")
    waits = [op for op in module.walk() if op.name == "ttng.wait_barrier"]
    names = awaited(module)
    assert {op.loc.name for op in waits if op not in names} == {"acc"}
    assert {names[op] for op in waits if op in names} == {"a, b"}
