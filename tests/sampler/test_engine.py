"""One launch after the other under the sampler, whatever goes wrong. The GPU is made up."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from profscope.sampler.engine import Engine
from tests.support.fake_sampler import FakeGpu, FakeProbe


def sample(engine: Engine, launch: Any = lambda: "launched", kernel: str = "kernel") -> Any:
    return engine.sample(kernel, 5, 9, launch)


def test_the_sampler_runs_around_the_launch_and_opens_once() -> None:
    gpu = FakeGpu()
    engine, said = Engine(gpu), gpu.made.said
    assert engine.open("kernel")
    assert said == []
    for _ in range(2):
        result, samples = sample(engine, lambda: said.append("launch") or "launched")  # type: ignore[func-returns-value]
        assert result == "launched"
        assert samples is not None
        assert samples.period_log2 == 9
    assert said == ["start", "launch", "stop"] * 2
    assert gpu.opened == [1]
    assert set(gpu.asked) == {2.0}
    assert gpu.streams == [5, 5]
    engine.close()
    assert gpu.closed == [1]
    assert gpu.left
    assert not engine.open("kernel")
    assert sample(engine) == ("launched", None)


def test_each_context_has_a_sampler_of_its_own() -> None:
    gpu = FakeGpu()
    engine = Engine(gpu)
    for gpu.here in (1, 2, 1):
        sample(engine)
    assert gpu.opened == [1, 2]
    engine.close()
    assert sorted(gpu.closed) == [1, 2]


def test_where_it_cannot_be_opened_launches_go_on_and_it_is_tried_once() -> None:
    gpu = FakeGpu(why="only administrators may")
    engine = Engine(gpu)
    assert not engine.open("kernel")
    assert sample(engine) == ("launched", None)
    assert engine.why == "only administrators may"
    gpu.why = ""
    assert not engine.open("kernel")
    assert gpu.opened == []


@pytest.mark.parametrize("call", ["start", "stop"])
def test_a_sampler_that_fails_is_closed_and_the_launch_goes_on(call: str) -> None:
    gpu = FakeGpu(FakeProbe(fails=[call, "close"]))
    engine = Engine(gpu)
    assert sample(engine) == ("launched", None)
    assert engine.why == f"{call} has failed"
    assert gpu.closed == [1]
    assert sample(engine) == ("launched", None)
    engine.close()
    assert gpu.closed == [1]


def test_an_error_of_the_launch_comes_out_and_the_sampler_stops() -> None:
    gpu = FakeGpu()
    engine = Engine(gpu)

    def fail() -> None:
        raise KeyError("the user's own")

    with pytest.raises(KeyError, match="the user's own"):
        sample(engine, fail)
    assert gpu.made.said == ["start", "stop"]
    assert sample(engine)[1] is not None


@pytest.mark.parametrize("at", ["launch", "later"])
def test_of_a_fault_the_user_is_told_and_not_the_sampler(at: str) -> None:
    gpu = FakeGpu(FakeProbe(fails=["close"]))
    engine = Engine(gpu)

    def fault() -> str:
        gpu.faulted = True
        if at == "launch":
            raise RuntimeError("an illegal memory access was encountered")
        return "launched"

    if at == "launch":
        with pytest.raises(RuntimeError, match="illegal memory access"):
            sample(engine, fault)
    else:
        assert sample(engine, fault) == ("launched", None)
    assert gpu.made.said == ["start", "stop"]
    assert gpu.closed == [1]
    assert engine.why == "the device has faulted (CUDA error 700)"


def test_a_launch_that_waits_for_another_is_given_up_and_its_kernel_left_alone() -> None:
    gpu = FakeGpu()
    engine, waits = Engine(gpu, limit_s=0.01), []
    gpu.ends = lambda: not waits
    result, samples = sample(engine, lambda: waits.append(1) or "launched")  # type: ignore[func-returns-value]
    assert (result, samples) == ("launched", None)
    assert gpu.made.said == ["start"]  # to stop it would wait for the launch
    assert "had not ended after 0.01 s" in engine.left_alone["kernel"]
    assert not engine.open("kernel")
    asked = len(gpu.asked)
    assert len(gpu.asked) == asked  # to wait for the GPU could keep the other one from being launched
    waits.clear()  # it was
    assert engine.open("other")
    assert sample(engine, kernel="other")[1] is not None
    assert gpu.made.said == ["start", "stop", "start", "stop"]
    assert list(engine.left_alone) == ["kernel"]


@pytest.mark.parametrize("busy", [False, True])
def test_what_still_runs_at_the_end_is_stopped_unless_the_gpu_stays_busy(busy: bool) -> None:
    gpu = FakeGpu()
    engine = Engine(gpu, limit_s=0.01)
    assert engine.open("kernel")
    gpu.ends = lambda: not gpu.made.said
    assert sample(engine) == ("launched", None)
    gpu.ends = lambda: not busy
    engine.close()
    assert gpu.asked[-1] == 30.0
    assert gpu.made.said == ["start"] + ["stop"] * (not busy)
    assert gpu.closed == [1] * (not busy)
    assert ("the sampler stays open" in engine.why) == busy


def test_on_a_gpu_that_stays_busy_nothing_is_opened_or_started() -> None:
    gpu = FakeGpu()
    gpu.ends = lambda: False
    engine = Engine(gpu)
    assert not engine.open("kernel")
    assert sample(engine) == ("launched", None)
    assert gpu.opened == []
    gpu.ends = lambda: True
    assert engine.open("kernel")
    gpu.ends = lambda: False
    assert sample(engine) == ("launched", None)
    assert not engine.open("kernel"), "a binary that is loaded now could wait for ever"
    assert gpu.made.said == []
    assert dict(engine.unsampled) == {"the GPU was busy for 2 s": 4}
    gpu.ends = lambda: True
    assert sample(engine)[1] is not None  # it was none of the kernel's doing


def test_a_gpu_that_is_always_busy_is_not_waited_for_again_and_again() -> None:
    gpu = FakeGpu()
    engine = Engine(gpu)
    assert engine.open("kernel")
    gpu.ends = lambda: False
    asked = len(gpu.asked)
    for number in range(100):
        assert not engine.open(f"kernel {number}")
    assert len(gpu.asked) - asked == 6
    assert engine.why == "the GPU was busy for 2 s, 6 times"


def test_a_launch_in_a_hook_of_a_launch_is_not_sampled() -> None:
    gpu = FakeGpu()
    engine = Engine(gpu)

    def outer() -> Any:
        assert not engine.open("inner")
        return sample(engine, kernel="inner")

    result, samples = sample(engine, outer)
    assert result == ("launched", None)
    assert samples is not None
    assert gpu.made.said == ["start", "stop"]


def test_threads_take_turns() -> None:
    gpu = FakeGpu()
    engine, taken = Engine(gpu), []
    threads = [threading.Thread(target=lambda: taken.append(sample(engine)[1])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 8
    assert None not in taken  # the fake one asserts that they were sampled one at a time


def test_a_thread_waits_no_longer_than_the_limit_for_another() -> None:
    gpu = FakeGpu()
    engine, inside, leave = Engine(gpu, limit_s=0.02), threading.Event(), threading.Event()

    def slow() -> None:
        inside.set()
        leave.wait()

    thread = threading.Thread(target=sample, args=(engine, slow))
    thread.start()
    inside.wait()
    assert sample(engine) == ("launched", None)
    leave.set()
    thread.join()
    assert engine.unsampled.total() == 1


def test_a_forked_process_samples_nothing_and_closes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = FakeGpu()
    engine = Engine(gpu)
    assert engine.open("kernel")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert not engine.open("kernel")
    engine.close()
    assert gpu.closed == []
