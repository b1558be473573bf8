"""Memory of arguments is restored and compared, views and narrow types included."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from profscope.experiments.arguments import Arguments, bytes_reached


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


def test_storages_that_overlap_are_one_memory() -> None:
    """Each array of another library has a storage of its own, which may begin where another one does."""
    floats = np.ones(64, np.float32)
    parts = [torch.from_numpy(part) for part in (floats[:16], floats[8:40], floats[36:], floats[:4])]
    assert bytes_reached(parts) == floats.nbytes
    arguments = Arguments(parts)
    floats += 1
    arguments.keep_result()
    arguments.restore()
    assert (floats == 1).all()
    floats += 1
    assert arguments.compare() == "bit-equal"
    floats[38:] += 1e-6
    assert arguments.compare() == "close"
    floats[63] = 50
    assert arguments.compare() == "different"
    arguments.restore()
    assert (floats == 1).all()


@pytest.mark.parametrize("begin", [0, 1, 3, 4])
def test_storages_that_overlap_at_any_byte(begin: int) -> None:
    """Elements are compared where they are, though the memory begins with bytes before them."""
    memory = np.zeros(64, np.uint8)
    floats = memory[4:36].view(np.float32)
    floats[:] = 1
    arguments = Arguments([torch.from_numpy(floats), torch.from_numpy(memory[begin:8])])
    arguments.keep_result()
    floats[5] += 5e-6
    assert arguments.compare() == "close"
    floats[5] += 5e-5
    assert arguments.compare() == "different"


def test_storages_beside_each_other_are_two() -> None:
    numbers = np.zeros(8, np.int32)
    left, right = torch.from_numpy(numbers[:4]), torch.from_numpy(numbers[4:])
    arguments = Arguments([left])
    right += 1
    left += 1
    arguments.reset()
    assert numbers.tolist() == [0] * 4 + [1] * 4


def test_all_that_differs_is_written_back() -> None:
    """Also what changed before any launch, which `restore` does not know of."""
    x = torch.zeros(4)
    arguments = Arguments([x])
    x += 1
    arguments.restore()
    assert x[0] == 1
    arguments.reset()
    assert x[0] == 0
