"""Host scopes: what is recorded, by which thread, and what is left as it was."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import triton.language as tl
from torch.profiler import record_function

import profscope
from profscope import OptionError
from profscope.around.host_tables import innermost
from profscope.recording import host_scopes
from profscope.recording.host_scopes import HostScopes
from tests.support.sessions import launch_add, session


class Ranges:
    """In the place of NVTX, which torch has no functions for here. calls: what it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def rangePushA(self, message: str) -> int:  # noqa: N802
        self.calls.append(("push", message))
        return 0

    def rangePop(self) -> int:  # noqa: N802
        self.calls.append(("pop", None))
        return 0

    def rangeStartA(self, message: str) -> int:  # noqa: N802
        self.calls.append(("start", message))
        return 77

    def rangeEnd(self, handle: int) -> None:  # noqa: N802
        self.calls.append(("end", handle))


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ranges]:
    """What torch.cuda.nvtx calls; it must be in place again after the test."""
    stand_in = Ranges()
    monkeypatch.setattr(torch.cuda.nvtx, "_nvtx", stand_in)
    before = record_function.__enter__, record_function.__exit__
    yield stand_in
    assert torch.cuda.nvtx._nvtx is stand_in
    assert (record_function.__enter__, record_function.__exit__) == before
    assert host_scopes._RECORDING == []


@pytest.fixture(scope="module")
def recorded() -> profscope.Session:
    """Launches in scopes and out of them, of two threads, one after the other."""
    with session(keep="sums") as prof:
        launch_add()
        with profscope.scope("step", tokens=4) as step:
            launch_add()
            with profscope.scope("inner"):
                launch_add()
            step.add(loss=np.float32(0.5))
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
    return prof


@profscope.scope("work")
def work() -> None:
    launch_add()


def test_rows(recorded: profscope.Session) -> None:
    host = recorded.host
    assert host["scope"].tolist() == ["step", "inner", "work"]
    assert host["depth"].tolist() == [0, 1, 0]
    assert host["parent"].tolist() == [-1, 0, -1]
    assert (host["thread"].nunique(), host["thread"][0]) == (2, threading.get_native_id())
    assert (host["tokens"][0], host["loss"][0]) == (4, 0.5)
    assert host.loc[1:, ["tokens", "loss"]].isna().all(axis=None)
    start, end = host["start_unix_ns"], host["end_unix_ns"]
    assert (start <= end).all()
    assert start[0] <= start[1] <= end[1] <= end[0] <= start[2]


def test_launches_know_their_scope(recorded: profscope.Session) -> None:
    assert recorded.launches["keeps"].tolist() == ["spans", "sums", "sums", "sums"]
    assert recorded.launches["host"].tolist() == [-1, 0, 1, 2]
    assert recorded.validate() == []


@pytest.mark.parametrize("suffix", [".json.gz", ".pftrace", ".parquet"])
def test_files_have_them(recorded: profscope.Session, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"trace{suffix}"
    recorded.save(path)
    read = profscope.load(path)
    pd.testing.assert_frame_equal(read.host, recorded.host)
    pd.testing.assert_frame_equal(read.launches, recorded.launches)


def test_spool_has_them(tmp_path: Path) -> None:
    with session(spool=tmp_path) as prof:
        with profscope.scope("first"):
            launch_add()
        prof.flush()
        killed = profscope.load(prof.spool)  # type: ignore[arg-type]
        with profscope.scope("second"):
            launch_add()
    assert killed.host["scope"].tolist() == ["first"]
    read = profscope.load(prof.spool)  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(read.host, prof.host)
    assert read.launches["host"].tolist() == prof.launches["host"].tolist() == [0, 1]


def test_nvtx_and_record_function(ranges: Ranges) -> None:
    from torch.cuda.nvtx import range_push

    with session() as prof:
        range_push("bound before, or after")
        with torch.cuda.nvtx.range("layer {}", 3), record_function("forward"):
            pass
        torch.cuda.nvtx.range_pop()
        handle = torch.cuda.nvtx.range_start("anywhere")
        torch.cuda.nvtx.range_end(handle)
    host = prof.host
    assert host["scope"].tolist() == ["bound before, or after", "layer 3", "forward", "anywhere"]
    assert host["source"].tolist() == ["nvtx", "nvtx", "record_function", "nvtx"]
    assert host["parent"].tolist() == [-1, 0, 1, -1]
    calls = ["push", "push", "pop", "pop", "start", "end"]
    assert [name for name, _ in ranges.calls] == calls  # the program's own NVTX goes on


def test_nothing_stays_where_the_body_raises(ranges: Ranges) -> None:
    prof = session()

    def body() -> None:
        with prof:
            torch.cuda.nvtx.range_push("left open")
            with profscope.scope("failing"):
                _ = 1 // 0

    with pytest.raises(ZeroDivisionError):
        body()
    assert prof.host["scope"].tolist() == ["left open", "failing"]
    assert (prof.host["end_unix_ns"] >= prof.host["start_unix_ns"]).all()
    with profscope.scope("after"):
        torch.cuda.nvtx.range_pop()
    assert len(prof.host) == 2
    assert ranges.calls == [("push", "left open"), ("pop", None)]


def test_the_nvtx_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its functions as its own module calls them (nvtx 0.2.17): an attributes object, then a domain."""
    package, module = types.ModuleType("nvtx"), types.ModuleType("nvtx.nvtx")

    def push(attributes: Any, domain: Any) -> int:
        return 1

    def pop(domain: Any) -> int:
        return 0

    module.libnvtx_push_range, module.libnvtx_pop_range = push, pop  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "nvtx", package)
    monkeypatch.setitem(sys.modules, "nvtx.nvtx", module)
    message = types.SimpleNamespace(string="load batch")
    with session() as prof:
        module.libnvtx_push_range(types.SimpleNamespace(message=message), None)  # type: ignore[attr-defined]
        module.libnvtx_push_range(types.SimpleNamespace(message=None), None)  # type: ignore[attr-defined]
        assert module.libnvtx_pop_range(None) == 0  # type: ignore[attr-defined]
    assert prof.host["scope"].tolist() == ["load batch", ""]
    assert vars(module)["libnvtx_push_range"] is push
    assert vars(module)["libnvtx_pop_range"] is pop


def test_a_pause_ends_what_is_open() -> None:
    with session() as prof, profscope.scope("before") as before:
        launch_add()
        prof.pause()
        with profscope.scope("unseen"):
            before.add(late=1)
        prof.resume()
        with profscope.scope("after"):
            pass
    assert prof.host["scope"].tolist() == ["before", "after"]
    assert prof.host["parent"].tolist() == [-1, -1]
    assert prof.host["end_unix_ns"][0] <= prof.host["start_unix_ns"][1]


@pytest.mark.parametrize(
    ("name", "metrics", "says"),
    [
        (3, {}, r"scope\(3\): the name of a scope must be text"),
        (
            tl.constexpr("a"),
            {},
            "the name of a scope must be text; inside a kernel, use profscope.language.scope",
        ),
        ("a", {"loss": torch.zeros(())}, r"metric loss= must be a number, not Tensor; give value.item\(\)"),
        ("a", {"good": True}, "metric good= must be a number, not bool"),
        ("a", {"thread": 1}, "metric thread= is called like a column of prof.host"),
    ],
)
def test_mistakes(name: Any, metrics: dict[str, Any], says: str) -> None:
    with profscope.scope(name, **metrics):
        pass  # nobody looks without a session
    with session() as prof, pytest.raises(OptionError, match=says), profscope.scope(name, **metrics):
        pass
    assert len(prof.host) == 0


def test_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_scopes, "_MOST", 2)
    scopes = HostScopes(int)
    with scopes.installed():
        for _ in range(5):
            with profscope.scope("x"):
                pass
    assert len(scopes) == 2
    assert scopes.notes() == ["3 host scopes are left out: a session keeps the first 2"]


def test_a_scope_may_be_entered_in_itself_and_outlast_another() -> None:
    scopes = HostScopes(int)
    with scopes.installed():
        again = profscope.scope("again")
        with again, again:
            pass
        first, second = profscope.scope("first"), profscope.scope("second")
        first.__enter__()
        second.__enter__()
        first.__exit__()
        second.__exit__()
    columns = scopes.columns()
    assert columns["scope"] == ["again", "again", "first", "second"]
    assert columns["parent"] == [-1, 0, -1, 2]
    assert columns["end_unix_ns"][2] <= columns["end_unix_ns"][3]


def test_innermost() -> None:
    #        0 1 2 3 4 5 6      thread 1: [0, 5) and in it [1, 3); thread 2: [4, 6)
    begin, end, thread = np.array([0, 1, 4]), np.array([5, 3, 6]), np.array([1, 1, 2])
    places = np.array([6, 0, 1, 2, 3, 4, 5])
    assert innermost(places, begin, end, thread).tolist() == [-1, 0, 1, 1, 0, -2, 2]


def test_launches_that_may_be_of_several_threads_are_in_none() -> None:
    begun, done = threading.Event(), threading.Event()

    def other() -> None:
        with profscope.scope("other"):
            begun.set()
            done.wait()

    with session() as prof, profscope.scope("main"):
        launch_add()
        worker = threading.Thread(target=other)
        worker.start()
        begun.wait()
        launch_add()
        done.set()
        worker.join()
        launch_add()
    assert prof.launches["host"].tolist() == [0, -1, 0]
    assert any("1 launches are in no host scope" in note for note in prof.metadata["notes"])
