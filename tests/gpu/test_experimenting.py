"""Experiments in a session on a real GPU: the program's results stay as they are, in any stream."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch

import profscope
from tests.kernels.repeated import increased, scattered_sum
from tests.support.validation import validate

ROUNDS = 8


def program() -> tuple[torch.Tensor, torch.Tensor]:
    """Two kernels in turn, each adding to what it left."""
    x = torch.arange(1 << 20, device="cuda").float()
    out, small = torch.full((1 << 24,), 3.0, device="cuda"), torch.zeros(1024, device="cuda")
    for _ in range(ROUNDS):
        increased[(1,)](small, BLOCK=1024)
        scattered_sum[(1 << 10,)](x, out, 16, BLOCK=1024)
    return out, small


@pytest.mark.parametrize("evidence", [["experiments"], ["records", "experiments"]])
@pytest.mark.parametrize("on_side_stream", [False, True])
def test_results_are_those_of_the_program_alone(evidence: list[str], on_side_stream: bool) -> None:
    expected = program()
    stream: Any = torch.cuda.stream(torch.cuda.Stream()) if on_side_stream else contextlib.nullcontext()
    with profscope.session(evidence=[*evidence, "seconds:60"]) as prof, stream:
        results = program()
    torch.cuda.synchronize()
    assert all(torch.equal(one, other) for one, other in zip(results, expected, strict=True))
    assert prof.metadata["evidence"]["not_measured"] == []
    table = prof.experiments[prof.experiments["kernel"] == "scattered_sum"]
    store = table[(table["op"] == "store") & (table["experiment"] == "contiguous")].iloc[0]
    assert store["valid"], store["why_not"]
    assert store["saved_pct"] > 10
    assert table["time_kcycles"].isna().all()
    assert validate(prof.profile.tables) == []
