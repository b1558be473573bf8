"""Compiles kernels with records by Triton's own `compile`, while other threads compile and launch bare ones.

Three methods of Triton are patched while a thread compiles with records, and only that thread notices:
- `add_stages` of its backends: the stages of the compilation go through `RecordingStages`;
- `ASTSource.hash`, a part of the cache key: a recorded binary never meets a bare one, in memory or on disk;
- `CUDABackend.hash`, another part: Triton asks for the version of ptxas once a process. Inductor sets
  TRITON_PTXAS_PATH later, so its processes and ours would look for one binary under two keys.

A user's `knobs.compilation.listener` does not hear of such a compilation. No other knob is set, so other
threads find their kernels under the same cache keys as without a session.
Used of Triton 3.6 to 3.9: these three, this knob, `CUDABackend.instrumentation` and `proton.record`.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import triton
from triton import knobs
from triton.backends import backends
from triton.compiler import ASTSource, CompiledKernel

from profscope import language
from profscope.compat.patches import patched
from profscope.errors import CompileError
from profscope.instrument_passes.toolchain import scratch_lowering, triton_version

__all__ = ["RecordedCompiler", "conflict", "options_given", "proton_scopes", "recompile", "unheard"]

_NUM_WARPS: Final = re.compile(r'"ttg\.num-warps" = (\d+)')
_NVIDIA: Final = "nvidia"
# What two binaries must share if one is launched in place of the other.
_SHARED: Final = ("name", "num_warps", "num_ctas", "tensordesc_meta")

_SCRATCH: Final = "it keeps data of its own in the profile buffer, which holds the records"
_SHADOW: Final = "it checks accesses against shadow memory, which profscope's buffers do not have"
# Mode of TRITON_INSTRUMENTATION_MODE -> Triton version -> why no kernel can be recorded under it. Tried on
# each version; iisan only inserts assertions, and gets along.
_REFUSED: Final[dict[str, dict[tuple[int, int], str]]] = {
    "consan": {(3, 8): _SCRATCH, (3, 9): _SCRATCH},
    "fpsan": {(3, 8): _SCRATCH, (3, 9): _SCRATCH},
    "gsan": {(3, 8): _SHADOW, (3, 9): _SHADOW},
}


class _Thread(threading.local):
    compiles = False  # this thread compiles with records


class RecordedCompiler:
    """Thread-safe. key: tells its binaries from all others. stages: replaces a compilation's stages by ones
    with records; it gets the backend, the stages, and the backend's options, made for this compilation."""

    def __init__(self, key: str, stages: Callable[[Any, dict[str, Any], Any], None]) -> None:
        self.key = key
        self._stages = stages
        self._thread = _Thread()
        self._lock = threading.Lock()
        self._in_flight = 0
        self._patches = contextlib.ExitStack()

    def compile(self, kernel: CompiledKernel) -> CompiledKernel:
        """The same kernel with records. Raises CompileError if it cannot be compiled again, and what Triton
        raises."""
        with self.recording():
            return recompile(kernel)

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Kernels that this thread compiles in the body of the with statement get records."""
        before = self._thread.compiles
        self._begin()
        self._thread.compiles = True
        try:
            with unheard():
                yield
        finally:
            self._thread.compiles = before
            self._end()

    def _begin(self) -> None:
        with self._lock:
            if not self._in_flight:
                for backend in backends.values():
                    add_stages = patched(backend.compiler, "add_stages", self._add_stages)
                    self._patches.enter_context(add_stages)
                self._patches.enter_context(patched(ASTSource, "hash", self._hash))
                if _NVIDIA in backends:
                    cuda_backend = backends[_NVIDIA].compiler
                    self._patches.enter_context(patched(cuda_backend, "hash", self._hash_backend))
                self._patches.enter_context(scratch_lowering(triton_version()))
                self._patches.enter_context(proton_scopes())
            self._in_flight += 1

    def _end(self) -> None:
        with self._lock:
            self._in_flight -= 1
            if not self._in_flight:
                self._patches.close()

    def _add_stages(self, add_stages: Callable[..., Any]) -> Callable[..., Any]:
        def add(backend: Any, stages: dict[str, Any], options: Any, *others: Any) -> None:
            compiles, self._thread.compiles = self._thread.compiles, False  # a backend may call its base's
            try:
                add_stages(backend, stages, options, *others)
            finally:
                self._thread.compiles = compiles
            if compiles:
                self._stages(backend, stages, options)

        return add

    def _hash(self, make_hash: Callable[..., str]) -> Callable[..., str]:
        def make(source: ASTSource) -> str:
            plain = make_hash(source)
            if not self._thread.compiles:
                return plain
            # Triton's hash has the kernel's text and line alone: spans name its file, too.
            code = getattr(getattr(source.fn, "fn", None), "__code__", None)
            file = "" if code is None else code.co_filename
            return hashlib.sha256(f"{plain}-{self.key}-{file}".encode()).hexdigest()

        return make

    def _hash_backend(self, make_hash: Callable[..., str]) -> Callable[..., str]:
        def make(backend: Any) -> str:
            if not self._thread.compiles:
                return make_hash(backend)
            tools = knobs.nvidia.ptxas, knobs.nvidia.ptxas_blackwell
            used = " ".join(f"{tool.path} {tool.version}" for tool in tools)
            return f"{used}-{backend.target.arch}"

        return make


def recompile(kernel: CompiledKernel) -> CompiledKernel:
    """A kernel compiled again, or found in Triton's cache, from the same source with the same options.

    Raises CompileError if the other binary cannot be launched in place of this one.
    """
    if not isinstance(kernel.src, ASTSource):
        raise CompileError("it was compiled from a file")
    options = options_given(kernel)
    options["instrumentation_mode"] = knobs.compilation.instrumentation_mode
    with unheard():
        again = triton.compile(_source(kernel.src), target=kernel.metadata.target, options=options)
    for name in _SHARED:
        was, now = (getattr(each.metadata, name, None) for each in (kernel, again))
        if was != now:
            raise CompileError(f"compiled again, its {name} is {now} and not {was}")
    return again


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Hide compilations by this thread from the user's listener, in the body of the with statement."""
    if knobs.compilation.listener is None:
        yield
        return
    ours = threading.get_ident()

    def wrap(listener: Callable[..., Any]) -> Callable[..., Any]:
        def hear(*args: Any, **kwargs: Any) -> None:
            if threading.get_ident() != ours:
                listener(*args, **kwargs)

        return hear

    with patched(knobs.compilation, "listener", wrap):
        yield


def _source(source: ASTSource) -> ASTSource:
    """What was compiled, under its key for the knobs of now: a user's hook on the stages counts as one more
    argument since Triton 3.7."""
    if knobs.runtime.add_stages_inspection_hook is not None:
        return source
    arguments = len(source.fn.arg_names)
    attributes = {path: value for path, value in source.attrs.items() if path[0] < arguments}
    if len(attributes) == len(source.attrs):
        return source
    source = copy.copy(source)
    source.attrs = attributes
    return source


def options_given(kernel: CompiledKernel) -> dict[str, Any]:
    """The options that a kernel was compiled with, as they can be given to compile it again."""
    options = {name: _as_given(value) for name, value in kernel.metadata._asdict().items()}
    # A binary from the cache names the libraries of the installation that compiled it, which may be gone;
    # without them Triton takes its own.
    libraries = options.get("extern_libs") or ()
    options["extern_libs"] = tuple((name, path) for name, path in libraries if os.path.isfile(path))
    # The metadata count the warps of warp-specialised partitions, too.
    warps = _NUM_WARPS.search(kernel.asm.get("ttgir", ""))
    if warps is not None:
        options["num_warps"] = int(warps[1])
    return options


def _as_given(value: Any) -> Any:
    """An option as it was before it went through JSON."""
    return tuple(map(_as_given, value)) if isinstance(value, list) else value


def conflict(modes: str, triton: tuple[int, int]) -> str:
    """Why a kernel cannot be recorded under these instrumentation modes, naming the mode; "" if it can.

    As Triton reads them: names with commas between since 3.9, before that any text with the name in it.
    """
    names = {name.strip() for name in modes.split(",")}
    for mode, reasons in _REFUSED.items():
        if triton in reasons and (mode in names if triton >= (3, 9) else mode in modes):
            return (
                f"Triton's instrumentation mode {mode!r} cannot be combined with records: "
                f"{reasons[triton]}; take {mode} out of TRITON_INSTRUMENTATION_MODE "
                "(knobs.compilation.instrumentation_mode)"
            )
    return ""


@contextlib.contextmanager
def proton_scopes() -> Iterator[None]:
    """For the body of a with statement, Proton's scopes are ours too, in kernels compiled with records.

    All of them go through `record` of `triton.profiler.language` on Triton 3.6 to 3.9. Proton's own
    instrumentation, if it is on, keeps getting them as well.
    """
    try:
        from triton.profiler import language as proton
    except ImportError:  # a Triton that was built without Proton
        yield
        return

    def wrap(own: Callable[..., Any]) -> Callable[..., Any]:
        def record(is_start: Any, scope_name: Any, semantic: Any) -> Any:
            do = language.enter_scope if getattr(is_start, "value", is_start) else language.exit_scope
            do(scope_name, _semantic=semantic)
            return own(is_start, scope_name, semantic)

        return record

    with patched(proton, "record", wrap):
        yield
