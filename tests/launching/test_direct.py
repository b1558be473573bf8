"""Launches that hand their memory to what Triton's launcher for NVIDIA GPUs calls, and those left out."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from triton import knobs

from instrument_passes.selection import TAGS
from profscope import emulator
from profscope.launching.direct import direct_call
from profscope.recording.buffers import HostBuffers
from profscope.recording.direct_launches import POINTER
from profscope.recording.programs import PROGRAMS
from tests.kernels.add import add_kernel
from tests.kernels.loops import count_kernel
from tests.support.like_tritons import LikeTritons
from tests.support.sessions import count, launch_add, session


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No program of an earlier test has a tag, which one of these could share."""
    monkeypatch.setattr(PROGRAMS, "_programs", weakref.WeakKeyDictionary())
    monkeypatch.setattr(PROGRAMS, "_by_tag", {})
    for kernel in (count_kernel, add_kernel):
        kernel.device_caches.clear()
    yield
    for kernel in (count_kernel, add_kernel):
        kernel.device_caches.clear()


def test_it_calls_what_tritons_launcher_calls() -> None:
    nvidia = pytest.importorskip("triton.backends.nvidia.driver")
    calls: list[tuple[Any, ...]] = []
    run = object.__new__(nvidia.CudaLauncher)
    vars(run).update(
        num_ctas=1, launch=lambda *args: calls.append(args), global_scratch_size=0, global_scratch_align=1,
        profile_scratch_size=0, profile_scratch_align=1, launch_cooperative_grid="a", launch_pdl="b",
        arg_annotations="c", kernel_signature="d", gsan_enabled=False,
    )  # fmt: skip
    call = direct_call(SimpleNamespace(_run=run))  # type: ignore[arg-type]
    assert call is not None
    args = (1, 2, 3, "stream", "function", "packed", "about", "enter", "leave", "x", "y")
    with emulator.activate():  # later versions ask the driver
        run(*args)
    for texts in ([*"abcdefghi", "*args"], [*"abcdefghi", *(f"args[{at}]" for at in range(2))]):
        names = dict(zip("abcdefghi", args, strict=False)) | {"args": args[9:]}
        for pointer in (None, "pointer"):
            eval(call.text(texts), {**call.scope, **names, POINTER: pointer})
    assert calls[1:3] == calls[3:5]
    assert calls[0] == calls[1]
    assert [(one, other) for one, other in zip(calls[1], calls[2], strict=True) if one != other] == [
        (None, "pointer")
    ]
    run.global_scratch_size = 1
    assert direct_call(SimpleNamespace(_run=run)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("spans_every", [0, 3])
def test_launches_are_recorded_as_by_tritons_launcher(
    monkeypatch: pytest.MonkeyPatch, spans_every: int
) -> None:
    def figures() -> list[Any]:
        with session(keep="sums", spans_every=spans_every) as prof:
            for n in (3, 5, 3):
                count(n, ctas=5)
                launch_add()
        assert prof.profile.validate() == []
        summary = prof.summary()[["kernel", "scope", "launches", "count"]]
        return [prof.launches["kernel"].tolist(), prof.launches["keeps"].tolist(), summary.to_dict("list")]

    expected = figures()
    monkeypatch.setattr(LikeTritons, "direct", 0)
    with mock.patch("profscope.emulator.launcher.Launcher", LikeTritons):
        for kernel in (count_kernel, add_kernel):
            kernel.device_caches.clear()
        try:
            assert figures() == expected
        finally:
            for kernel in (count_kernel, add_kernel):
                kernel.device_caches.clear()
    # The first launch of each kernel finds no route yet; those that keep spans go by Triton's launcher.
    assert LikeTritons.direct == (4 if spans_every == 0 else 2)


def test_programs_that_share_a_tag_are_planned_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The allocator could not tell them apart, and would give each what the other may need."""
    monkeypatch.setitem(TAGS, "spread", (0, 1))
    monkeypatch.setattr(LikeTritons, "direct", 0)
    with (
        knobs.cache.scope(),
        mock.patch("profscope.emulator.launcher.Launcher", LikeTritons),
        mock.patch.object(HostBuffers, "place", autospec=True, side_effect=HostBuffers.place) as place,
    ):
        knobs.cache.dir = str(tmp_path)
        with session(keep="sums", spans_every=1000) as prof:
            for _ in range(3):
                count(5, ctas=5)
                launch_add()
            sizes = [call.args[2] for call in place.call_args_list]
            waits = [call.args[6] for call in place.call_args_list]
    assert len(PROGRAMS.tagged(3)) == 4
    assert prof.launches["keeps"].tolist() == ["spans"] * 2 + ["sums"] * 4
    assert LikeTritons.direct == 2  # the last two
    assert waits == [True] * 2 + [False] * 4
    assert max(sizes[4:]) < max(sizes[2:4])
    assert prof.profile.validate() == []


def test_what_is_left_out_is_counted_said_and_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    place, turns = HostBuffers.place, iter(range(100))

    def behind(self: HostBuffers, *args: Any) -> Any:
        waits = args[-1]
        return None if not waits and next(turns) % 3 == 0 else place(self, *args)

    monkeypatch.setattr(HostBuffers, "place", behind)
    with session(keep="sums", spans_every=4) as prof:
        for _ in range(8):
            launch_add()
    # The first keeps spans and waits; of the others three are left out: one of them was to keep spans.
    assert prof.launches["keeps"].tolist() == ["spans", "sums", "sums", "sums", "sums"]
    assert prof.metadata["sampling"]["kernels"] == {"add_kernel": {"launches": 8, "recorded": 5}}
    assert prof.metadata["keeping"]["kernels"] == {"add_kernel": {"spans": 1, "sums": 4}}
    assert (
        "add_kernel: 5 of 8 launches were recorded (folding and writing could not keep up with more); counts "
        "and totals are of those"
    ) in prof.metadata["notes"]
    assert set(prof.summary()["launches"]) == {5}
    assert set(prof.summary()["launches_seen"]) == {8}
    assert prof.profile.validate() == []


def test_a_launch_that_fails_is_given_up_and_the_next_ones_are_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with mock.patch("profscope.emulator.launcher.Launcher", LikeTritons):
        add_kernel.device_caches.clear()
        try:
            with session(keep="sums", spans_every=0) as prof:
                launch_add()
                monkeypatch.setattr(LikeTritons, "failing", True)
                with pytest.raises(ValueError, match="a wrong argument"):
                    launch_add()
                monkeypatch.setattr(LikeTritons, "failing", False)
                for _ in range(2):
                    launch_add()
        finally:
            add_kernel.device_caches.clear()
    assert prof.launches["kernel"].tolist() == ["add_kernel"] * 3
    assert any("wrote nothing: it did not run" in note for note in prof.metadata["notes"])
