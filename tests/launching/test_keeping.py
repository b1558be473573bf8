"""Sessions that keep sums: which of their launches keep spans, whoever launches and however."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton import knobs
from triton.runtime._async_compile import AsyncCompileMode

from instrument_passes.errors import PassError
from profscope import emulator
from profscope.decoding.areas import has_records, read_buffer
from profscope.emulator.launcher import Launcher
from profscope.launching import hook, other_binaries
from profscope.recording.programs import PROGRAMS
from tests.support.sessions import count, recording, session

# ruff: noqa: N803

X = torch.arange(40, dtype=torch.float32)


@triton.jit
def twice_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, at < n) * 2, at < n)


def launch(n: int = 40, **options: Any) -> Any:
    """Launch it in one warp, and check what it computed; returns the binary that the caller is told of."""
    out = torch.zeros_like(X)
    kernel = twice_kernel[(1,)](X, out, n, BLOCK=64, **{"num_warps": 1, **options})
    assert torch.equal(out[:n], 2 * X[:n])
    return kernel


def log(prof: Any) -> Any:
    return prof._running.recorder.log


def kept(prof: Any) -> list[str]:
    """What each launch that was recorded keeps; those that keep sums may have been taken away.

    What is there was written by the program that it is tied to.
    """
    known = {}
    for launch in log(prof).launches:
        buffer = launch.slice.fetch()
        if has_records(buffer):
            read_buffer(buffer, launch.manifest)
        known[launch.index] = launch.manifest.keeps
    return [known.get(index, "sums") for index in range(len(log(prof)))]


def counts(prof: Any) -> dict[str, tuple[int, int]]:
    """By kernel, how many launches kept spans and how many sums."""
    metadata, _ = prof._running.so_far()
    return {name: (n["spans"], n["sums"]) for name, n in metadata["keeping"]["kernels"].items()}


def notes(prof: Any) -> list[str]:
    found: list[str] = prof._running.so_far()[1]
    return found


def expected(launches: int, spans_every: int) -> list[str]:
    return ["sums" if number % spans_every else "spans" for number in range(launches)]


@pytest.fixture(autouse=True)
def compiled_anew(the_class_comes_back: None) -> Iterator[None]:
    yield
    twice_kernel.device_caches.clear()


def test_the_first_launch_keeps_spans_and_then_one_in_a_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.zeros(1)
    with session(keep="sums") as prof:
        kernel = launch()
        for each in (kernel, vars(kernel)[other_binaries.ITS_SPANS]):
            monkeypatch.setattr(each, "module", "")  # else Triton loads it at each launch
        monkeypatch.setattr(Launcher, "launch", lambda *args: None)  # on the device
        for _ in range(1000):
            twice_kernel[(1,)](x, x, 40, BLOCK=64, num_warps=1)
        assert counts(prof) == {"twice_kernel": (2, 999)}
    assert kept(prof) == expected(1001, 1000)
    assert notes(prof) == ["twice_kernel: 2 of 1001 launches kept spans, the others sums"]


@pytest.mark.parametrize("keep", ["sums", "totals"])
def test_each_variant_has_numbers_of_its_own(keep: str) -> None:
    with session(keep=keep, spans_every=3) as prof:
        told = [launch(n) for _ in range(5) for n in (17, 32)]
    assert kept(prof) == [role for role in expected(5, 3) for _ in range(2)]
    assert counts(prof) == {"twice_kernel": (4, 6)}
    assert len(set(told)) == 2  # the caller is always told of the same binary
    metadata = prof._running.so_far()[0]["keeping"]
    assert (metadata["keep"], metadata["spans_every"]) == (keep, 3)


def test_what_a_launch_keeps_makes_no_variant() -> None:
    with session(keep="sums", spans_every=2) as prof:
        for n in (17, 17, 32, 32):
            launch(n)
        launches = log(prof).launches
    assert kept(prof) == ["spans", "sums"] * 2
    assert len({launch.manifest.digest for launch in launches[:2]}) == 2
    keys = [launch.program.build.key for launch in launches]
    assert keys[0] == keys[1] != keys[2] == keys[3]


def test_none_keeps_spans_if_none_is_wanted() -> None:
    with session(keep="sums", spans_every=0) as prof:
        kernel = launch()
        launch()
    assert kept(prof) == ["sums"] * 2
    assert other_binaries.ITS_SPANS not in vars(kernel)  # not even compiled


def test_all_keep_spans_where_nothing_is_said_of_sums() -> None:
    with session() as prof:
        launch()
        launch()
    assert kept(prof) == ["spans"] * 2
    assert "keeping" not in prof.metadata
    assert prof.metadata["notes"] == []


def test_no_turn_is_lost_or_taken_twice_among_threads() -> None:
    ready = threading.Barrier(4)

    def work() -> None:
        ready.wait()
        for _ in range(15):
            launch()

    with session(keep="sums", spans_every=7) as prof:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(kept(prof)) == sorted(expected(60, 7))
    assert counts(prof) == {"twice_kernel": (9, 51)}


def test_launches_that_are_left_out_have_no_number() -> None:
    with session(keep="sums", every=2, spans_every=2) as prof:
        ran = [recording(launch()) for _ in range(7)]
    assert ran == [True, False] * 3 + [True]
    assert kept(prof) == expected(4, 2)
    metadata, _ = prof._running.so_far()
    assert metadata["sampling"]["kernels"] == {"twice_kernel": {"launches": 7, "recorded": 4}}
    assert metadata["keeping"]["kernels"] == {"twice_kernel": {"spans": 2, "sums": 2}}


def test_a_warm_up_and_a_launch_that_cannot_begin_have_none() -> None:
    with session(keep="sums", spans_every=2) as prof:
        twice_kernel.warmup(X, X, 40, BLOCK=64, grid=(1,), num_warps=1)
        with pytest.raises(ZeroDivisionError):
            twice_kernel[lambda meta: 1 // 0](X, X, 40, BLOCK=64, num_warps=1)
        for _ in range(3):
            launch()
    assert kept(prof) == expected(3, 2)


def test_trials_keep_sums_and_have_none() -> None:
    configs = [triton.Config({"BLOCK": block}, num_warps=1) for block in (64, 128)]
    tuned = triton.autotune(configs, key=["n"])(twice_kernel)
    with session(keep="sums", trials=True, spans_every=2) as prof:
        for _ in range(3):
            tuned[(1,)](X, torch.zeros_like(X), 40)
        trials = [launch.mark.trial for launch in log(prof).launches]
    assert trials == [True] * 2 + [False] * 3
    assert kept(prof) == ["sums"] * 2 + expected(3, 2)
    assert counts(prof) == {"twice_kernel": (2, 1)}


def test_a_binary_that_another_thread_compiles() -> None:
    with ThreadPoolExecutor(2) as pool, session(keep="sums", spans_every=2) as prof, AsyncCompileMode(pool):
        for _ in range(3):
            launch(num_stages=2)
    assert kept(prof) == expected(3, 2)


@pytest.mark.parametrize("before", [False, True])
def test_binaries_that_users_keep(before: bool) -> None:
    with emulator.activate():
        binary = launch()  # the bare one
        out = torch.zeros_like(X)
        with session(keep="sums", spans_every=2) as prof:
            binary = binary if before else twice_kernel.warmup(X, X, 40, BLOCK=64, grid=(1,), num_warps=1)
            for _ in range(3):
                binary[(1, 1, 1)](X, out, 40, 64)
        binary[(1, 1, 1)](X, out, 40, 64)  # after the session, too
        assert torch.equal(out, 2 * X)
    assert kept(prof) == expected(3, 2)


def test_a_binary_and_its_function_share_their_numbers() -> None:
    with session(keep="sums", spans_every=2) as prof:
        binary = launch()
        for _ in range(2):
            binary[(1, 1, 1)](X, torch.zeros_like(X), 40, 64)
            launch()
    assert kept(prof) == expected(5, 2)


def test_what_is_captured_keeps_sums_and_has_no_number() -> None:
    """Each of its replays would pay for spans."""
    with session(keep="sums", spans_every=2) as prof:
        path, capturing = prof._running.recorder.path, [True]
        path.capturing = lambda: capturing[-1]
        binary = twice_kernel.warmup(X, X, 40, BLOCK=64, grid=(1,), num_warps=1)
        binary[(1, 1, 1)](X, torch.zeros_like(X), 40, 64, stream=7)
        assert other_binaries.ITS_SPANS not in vars(binary)
        assert counts(prof) == {}
        capturing.append(False)
        for _ in range(2):
            binary[(1, 1, 1)](X, torch.zeros_like(X), 40, 64, stream=7)
    assert kept(prof) == expected(2, 2)


def test_hooks_are_told_of_the_binary_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(knobs.runtime, "launch_enter_hook", told.append)
    with session(keep="sums", spans_every=2):
        launch()
        launch()
    functions = [about.data["function"] for about in told]
    assert [PROGRAMS.of(function).manifest.keeps for function in functions] == expected(2, 2)


def test_later_sessions_find_both_binaries(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: Any, **options: Any) -> None:
        raise AssertionError("nothing is left to compile")

    with emulator.activate():
        with session(keep="sums", spans_every=2):
            first = launch()
        monkeypatch.setattr(triton, "compile", never)
        with session(keep="sums", spans_every=2) as prof:
            assert [launch() for _ in range(3)] == [first] * 3
    assert kept(prof) == expected(3, 2)


def test_a_kernel_that_cannot_keep_sums_keeps_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    run_pipeline = hook.run_pipeline

    def refuse(module: Any, pipeline: Any, *args: Any) -> None:
        if any(getattr(step, "keep", "spans") != "spans" for step in pipeline):
            raise PassError("too many of them")
        run_pipeline(module, pipeline, *args)

    monkeypatch.setattr(hook, "run_pipeline", refuse)
    with session(keep="sums", buffer=1235) as prof:  # other tests have not compiled for it
        launch()
        launch()
    said = "all its launches keep spans, for it cannot keep sums: too many of them"
    assert kept(prof) == ["spans"] * 2
    assert counts(prof) == {"twice_kernel": (2, 0)}
    assert f"twice_kernel: {said}" in prof.metadata["notes"]
    assert prof.profile.validate() == []


def test_a_kernel_that_cannot_be_compiled_twice_keeps_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(binary: Any) -> None:
        tried.append(binary)
        raise MemoryError("no disk")

    tried: list[Any] = []
    monkeypatch.setattr(other_binaries, "compiled_again", fail)
    with session(keep="sums", spans_every=2) as prof:
        for _ in range(4):
            kernel = launch()
    assert tried == [kernel]
    assert kept(prof) == ["sums"] * 4
    assert counts(prof) == {"twice_kernel": (0, 4)}
    assert notes(prof) == [
        "twice_kernel: all 4 launches kept sums",
        "twice_kernel: launches that were to keep spans keep sums: MemoryError: no disk",
    ]


def test_sums_need_no_rings_and_nothing_is_guessed_or_trimmed() -> None:
    """A loop's first launch with spans gets rings by guess; with sums its size is known before."""
    with session(keep="sums", instrument="heavy", spans_every=0) as prof:
        count(10)
        recorder = prof._running.recorder
        assert len(recorder.routes.settled) == 1  # the second waits for nothing
        for n in (1000, 10):
            count(n)
        launches = recorder.log.launches
    assert [launch.guessed for launch in launches] == [False] * 3
    assert len({launch.slice.extent[1] for launch in launches}) == 1
    assert {launch.manifest.ring_bytes for launch in launches} == {0}
    with session(instrument="heavy") as prof:
        count(10)
        assert [launch.guessed for launch in log(prof).launches] == [True]


def test_rings_are_sized_once_even_if_the_first_launch_is_gone_by_then(tmp_path: Path) -> None:
    with session(keep="sums", instrument="heavy", spans_every=2, spool=tmp_path) as prof:
        guessed = []
        for _ in range(5):
            count(10)
            (launch,) = log(prof).launches
            guessed.append(launch.guessed)
            prof.flush()  # takes the launch out of the log
    assert guessed == [True] + [False] * 4


def test_everything_comes_back_when_the_body_raises() -> None:
    def body() -> None:
        with session(keep="sums"):
            launch()
            raise KeyError("the user's own")

    with pytest.raises(KeyError, match="the user's own"):
        body()  # the fixtures compare
