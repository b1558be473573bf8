"""Copies of one function that share Triton's cache, and files in it that do not belong together."""

from __future__ import annotations

import importlib.util
import json
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from triton import knobs

import profscope
from profscope import emulator
from tests.kernels import add
from tests.support.sessions import session
from tests.support.validation import validate

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


def test_copies_that_are_compiled_at_once_do_not_mix(copies: list[Any]) -> None:
    ready = threading.Barrier(THREADS)

    def work(index: int) -> None:
        ready.wait()
        launch(copies[index % 2])

    for _ in range(2):  # compiled, and found in the cache
        with session(instrument="light") as prof, ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(THREADS)))
        assert len(prof.launches) == THREADS
        assert set(prof.df["file"]) == {kernel.fn.__code__.co_filename for kernel in copies}
        assert validate(prof.profile.tables) == []
        for kernel in copies:
            kernel.device_caches.clear()


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


def test_files_that_do_not_belong_together_are_noticed(cache: Path, copies: list[Any]) -> None:
    (kernel, _) = copies
    with session():
        launch(kernel)
    mix(cache)
    warns = pytest.warns(profscope.EmptyProfileWarning, match="do not belong together")
    with warns, session() as prof:
        launch(kernel)
        launch(kernel)
    (note,) = prof.metadata["notes"]
    assert note.startswith("add_kernel runs bare: files of its binary in Triton's cache do not belong")
