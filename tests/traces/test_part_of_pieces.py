"""A part of a trace whose spans are packed in many pieces: only pieces with its launches are decoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pandas.testing import assert_frame_equal

import profscope
from profscope.traces import compact
from profscope.traces.loading import load_part
from profscope.traces.trace_filter import TraceFilter
from tests.support.profiles import regular_profile
from tests.support.validation import validate


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pieces")
    profile = regular_profile(launches=5, ctas=4, warps=2, iterations=3)
    spans = profile.tables.df
    spans["tokens"] = spans["start_ns"] % 7 / 2.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compact, "PIECE_ROWS", 50)
        profile.save(folder / "t.json")
        profile.save(folder / "t.pftrace.gz")
    return folder


@pytest.mark.parametrize("name", ["t.json", "t.pftrace.gz"])
@pytest.mark.parametrize("launch", range(5))
def test_a_launch_has_the_rows_that_it_has_in_the_whole(folder: Path, name: str, launch: int) -> None:
    whole = profscope.load(folder / name).tables.df
    part = load_part(folder / name, TraceFilter(launch=launch))
    assert 0 < len(part.tables.df) < len(whole) / 2
    assert part.left_out == len(whole) - len(part.tables.df)
    loaded = profscope.load(folder / name, launch=launch)
    assert validate(loaded.tables) == []
    mine = whole[whole["launch"] == launch]
    first = mine.index[0]
    wanted: dict[str, Any] = {
        name: mine[name].where(mine[name] < 0, mine[name] - first) for name in compact.REFERENCES
    }
    assert_frame_equal(loaded.tables.df, mine.assign(**wanted).reset_index(drop=True))
    said = f"; {len(mine):,} of its {len(whole):,} spans"
    assert [note for note in loaded.metadata["notes"] if said in note]


def test_all_are_read_where_there_is_no_such_launch(folder: Path) -> None:
    part = load_part(folder / "t.json", TraceFilter(kernels="none"))
    assert part.left_out == 0
    assert len(part.tables.df) == len(profscope.load(folder / "t.json").tables.df)
