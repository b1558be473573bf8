"""Collection: memory limits, other people's hooks and allocators, loops that grow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from triton import knobs
from triton.runtime import _allocation

import profscope
from tests.support.sessions import CASES, count, launch_add, session
from tests.support.validation import validate


class UserAllocator:
    """Another profiler's allocator, which asks for memory as Proton does."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []

    def __call__(self, size: int, alignment: int, stream: int | None) -> torch.Tensor:
        self.calls.append((size, alignment))
        return torch.empty(size, dtype=torch.int8)


def test_a_grid_that_needs_more_than_the_memory_is_recorded_in_part() -> None:
    with session(instrument="light", memory=1) as prof:
        out = count(2, ctas=20_000)
    assert (out == 1).all()
    (row,) = prof.launches.itertuples()
    assert row.grid_x == 20_000
    assert 1000 < row.ctas < 20_000
    assert row.profile_bytes <= 1 << 20
    ctas = prof.df["cta"].unique()
    assert (ctas // round(20_000 / row.ctas) == range(row.ctas)).all()  # one of every so many
    assert any(f"{row.ctas} of 20000 CTAs" in note for note in prof.metadata["notes"])
    assert validate(prof.profile.tables) == []


def test_a_loop_that_grows_between_launches_drops_and_says_so() -> None:
    with session(instrument="heavy") as prof:
        for n in (10, 10, 1000):
            count(n)
    iterations = prof.df[prof.df["kind"] == "iteration"]
    kept = iterations.groupby("launch")["iteration"].agg(["min", "max", "size"])
    assert kept.loc[[0, 1]].to_numpy().tolist() == [[0, 9, 10]] * 2
    lost = 1000 - kept.loc[2, "size"]
    assert kept.loc[2].tolist() == [lost, 999, 1000 - lost]
    assert prof.launches["dropped"].tolist() == [0, 0, 3 * lost]  # its begin, the store's begin and end
    assert lost > 0


def test_a_users_allocator_stays_and_is_asked_for_nothing() -> None:
    user, before = UserAllocator(), _allocation._profile_allocator.get()
    _allocation._profile_allocator.set(user)
    try:
        with session() as prof:
            launch_add()
            assert _allocation._profile_allocator.get() is user
    finally:
        _allocation._profile_allocator.set(before)
    assert user.calls == []
    assert len(prof.launches) == 1


@pytest.mark.parametrize("name", ["launch_enter_hook", "launch_exit_hook"])
def test_a_users_plain_hook_keeps_running_and_comes_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def hook(metadata: Any) -> None:
        seen.append(metadata.get()["name"])

    monkeypatch.setattr(knobs.runtime, name, hook)
    with session() as prof:
        launch_add()
    assert getattr(knobs.runtime, name) is hook
    assert seen == ["add_kernel"]
    assert len(prof.launches) == 1


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("name", ["launch_enter_hook", "launch_exit_hook"])
def test_a_users_hook_may_launch_kernels(name: str, every: int) -> None:
    def hook(metadata: Any) -> None:
        if metadata.get()["name"] == "add_kernel":
            count(3)

    chain = getattr(knobs.runtime, name)
    chain.add(hook)
    try:
        with session(every=every) as prof:
            launch_add()
    finally:
        chain.remove(hook)
    assert prof.launches["kernel"].tolist() == ["add_kernel"]
    assert any(note.startswith("1 launch ran unrecorded: ") for note in prof.metadata["notes"])
    assert validate(prof.profile.tables) == []


def test_a_users_hook_may_look_at_the_records_of_earlier_launches() -> None:
    seen: list[int] = []

    def hook(metadata: Any) -> None:
        seen.append(len(prof.launches))

    chain = knobs.runtime.launch_exit_hook
    chain.add(hook)
    try:
        with session() as prof:
            launch_add()
            launch_add()
    finally:
        chain.remove(hook)
    assert seen == [0, 1]
    assert len(prof.launches) == 2


def nothing_to_record(profile: profscope.Profile) -> None:
    rows = profile.launches[["kernel", "grid_x", "ctas", "records"]].to_numpy().tolist()
    assert rows == [["add_kernel", 3, 3, 0]]
    assert (profile.launches["end_ns"] > profile.launches["start_ns"]).all()
    assert profile.df.empty
    assert profile.summary().empty
    assert validate(profile.tables) == []
    (note,) = profile.metadata["notes"]
    assert note.startswith("add_kernel: instrument= ")


def test_a_kernel_in_which_the_passes_find_nothing_has_its_launches(tmp_path: Path) -> None:
    with session(instrument=["op-spans{classes=mma}"], spool=tmp_path) as prof:
        launch_add()
    prof.save(tmp_path / "trace.json")
    for profile in (prof.profile, profscope.load(tmp_path), profscope.load(tmp_path / "trace.json")):
        nothing_to_record(profile)


def test_a_kernel_in_which_the_passes_find_nothing_leaves_others_alone() -> None:
    with session(instrument=["op-spans{classes=mma}"]) as prof:
        launch_add()
        CASES["matmul"].launch(CASES["matmul"].inputs("cpu"))
    assert prof.launches["kernel"].tolist() == ["add_kernel", "matmul_kernel"]
    assert prof.launches["records"].gt(0).tolist() == [False, True]
    assert set(prof.df["kernel"]) == {"matmul_kernel"}
    assert validate(prof.profile.tables) == []
