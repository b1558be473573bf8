"""Which of CUDA's calls are noted around the kernels: by the names that NVIDIA's library has for them."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from profscope.around import kineto as cupti_calls
from profscope.evidence.cupti import library_path

_WORKS: list[str] = [
    "Launch", "Memcpy", "Memset", "MemAlloc", "Malloc", "MemFree", "Synchronize", "Wait", "EventRecord",
    "GraphAdd", "ModuleLoad", "StreamCreate", "MemPrefetch", "MemMap", "MemCreate",
]  # fmt: skip


@pytest.fixture(scope="module")
def cupti() -> ctypes.CDLL:
    return ctypes.CDLL(str(library_path("")))  # Triton's: to name calls it needs no GPU


def test_nothing_that_works_or_waits_is_left_out(cupti: ctypes.CDLL) -> None:
    for domain in (1, 2):
        calls = dict(cupti_calls.named_calls(cupti, domain))
        assert len(calls) > 400
        left_out = [call for call in calls.values() if cupti_calls.only_asks(call)]
        assert 50 < len(left_out) < len(calls) / 4
        works = re.compile("|".join(_WORKS))
        assert [call for call in left_out if works.search(call)] == []


@pytest.mark.parametrize(
    ("call", "asks"),
    [
        ("cuPointerGetAttribute", True),
        ("cuCtxGetCurrent", True),
        ("cuTensorMapEncodeTiled", True),
        ("cudaGetLastError_v3020", True),
        ("cudaStreamIsCapturing_v10000", True),
        ("cudaEventCreateWithFlags_v3020", True),
        ("__cudaPushCallConfiguration_v13000", True),
        ("cuLaunchKernelEx", False),
        ("cudaLaunchKernelExC_v11060", False),
        ("cudaGraphLaunch_v10000", False),
        ("cudaEventSynchronize_v3020", False),
        ("cudaHostGetDevicePointer_v3020", False),
    ],
)
def test_calls_that_only_ask(call: str, asks: bool) -> None:
    assert cupti_calls.only_asks(call) == asks


def test_they_are_left_out_of_the_library_that_is_loaded(
    cupti: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[tuple[int, int]] = []

    def choose(number: int, on: int) -> int:
        chosen.append((number, on))
        return 0 if len(chosen) > 1 else 1  # CUPTI_ERROR_INVALID_PARAMETER

    library = SimpleNamespace(  # one from before runtime calls could be chosen
        cuptiGetCallbackName=cupti.cuptiGetCallbackName,
        cuptiActivityEnableDriverApi=choose,
    )
    monkeypatch.setattr(cupti_calls, "loaded_library", lambda: Path("libcupti.so"))
    monkeypatch.setattr(cupti_calls.ctypes, "CDLL", lambda path: library)
    assert cupti_calls.note_no_questions() == len(chosen) - 1
    calls = dict(cupti_calls.named_calls(cupti, 1))
    assert {on for _, on in chosen} == {0}
    names = {calls[number] for number, _ in chosen}
    assert "cuPointerGetAttribute" in names
    assert "cuLaunchKernelEx" not in names


def test_only_where_one_library_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "7f00-7f01 r-xp 00000000 08:01 42   /lib/{}\n"
    one, other = line.format("libcupti.so.12"), line.format("proton/libcupti.so.13")
    assert cupti_calls.loaded_library(one + line.format("libcuda.so.1") + one) == Path("/lib/libcupti.so.12")
    assert cupti_calls.loaded_library(one + other) is None
    assert cupti_calls.loaded_library("") is None

    def refuse(path: Any) -> None:
        raise OSError(path)

    monkeypatch.setattr(cupti_calls, "loaded_library", lambda: Path("gone"))
    monkeypatch.setattr(cupti_calls.ctypes, "CDLL", refuse)
    assert cupti_calls.note_no_questions() == 0
