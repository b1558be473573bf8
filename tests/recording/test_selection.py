"""Which CTAs, SMs and warps record, on the emulator: who is in the tables, and what is said of the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import profscope
from instrument_passes.records import CTA_HEADER, LAUNCH_HEADER
from profscope import Profile
from profscope.errors import OptionError
from profscope.options import Options
from tests.support.quick import quick
from tests.support.sessions import CASES, count, launch_add, same_bits, session

CTAS = 600  # of one warp; the emulator has 16 SMs with room for 32 of them


def recorded(**options: Any) -> Profile:
    """A loop of 3 iterations under these options; the kernel's result and the tables are checked."""
    with session(instrument="heavy", **options) as prof:
        out = count(3, CTAS)
    assert (out == 3).all()
    assert prof.profile.validate() == []
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
    assert told(profile) == {"ctas": CTAS, "unfinished": 0, "grid_ctas": CTAS, "warps": None, "sample": True}
    assert profile.metadata["notes"] == []


def test_a_stride() -> None:
    profile = recorded(ctas=7)
    ctas = np.sort(profile.df["cta"].unique())
    assert (ctas // 8).tolist() == list(range(75))
    assert np.bincount(ctas % 8).min() > 5  # of about nine in each column of a grid eight wide
    assert told(profile) == {"ctas": 75, "unfinished": 0, "grid_ctas": CTAS, "warps": None, "sample": True}
    summary = profile.summary()
    assert summary.loc[summary["kind"] == "kernel", "count"].tolist() == [CTAS]


def test_a_list_of_ctas() -> None:
    with session(instrument="heavy", ctas=[599, 0, 17, 4000], buffer=64) as prof:
        out = count(3, CTAS)
    assert (out == 3).all()
    assert prof.profile.validate() == []
    assert sorted(prof.df["cta"].unique()) == [0, 17, 599]
    full = recorded(buffer=64)
    bytes_of = [p.launches["profile_bytes"].iloc[0] - LAUNCH_HEADER.itemsize for p in (prof, full)]
    assert bytes_of[0] / 3 == bytes_of[1] / CTAS
    for cta in (0, 17, 599):
        assert (prof.df["cta"] == cta).sum() == (full.df["cta"] == cta).sum()
    assert told(prof.profile) == {
        "ctas": 3,
        "unfinished": 0,
        "grid_ctas": CTAS,
        "warps": None,
        "sample": False,
    }
    (note,) = prof.metadata["notes"]
    assert note == "count_kernel: 3 of 600 CTAs were recorded, those that ctas= lists: 0, 17, 599, 4000"


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_a_list_beyond_the_grid_records_nothing_and_says_so() -> None:
    with session(ctas=[7]) as prof:
        out = count(3, 4)
    assert (out == 3).all()
    assert prof.launches.empty
    (note,) = prof.metadata["notes"]
    assert "ctas= names none of the 4 CTAs of count_kernel" in note


def test_the_first_wave_is_what_started_before_anything_had_ended() -> None:
    with session(instrument="heavy", ctas="first wave") as prof:
        out = count(3, 2000)
    assert (out == 3).all()
    assert prof.profile.validate() == []
    assert sorted(prof.df["cta"].unique()) == list(range(512))  # 16 SMs x 32
    roots = prof.df[prof.df["kind"] == "kernel"]
    end = roots["start_cycle"] + roots["duration_cycles"]
    assert (roots["start_cycle"] <= end.groupby(roots["sm"]).transform("min")).all()
    assert not told(prof.profile)["sample"]
    summary = prof.summary()  # not scaled up: the first CTAs do not speak for the others
    assert summary.loc[summary["kind"] == "kernel", "count"].tolist() == [512]
    assert summary["sampled"].unique().tolist() == [512 / 2000]
    (note,) = prof.metadata["notes"]
    assert "512 of 2000 CTAs were recorded, the first wave" in note


def test_one_sm_records_all_its_ctas_in_little_memory() -> None:
    with session(instrument="heavy", sms=3) as prof:
        out = count(3, CTAS)
    assert (out == 3).all()
    assert prof.profile.validate() == []
    assert set(prof.df["sm"]) == {3}
    found = prof.launches["ctas"].iloc[0]
    assert found == prof.df["cta"].nunique()
    assert CTAS / 32 < found < CTAS / 8  # about its share
    assert prof.launches["profile_bytes"].iloc[0] < recorded().launches["profile_bytes"].iloc[0] / 4
    assert told(prof.profile)["sample"]
    (note,) = prof.metadata["notes"]
    assert note == f"count_kernel: {found} of 600 CTAs were recorded, those that ran on SM 3"


def test_a_list_of_all_sms_records_every_cta_once() -> None:
    with session(instrument="heavy", sms=range(16)) as prof:
        out = count(3, CTAS)
    assert (out == 3).all()
    assert prof.profile.validate() == []
    roots = prof.df[prof.df["kind"] == "kernel"]
    assert sorted(roots["cta"]) == list(range(CTAS))
    assert prof.metadata["notes"] == []
    # To choose takes an atomic operation, which is not the kernel's; nor is where the area lies, which is
    # worked out beside it.
    before = recorded().df
    without = before.loc[before["kind"] == "kernel", "duration_cycles"].median()
    assert without - 150 < roots["duration_cycles"].median() < without + 60


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_an_sm_that_runs_nothing_is_named() -> None:
    with session(sms=[999]) as prof:
        count(3, 4)
    assert prof.launches.empty
    assert any("no CTA ran on the SMs of sms=" in note for note in prof.metadata["notes"])


def test_ctas_of_an_sm_that_find_no_room_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profscope.recording.planner.tickets_for", lambda *_: 16)
    with session(instrument="heavy", sms=3) as prof:
        out = count(3, CTAS)
    assert (out == 3).all()
    assert prof.profile.validate() == []
    assert prof.launches["ctas"].tolist() == [16]
    lost = [note for note in prof.metadata["notes"] if "found no room" in note]
    (missing,) = [int(note.split(": ")[1].split()[0]) for note in lost]
    assert CTAS / 32 < missing + 16 < CTAS / 8


@pytest.mark.parametrize(("warps", "expected"), [([2, 0, 9], [0, 2]), (3, [0, 3]), ([1], [1])])
def test_some_warps_in_less_memory(warps: Any, expected: list[int]) -> None:
    with session(instrument="heavy") as whole:
        launch_add()
    with session(instrument="heavy", warps=warps) as prof:
        out = launch_add()
    assert torch.equal(out, torch.arange(2500, dtype=torch.float32) * 2)
    assert prof.profile.validate() == []
    assert sorted(prof.df["warp"].unique()) == expected
    assert prof.launches["num_warps"].tolist() == [4]
    sites = ["cta", "warp", "scope", "line", "depth"]
    everyone = whole.df[whole.df["warp"].isin(expected)]
    assert prof.df[sites].astype(str).to_numpy().tolist() == everyone[sites].astype(str).to_numpy().tolist()
    header = LAUNCH_HEADER.itemsize + CTA_HEADER.itemsize * 3
    bytes_of = [int(p.launches["profile_bytes"].iloc[0]) - header for p in (prof, whole)]
    assert bytes_of[0] * 4 == bytes_of[1] * len(expected)
    (note,) = prof.metadata["notes"]
    warps_text = ", ".join(map(str, expected))
    assert note == (
        f"add_kernel: of the 4 warps of a CTA only {warps_text} recorded; bytes and flops are missing"
    )
    assert prof.summary()[["bytes_at_most", "flops"]].isna().all(axis=None)


@pytest.mark.parametrize("name", ["noinline", "nested_loops"])
def test_some_warps_record_what_they_record_among_all(name: str) -> None:
    case = CASES[name]
    sites = ["cta", "warp", "scope", "line", "iteration", "depth"]
    found = []
    for options in ({}, {"warps": [1]}):
        with session(instrument="heavy", **options) as prof:
            case.launch(case.inputs("cpu"))
        chosen = prof.df[prof.df["warp"] == 1]
        found.append(chosen[sites].astype(str).to_numpy().tolist())
    assert found[0] == found[1] != []


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_warps_that_a_kernel_has_not_leave_it_bare() -> None:
    with session(warps=[8]) as prof:
        out = launch_add()
    assert torch.equal(out, torch.arange(2500, dtype=torch.float32) * 2)
    (note,) = prof.metadata["notes"]
    assert "add_kernel runs bare" in note
    assert "warps= names none of the kernel's 4 warps" in note


CHOOSING = ("matmul", "attention", "nested_loops", "while", "noinline")
CHOICES: list[dict[str, Any]] = [
    {"ctas": [0, 1]},
    {"ctas": "first wave"},
    {"sms": [0, 5]},
    {"warps": 2},
    {"sms": 1, "warps": [0]},
]


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
@pytest.mark.parametrize("options", CHOICES, ids=str)
@pytest.mark.parametrize("name", quick(CHOOSING, ("while", "noinline")))
def test_no_choice_changes_what_a_kernel_computes(name: str, options: dict[str, Any]) -> None:
    case = CASES[name]
    inputs = case.inputs("cpu")
    with profscope.emulator.activate():
        bare = case.launch(inputs)
    with session(**options) as prof:
        outputs = case.launch(inputs)
    assert same_bits(bare, outputs)
    assert prof.profile.validate() == []


def test_a_million_ctas_fit_the_memory() -> None:
    """Planned for a real kernel and grid; 1,000,000 CTAs would take the emulator minutes."""
    from instrument_passes.manifest import Manifest
    from instrument_passes.selection import Selection
    from profscope.recording.sizing import needed_bytes, plan, tickets_for
    from tests.support.synth import Loop, Program, Work, launch

    made = launch([Program((Loop((40,), (Work(5),)),), warps=4)]).manifest
    chosen = [(Selection(), 0), (Selection("first"), 12), (Selection("list", (5, 999_999)), 0)]
    for sms in ((3,), (3, 70)):
        wanted = (tickets_for(1_000_000, len(sms), 132) - 1).bit_length()
        chosen.append((Selection("sms", sms), wanted))
    for selection, wanted in chosen:
        manifest = Manifest(
            made.kernel, made.target, made.warps, made.fixed_bytes, made.ring_bytes, made.sections,
            selection=selection,
        )  # fmt: skip
        limit = 128 << 20
        bits = plan(manifest, 1_000_000, limit, 6, wanted)
        assert bits is not None
        assert needed_bytes(manifest, 1_000_000, bits) <= limit
        assert selection.areas(1_000_000, bits.stride_log2) >= 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ctas": 0}, "ctas=0"),
        ({"ctas": "second wave"}, "'first wave'"),
        ({"ctas": []}, "ctas=[]"),
        ({"ctas": [-1]}, "-1 is not a number"),
        ({"ctas": list(range(300))}, "ctas= lists 300"),
        ({"sms": [True]}, "True is not a number"),
        ({"sms": 1 << 16}, "65536 is not"),
        ({"sms": 1, "ctas": 2}, "give one of them"),
        ({"warps": 0}, "warps=0"),
        ({"warps": [32]}, "32 is not"),
        ({"warps": 33}, "warps=33"),
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
