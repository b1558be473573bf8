"""What several tests of recording need."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import pytest

from profscope.recording.programs import PROGRAMS
from tests.kernels.loops import count_kernel


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No program of another test shares the tag of `count_kernel`: it would have a say in how much memory the
    launches get."""
    monkeypatch.setattr(PROGRAMS, "_by_tag", {})
    monkeypatch.setattr(PROGRAMS, "_programs", weakref.WeakKeyDictionary())  # a session knows them anew
    count_kernel.device_caches.clear()
    yield
    count_kernel.device_caches.clear()  # so that it is loaded again into the table of all tests
