"""A made-up kernel, instrumented by passes, run on the emulator."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import triton
from triton.backends.compiler import GPUTarget

from profscope.emulator.compiler import ARCH, BACKEND_NAME
from profscope.emulator.device import Device
from profscope.emulator.launcher import Launch
from profscope.emulator.machine.memory import Allocation, GlobalMemory
from profscope.emulator.program import load
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.manifest import Manifest
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.passes.lower_records import manifest_of
from profscope.instrument_passes.pipeline import parse_pipeline, run_pipeline
from profscope.instrument_passes.records import BASE_ALIGNMENT, LAUNCH_HEADER, LaunchBits
from profscope.instrument_passes.toolchain import scratch_lowering, triton_version
from tests.support.made_up_kernels import Kernel, text_of

__all__ = ["CTAS", "RING_LOG2", "run"]

Bytes = npt.NDArray[np.uint8]
CTAS = 3
RING_LOG2 = 10


def run(kernel: Kernel, passes: str) -> tuple[npt.NDArray[np.int32], Bytes, Manifest]:
    """Run a kernel with passes on the emulator; what it stored, its buffer and manifest."""
    module = parse(text_of(kernel), "made_up.ttgir")
    run_pipeline(module, parse_pipeline(passes), PassContext(triton_version()))
    manifest = manifest_of(module)
    assert manifest is not None
    with tempfile.TemporaryDirectory() as folder, scratch_lowering(triton_version()):
        path = Path(folder) / "made_up.ttgir"
        path.write_text(str(module))
        built = triton.compile(str(path), target=GPUTarget(BACKEND_NAME, ARCH, 32))
    out = np.zeros(CTAS * 1024, np.int32)
    bits = LaunchBits(0, RING_LOG2)
    size = LAUNCH_HEADER.itemsize + CTAS * manifest.cta_bytes(RING_LOG2)
    room = np.zeros(size + BASE_ALIGNMENT, np.uint8)
    first = -room.ctypes.data % BASE_ALIGNMENT
    base = room.ctypes.data + first
    given = Allocation("out", out.ctypes.data, out.nbytes, out.ctypes.data, out)
    scratch = Allocation("profile scratch", base, size, base, room)
    pointers = [given, None, scratch]
    values = [given.base, 0, base | bits.encode()]
    Launch(
        program=load(built.kernel, "made_up"),
        device=Device(),
        grid=(CTAS, 1, 1),
        warps=built.metadata.num_warps,
        shared_bytes=built.metadata.shared,
        memory=GlobalMemory([given, scratch], pointers),
        parameters=[np.full((1, 1, 1), value, np.uint64) for value in values],
    ).run()
    return out, room[first : first + size], manifest
