"""Where copies are not recorded, the waits that end them have their bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from profscope.instrument_passes import LEVELS
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.pipeline import parse_pipeline, run_pipeline
from tests.kernels import aot, matmul, matmul_tma, matmul_ws, softmax
from tests.kernels.spec import CUDA90, CUDA100, Spec

SOFTMAX, MATMUL = softmax.specs()[0], matmul.specs()[0]
DEEPER = replace(SOFTMAX, constexprs={"BLOCK": 1024, "STAGES": 3})


TMA, SPECIALISED = matmul_tma.specs()[0], matmul_ws.specs()[0]


def spans_of(text: str, level: str) -> list[tuple[str, int]]:
    """Names and bytes of spans, in program order."""
    module = parse(text)
    run_pipeline(module, parse_pipeline(LEVELS[level]), PassContext())
    begins = [op.attributes for op in module.walk() if op.name == "profscope.begin"]
    return [(begin["name"].strip('"'), int(begin.get("bytes", "0").split()[0])) for begin in begins]


def moved(spec: Spec, level: str) -> dict[str, int]:
    """Bytes of spans by name, of those that copy or wait."""
    spans = spans_of(aot.ttgir(spec, CUDA90), level)
    return {name: size for name, size in spans if name.startswith("async")}


def at_barriers(text: str, level: str = "default") -> list[int]:
    """Bytes of the waits on barriers."""
    return [size for name, size in spans_of(text, level) if name.startswith("barrier wait")]


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


def test_a_wait_on_barriers_has_what_they_expect() -> None:
    """Tiles of a and b, 64 by 64 halfs each; on Blackwell the waits for the dots, between them, have none."""
    tiles = 2 * 64 * 64 * 2
    assert at_barriers(aot.ttgir(TMA, CUDA90)) == [tiles]
    assert at_barriers(aot.ttgir(TMA, CUDA100)) == [tiles, tiles, 0, 0]
    assert set(at_barriers(aot.ttgir(TMA, CUDA90), "heavy")) == {0}  # the copies have it there


def test_what_partitions_wait_for_together_arrives_once() -> None:
    """Two consumers have half of a each, and both wait for b; the producer waits for room."""
    waits = at_barriers(aot.ttgir(SPECIALISED, CUDA90))
    assert sum(waits) == 3 * 64 * 64 * 2
    assert sorted(waits) == [0] * 5 + [64 * 64 * 2] * 3


@pytest.mark.parametrize(
    ("old", "new", "times"),
    [
        pytest.param("barrier_expect %acc_12, 16384", "barrier_expect %acc_12, 8192", 1, id="unlike tiles"),
        pytest.param(", 1 : !ttg.memdesc<1xi64", ", 2 : !ttg.memdesc<1xi64", -1, id="two arrivals a phase"),
    ],
)
def test_barriers_that_do_not_tell(old: str, new: str, times: int) -> None:
    text = aot.ttgir(TMA, CUDA90)
    assert old in text
    assert at_barriers(text.replace(old, new, times)) == [0]
