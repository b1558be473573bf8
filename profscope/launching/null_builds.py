"""Null builds: a bare kernel that does the same, and whose code stands elsewhere.

    entry:                        entry:
        mov.u32 %r1, %ctaid.x;        { pmevent 0; pmevent 0; }
        ...                           mov.u32 %r1, %ctaid.x;
                                      ...

A kernel gets faster or slower where the assembler puts its code elsewhere, and nothing else changes. By how
much is known from bare kernels whose code is shifted by a few instructions of 16 bytes. `pmevent` does
nothing where no performance monitor waits for the event, and ptxas keeps each one; what they compute is the
same.

They are assembled by a thread of their own: until then their turns are those of the bare kernel. Triton's
cache keeps them.
"""

from __future__ import annotations

import copy
import hashlib
import re
import threading
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from triton.compiler import CompiledKernel
from triton.compiler.compiler import make_backend
from triton.runtime.cache import get_cache_manager

from instrument_passes.toolchain import resources_of
from profscope.errors import CompileError
from profscope.version import __version__

__all__ = ["SHIFTS", "NullBuilds", "null_build", "shifted"]

SHIFTS: Final = (1, 2, 4, 6)
"""By so many instructions; the instruction cache's lines hold eight."""

_BINARY: Final = "cubin"


def shifted(ptx: str, name: str, instructions: int) -> str:
    """PTX whose kernel of this name begins with so many instructions more. Raises CompileError without it."""
    entry = re.search(rf"\.entry\s+{re.escape(name)}\b[^{{]*\{{", ptx)
    if entry is None:
        raise CompileError(f"its PTX has no kernel {name}")
    padding = "pmevent 0; " * instructions
    return f"{ptx[: entry.end()]}\n\t{{ {padding}}}{ptx[entry.end() :]}"


def null_build(bare: CompiledKernel, instructions: int) -> CompiledKernel:
    """A bare kernel, shifted by so many instructions; it is yet to be loaded.

    Raises CompileError where it takes other registers than the bare one, so that it is more than shifted, and
    what assembling does.
    """
    metadata = bare.metadata
    # Assembler and options are part of the bare kernel's own hash.
    key = hashlib.sha256(f"{bare.hash} null {instructions} {__version__}".encode()).hexdigest()
    cache, file = get_cache_manager(key), f"{metadata.name}.{_BINARY}"
    ptx = shifted(bare.asm["ptx"], metadata.name, instructions)
    kept = cache.get_file(file)
    if kept is None:
        backend = make_backend(metadata.target)
        options = backend.parse_options(metadata._asdict())
        cubin: bytes = backend.make_cubin(ptx, {}, options, metadata.target.arch)
        cache.put(cubin, file, binary=True)
    else:
        cubin = Path(kept).read_bytes()
    if resources_of(cubin) != resources_of(bare.asm[_BINARY]):
        raise CompileError(f"shifted by {instructions} instructions, it takes other registers")
    null = copy.copy(bare)
    for name in [name for name in vars(null) if name.startswith("_profscope") or name == "run"]:
        del vars(null)[name]
    null.asm = type(bare.asm)({**bare.asm, "ptx": ptx, _BINARY: cubin})
    null.kernel = cubin
    null.metadata_group = dict(bare.metadata_group)  # what is loaded is told apart by this object
    null.module = null.function = null._run = None
    return null


class NullBuilds:
    """Those of a session. Thread-safe."""

    def __init__(self) -> None:
        self._builds: weakref.WeakKeyDictionary[CompiledKernel, dict[int, Future[CompiledKernel]]]
        self._builds = weakref.WeakKeyDictionary()
        self._assembler: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def begin(self, bare: CompiledKernel) -> None:
        """Assemble those of a bare kernel, unless that has begun."""
        if bare.metadata.target.backend != "cuda":
            return
        with self._lock:
            if bare in self._builds:
                return
            if self._assembler is None:
                self._assembler = ThreadPoolExecutor(1, "profscope-null-builds")
            submit = self._assembler.submit
            self._builds[bare] = {shift: submit(null_build, bare, shift) for shift in SHIFTS}

    def ready(self, bare: CompiledKernel, shift: int) -> CompiledKernel | None:
        """A null build; None while it is not there. Raises what assembling did."""
        future = self._builds.get(bare, {}).get(shift)
        return future.result() if future is not None and future.done() else None

    def wait(self) -> None:
        """Until those are there that have begun."""
        for builds in list(self._builds.values()):
            for future in builds.values():
                future.exception()

    def end(self) -> None:
        """Assemble no more; begin anew where the session goes on."""
        with self._lock:
            assembler, self._assembler = self._assembler, None
            if assembler is None:
                return
            assembler.shutdown(cancel_futures=True)
            for bare, builds in list(self._builds.items()):
                if any(future.cancelled() for future in builds.values()):
                    del self._builds[bare]
