"""Memory of arguments is restored and compared, views and narrow types included."""

from __future__ import annotations

import pytest
import torch

from profscope.tuning.arguments import Arguments


def test_overlapping_views_are_restored_together() -> None:
    whole = torch.arange(16, dtype=torch.float32)
    arguments = Arguments([whole[4:8], whole[::2], 3, None])
    whole += 1
    arguments.keep_result()
    arguments.restore()
    assert torch.equal(whole, torch.arange(16, dtype=torch.float32))
    whole += 1
    assert arguments.compare() == "bit-equal"
    whole[1] = 50  # in no view, but beside them
    assert arguments.compare() == "different"


def test_what_only_another_launch_writes_is_restored() -> None:
    x = torch.ones(4)
    arguments = Arguments([(x,)])
    arguments.keep_result()
    x[2] = 9
    assert arguments.compare() == "different"
    arguments.restore()
    assert torch.equal(x, torch.ones(4))


@pytest.mark.parametrize(
    ("dtype", "by", "says"),
    [
        (torch.float32, 5e-6, "close"),
        (torch.float32, 2e-5, "different"),
        (torch.float64, 5e-10, "close"),
        (torch.float64, 1e-8, "different"),
        (torch.float16, 2e-3, "close"),
        (torch.float16, 2e-2, "different"),
        (torch.bfloat16, 2e-2, "close"),
        (torch.float8_e5m2, 0.5, "close"),
    ],
)
def test_the_tolerance(dtype: torch.dtype, by: float, says: str) -> None:
    x = torch.tensor([1.0, 0.5, float("nan")]).to(dtype)
    arguments = Arguments([x])
    arguments.keep_result()
    x.copy_(torch.tensor([1.0 + by, 0.5, float("nan")], dtype=torch.float64).to(dtype))
    assert arguments.compare() == says


def test_integers_must_be_equal() -> None:
    x = torch.tensor([1000, 2])
    arguments = Arguments([x])
    arguments.keep_result()
    x[0] = 1001
    assert arguments.compare() == "different"
