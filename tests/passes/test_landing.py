"""Where copies are not recorded, the waits that end them have their bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from instrument_passes.ir import parse
from instrument_passes.levels import LEVELS
from instrument_passes.passes import PassContext
from instrument_passes.pipeline import parse_pipeline, run_pipeline
from tests.kernels import aot, matmul, softmax
from tests.kernels.spec import CUDA90, Spec

SOFTMAX, MATMUL = softmax.specs()[0], matmul.specs()[0]
DEEPER = replace(SOFTMAX, constexprs={"BLOCK": 1024, "STAGES": 3})


def moved(spec: Spec, level: str) -> dict[str, int]:
    """Bytes of spans by name, of those that copy or wait."""
    module = parse(aot.ttgir(spec, CUDA90), spec.name)
    run_pipeline(module, parse_pipeline(LEVELS[level]), PassContext())
    begins = [op.attributes for op in module.walk() if op.name == "profscope.begin"]
    return {
        name: int(begin.get("bytes", "0").split()[0])
        for begin in begins
        if (name := begin["name"].strip('"')).startswith("async")
    }


@pytest.mark.parametrize(
    ("spec", "name", "each"),
    [
        pytest.param(SOFTMAX, "async wait x", 1024 * 4, id="a row"),
        pytest.param(DEEPER, "async wait x", 1024 * 4, id="one of two rows on their way"),
        pytest.param(MATMUL, "async wait a", 2 * 64 * 32 * 2, id="tiles of a and b"),
    ],
)
def test_a_wait_has_what_its_step_waits_for(spec: Spec, name: str, each: int) -> None:
    assert moved(spec, "default") == {name: each, "async wait (drain)": 0}


def test_copies_that_are_recorded_have_it_themselves() -> None:
    assert moved(DEEPER, "heavy") == {"async copy x": 4096, "async wait x": 0, "async wait (drain)": 0}
