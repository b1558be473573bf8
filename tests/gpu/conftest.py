"""What needs a GPU is marked as such, and skipped where there is none."""

from __future__ import annotations

import pytest
import torch


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.gpu)
    if not torch.cuda.is_available():
        item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU"))
