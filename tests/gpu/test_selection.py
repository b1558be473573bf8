"""Choices of CTAs on a real device, and a grid of a million CTAs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import profscope
from bench import kernels
from bench.launch_spans import recorded, spans_row
from tests.support.validation import validate

MILLION = 1_000_000
N = MILLION * 1024


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ctas": 1000},
        {"ctas": [0, 5, 999_999]},
    ],
    ids=str,
)
def test_a_million_ctas_within_256_mib(options: dict[str, Any]) -> None:
    x = torch.arange(N, dtype=torch.float32, device="cuda")
    before = torch.cuda.memory_allocated()
    with profscope.session(backend="gpu", memory=256, **options) as prof:
        from tests.kernels.add import add_kernel

        out = torch.empty_like(x)
        given = torch.cuda.memory_allocated()
        add_kernel[(MILLION,)](x, x, out, N, BLOCK=1024)
        assert torch.cuda.memory_allocated() - given <= 256 << 20
    assert torch.equal(out, x + x)
    del out
    assert torch.cuda.memory_allocated() <= before  # less, if what other tests left was collected
    assert validate(prof.profile.tables) == []
    (row,) = prof.launches.itertuples()
    assert row.grid_x == MILLION
    assert row.profile_bytes <= 128 << 20
    told = prof.metadata["kernels"]["add_kernel"]["recorded"]
    assert (told["ctas"], told["grid_ctas"]) == (row.ctas, MILLION)
    found = prof.df["cta"].unique()
    if options.get("ctas") == [0, 5, 999_999]:
        assert sorted(found) == [0, 5, 999_999]
    else:
        step = 1 << (MILLION // row.ctas - 1).bit_length()
        assert (found // step).tolist() == list(range(row.ctas))  # one of each so many
    assert prof.metadata["notes"]


@pytest.mark.parametrize("stride", [8, 64, 1])
def test_a_launch_lasts_as_long_as_cupti_says(stride: int) -> None:
    """Also if the SM clock changes within it."""
    workload = kernels.matmul(4096, (128, 128, 64), 8)
    prof, by_cupti = recorded(workload, workload.inputs("cuda"), stride)
    line, within = spans_row(workload.name, str(stride), prof, by_cupti)
    assert within, line
