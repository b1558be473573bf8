"""The ways to run a kernel that are compared: bare, with profscope, with Proton at the same points."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import profscope
from bench import proton_side
from bench.kernels import Workload
from bench.points import RecordPoints
from profscope.compat.programs import manifest_in
from profscope.device.sizing import needed_bytes, ring_log2_for_rows
from profscope.dispatch.recording_stages import instrument
from profscope.instrument_passes import pipeline as levels
from profscope.instrument_passes.manifest import Manifest
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.records import BASE_ALIGNMENT, LaunchBits, align
from profscope.instrument_passes.toolchain import triton_version
from profscope.options import Options

__all__ = [
    "BARE",
    "DEFAULT",
    "GLOBAL",
    "LEVELS",
    "OURS",
    "POINTS",
    "SHARED",
    "WARM_UP",
    "Buffers",
    "Variant",
    "buffers",
    "recording",
    "variants",
]

BARE: Final = "bare"
OURS: Final = "profscope"
SHARED: Final = "Proton"
GLOBAL: Final = "Proton, global buffer"

# What is recorded, as passes; Proton gets its records at the same points.
LEVELS: Final = {
    "light": "kernel-span,loop-spans",
    "heavy": "kernel-span,loop-spans,op-spans{classes=load;store;atomic;async_copy;wait;mma}",
}
# What a session records that was not told what to: kernel, loops, loads, stores, waits, MMA, calls.
DEFAULT: Final = levels.LEVELS["default"]
POINTS: Final = RecordPoints.name  # for the record-cost kernel

Variant = Callable[[], AbstractContextManager[object]]


class Buffers:
    """Buffers that hold `launches` launches of one kernel, so that none is drained while they are timed.

    most_launches: of these. stride_log2: one CTA in 2^stride_log2 records.
    """

    def __init__(
        self, manifest: Manifest, workload: Workload, most_launches: int = 20, stride_log2: int = 0
    ) -> None:
        stride_log2 = manifest.selection.stride_log2(workload.ctas, stride_log2)
        bits = LaunchBits(stride_log2, ring_log2_for_rows(workload.rows))
        self.launch_bytes = needed_bytes(manifest, workload.ctas, bits)
        # A round drains some of this at its end, which takes time too.
        self.launches = max(3, min(most_launches, (1 << 30) // self.launch_bytes - WARM_UP))
        # Two arenas share the memory, and from half an arena on the other one is prepared.
        placed = align(self.launch_bytes, BASE_ALIGNMENT)
        self.memory_mib = 64 + (4 * (self.launches + WARM_UP + 1) * placed >> 20)


WARM_UP: Final = 3  # launches before the timed ones


def buffers(
    ttgir: str, workload: Workload, pipeline: str, *, ctas: int = 1, most_launches: int = 20
) -> Buffers:
    """How much to give a session. ttgir: the module of the bare kernel."""
    options = Options(instrument=[pipeline], ctas=ctas)
    text = instrument(ttgir, options, PassContext(triton_version()))
    manifest = manifest_in(text or "")
    assert manifest is not None, workload.name
    return Buffers(manifest, workload, most_launches, options.stride_log2)


def variants(workload: Workload, pipeline: str, given: Buffers, *names: str) -> dict[str, Variant]:
    """The named ones; each makes a context in which launches of the kernel are recorded in that way."""

    def proton(buffer: str) -> AbstractContextManager[None]:
        return proton_side.recording(proton_side.mode(buffer, workload.warps), pipeline)

    every: dict[str, Variant] = {
        BARE: nullcontext,
        OURS: lambda: recording(pipeline, given),
        SHARED: lambda: proton("shared"),
        GLOBAL: lambda: proton("global"),
    }
    return {name: every[name] for name in names}


@contextlib.contextmanager
def recording(pipeline: str, given: Buffers, ctas: int = 1) -> Iterator[None]:
    """A session for timing kernels; raises if the figures would not be those of recording launches."""
    with profscope.session(instrument=[pipeline], ctas=ctas, memory=given.memory_mib) as session:
        yield
        recorder = session._parts().recorder  # reading the profile would decode it
        for why in (*session._parts().dispatcher.notes(), *recorder.journal.unrecorded):
            raise RuntimeError(f"profscope did not record: {why}")
        if not len(recorder.log):
            raise RuntimeError("profscope recorded no launch")
        used = sum(launch.size for launch in recorder.log.launches)
        if used > given.memory_mib << 19:
            raise RuntimeError(f"{used >> 20} MiB of records: a drain ran while the kernel was timed")
        if ctas == 1 and any(launch.bits.stride_log2 for launch in recorder.log.launches):
            raise RuntimeError("only some of the CTAs were recorded")
