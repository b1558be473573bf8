"""Copies of one function that share Triton's cache, and files in it that do not belong together."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from triton import knobs
from triton.compiler import compiler

import profscope
from profscope import emulator
from tests.kernels import add
from tests.support.sessions import session

N = 50
THREADS = 4
X = torch.arange(N, dtype=torch.float32)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path) -> Iterator[Path]:
    """A cache of the test's own."""
    with knobs.cache.scope(), emulator.activate():
        knobs.cache.dir = str(tmp_path / "cache")
        yield tmp_path / "cache"


@pytest.fixture
def copies(tmp_path: Path) -> list[Any]:
    """A kernel from two folders that hold the same file."""
    kernels = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        file = shutil.copy(add.__file__, folder / "add.py")
        spec = importlib.util.spec_from_file_location("tests.kernels.add", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        kernels.append(module.add_kernel)
    return kernels


def launch(kernel: Any) -> None:
    out = torch.empty_like(X)
    kernel[(1,)](X, X, out, N, BLOCK=64)
    assert torch.equal(out, X * 2)


def at_once(work: Callable[[int], None], count: int) -> list[BaseException]:
    """What went wrong in threads that all begin together."""
    ready, wrong = threading.Barrier(count), []

    def run(index: int) -> None:
        ready.wait()
        try:
            work(index)
        except BaseException as error:  # noqa: BLE001  the test says what it was
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def test_copies_that_are_compiled_at_once_do_not_mix(copies: list[Any]) -> None:
    for _ in range(2):  # compiled, and found in the cache
        with session(instrument="light") as prof:
            assert at_once(lambda index: launch(copies[index % 2]), THREADS) == []
        assert len(prof.launches) == THREADS
        assert set(prof.df["file"]) == {kernel.fn.__code__.co_filename for kernel in copies}
        assert prof.profile.validate() == []
        for kernel in copies:
            kernel.device_caches.clear()


def test_spans_name_the_file_that_was_launched(copies: list[Any]) -> None:
    """Though their texts are the same, and Triton's keys know no files."""
    for kernel in copies:
        with session(instrument="light") as prof:
            launch(kernel)
        assert set(prof.df["file"]) == {kernel.fn.__code__.co_filename}
        assert prof.metadata["notes"] == []


def mix(cache: Path) -> None:
    """Give each instrumented binary the manifest of another program."""
    changed = 0
    for file in cache.rglob("*.json"):
        about = json.loads(file.read_text())
        if "profscope" in about:
            manifest = json.loads(about["profscope"]["manifest"])
            manifest["fixed_bytes"] *= 2
            about["profscope"]["manifest"] = json.dumps(manifest)
            file.write_text(json.dumps(about))
            changed += 1
    assert changed


def test_files_that_do_not_belong_together_are_noticed_and_forgotten(cache: Path, copies: list[Any]) -> None:
    (kernel, _) = copies
    with session():
        launch(kernel)
    mix(cache)
    kernel.device_caches.clear()
    warns = pytest.warns(profscope.EmptyProfileWarning, match="did not belong together")
    with warns, session() as prof:
        launch(kernel)
        launch(kernel)
    (note,) = prof.metadata["notes"]
    assert note.startswith("2 launches ran unrecorded: add_kernel: files of its binary in Triton's cache")
    kernel.device_caches.clear()
    with session() as prof:  # as another process would
        launch(kernel)
    assert len(prof.launches) == 1
    assert prof.metadata["notes"] == []


def test_what_is_compiled_bare_because_its_session_has_ended_is_noticed_and_forgotten(
    copies: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (kernel, _) = copies
    keyed, ended = threading.Event(), threading.Event()
    find = compiler.get_cache_manager

    def find_late(key: str) -> Any:
        """Between the key and the stages."""
        if threading.current_thread() is thread:
            keyed.set()
            ended.wait(60)
        return find(key)

    def launch_late() -> None:
        with contextlib.suppress(RuntimeError):  # before Triton 3.8 one that is not recorded may be refused
            launch(kernel)

    thread = threading.Thread(target=launch_late)
    monkeypatch.setattr(compiler, "get_cache_manager", find_late)
    with session():
        thread.start()
        keyed.wait(60)
    ended.set()
    thread.join()
    kernel.device_caches.clear()
    with pytest.warns(profscope.EmptyProfileWarning, match="another session ended while"), session():
        launch(kernel)
    kernel.device_caches.clear()
    with session() as prof:  # as another process would
        launch(kernel)
    assert len(prof.launches) == 1
    kernel.device_caches.clear()
    for _ in range(2):  # compiled, and found: what is left out on purpose is in the cache, too
        with pytest.warns(profscope.EmptyProfileWarning, match="matches none"), session(kernels="other"):
            launch(kernel)
        kernel.device_caches.clear()
