"""Sessions with baseline=: which launches run bare, and what is known of their times."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, cast

import pytest
import torch

import profscope
from profscope.dispatch import baseline
from profscope.dispatch.baseline import Baseline, Timed, stream_of
from profscope.dispatch.configurations import Configuration
from profscope.dispatch.policy import Policy
from profscope.options import Options
from tests.kernels.add import add_kernel
from tests.support.sessions import launch, launch_add, session

NAME = "add_kernel"


@pytest.fixture(autouse=True)
def forgotten(the_class_comes_back: None) -> Iterator[None]:
    yield
    add_kernel.device_caches.clear()


def only(prof: profscope.Session) -> dict[str, Any]:
    (timed,) = prof.metadata["baseline"]["kernels"][NAME]
    return timed


def test_pairs_follow_the_first_launch_and_then_all_are_recorded(ran: list[str]) -> None:
    with session(baseline=3) as prof:
        outputs = [launch_add() for _ in range(15)]
    assert ran == ["recorded", *["bare", "bare", "recorded", "recorded"] * 3, *["recorded"] * 2]
    assert all(torch.equal(out, outputs[0]) for out in outputs)
    assert len(prof.launches) == 9
    timed = only(prof)
    assert len(timed["bare_ns"]) == len(timed["instrumented_ns"]) == 3
    assert min(timed["instrumented_ns"]) > max(timed["bare_ns"]) > 0
    assert timed["key"] == prof.metadata["variants"][NAME][0]["key"]
    assert prof.metadata["notes"] == [f"{NAME}: 6 launches ran bare to be timed, unrecorded (baseline=)"]
    (row,) = prof.overhead().to_dict("records")
    assert row["basis"] == "measured"
    assert (row["bare_ns"], row["instrumented_ns"]) == (timed["bare_ns"][0], timed["instrumented_ns"][0])
    assert len(set(timed["bare_ns"])) == len(set(timed["instrumented_ns"])) == 1  # the same cycles each time
    assert row["bare_shared_bytes"] == row["shared_bytes"]


def test_together_with_every(ran: list[str]) -> None:
    with session(baseline=2, every=4) as prof:
        for _ in range(16):
            launch()
    pairs = ["bare", "bare", "recorded", "recorded"] * 2
    assert ran == ["recorded", *pairs, *["bare"] * 3, "recorded", *["bare"] * 3]
    assert len(only(prof)["bare_ns"]) == 2
    assert prof.metadata["sampling"]["kernels"] == {NAME: {"launches": 16, "recorded": 6}}


def test_without_it_the_emulator_tells_its_recorded_launches_without_records() -> None:
    with profscope.emulator.activate() as driver:
        _, bare = driver.device.time(launch)
        with session() as prof:
            _, recorded = driver.device.time(launch)
    timed = only(prof)
    assert timed["basis"] == "model"
    assert timed["instrumented_ns"] == [pytest.approx(recorded * 0.8)]  # at 1.25 GHz
    assert timed["bare_ns"] == [pytest.approx(bare * 0.8, rel=0.02)]
    (row,) = prof.overhead().to_dict("records")
    assert (row["basis"], row["bare_launches"]) == ("model", 0)
    assert row["slowdown"] == row["slowdown_low"] == row["slowdown_high"]
    assert row["slowdown"] == pytest.approx(recorded / bare, rel=0.02)


@pytest.mark.parametrize("wrong", [-1, 1001, True, 2.5, "3"])
def test_wrong_values(wrong: Any) -> None:
    with pytest.raises(profscope.errors.OptionError, match="baseline="):
        profscope.session(baseline=wrong)


def test_handle_0_is_the_default_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which ExternalStream knows nothing: it would make a new one, that is always idle."""
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda handle: f"external {handle}")
    monkeypatch.setattr(torch.cuda, "default_stream", lambda: "default")
    assert stream_of(0) == "default"
    assert stream_of(7) == "external 7"


class SlowEvent:
    """A GPU's event that has passed when somebody waits for it."""

    reached: list[bool]

    def __init__(self, enable_timing: bool) -> None:
        self.passed = False

    def record(self, stream: Any) -> None:
        self.passed = self.reached.pop(0)

    def query(self) -> bool:
        return self.passed

    def synchronize(self) -> None:
        self.passed = True

    def elapsed_time(self, end: SlowEvent) -> float:
        assert self.passed or end.passed
        return 0.25


def test_a_time_in_which_the_gpu_waited_for_the_host_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Driver:
        class active:  # noqa: N801
            @staticmethod
            def get_device_interface() -> Any:
                class Interface:
                    Event = SlowEvent

                return Interface

    monkeypatch.setattr(baseline, "driver", Driver)
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda stream: stream)
    monkeypatch.setattr(torch.cuda, "stream", contextlib.nullcontext)
    held: list[int] = []
    monkeypatch.setattr(torch.cuda, "_sleep", held.append)
    SlowEvent.reached = [True, False, False, False]  # the first start at once, then nothing for long
    timer = Baseline(Options(baseline=2), "cuda")
    kernel = Configuration("k", Policy(), matches=True)
    assert timer.launch(kernel, 0, 7, lambda: "first", is_bare=True) == "first"
    assert held == []
    assert timer.launch(kernel, 0, 7, lambda: "second", is_bare=False) == "second"
    metadata, notes = timer.describe({})
    (entry,) = metadata["baseline"]["kernels"]["k"]
    assert (entry["bare_ns"], entry["waited"], entry["unrecorded"]) == ([], 1, 1)
    assert timer.timed[kernel].recorded_ns == {0: 0.25e6}
    assert any("waited for the host" in note for note in notes)
    assert len(held) == 1  # where the host had no lead, the device waits for it
    assert 0 < held[0] <= 2_000_000


def test_a_pair_without_one_of_its_times_is_left_out() -> None:
    timer = Baseline(Options(baseline=4), "cpu")
    timed = timer.timed[Configuration("k", Policy(), matches=True)] = Timed()
    timed.bare_ns, timed.recorded_ns = {0: 3.0, 1: 7.0, 2: 9.0}, {0: 5.0, 2: 11.0, 3: 13.0}
    (entry,) = timer.describe({})[0]["baseline"]["kernels"]["k"]
    assert (entry["bare_ns"], entry["instrumented_ns"]) == ([3.0, 9.0], [5.0, 11.0])


def test_what_a_recorded_launch_takes_longer_is_told_without_asking_events_of_a_capture() -> None:
    """An event that is asked while a CUDA graph is captured ends the capture with an error."""

    class Graphs:
        capturing = True

        @contextlib.contextmanager
        def between_captures(self) -> Iterator[bool]:
            yield not self.capturing

    class Event:
        asked = 0

        def query(self) -> bool:
            assert not Graphs.capturing
            Event.asked += 1
            return True

        def elapsed_time(self, end: Event) -> float:
            return 0.75

    timer = Baseline(Options(overhead_pct=1), "cuda", cast(Any, Graphs()), pairs=2)
    kernel = Configuration("k", Policy(), matches=True)
    timed = timer.timed[kernel] = Timed(bare_ns={0: 0.25e6, 1: 0.25e6}, recorded_ns={0: 0.5e6})
    timer.pending.append((timed.recorded_ns, 1, Event(), Event()))
    assert timer.extra_ns(kernel) == 0.25e6
    assert Event.asked == 0
    Graphs.capturing = False
    assert timer.extra_ns(kernel) == 0.375e6
    assert Event.asked == 1
