"""Proton at the same points: our passes choose them, its ops record, its own passes lower them."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from triton import knobs
from triton._C.libtriton import ir
from triton.backends.nvidia.compiler import CUDABackend
from triton.profiler import finalize, start
from triton.profiler.hooks import InstrumentationHook
from triton.runtime import _allocation

from profscope.instrument_passes.dialect import BEGIN, END, is_record, record_id
from profscope.instrument_passes.errors import PassError
from profscope.instrument_passes.ir import Module, parse
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.pipeline import parse_pipeline, run_pipeline
from profscope.instrument_passes.toolchain import triton_version

__all__ = [
    "MAX_SCOPES",
    "RING_BYTES",
    "Finished",
    "mode",
    "proton_text",
    "recording",
    "session",
]

MAX_SCOPES: Final = 256
RING_BYTES: Final = (
    2048  # of a warp, 256 records: what Proton takes by default where it records to shared memory
)
_WRAP: Final = 1 << 31  # from here on the per-CTA pointer of Triton 3.6 and 3.7 wraps
_SESSIONS: Final = itertools.count()


def proton_text(text: str, pipeline: str) -> str:
    """A printed TTGIR module with Proton's records where `pipeline` puts ours.

    Raises PassError naming what Proton cannot do, before it aborts the process.
    """
    module = parse(text)
    run_pipeline(module, parse_pipeline(pipeline), PassContext(triton_version()))
    _check(module)
    names: dict[int, str] = {}
    for op in tuple(module.walk()):
        if not is_record(op):
            continue
        span = record_id(op)
        if op.name == BEGIN:
            # Its passes pair records by name.
            names[span] = f"{span} {op.attributes['name'].strip(chr(34))}"
        action = "start" if op.name == BEGIN else "end"
        op.insert_before(f'proton.record {action} "{names[span]}"', loc=op.loc_text)
        op.erase()
    return str(module)


def _check(module: Module) -> None:
    records = [op for op in module.walk() if is_record(op)]
    if len(module.functions) > 1 and triton_version() < (3, 8):
        raise PassError("Proton takes one function per module")
    scopes = sum(op.name == BEGIN for op in records)
    if scopes > MAX_SCOPES:
        raise PassError(f"Proton takes at most {MAX_SCOPES} scopes, this is {scopes}")
    ended = {record_id(op) for op in records if op.name == END}
    open_ended = next((op for op in records if record_id(op) not in ended), None)
    if open_ended is not None:
        raise PassError(f"Proton needs an end for every start: {open_ended.attributes['name']}")


def mode(buffer: str, warps: int) -> str:
    """Proton's mode string. buffer: "shared", its default, or "global", with rings of the same length."""
    return "default" if buffer == "shared" else f"default:buffer_type=global:buffer_size={RING_BYTES * warps}"


@contextlib.contextmanager
def recording(mode: str, pipeline: str) -> Iterator[None]:
    """Kernels compiled and launched in the body record with Proton's ops, and nobody reads the records.

    This is how the kernel's own time is measured: a session would synchronise at each launch.
    """
    with _restored():
        hook = InstrumentationHook(mode)
        try:
            hook.activate()
            _allocation._profile_allocator.set(_guarded(hook.allocator))
            with _inserting(pipeline, ""):
                yield
        finally:
            hook.deactivate()


class Finished:
    """What a session left: seconds to write the trace, its bytes, spans in it."""

    write_s = 0.0
    file_bytes = 0
    spans = 0


@contextlib.contextmanager
def session(mode: str, pipeline: str) -> Iterator[Finished]:
    """A session as a user would open it. The result is filled in when the body has ended."""
    finished = Finished()
    with tempfile.TemporaryDirectory() as folder, _restored():
        with _no_output():
            number = start(str(Path(folder) / "trace"), data="trace", backend="instrumentation", mode=mode)
            try:
                # It learns a kernel's scopes when the kernel is loaded: each session needs its own binaries.
                with _inserting(pipeline, f"-session{next(_SESSIONS)}"):
                    yield finished
            finally:
                began = time.perf_counter()
                finalize(number)
                finished.write_s = time.perf_counter() - began
        for path in Path(folder).glob("trace*"):
            finished.file_bytes += path.stat().st_size
            finished.spans += _occurrences(path, b'"ph":')


@contextlib.contextmanager
def _inserting(pipeline: str, tag: str) -> Iterator[None]:
    """Put the records in behind Triton's `ttgir` stage; the mode, which names the binary, says which."""

    def hook(*args: Any) -> tuple[str, str] | None:
        if not args:
            return name, name
        stages = args[1]
        make = stages["ttgir"]
        stages["ttgir"] = lambda source, metadata: _inserted(make(source, metadata), pipeline)
        return None

    before = knobs.runtime.add_stages_inspection_hook, knobs.compilation.instrumentation_mode
    name = f"{before[1]},bench-{hashlib.sha256(pipeline.encode()).hexdigest()[:8]}{tag}"
    knobs.compilation.instrumentation_mode = name
    knobs.runtime.add_stages_inspection_hook = hook
    try:
        yield
    finally:
        knobs.runtime.add_stages_inspection_hook, knobs.compilation.instrumentation_mode = before


def _inserted(module: Any, pipeline: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proton.ttgir"
        path.write_text(proton_text(str(module), pipeline))
        made = ir.parse_mlir_module(str(path), module.context)
    made.context = module.context
    return made


@contextlib.contextmanager
def _restored() -> Iterator[None]:
    """Proton resets what it sets; put back what was there before it."""
    before = knobs.compilation.instrumentation_mode, _allocation._profile_allocator.get()
    instrumentation = getattr(CUDABackend, "instrumentation", None)
    active = InstrumentationHook.active_count
    try:
        yield
    finally:
        knobs.compilation.instrumentation_mode = before[0]
        _allocation._profile_allocator.set(before[1])
        InstrumentationHook.active_count = active
        if hasattr(CUDABackend, "instrumentation"):
            CUDABackend.instrumentation = instrumentation


def _guarded(allocator: Any) -> Any:
    def allocate(size: int, alignment: int, stream: int | None) -> Any:
        if size >= _WRAP and triton_version() < (3, 8):
            raise MemoryError(f"Proton asks for {size >> 20} MiB; its pointer per CTA wraps at 2048")
        return allocator(size, alignment, stream)

    return allocate


@contextlib.contextmanager
def _no_output() -> Iterator[None]:
    """Proton writes a line for each warp that lost records, from native code."""
    saved = [os.dup(descriptor) for descriptor in (1, 2)]
    with open(os.devnull, "wb") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
        try:
            yield
        finally:
            for descriptor, copy in enumerate(saved, 1):
                os.dup2(copy, descriptor)
                os.close(copy)


def _occurrences(path: Path, what: bytes) -> int:
    """How often `what` stands in a file, which may be larger than memory."""
    count, rest = 0, b""
    with path.open("rb") as file:
        while chunk := file.read(1 << 24):
            chunk = rest + chunk
            count += chunk.count(what)
            rest = chunk[-(len(what) - 1) :]
    return count
