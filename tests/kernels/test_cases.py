"""The launch cases are right: Triton's interpreter, which needs no GPU, agrees with their references."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import triton

from tests.kernels.cases import cases

_NOT_INTERPRETED = {"gluon_ws", "gluon_ws_loop"}  # the interpreter runs the Triton language only
_RUN = """
from tests.kernels.cases import cases, check
for case in cases("small"):
    if case.name not in {skipped}:
        check(case, "cpu")
        print(case.name)
"""


@pytest.mark.skipif(
    triton.__version__.startswith("3.6."),
    reason="its interpreter does not go with numpy 2.4: int() of an array",
)
@pytest.mark.slow
def test_small_cases_in_the_interpreter() -> None:
    """In a process of its own: kernels become interpreted ones when they are decorated."""
    found = subprocess.run(
        [sys.executable, "-c", _RUN.format(skipped=_NOT_INTERPRETED)],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert set(found.stdout.split()) == {case.name for case in cases("small")} - _NOT_INTERPRETED


def test_sizes_have_the_same_cases() -> None:
    assert [case.name for case in cases("small")] == [case.name for case in cases("real")]
