"""Modules and binaries are read while launches run, in a thread that ends with the session."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from profscope.binaries.rows import instructions
from profscope.errors import ToolchainError
from profscope.evidence import reading_ahead
from profscope.evidence.reading_ahead import ReadingAhead

WAIT_S = 30


def own_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("profscope-ahead")]


def reading(monkeypatch: pytest.MonkeyPatch, read: Callable[[Any], Any]) -> ReadingAhead:
    monkeypatch.setattr(reading_ahead, "instructions", read)
    return ReadingAhead()


def test_what_findings_import_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = reading(monkeypatch, lambda kernel: None)
    ahead.wait()
    assert {"profscope.analysis.findings", "profscope.analysis.verdict"} <= sys.modules.keys()
    ahead.close()
    assert own_threads() == []


def test_each_binary_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    ahead = reading(monkeypatch, lambda kernel: seen.append(kernel.asm["cubin"]))
    for cubin in (b"one", b"two", b"one"):
        ahead.read(cubin, "ptx")
    ahead.wait()
    ahead.close()
    assert seen == [b"one", b"two"]


def test_no_more_are_read_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    ahead = reading(monkeypatch, lambda kernel: seen.append(kernel.asm["cubin"]))
    for number in range(100):
        ahead.read(bytes([number]), "")
    ahead.wait()
    ahead.close()
    assert 0 < len(seen) <= 32


def test_an_error_is_the_reader_s() -> None:
    ahead = ReadingAhead()
    ahead.read(b"no cubin", "")
    ahead.wait()
    ahead.close()
    with pytest.raises(ToolchainError, match="not a cubin"):
        instructions(SimpleNamespace(asm={"cubin": b"no cubin", "ptx": ""}))


def test_the_end_waits_for_what_is_under_way_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, left, seen = threading.Event(), threading.Event(), []

    def read(kernel: Any) -> None:
        begun.set()
        left.wait(WAIT_S)
        seen.append(kernel.asm["cubin"])

    ahead = reading(monkeypatch, read)
    ahead.read(b"one", "")
    ahead.read(b"two", "")
    assert begun.wait(WAIT_S)
    threading.Timer(0.01, left.set).start()
    ahead.close()
    assert seen == [b"one"]
    assert own_threads() == []
    ahead.wait()
