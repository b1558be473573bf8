"""Host scopes: what is recorded, by which thread, and what is left as it was."""

from __future__ import annotations

import _thread
import contextvars
import math
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import triton.language as tl
from torch.profiler import record_function

import profscope
from profscope.around import host_scopes
from profscope.around.host_scopes import HOST_THREADS, HostScopes
from profscope.around.host_tables import innermost
from profscope.errors import OptionError
from tests.support.sessions import launch_add, session
from tests.support.validation import validate


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
    assert host_scopes.RECORDING == []


@pytest.fixture(scope="module")
def recorded() -> profscope.Session:
    """Launches in scopes and out of them, of two threads, one after the other."""
    with session() as prof:
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
    assert recorded.launches["host"].tolist() == [-1, 0, 1, 2]
    assert validate(recorded.tables) == []


def test_spool_has_them(tmp_path: Path) -> None:
    with session(spool=tmp_path) as prof:
        with profscope.scope("first", loss=math.nan, bound=math.inf):
            launch_add()
            prof.flush()
            killed = profscope.load(prof.spool)  # type: ignore[arg-type]
        with profscope.scope("second"):
            launch_add()
    assert killed.host["scope"].tolist() == ["first"]
    assert killed.host["bound"].tolist() == [math.inf]
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


_PACKAGE = """
dummy_domain = object()

def get_domain(name=None):
    return dummy_domain

class annotate:
    def __init__(self, message=None, color=None, domain=None, category=None, payload=None):
        self.init_args = message, color, domain, category, payload
        self.domain = get_domain(domain)

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        return False

def push_range(message=None, color=None, domain=None, category=None, payload=None): ...
def pop_range(domain=None): ...
def start_range(message=None, color=None, domain=None, category=None, payload=None): ...
def end_range(range_id): ...
"""


def test_the_nvtx_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """As nvtx 0.2.17 is where no tool listens: all its domains are one that does nothing."""
    package: Any = types.ModuleType("nvtx")
    exec(_PACKAGE, vars(package))
    monkeypatch.setitem(sys.modules, "nvtx", package)
    before = dict(vars(package)), dict(vars(package.annotate))
    with session() as prof:
        held = package.push_range
        with package.annotate("load", color="red", domain="mine"):
            package.push_range("batch", "blue", "mine")
            package.pop_range("mine")
            with pytest.raises(KeyError), package.annotate():
                raise KeyError
    held("after the session")
    assert prof.host[["scope", "parent"]].to_numpy().tolist() == [["load", -1], ["batch", 0], ["", 0]]
    assert (dict(vars(package)), dict(vars(package.annotate))) == before


def test_a_pause_ends_what_is_open_and_it_begins_again() -> None:
    with session(instrument=["kernel-span"]) as prof, profscope.scope("before") as before:
        launch_add()
        prof.pause()
        with profscope.scope("unseen"):
            before.add(late=1)
        prof.resume()
        launch_add()
        with profscope.scope("after"):
            pass
    assert prof.host["scope"].tolist() == ["before", "before", "after"]
    assert prof.host["late"].tolist()[:2] == [1, 1]
    assert prof.launches["host"].tolist() == [0, 1]
    assert prof.host["parent"].tolist() == [-1, -1, 1]
    assert prof.host["end_unix_ns"][0] <= prof.host["start_unix_ns"][1]


def test_scopes_that_are_open_when_recording_begins() -> None:
    begun, done = threading.Event(), threading.Event()

    def other() -> None:
        with profscope.scope("other"):
            begun.set()
            done.wait()
            with profscope.scope("in other"):
                pass

    worker = threading.Thread(target=other)
    worker.start()
    begun.wait()
    scopes = HostScopes()
    with profscope.scope("training", epochs=2), profscope.scope("step") as step:
        step.add(loss=1)
        with profscope.scope(3):  # type: ignore[arg-type]  # nobody looked at it in time
            with scopes.installed():
                done.set()
                worker.join()
                step.add(loss=2)
            step.add(loss=3)
    table = scopes.columns()
    rows = dict(
        zip(table["scope"], zip(table["thread"], table["parent"], table["depth"], strict=True), strict=True)
    )
    own = threading.get_native_id()
    assert rows["training"] == (own, -1, 0)
    assert rows["step"] == (own, table["scope"].index("training"), 1)
    assert rows["other"][0] == rows["in other"][0] != own
    assert rows["in other"][1] == table["scope"].index("other")
    metrics = dict(zip(table["scope"], table["metrics"], strict=True))
    assert (metrics["training"], metrics["step"]) == ({"epochs": 2}, {"loss": 3})
    assert all(table["end_unix_ns"])
    assert not any(thread.open for thread in HOST_THREADS.values())


@pytest.mark.parametrize(
    ("name", "metrics", "says"),
    [
        (3, {}, r"scope\(3\): the name of a scope must be text"),
        ("a\ud800", {}, r"scope\('a\\ud800'\): the name has a lone surrogate"),
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


def test_too_many() -> None:
    scopes = HostScopes(most_rows=2)
    with scopes.installed():
        for _ in range(5):
            with profscope.scope("x"):
                pass
    assert len(scopes) == 2
    assert scopes.notes() == ["3 host scopes are left out: a session keeps the first 2"]


def test_a_scope_may_be_entered_in_itself_and_outlast_another() -> None:
    scopes = HostScopes()
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
    assert columns["parent"] == [-1, 0, -1, -1]  # the second was in the first for a part of its time only
    assert columns["depth"] == [0, 1, 0, 0]
    assert columns["end_unix_ns"][2] <= columns["end_unix_ns"][3]


def test_innermost() -> None:
    #        0 1 2 3 4 5 6      thread 1: [0, 5) and in it [1, 3); thread 2: [4, 6)
    begin, end, thread = np.array([0, 1, 4]), np.array([5, 3, 6]), np.array([1, 1, 2])
    places = np.array([6, 0, 1, 2, 3, 4, 5])
    assert innermost(places, begin, end, thread).tolist() == [-1, 0, 1, 1, 0, -2, 2]


def of_a_library(launch: Callable[[], None]) -> None:
    """Launch on a thread that Python has not begun, as autograd's are."""
    ended = threading.Lock()
    ended.acquire()

    def run() -> None:
        launch()
        ended.release()

    _thread.start_new_thread(run, ())
    assert ended.acquire(timeout=60)


@pytest.mark.parametrize("launches", [True, False])
def test_a_librarys_thread_launches_for_the_only_thread_that_may_wait_for_it(launches: bool) -> None:
    """launches: whether another thread with a scope open launches at all."""
    begun, done = threading.Event(), threading.Event()

    def other() -> None:
        with profscope.scope("other"):
            if launches:
                launch_add()  # 1
            begun.set()
            done.wait()

    with session(instrument=["kernel-span"]) as prof:
        of_a_library(launch_add)  # 0
        worker = threading.Thread(target=other)
        worker.start()
        begun.wait()
        with profscope.scope("main"):
            of_a_library(launch_add)
        done.set()
        worker.join()
        of_a_library(launch_add)
    names = dict(enumerate(prof.host["scope"]))
    inside = [names.get(row, "") for row in prof.launches["host"]]
    assert inside == (["", "other", "", ""] if launches else ["", "main", ""])
    said = any("1 launch is in no host scope: a library's thread" in note for note in prof.metadata["notes"])
    assert said == launches


def test_a_range_may_end_in_another_context_than_it_began_in(ranges: Ranges) -> None:
    with session(instrument=["kernel-span"]) as prof:
        contextvars.copy_context().run(torch.cuda.nvtx.range_push, "callback")
        contextvars.copy_context().run(launch_add, 100)
        contextvars.copy_context().run(torch.cuda.nvtx.range_pop)
        with profscope.scope("after"):
            pass
    assert prof.host["parent"].tolist() == [-1, -1]
    assert prof.host["end_unix_ns"][0] <= prof.host["start_unix_ns"][1]
