"""NVIDIA's libraries for a process without a GPU, in C: what tells of a driver and its GPUs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

NEEDS_CC = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
_CUDA = """
#include <stdlib.h>
#include <string.h>
int cuInit(unsigned flags) { INIT }
int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDeviceGet(int *device, int number) { *device = number; return 0; }
int cuDeviceGetName(char *name, int bytes, int device) { strcpy(name, "NVIDIA Z1"); return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 24ull << 30; return 0; }
int cuDeviceGetAttribute(int *value, int which, int device) {
    *value = which == 75 ? 12 : which == 76 ? 0 : which == 16 ? 170 : 96 << 20;
    return 0;
}
int cuGetErrorString(int error, const char **text) { *text = "no CUDA-capable device is detected"; return 0; }
"""
_NVML = """
#include <string.h>
int nvmlInitWithFlags(unsigned flags) { return flags != 1; }
int nvmlSystemGetDriverVersion(char *version, unsigned bytes) { strcpy(version, "580.1"); return 0; }
int nvmlShutdown(void) { return 0; }
"""


def fake_driver(folder: Path, init: str = "return 0;") -> dict[str, str]:
    """The environment of a process that finds two GPUs. init: what cuInit does, in C."""
    for name, source in (("libcuda.so.1", _CUDA.replace("INIT", init)), ("libnvidia-ml.so.1", _NVML)):
        text = folder / f"{name}.c"
        text.write_text(source)
        subprocess.run(["cc", "-shared", "-fPIC", text, "-o", folder / name], check=True)
    return {"LD_LIBRARY_PATH": str(folder)}
