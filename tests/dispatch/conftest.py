"""What tests of launches share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from triton import knobs
from triton.compiler import CompiledKernel


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which binaries run on the emulator, "bare" or "recorded", as Triton's hooks are told of them."""
    kinds: list[str] = []

    def told(about: Any) -> None:
        kinds.append("recorded" if b"%clock" in about.data["function"].ptx else "bare")

    monkeypatch.setattr(knobs.runtime, "launch_enter_hook", told)
    return kinds


@pytest.fixture
def the_class_comes_back() -> Iterator[None]:
    """A test must leave the class of binaries as it found it."""
    before = dict(vars(CompiledKernel))
    yield
    assert dict(vars(CompiledKernel)) == before
