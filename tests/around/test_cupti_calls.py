"""Which of CUDA's calls are events around the kernels: by the names that NVIDIA's library has for them."""

from __future__ import annotations

import ctypes
import re

import pytest

from profscope.around.kineto import only_asks
from profscope.evidence.cupti import library_path

_WORKS: list[str] = [
    "Launch", "Memcpy", "Memset", "MemAlloc", "Malloc", "MemFree", "Synchronize", "Wait", "EventRecord",
    "GraphAdd", "ModuleLoad", "StreamCreate", "MemPrefetch", "MemMap", "MemCreate",
]  # fmt: skip


@pytest.fixture(scope="module")
def cupti() -> ctypes.CDLL:
    return ctypes.CDLL(str(library_path("")))  # Triton's: to name calls it needs no GPU


def named(cupti: ctypes.CDLL, domain: int) -> list[str]:
    """The calls of a domain of CUPTI's."""
    calls = []
    for number in range(1, 2000):
        name = ctypes.c_char_p()
        if not cupti.cuptiGetCallbackName(domain, number, ctypes.byref(name)) and name.value:
            calls.append(name.value.decode())
    return calls


def test_nothing_that_works_or_waits_is_left_out(cupti: ctypes.CDLL) -> None:
    for domain in (1, 2):  # of the driver, of the runtime
        calls = named(cupti, domain)
        assert len(calls) > 400
        left_out = [call for call in calls if only_asks(call)]
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
    assert only_asks(call) == asks
