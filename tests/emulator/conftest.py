"""Every test here gets a fresh emulator device as Triton's active driver."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from profscope.emulator import activate


@pytest.fixture(autouse=True)
def emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # Triton 3.9 warns where its default will change
    torch.manual_seed(0)
    with activate(sm_count=4) as driver:
        yield driver
