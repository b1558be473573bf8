"""CUPTI without a GPU: which library, what its structures measure, what it calls a binary, what it says."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import triton

from profscope.errors import ProfscopeError
from profscope.evidence import cupti, structures
from profscope.evidence.cupti import SamplerError, cubin_crc, library_path
from profscope.evidence.pc_sampler import Sampler

DATA = Path(__file__).parents[1] / "data/sampler"
BACKEND = Path(triton.__file__).parent / "backends/nvidia"

# What ctypes and numpy know, and the field of CUPTI's that stands at its end.
STRUCTURES = {
    "CUpti_PCSamplingStallReason": (structures.STALL.itemsize, "samples"),
    "CUpti_PCSamplingPCData": (structures.PC_RECORD.itemsize, "correlationId"),
    "CUpti_PCSamplingData": (ctypes.sizeof(structures.Data), "hardwareBufferFull"),
    "CUpti_PCSamplingConfigurationInfo": (ctypes.sizeof(structures.Attribute), "attributeData"),
    "CUpti_PCSamplingConfigurationInfoParams": (
        ctypes.sizeof(structures.Configuration),
        "pPCSamplingConfigurationInfo",
    ),
    "CUpti_PCSamplingEnableParams": (ctypes.sizeof(structures.Context), "ctx"),
    "CUpti_PCSamplingGetDataParams": (ctypes.sizeof(structures.GetData), "pcSamplingData"),
    "CUpti_PCSamplingGetNumStallReasonsParams": (ctypes.sizeof(structures.ReasonCount), "numStallReasons"),
    "CUpti_GetCubinCrcParams": (ctypes.sizeof(structures.CubinCrc), "cubinCrc"),
    "CUpti_PCSamplingGetStallReasonsParams": (ctypes.sizeof(structures.Reasons), "stallReasons"),
}


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_structures_are_those_of_the_header(tmp_path: Path) -> None:
    """The library tells by a structure's size which fields it has: the last one must be within it."""
    source, program = tmp_path / "sizes.c", tmp_path / "sizes"
    measure = (
        '#define MEASURE(s, f) printf(#s " %zu %zu\\n", sizeof(s), offsetof(s, f) + sizeof(((s*)0)->f));'
    )
    headers = ("stddef.h", "stdio.h", "cupti_pcsampling.h")
    lines = [f"MEASURE({name}, {last})" for name, (_, last) in STRUCTURES.items()]
    text = [*(f"#include <{header}>" for header in headers), measure, "int main() {", *lines, "}"]
    source.write_text("\n".join(text))
    subprocess.run(["cc", f"-I{BACKEND / 'include'}", source, "-o", program], check=True)
    said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    for line in said.splitlines():
        name, whole, end = line.split()
        assert int(end) <= STRUCTURES[name][0] == int(whole), name


@pytest.mark.parametrize("capture", sorted(DATA.glob("*.npz")), ids=lambda path: path.stem)
def test_records_name_a_binary_by_its_checksum(capture: Path) -> None:
    """As the library that was loaded on an H200, CUPTI 13, did it."""
    held = np.load(capture)
    library = ctypes.CDLL(str(library_path("")))
    assert np.unique(held["rows"]["cubin_crc"]).tolist() == [cubin_crc(library, held["cubin"].tobytes())]


def test_who_loads_the_library_of_counters_has_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti, "HAS_SAMPLED", set())
    cupti.Library(library_path(""))
    assert os.getpid() in cupti.HAS_SAMPLED


def test_the_library_that_is_loaded_comes_first() -> None:
    maps = (
        "7f00-7f01 r-xp 00000000 00:00 1   /usr/lib/libc.so.6\n"
        "7f02-7f03 r-xp 00000000 00:00 1   /opt/a b/lib/libcupti.so.13\n"
    )
    assert library_path(maps) == Path("/opt/a b/lib/libcupti.so.13")
    assert library_path("").is_relative_to(BACKEND)


@pytest.mark.parametrize(
    ("result", "mend"),
    [
        (35, "only administrators"),
        (40, "in a container, the capability SYS_ADMIN"),
        (39, "another profiler has the GPU's counters"),
        (26, "run without it"),
        (27, "NOT_SUPPORTED"),
    ],
)
def test_what_it_refuses_is_named_with_the_mend(result: int, mend: str) -> None:
    """The names are the library's own."""
    with pytest.raises(SamplerError, match=mend) as refused:
        cupti.check(ctypes.CDLL(str(library_path(""))), "cuptiPCSamplingEnable", result)
    assert str(refused.value).startswith("cuptiPCSamplingEnable says CUPTI_ERROR_")
    assert refused.value.result == result
    assert isinstance(refused.value, ProfscopeError)


def test_without_a_driver_it_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = ctypes.CDLL

    def load(name: str) -> ctypes.CDLL:
        if "libcuda" in name:
            raise OSError("libcuda.so.1: cannot open shared object file")
        return loaded(name)

    monkeypatch.setattr(cupti.ctypes, "CDLL", load)
    with pytest.raises(SamplerError, match=r"libcuda\.so\.1"), Sampler():
        pass


def test_no_other_thread_runs_python_meanwhile() -> None:
    counted, ends = [0], threading.Event()

    def count() -> None:
        while not ends.is_set():
            counted[0] += 1

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=count)
    thread.start()
    try:
        with cupti.alone():
            before = counted[0]
            for _ in range(2):  # each longer than Python lets a thread run while others wait
                ctypes.PyDLL(None).usleep(10_000)
            assert counted[0] == before
        with pytest.raises(KeyError), cupti.alone():
            raise KeyError
    finally:
        ends.set()
        thread.join()
    assert sys.getswitchinterval() == interval
