"""The gates before a program's first launch: what they open for, and what they leave behind."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from profscope.commands.run_session import RunSession
from profscope.compat.first_launch import Enter, FirstLaunch
from profscope.compat.patches import after_import
from profscope.options import Options
from tests.support.sessions import launch, session
from tests.support.triton_globals import triton_globals


@pytest.fixture
def on_emulator() -> Iterator[None]:
    """Kernels run on the emulator, and nothing records."""
    with session() as prof:
        prof.pause()
        yield
        prof.resume()
        launch()


@pytest.mark.usefixtures("on_emulator")
def test_threads_wait_while_the_first_launch_opens_a_session() -> None:
    before = triton_globals()
    opened: list[RunSession] = []
    gave_way: list[str] = []

    def begin() -> Enter:
        waiting.wait()  # another thread is at a gate
        options = Options(backend="emulator", every=2)
        opened.append(RunSession(options, gives_way=gave_way.append, program={}).__enter__())
        return opened[0].entered

    waiting = threading.Event()
    first = FirstLaunch(begin)
    first.await_it()
    first.await_it()
    assert triton_globals() != before
    threads = [threading.Thread(target=launch) for _ in range(2)]
    for thread in threads:
        thread.start()
    waiting.set()
    for thread in threads:
        thread.join()
    (prof,) = opened
    launch()
    prof.__exit__(None, None, None)
    assert len(prof.launches) == 2  # of three, all counted
    assert prof.metadata["sampling"]["kernels"]["add_kernel"] == {"launches": 3, "recorded": 2}
    assert triton_globals() == before


@pytest.mark.usefixtures("on_emulator")
def test_what_opens_it_may_launch_and_what_is_stopped_leaves_nothing() -> None:
    before = triton_globals()
    launched: list[Any] = []
    first = FirstLaunch(lambda: launched.append(launch()))
    first.await_it()
    first.stop()
    assert triton_globals() == before
    launch()
    assert launched == []
    first.await_it()
    launch()
    launch()
    assert len(launched) == 1
    assert triton_globals() == before


def test_after_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "imported_late.py").write_text("value = 1")
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    seen = []
    with after_import("imported_late", lambda module: seen.append(module.value)):
        assert seen == []
        import imported_late  # type: ignore[import-not-found]
    with after_import("imported_late", lambda module: seen.append(module)):
        assert seen == [1, imported_late]
    with after_import("imported_never", seen.append):
        pass
    assert sys.meta_path == finders
    monkeypatch.delitem(sys.modules, "imported_late")
