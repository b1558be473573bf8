"""profscope.diff of an H200's: two of eight CTAs of a matmul of 1,024, eight warps each, in five launches."""

from __future__ import annotations

from pathlib import Path

import pytest

import profscope

DATA = Path(__file__).parents[1] / "data" / "diff"


def test_two_runs_on_an_h200_are_the_same() -> None:
    difference = profscope.diff(*(DATA / f"matmul-3-stages-{run}.pftrace.gz" for run in (0, 1)))
    assert not difference["significant"].any()
    assert set(difference["status"]) == {"same"}
    assert set(difference["launches_a"]) == {4}
    assert (difference["low"] < difference["change"]).all()
    assert (difference["change"] < difference["high"]).all()
    assert "a change below 3 % of a row's time plus 0.5 % of all warps' time" in difference.attrs["notes"][1]


def test_one_stage_against_three_on_an_h200() -> None:
    names = "matmul-1-stage", "matmul-3-stages-0"
    difference = profscope.diff(*(DATA / f"{name}.pftrace.gz" for name in names))
    first = difference.iloc[:3]
    assert first["scope"].tolist() == ["matmul_kernel", "loop L33", "dot wait acc"]
    assert first["significant"].all()
    assert first["percent"].tolist() == pytest.approx([-61.2, -56.1, -97.2], abs=0.1)
    gone = difference[difference["status"] == "gone"]
    assert gone["scope"].tolist() == ["load a", "load b"]
    assert gone["significant"].all()
    # Little waits that have come are no more than noise.
    come = difference[difference["status"] == "appeared"]
    assert set(come["scope"]) == {"async wait a", "async wait (drain)", "dot wait (drain)"}
    assert not come["significant"].any()
    assert difference["kind"].iloc[-1] == "async"  # takes no time of a warp
    notes = difference.attrs["notes"]
    assert any("1.785 GHz and 1.730 GHz: cycles are compared" in note for note in notes)
    assert set(difference["differs"]) == {"num_stages 1 -> 3"}
    assert any("median launch 17.8 us in A, 7.1 us in B" in note for note in notes)


def test_the_other_way_round_changes_have_the_other_sign() -> None:
    a, b = (profscope.load(DATA / f"{name}.pftrace.gz") for name in ("matmul-1-stage", "matmul-3-stages-0"))
    there, back = (each.set_index(["scope", "kind"]) for each in (profscope.diff(a, b), profscope.diff(b, a)))
    back = back.loc[there.index]
    assert back["change"].tolist() == pytest.approx((-there["change"]).tolist())
    assert back["low"].tolist() == pytest.approx((-there["high"]).tolist())
    assert back["significant"].tolist() == there["significant"].tolist()
    turned = {"appeared": "gone", "gone": "appeared"}
    assert back["status"].tolist() == [turned.get(status, status) for status in there["status"]]
