"""The launch cases are right: Triton's interpreter, which needs no GPU, agrees with their references."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import triton

from tests.kernels.cases import cases

_NOT_INTERPRETED = {"gluon_ws", "gluon_ws_loop"}  # the interpreter runs the Triton language only
_SLOW = {"matmul", "matmul_tma", "matmul_ws", "attention", "layer_norm", "call_paths"}
_RUN = """
from tests.kernels.cases import cases, check
for case in cases("small"):
    if case.name in {names}:
        check(case, "cpu")
        print(case.name)
"""


@pytest.mark.skipif(
    triton.__version__.startswith("3.6."),
    reason="its interpreter does not go with numpy 2.4: int() of an array",
)
@pytest.mark.exhaustive
@pytest.mark.parametrize("slow", [False, True])
def test_small_cases_in_the_interpreter(slow: bool) -> None:
    """In a process of its own: kernels become interpreted ones when they are decorated."""
    names = {case.name for case in cases("small")} - _NOT_INTERPRETED
    names = names & _SLOW if slow else names - _SLOW
    found = subprocess.run(
        [sys.executable, "-c", _RUN.format(names=names)],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert set(found.stdout.split()) == names


def test_sizes_have_the_same_cases() -> None:
    assert [case.name for case in cases("small")] == [case.name for case in cases("real")]
