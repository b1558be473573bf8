"""What tests of launches share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from triton import knobs
from triton.compiler import CompiledKernel

from profscope.recording.programs import PROGRAMS


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """ "spans" or "bare": what each binary that runs records, as Triton's hooks are told of it."""
    kept: list[str] = []

    def told(about: Any) -> None:
        program = PROGRAMS.of(about.data["function"])
        kept.append("bare" if program is None else "spans")

    monkeypatch.setattr(knobs.runtime, "launch_enter_hook", told)
    return kept


@pytest.fixture
def the_class_comes_back() -> Iterator[None]:
    """A test must leave the class of binaries as it found it."""
    before = dict(vars(CompiledKernel))
    yield
    assert dict(vars(CompiledKernel)) == before
