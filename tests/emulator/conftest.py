"""Every test here gets a fresh emulator device as Triton's active driver.

With a GPU, tests marked `on_gpu_too` run a second time, each launch also on the GPU: the same PTX must leave
the same memory. Not marked is what a GPU may do in another order each time, and what would hang it.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from profscope.emulator import activate
from profscope.emulator.launcher import Launch
from tests.support.hardware import run_on_both


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if torch.cuda.is_available() and metafunc.definition.get_closest_marker("on_gpu_too"):
        both = pytest.param(True, marks=pytest.mark.gpu, id="and on the GPU")
        metafunc.parametrize("hardware", [pytest.param(False, id="emulated"), both], indirect=True)


@pytest.fixture(autouse=True)
def emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # Triton 3.9 warns where its default will change
    torch.manual_seed(0)
    with activate(sm_count=4) as driver:
        yield driver


@pytest.fixture(autouse=True)
def hardware(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if getattr(request, "param", False):
        monkeypatch.setattr(Launch, "run", run_on_both)
