"""What needs Triton itself, which is imported here only, and only when asked for."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from instrument_passes.errors import InstrumentError, IRError
from instrument_passes.ir import Module, parse
from instrument_passes.passes.lower_records import unquote

__all__ = ["Binary", "ToolchainError", "build", "scratch_lowering", "triton_version", "verify"]

_DIAGNOSTIC: Final = re.compile(r'module\.ttgir"?:(\d+):\d+\)?: error: (.*)')
_USAGE: Final = re.compile(r"\b([A-Z]+):(\d+)")
_SASS: Final = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")


class ToolchainError(InstrumentError):
    """Triton, or a tool it ships, is missing or too old for what was asked."""


@dataclass(frozen=True)
class Binary:
    """A module built for an NVIDIA GPU. warps: of a CTA, workers of partitions included.

    shared_bytes: what a launch asks for; registers: of a thread; local_bytes: stack and spills of a thread;
    sass: disassembled instructions, padding left out.
    """

    target: str
    warps: int
    shared_bytes: int
    registers: int
    local_bytes: int
    sass: tuple[str, ...]


def build(text: str, file: str) -> Binary:
    """Build a module to a cubin, with no GPU. Raises ToolchainError where Triton or its tools cannot."""
    module = parse(text, file)
    target = unquote(module.attr("ttg.target") or '""')
    if not target.startswith("cuda:"):
        raise ToolchainError(f"{file}: can build for NVIDIA GPUs only, not for {target or '(no ttg.target)'}")
    cubin, metadata = _cubin(
        text, target, _integer(module, "ttg.num-warps"), _integer(module, "ttg.num-ctas")
    )
    from triton import knobs

    with tempfile.TemporaryDirectory(prefix="profscope-") as folder:
        path = Path(folder) / "module.cubin"
        path.write_bytes(cubin)
        usage = _tool(knobs.nvidia.cuobjdump.path, "-res-usage", str(path))
        listing = _tool(knobs.nvidia.nvdisasm.path, "-c", str(path))
    used = dict(_USAGE.findall(usage))
    sass = tuple(line for line in _SASS.findall(listing) if not line.startswith("NOP"))
    local = int(used.get("STACK", 0)) + int(used.get("LOCAL", 0))
    warps = int(metadata["num_warps"])
    return Binary(target, warps, int(metadata["shared"]), int(used["REG"]), local, sass)


def triton_version() -> tuple[int, int]:
    """(major, minor) of the installed Triton. Raises ToolchainError if there is none."""
    _libtriton()
    import triton

    major, minor = triton.__version__.split(".")[:2]
    return int(major), int(minor)


@contextlib.contextmanager
def scratch_lowering(version: tuple[int, int]) -> Iterator[None]:
    """Up to Triton 3.7: have make_llir lower the scratch op. Whatever was installed keeps running."""
    if version >= (3, 8):
        yield
        return
    from triton._C.libtriton import proton
    from triton.backends.nvidia.compiler import CUDABackend

    user = CUDABackend.instrumentation

    class Instrumentation:
        def load_dialects(self, context: Any) -> None:
            proton.load_dialects(context)
            if user:
                user.load_dialects(context)

        def patch(self, point: str, manager: Any, context: Any) -> None:
            if user:
                user.patch(point, manager, context)
            if point == "llvmir_to_llvm":  # Proton's own adds this too; the second one finds nothing to do
                proton.add_convert_proton_nvidia_gpu_to_llvm(manager)

    try:
        CUDABackend.instrumentation = Instrumentation()
        yield
    finally:
        CUDABackend.instrumentation = user


def verify(text: str, file: str) -> None:
    """Have Triton parse and verify a module.

    Raises IRError with Triton's own diagnostic, the line and the op; ToolchainError without Triton.
    """
    module = parse(text, file)
    context = _context(unquote(module.attr("ttg.target") or '""'))
    if _rejection(text, context) is None:
        return
    # Without its location an op that is wrong is reported at its line in the text, not in the source.
    for op in module.walk():
        if op.loc_text:
            last = len(op.parts) - 1
            op.set_part(last, str(op.parts[last]).removesuffix(op.loc_text))
    stripped = str(module)
    said = _rejection(stripped, context) or "no diagnostic"
    match = _DIAGNOSTIC.search(said)
    if match is None:
        raise IRError(f"Triton rejects the module: {said}", file)
    line = int(match[1])
    op_text = stripped.splitlines()[line - 1].strip()
    raise IRError(f"Triton rejects the module: {match[2]}: {op_text[:200]}", file, line)


def _rejection(text: str, context: Any) -> str | None:
    """What Triton says against a module, None if it accepts it."""
    said = io.StringIO()
    with tempfile.TemporaryDirectory(prefix="profscope-") as folder:
        path = Path(folder) / "module.ttgir"
        path.write_text(text)
        try:
            with _descriptor_2(said):
                _libtriton().ir.parse_mlir_module(str(path), context)
        except RuntimeError as error:
            return said.getvalue().strip() or str(error)
    return None


@contextlib.contextmanager
def _descriptor_2(into: io.StringIO) -> Iterator[None]:
    """Collect what native code writes to file descriptor 2, the only place where MLIR says what is wrong."""
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            log.seek(0)
            into.write(log.read().decode(errors="replace"))


def _cubin(text: str, target: str, warps: int, ctas: int) -> tuple[bytes, dict[str, Any]]:
    context = _context(target)
    from triton.backends.compiler import GPUTarget, Language
    from triton.compiler import make_backend
    from triton.runtime.errors import PTXASError

    gpu = GPUTarget("cuda", int(target.partition(":")[2]), 32)
    backend = make_backend(gpu)
    # 3.9 warns where fp fusion is left to the default, which is this.
    options = backend.parse_options({"num_warps": warps, "num_ctas": ctas, "enable_fp_fusion": True})
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, Language.TRITON)
    metadata = {"target": gpu, **options.__dict__}
    with tempfile.TemporaryDirectory(prefix="profscope-") as folder, scratch_lowering(triton_version()):
        path = Path(folder) / "module.ttgir"
        path.write_text(text)
        try:
            built = _libtriton().ir.parse_mlir_module(str(path), context)
            built.context = context
            for stage in ("llir", "ptx", "cubin"):
                built = stages[stage](built, metadata)
        except (RuntimeError, PTXASError) as error:
            raise ToolchainError(f"Triton cannot build the module: {error}") from error
    return built, metadata


def _tool(path: str, *arguments: str) -> str:
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolchainError(f"{Path(path).name} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _integer(module: Module, name: str) -> int:
    return int((module.attr(name) or "1").split(":")[0])


def _libtriton() -> Any:
    try:
        from triton._C import libtriton
    except ImportError as error:
        raise ToolchainError("this needs Triton, which is not installed: pip install triton") from error
    return libtriton


def _context(target: str) -> Any:
    """A context with the dialects of a target, named as in `ttg.target`."""
    libtriton = _libtriton()
    from triton.backends.compiler import GPUTarget
    from triton.compiler import make_backend

    backend, _, arch = target.partition(":")
    context = libtriton.ir.context()
    libtriton.ir.load_dialects(context)
    if backend == "cuda" and arch.isdecimal():
        make_backend(GPUTarget("cuda", int(arch), 32)).load_dialects(context)
    elif backend == "hip":
        make_backend(GPUTarget("hip", arch, 64)).load_dialects(context)
    else:
        raise ToolchainError(f"the module's ttg.target {target!r} is neither cuda nor hip")
    if hasattr(libtriton, "proton"):  # up to 3.6 the scratch allocation is an op of its dialect
        libtriton.proton.load_dialects(context)
    return context
