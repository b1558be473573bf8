"""Proton's records go where ours go, compile on this Triton, and leave no trace in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from bench import proton_side
from bench.variants import LEVELS
from profscope.instrument_passes.dialect import BEGIN, END
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.pipeline import parse_pipeline, run_pipeline
from profscope.instrument_passes.toolchain import triton_version
from tests.kernels import add, attention, matmul, softmax
from tests.kernels.aot import compiled, ttgir
from tests.kernels.spec import CUDA90, Spec

SPECS = [module.specs()[0] for module in (add, softmax, matmul, attention)]


@contextlib.contextmanager
def without_gpu(target: str) -> Iterator[None]:
    """Proton asks the driver for the GPU before it compiles; answer for `target`, "cuda:90"."""
    properties = {"max_shared_mem": 232448}
    fake: Any = SimpleNamespace(
        get_current_device=lambda: 0,
        get_current_target=lambda: GPUTarget("cuda", int(target.partition(":")[2]), 32),
        utils=SimpleNamespace(get_device_properties=lambda device: properties),
    )
    before = driver._active
    driver.set_active(fake)
    try:
        yield
    finally:
        driver._active = before


def build(spec: Spec, buffer: str, pipeline: str) -> Any:
    """Compile through the stage hook, as a launch would."""
    warps = int(spec.options["num_warps"])
    with (
        without_gpu(CUDA90),
        proton_side.recording(proton_side.mode(buffer, warps), pipeline),
    ):
        options = {**spec.options, "instrumentation_mode": knobs.compilation.instrumentation_mode}
        return compiled(replace(spec, options=options), CUDA90)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_records_stand_where_ours_stand(spec: Spec) -> None:
    text = ttgir(spec, CUDA90)
    ours = parse(text)
    run_pipeline(ours, parse_pipeline(LEVELS["heavy"].pipeline), PassContext(triton_version()))
    expected = [
        ("start" if op.name == BEGIN else "end") if op.name in (BEGIN, END) else op.name for op in ours.walk()
    ]
    theirs = parse(proton_side.proton_text(text, LEVELS["heavy"].pipeline))
    found = [op.text.split()[1] if op.name == "proton.record" else op.name for op in theirs.walk()]
    assert found == expected
    assert found.count("start") >= 3


@pytest.mark.parametrize("buffer", ["shared", "global"])
def test_its_own_passes_lower_the_records(buffer: str) -> None:
    bare = compiled(SPECS[1], CUDA90)
    kernel = build(SPECS[1], buffer, LEVELS["heavy"].pipeline)
    ring_bytes = proton_side.RING_BYTES * int(SPECS[1].options["num_warps"])
    assert kernel.asm["ttgir"].count("proton.record") == 18
    assert kernel.asm["ptx"].count("%clock") > bare.asm["ptx"].count("%clock")
    assert kernel.metadata.profile_scratch_size >= ring_bytes
    # (Shared memory is aligned before the ring.)
    assert (kernel.metadata.shared >= bare.metadata.shared + ring_bytes) == (buffer == "shared")
