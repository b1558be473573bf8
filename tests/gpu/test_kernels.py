"""Kernels on a real device: their outputs are the bare run's bits, every CTA's records decode with nothing
unexplained, the tables are sound, and a saved trace loads back equal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import torch

import profscope
from profscope.instrument_passes import LEVELS
from tests.kernels.cases import Case
from tests.support.on_gpu import cases_here
from tests.support.sessions import same_bits
from tests.support.validation import validate

_GPU = torch.cuda.is_available()


def unexplained(profile: profscope.Profile) -> Iterator[str]:
    """Notes that the profile's own figures do not explain, and CTAs that are missing."""
    dropped = profile.launches.groupby("kernel")["dropped"].sum()
    for note in profile.metadata["notes"]:
        if not ("overwritten" in note and dropped.get(note.split(":")[0], 0) > 0):
            yield f"note: {note}"
    roots = profile.df[profile.df["depth"] == 0].groupby("launch")["cta"].nunique()
    for launch in profile.launches.itertuples():
        expected = launch.grid_x * launch.grid_y * launch.grid_z * launch.num_ctas
        if not launch.ctas == roots.get(launch.launch, 0) == expected:
            yield f"launch {launch.launch}: {launch.ctas} CTAs recorded, the grid has {expected}"
        if launch.end_ns < launch.start_ns:
            yield f"launch {launch.launch} ends before it starts"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", cases_here() if _GPU else [], ids=lambda case: case.name)
def test_profile_is_sound_and_outputs_are_the_same(case: Case, level: str, tmp_path: Path) -> None:
    inputs = case.inputs("cuda")
    bare = case.launch(inputs)
    with profscope.session(instrument=level, backend="gpu") as prof:
        recorded = case.launch(inputs)
    assert same_bits(bare, recorded)
    profile = prof.profile
    assert not profile.launches.empty
    assert validate(profile.tables) == []
    assert list(unexplained(profile)) == []
    profile.save(tmp_path / "t.json.gz")
    loaded = profscope.load(tmp_path / "t.json.gz")
    pd.testing.assert_frame_equal(loaded.df, profile.df)
    pd.testing.assert_frame_equal(loaded.launches, profile.launches)
    assert loaded.metadata == profile.metadata
