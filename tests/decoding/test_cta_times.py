"""The table of CTAs: when each began and ended, and on which SM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given

from profscope.decoding.assemble import assemble
from profscope.decoding.build import RawLaunch
from profscope.instrument_passes.records import MAX_STAMPED
from profscope.profiles import Profile
from profscope.schema import CTA_DTYPES
from tests.support.programs import bodies, launches
from tests.support.sessions import heavy, session
from tests.support.synth import Launch, Program, launch


def assembled(*made: Launch, ctas: int) -> Profile:
    raws = [RawLaunch(at, one.manifest, 0, 0, ctas, one.buffer) for at, one in enumerate(made)]
    return Profile.of(assemble(raws, {"backend": "gpu"}))


def extents(df: pd.DataFrame) -> pd.DataFrame:
    """By launch and CTA, where its spans begin and end, cycles and ns."""
    ends = df.assign(end=df["start_cycle"] + df["duration_cycles"], end_ns=df["start_ns"] + df["duration_ns"])
    return ends.groupby(["launch", "cta"]).agg(
        sm=("sm", "first"),
        start=("start_cycle", "min"),
        end=("end", "max"),
        start_ns=("start_ns", "min"),
        end_ns=("end_ns", "max"),
    )


@given(body=bodies, options=launches)
def test_a_cta_covers_its_spans(body: tuple[object, ...], options: dict[str, int]) -> None:
    made = launch([Program(body, 2)], **options)  # type: ignore[arg-type]
    profile = assembled(made, ctas=options["ctas"])
    ctas = profile.ctas
    assert ctas.dtypes.astype(str).to_dict() == CTA_DTYPES
    assert len(ctas) == profile.launches["ctas"].sum()
    seen = extents(profile.df)
    own = ctas.set_index(["launch", "cta"]).loc[seen.index]
    assert (own["sm"] == seen["sm"]).all()
    assert (own["start_cycle"] <= seen["start"]).all()
    assert (own["start_cycle"] + own["duration_cycles"] >= seen["end"]).all()
    for row in profile.launches.itertuples():
        of_launch = ctas[ctas["launch"] == row.launch]
        assert (of_launch["start_ns"].min(), of_launch["end_ns"].max()) == (row.start_ns, row.end_ns)


@triton.jit
def uneven_kernel(out_ptr, columns, BLOCK: tl.constexpr):  # noqa: N803
    """CTAs of every third column return at once."""
    column = tl.program_id(0)
    if column % 3 == 2:
        return
    cta = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * columns + column
    tl.store(out_ptr + cta * BLOCK + tl.arange(0, BLOCK), column)


@pytest.mark.parametrize("grid", [(1,), (5, 3, 4)])
def test_every_cta_of_a_grid_has_a_row(grid: tuple[int, ...]) -> None:
    total = int(np.prod(grid))
    with session(instrument="heavy") as prof:
        for _ in range(2):
            uneven_kernel[grid](torch.zeros(total * 64, dtype=torch.int32), grid[0], BLOCK=64, num_warps=2)
    ctas = prof.ctas
    assert ctas["cta"].tolist() == [*range(total)] * 2
    assert ctas["recorded"].all()
    assert set(ctas["kernel"]) == {"uneven_kernel"}
    seen = extents(prof.df)
    own = ctas.set_index(["launch", "cta"])
    assert seen.index.equals(own.index)  # those that return at once, too
    assert (own["start_cycle"] == seen["start"]).all()
    assert (own["start_cycle"] + own["duration_cycles"] == seen["end"]).all()
    assert (own[["sm", "start_ns"]] == seen[["sm", "start_ns"]]).all(axis=None)
    assert (own["end_ns"] == seen["end_ns"]).all()


def run_uneven(grid: tuple[int, ...], **options: Any) -> Profile:
    total = int(np.prod(grid))
    with session(instrument="light", **options) as prof:
        uneven_kernel[grid](torch.zeros(total * 64, dtype=torch.int32), grid[0], BLOCK=64, num_warps=2)
    return prof.profile


@pytest.mark.parametrize(
    ("grid", "options"),
    [((32,), {"ctas": [3, 5]}), ((64,), {"ctas": 4}), ((5, 3, 4), {"ctas": 64}), ((8,), {"ctas": 64})],
    ids=str,
)
def test_ctas_that_do_not_record_have_a_row_too(grid: tuple[int, ...], options: dict[str, Any]) -> None:
    every, some = run_uneven(grid), run_uneven(grid, **options)
    ctas, total = some.ctas.set_index("cta"), int(np.prod(grid))
    assert ctas.index.tolist() == [*range(total)]
    assert ctas.index[ctas["recorded"]].tolist() == sorted(some.df["cta"].unique())
    assert (ctas["sm"].to_numpy() == every.ctas["sm"]).all()
    (launch,) = some.launches.itertuples()
    assert (launch.start_ns, launch.end_ns) == (ctas["start_ns"].min(), ctas["end_ns"].max())
    assert launch.ctas == ctas["recorded"].sum()
    at_once = ctas.index % grid[0] % 3 == 2
    for recorded, own in ctas.groupby("recorded"):
        early, late = (own["duration_cycles"][at_once[own.index] == is_early] for is_early in (True, False))
        assert early.max() < late.min() or not len(early), recorded
    others = ctas[~ctas["recorded"]]
    assert (others["duration_cycles"] > 0).all()
    assert (others["duration_cycles"] <= ctas["duration_cycles"][ctas["recorded"]].max()).all()


@pytest.mark.parametrize("grid", [(MAX_STAMPED,), (MAX_STAMPED + 1,), (5, 41, 29)])
def test_of_a_large_grid_only_the_ends_are_timed(grid: tuple[int, ...]) -> None:
    total, half = int(np.prod(grid)), MAX_STAMPED // 2
    profile = run_uneven(grid, ctas=512)
    ctas = profile.ctas.set_index("cta")
    recorded = ctas.index[ctas["recorded"]]
    assert sorted(ctas.index) == sorted({*range(half), *range(total - half, total), *recorded})
    assert (ctas["duration_cycles"] > 0).all()
    (launch,) = profile.launches.itertuples()
    assert (launch.start_ns, launch.end_ns) == (ctas["start_ns"].min(), ctas["end_ns"].max())
    said = "prof.ctas has recorded CTAs, and the first and last 2,048 of each launch"
    assert any(said in note for note in profile.metadata["notes"]) == (total > MAX_STAMPED)


def test_partitions_are_part_of_their_cta() -> None:
    prof = heavy("attention")
    seen, own = extents(prof.df), prof.ctas.set_index(["launch", "cta"])
    assert (own["duration_cycles"] == seen["end"] - seen["start"]).all()
