"""Which CTAs record, on the emulator: who is in the tables, and what is said of the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import profscope
from profscope import Profile
from profscope.errors import OptionError
from profscope.instrument_passes.records import LAUNCH_HEADER, STAMP, STAMPS_ALIGN, align
from profscope.options import Options
from tests.support.quick import quick
from tests.support.sessions import CASES, count, same_bits, session
from tests.support.validation import validate

CTAS = 600  # of one warp; the emulator has 16 SMs with room for 32 of them


def recorded(**options: Any) -> Profile:
    """A loop of 3 iterations under these options; the kernel's result and the tables are checked."""
    with session(instrument="heavy", **options) as prof:
        out = count(3, CTAS)
    assert (out == 3).all()
    assert validate(prof.profile.tables) == []
    spans = prof.df.groupby("cta").size()
    assert set(spans) == {8}  # kernel, loop, 3 iterations, 3 stores
    (row,) = prof.launches.itertuples()
    assert row.ctas == len(spans)
    return prof.profile


def told(profile: Profile) -> dict[str, Any]:
    about: dict[str, Any] = profile.metadata["kernels"]["count_kernel"]["recorded"]
    return about


def test_everything() -> None:
    profile = recorded()
    assert told(profile) == {"ctas": CTAS, "unfinished": 0, "grid_ctas": CTAS, "sample": True}
    assert profile.metadata["notes"] == []


def test_a_stride() -> None:
    profile = recorded(ctas=7)
    ctas = np.sort(profile.df["cta"].unique())
    assert (ctas // 8).tolist() == list(range(75))
    assert np.bincount(ctas % 8).min() > 5  # of about nine in each column of a grid eight wide
    assert told(profile) == {"ctas": 75, "unfinished": 0, "grid_ctas": CTAS, "sample": True}
    summary = profile.summary()
    assert summary.loc[summary["kind"] == "kernel", "count"].tolist() == [CTAS]


def test_a_list_of_ctas() -> None:
    with session(instrument="heavy", ctas=[599, 0, 17, 4000]) as prof:
        out = count(3, CTAS)
    assert (out == 3).all()
    assert validate(prof.profile.tables) == []
    assert sorted(prof.df["cta"].unique()) == [0, 17, 599]
    full = recorded()
    bytes_of = [p.launches["profile_bytes"].iloc[0] - LAUNCH_HEADER.itemsize for p in (prof, full)]
    bytes_of[0] -= align(CTAS * STAMP.itemsize, STAMPS_ALIGN)
    assert bytes_of[0] / 3 == bytes_of[1] / CTAS
    for cta in (0, 17, 599):
        assert (prof.df["cta"] == cta).sum() == (full.df["cta"] == cta).sum()
    assert told(prof.profile) == {
        "ctas": 3,
        "unfinished": 0,
        "grid_ctas": CTAS,
        "sample": False,
    }
    (note,) = prof.metadata["notes"]
    assert note.startswith("count_kernel: 3 of 600 CTAs ")
    assert note.endswith(": 0, 17, 599, 4000")


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_a_list_beyond_the_grid_records_nothing_and_says_so() -> None:
    with session(ctas=[7]) as prof:
        out = count(3, 4)
    assert (out == 3).all()
    assert prof.launches.empty
    (note,) = prof.metadata["notes"]
    assert "4 CTAs of count_kernel" in note


CHOOSING = ("matmul", "attention", "nested_loops", "while", "noinline")
CHOICES: list[dict[str, Any]] = [{"ctas": [1]}, {"ctas": 2}]


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
@pytest.mark.parametrize("options", CHOICES, ids=str)
@pytest.mark.parametrize("name", quick(CHOOSING, ("noinline",)))
def test_no_choice_changes_what_a_kernel_computes(name: str, options: dict[str, Any]) -> None:
    case = CASES[name]
    inputs = case.inputs("cpu")
    with profscope.emulator.activate():
        bare = case.launch(inputs)
    with session(**options) as prof:
        outputs = case.launch(inputs)
    assert same_bits(bare, outputs)
    assert validate(prof.profile.tables) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ctas": 0}, "ctas=0"),
        ({"ctas": "first wave"}, "a stride or a list"),
        ({"ctas": []}, "ctas=[]"),
        ({"ctas": [-1]}, "-1 is not a number"),
        ({"ctas": list(range(300))}, "ctas= lists 300"),
    ],
)
def test_a_wrong_choice_is_named_at_once(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        Options(**options)
    assert said in str(caught.value)


def test_a_choice_enters_the_binary_and_a_stride_does_not() -> None:
    digests = [Options(**options).digest("1") for options in ({}, *CHOICES)]
    assert len(set(digests)) == len(digests)
    assert Options(ctas=16).digest("1") == Options(ctas=64).digest("1")
