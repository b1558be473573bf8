"""What is left of a recording that is cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import profscope
from bench.cut import cut, main, moved
from profscope.instrument_passes.kept_text import unpacked
from profscope.profiles import Profile
from tests.support.validation import validate

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def whole() -> Profile:
    return profscope.load(ROOT / "tests/data/diff/matmul-1-stage.pftrace.gz")


def test_spans_of_some_ctas_keep_their_parents(whole: Profile) -> None:
    some = cut(whole, ctas=2, launches=3)
    assert validate(some.tables) == []
    assert len(some.launches) == 3
    assert (some.df.groupby("launch")["cta"].nunique() == 2).all()
    assert (some.launches["ctas"] == 2).all()
    for profile in (some, whole):
        parents = profile.df["parent"].to_numpy()
        inside = profile.df[parents >= 0]
        around = profile.df.iloc[parents[parents >= 0]]
        assert (inside["launch"].to_numpy() == around["launch"].to_numpy()).all()
        assert (inside["cta"].to_numpy() == around["cta"].to_numpy()).all()
        assert (inside["depth"].to_numpy() == around["depth"].to_numpy() + 1).all()
    ctas = some.df[some.df["launch"] == 0]["cta"].unique()
    same = whole.df[(whole.df["launch"] == 0) & whole.df["cta"].isin(ctas)]
    assert some.df[some.df["launch"] == 0]["start_cycle"].tolist() == same["start_cycle"].tolist()
    rate = some.launches["records"] / whole.launches["records"][:3]
    assert np.allclose(rate, 2 / whole.launches["ctas"][:3], rtol=0.01)


def test_folders_are_renamed_in_tables_and_in_packed_code() -> None:
    profile = profscope.load(ROOT / "tests/data/evidence/gather.pftrace.gz")
    (file,) = set(profile.df["file"])
    changed = moved(profile, {str(Path(file).parent): "elsewhere"})
    assert set(changed.df["file"]) == {f"elsewhere/{Path(file).name}"}
    before, after = (unpacked(each.metadata["code"][0]["ttgir"]) for each in (profile, changed))
    assert file in before
    assert file not in after
    assert f"elsewhere/{Path(file).name}" in after


def test_a_file_is_replaced(tmp_path: Path, whole: Profile, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.pftrace.gz"
    whole.save(path)
    before = path.stat().st_size
    assert main([str(path), "--ctas", "1"]) == 0
    assert path.stat().st_size < 0.6 * before
    assert profscope.load(path).launches["ctas"].tolist() == [1] * len(whole.launches)
    assert f"{before:,} bytes, now " in capsys.readouterr().out
