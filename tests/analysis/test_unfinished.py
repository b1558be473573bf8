"""Launches that a fault cut short, and how many launches the figures are of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import triton
import triton.language as tl

import profscope
from profscope.errors import EmulatorError
from tests.support.sessions import session

# ruff: noqa: N803

SIZE = 1024
COLUMNS = ["count", "sampled", "launches", "launches_seen"]


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Of this file alone: which binary a launch ran that a fault ended is told by its records."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x + y, mask=offsets < n)


def add(ctas: int, readable: int | None = None, block: int = SIZE) -> None:
    """Launch the add; x ends behind `readable` CTAs, so the next one reads out of bounds."""
    n = ctas * block
    x = torch.ones((ctas if readable is None else readable) * block)
    add_kernel[(ctas,)](x, torch.ones(n), torch.empty(n), n, BLOCK=block)


def faulty(readable: int, ctas: int = 40) -> None:
    with pytest.raises(EmulatorError, match="out of bounds"):
        add(ctas, readable)


def of_kernel(profile: Any) -> pd.DataFrame:
    summary = profile.summary()
    return summary[summary["kind"] == "kernel"].sort_values("variant", ignore_index=True)


def figures(profile: Any) -> list[list[Any]]:
    rows: list[list[Any]] = of_kernel(profile)[COLUMNS].to_numpy().tolist()
    return rows


def test_ctas_without_an_end_are_not_scaled_up(tmp_path: Path) -> None:
    with session() as prof:
        faulty(6)
        add(2)
    ended, unfinished = (prof.launches[name].tolist() for name in ("ctas", "unfinished"))
    assert ended[0] < 6
    assert ended[1] == 2
    assert unfinished == [40 - ended[0], 0]
    assert figures(prof) == [[len(prof.df.query("kind == 'kernel'")), 1, 2 if ended[0] else 1, 2]]
    (note,) = prof.metadata["notes"]
    assert note.startswith(f"add_kernel: launch 0: {unfinished[0]} of 40 CTAs ")
    assert prof.metadata["kernels"]["add_kernel"]["recorded"] == {
        "ctas": sum(ended), "unfinished": unfinished[0], "grid_ctas": 42, "sample": True
    }  # fmt: skip
    prof.save(tmp_path / "trace.json")
    pd.testing.assert_frame_equal(profscope.load(tmp_path / "trace.json").summary(), prof.summary())


def test_ctas_left_out_by_choice_still_are() -> None:
    with session(ctas=2) as prof:
        faulty(39)  # which records: the emulator runs those that do not first
        add(16)
    ended, unfinished = (prof.launches[name].tolist() for name in ("ctas", "unfinished"))
    assert unfinished == [20 - ended[0], 0]
    ((count, sampled, *_),) = figures(prof)
    assert (count, sampled) == (2 * 4 * sum(ended), 0.5)  # four warps of twice as many CTAs
    said = f"launch 0: {unfinished[0]} of 20 CTAs that were to record"
    assert any(said in note for note in prof.metadata["notes"])


def test_a_launch_of_which_no_cta_ended_does_not_count() -> None:
    with session() as prof:
        faulty(0, ctas=1)
        add(1)
    assert prof.launches[["ctas", "unfinished"]].to_numpy().tolist() == [[0, 1], [1, 0]]
    assert figures(prof) == [[4, 1, 1, 2]]
    with session() as alone:
        add(1)
    columns = ["scope", "bytes_at_most"]
    pd.testing.assert_frame_equal(prof.summary()[columns], alone.summary()[columns])
    (note,) = prof.metadata["notes"]
    assert note.startswith("add_kernel: launch 0: 1 of 1 CTAs ")


def test_many_such_launches_share_a_note() -> None:
    with session() as prof:
        for _ in range(6):
            faulty(0, ctas=1)
    (note,) = [note for note in prof.metadata["notes"] if "did not come to their end" in note]
    assert note.startswith("add_kernel: 6 launches, 0 to 5: 6 of 6 CTAs ")


def test_with_launches_left_out_the_kernels_count_stands_in_each_row() -> None:
    with session(every=2) as prof:
        for block in (256, 256, 1024, 1024):
            add(1, block=block)
    rows = of_kernel(prof)[["launches", "launches_seen"]].to_numpy().tolist()
    assert rows == [[1, 4], [1, 4]]
