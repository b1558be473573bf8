"""bench/reading.py and bench/larger_than_memory.py run, on small profiles."""

from __future__ import annotations

from pathlib import Path

import profscope
from bench.larger_than_memory import by_scope, load_all, one_cta, one_launch, written
from bench.reading import light
from profscope.profiles import Profile
from profscope.traces.checks import validate
from tests.support.profiles import regular_profile


def test_small_launches_are_read() -> None:
    reading = light(8)
    assert (reading.launches, reading.spans) == (8, 2 * 172)
    assert min(reading.wall_s, reading.copy_s, reading.table_bytes, reading.buffer_bytes) > 0
    assert str(reading).startswith("light launches: 8 launches, 344 spans\n")


def test_many_launches_of_one_file(tmp_path: Path) -> None:
    profile = regular_profile(launches=1, ctas=18, warps=1, iterations=4)
    rows = len(profile.tables.df)
    folder = tmp_path / "many"
    assert written(folder, 3 * rows / 1e6, profile) == 3 * rows
    assert by_scope(str(folder), "1GB").endswith(" rows")
    assert one_launch(str(folder), "") == f"{rows:,} spans"
    assert one_cta(str(folder), "") == f"{rows // 18:,} spans"
    assert load_all(str(folder), "") == f"{3 * rows:,} spans"
    loaded = profscope.load(folder)
    assert isinstance(loaded, Profile)
    assert validate(loaded.tables) == []
