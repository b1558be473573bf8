"""The ways to run a kernel that are compared: bare, with profscope, with Proton at the same points."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

import profscope
from bench import proton_side
from bench.kernels import Workload
from profscope.compat.programs import manifest_in
from profscope.device.sizing import needed_bytes, ring_log2_for_rows
from profscope.dispatch.recording_stages import instrument
from profscope.instrument_passes import pipeline as passes
from profscope.instrument_passes.analyses.walk import kernel_of
from profscope.instrument_passes.dialect import SpanIds, begin, end
from profscope.instrument_passes.ir import Module
from profscope.instrument_passes.manifest import Manifest
from profscope.instrument_passes.passes import Pass, PassContext, register
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
    "Level",
    "Variant",
    "buffers",
    "recording",
    "variants",
]

BARE: Final = "bare"
OURS: Final = "profscope"
SHARED: Final = "Proton"
GLOBAL: Final = "Proton, global buffer"


class Level(NamedTuple):
    """What is recorded. pipeline: passes; ctas: one CTA in so many records."""

    pipeline: str
    ctas: int = 1


# Kernel, loops, loads, stores, waits, MMA, calls: what a session records by default.
DEFAULT: Final = passes.LEVELS["default"]
_HEAVY: Final = "kernel-span,loop-spans,op-spans{classes=load;store;atomic;async_copy;wait;mma}"
# Proton gets its records at the same points of "light" and "heavy".
LEVELS: Final = {
    "light": Level("kernel-span,loop-spans"),
    "heavy": Level(_HEAVY),
    "default": Level(DEFAULT),
    "default, ctas=64": Level(DEFAULT, 64),
    "heavy, ctas=64": Level(_HEAVY, 64),
}


@register
@dataclass(frozen=True)
class RecordPoints(Pass):
    """A begin before every other `// point` of the record-cost kernel, its end before the next: no two
    records share a clock."""

    name: ClassVar[str] = "record-points"

    def apply(self, module: Module, context: PassContext) -> None:
        ids = SpanIds.of(module)
        points = [op for op in kernel_of(module).walk() if "// point" in op.first_line]
        for first, second in zip(points[::2], points[1::2], strict=True):
            span = ids.new()
            first.insert_before(begin(span, "op", f"span {span}", "point"))
            second.insert_before(end(span))


POINTS: Final = RecordPoints.name

Variant = Callable[[], AbstractContextManager[object]]


class Buffers:
    """Buffers that hold `launches` launches of one kernel, so that none is drained while they are timed.

    All CTAs count, though only some may record.
    """

    def __init__(self, manifest: Manifest, workload: Workload) -> None:
        stride_log2 = manifest.selection.stride_log2(workload.ctas, 0)
        bits = LaunchBits(stride_log2, ring_log2_for_rows(workload.rows))
        self.launch_bytes = needed_bytes(manifest, workload.ctas, bits)
        # A round drains some of this at its end, which takes time too.
        self.launches = max(3, min(20, (1 << 30) // self.launch_bytes - WARM_UP))
        # Two arenas share the memory, and from half an arena on the other one is prepared.
        placed = align(self.launch_bytes, BASE_ALIGNMENT)
        self.memory_mib = 64 + (4 * (self.launches + WARM_UP + 1) * placed >> 20)


WARM_UP: Final = 3  # launches before the timed ones


def buffers(ttgir: str, workload: Workload, pipeline: str) -> Buffers:
    """How much to give a session. ttgir: the module of the bare kernel."""
    text = instrument(ttgir, Options(instrument=[pipeline]), PassContext(triton_version()))
    manifest = manifest_in(text or "")
    assert manifest is not None, workload.name
    return Buffers(manifest, workload)


def variants(workload: Workload, level: Level, given: Buffers, *names: str) -> dict[str, Variant]:
    """The named ones; each makes a context in which launches of the kernel are recorded in that way."""

    def proton(buffer: str) -> AbstractContextManager[None]:
        return proton_side.recording(proton_side.mode(buffer, workload.warps), level.pipeline)

    every: dict[str, Variant] = {
        BARE: nullcontext,
        OURS: lambda: recording(level, given),
        SHARED: lambda: proton("shared"),
        GLOBAL: lambda: proton("global"),
    }
    return {name: every[name] for name in names}


@contextlib.contextmanager
def recording(level: Level, given: Buffers) -> Iterator[None]:
    """A session for timing kernels; raises if the figures would not be those of recording launches."""
    with profscope.session(instrument=[level.pipeline], ctas=level.ctas, memory=given.memory_mib) as session:
        yield
        recorder = session._parts().recorder  # reading the profile would decode it
        for why in (*session._parts().dispatcher.notes(), *recorder.diagnostics.unrecorded):
            raise RuntimeError(f"profscope did not record: {why}")
        if not len(recorder.log):
            raise RuntimeError("profscope recorded no launch")
        used = sum(launch.size for launch in recorder.log.launches)
        if used > given.memory_mib << 19:
            raise RuntimeError(f"{used >> 20} MiB of records: a drain ran while the kernel was timed")
        if level.ctas == 1 and any(launch.bits.stride_log2 for launch in recorder.log.launches):
            raise RuntimeError("only some of the CTAs were recorded")
