"""The gates before a program's first launch: what they open for, and what they leave behind."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from triton.runtime.jit import JITFunction

from profscope.commands.first_launch import FirstLaunch
from profscope.recording.after_import import after_import
from profscope.recording.patches import gated, patched
from tests.support.sessions import launch, recording, session
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
    before, run = triton_globals(), JITFunction.run
    opened = []

    def begin() -> None:
        waiting.wait()  # another thread is at a gate
        opened.append(session(every=2).__enter__())

    waiting = threading.Event()
    first = FirstLaunch(begin)
    first.await_it()
    first.await_it()
    assert JITFunction.run is not run
    launched = []
    threads = [threading.Thread(target=lambda: launched.append(launch())) for _ in range(2)]
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
    assert JITFunction.run is run
    assert triton_globals() == before
    assert not recording(launch())


@pytest.mark.usefixtures("on_emulator")
def test_what_opens_it_may_launch_and_what_is_stopped_leaves_nothing() -> None:
    run = JITFunction.run
    launched = []
    first = FirstLaunch(lambda: launched.append(launch()))
    first.await_it()
    first.stop()
    assert JITFunction.run is run
    launch()
    assert launched == []
    first.await_it()
    launch()
    launch()
    assert len(launched) == 1
    assert JITFunction.run is run


def test_a_patch_takes_the_place_of_a_gate() -> None:
    class Owner:
        def ask(self) -> str:
            return "own"

    own = Owner.ask
    with gated(Owner, "ask", lambda _: lambda self: "gate"):
        assert Owner().ask() == "gate"
        with patched(Owner, "ask", lambda before: lambda self: f"patched {before(self)}"):
            assert Owner().ask() == "patched own"
        assert Owner.ask is own
    assert Owner.ask is own
    with gated(Owner, "ask", lambda _: lambda self: "gate"):
        patch = patched(Owner, "ask", lambda before: lambda self: f"patched {before(self)}")
        patch.__enter__()
    assert Owner().ask() == "patched own"
    patch.__exit__(None, None, None)
    assert Owner.ask is own


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


@pytest.mark.usefixtures("on_emulator")
def test_a_call_that_launches_from_cpp_opens_it_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    class Graph:
        def __init__(self, *, cpp_wrapper: bool, device: str = "cuda") -> None:
            self.fx_kwargs = {"cpp_wrapper": cpp_wrapper}
            self.device_types = {device}

        def __call__(self, inputs: list[int]) -> int:
            return len(inputs)

    module = ModuleType("torch._inductor.output_code")
    vars(module)["CompiledFxGraph"] = Graph
    monkeypatch.setitem(sys.modules, module.__name__, module)
    before, opened = Graph.__call__, []
    first = FirstLaunch(lambda: opened.append(True))
    first.await_it()
    assert [Graph(cpp_wrapper=False)([1]), Graph(cpp_wrapper=True, device="cpu")([1, 2])] == [1, 2]
    assert opened == []
    assert [Graph(cpp_wrapper=True)([1, 2, 3]), Graph(cpp_wrapper=True)([])] == [3, 0]
    assert opened == [True]
    assert Graph.__call__ is before
