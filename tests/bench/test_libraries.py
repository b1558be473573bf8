"""Other libraries' kernels bare and in a session: that it runs, says what is missing, and can say no."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping

import pytest
import torch

from bench.libraries import liger
from bench.libraries.calls import Call
from bench.libraries.compare import Outcome, compare
from bench.libraries.report import failures, table
from bench.table import Row
from profscope import emulator
from tests.kernels.add import add_kernel


@pytest.fixture(autouse=True)
def _emulated() -> Iterator[None]:
    with emulator.activate():
        yield


def added(scale: float = 1.0) -> torch.Tensor:
    x = torch.randn(256) * scale
    out = torch.empty_like(x)
    add_kernel[(2,)](x, x, out, 256, BLOCK=128)
    return out


def run(calls: Mapping[str, Call]) -> Outcome:
    return compare(calls, {"instrument": "light"}, "cpu", {})


@pytest.mark.exhaustive  # importing the library takes most of it
@pytest.mark.skipif(importlib.util.find_spec(liger.MODULE) is None, reason="liger-kernel is not installed")
def test_an_op_of_a_library() -> None:
    done = run(liger.cases("cpu")["swiglu"]())
    assert (done.compared, done.raised, done.differing, done.problems) == (1, {}, {}, [])
    assert done.launched == done.recorded
    assert len(done.recorded) == 2


def test_the_same_bits_in_a_session() -> None:
    done = run({"one": added, "two": lambda: added(2.0), "none": lambda: torch.ones(1), "bad": lambda: 1 / 0})
    assert done.compared == 2
    assert done.launched == done.recorded == {"add_kernel": 2}
    assert done.raised == {"bad": "ZeroDivisionError: division by zero"}
    assert failures(Row("library", "op", "", {}, about=vars(done))) == []


def test_what_changes_only_in_a_session_is_wrong() -> None:
    runs = iter([1.0, 1.0, 1.0, 3.0, *[1.0] * 5])
    done = run({"call": lambda: added(next(runs))})
    (gap,) = done.differing.values()
    assert gap.startswith("by ")
    row = Row("library", "op", "", {}, about=vars(done))
    assert failures(row) == [f"differs {gap}: call"]
    assert f"op: differs {gap}: call" in table([row])


def test_a_bare_call_that_breaks_the_gpu_is_named_and_can_be_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lost() -> None:
        raise RuntimeError("an illegal memory access was encountered")

    def breaks() -> None:
        monkeypatch.setattr("bench.libraries.compare.synchronize", lost)
        lost()

    done = run({"one": added, "two": breaks, "three": added})
    assert (done.lost, done.compared, list(done.raised)) == ("two", 0, ["two"])
    row = Row("library", "op", "", {}, about=vars(done))
    assert failures(row) == []  # none of a session's doing
    assert "op: two" in table([row])
