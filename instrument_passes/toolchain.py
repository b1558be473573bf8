"""Uses of Triton itself: only this module imports it, on demand."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from profscope.instrument_passes.contractions import Contractions, contractions_of
from profscope.instrument_passes.errors import IRError, ToolchainError
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.ir.tokens import unquote
from profscope.instrument_passes.llvm_ir import corrected

__all__ = [
    "Binary",
    "ToolchainError",
    "binary_of",
    "build",
    "built",
    "disassembled",
    "parsed",
    "rejection",
    "resources_of",
    "scratch_lowering",
    "triton_version",
    "verify",
]

_DIAGNOSTIC: Final = re.compile(r'module\.ttgir"?:(\d+):\d+\)?: error: (.*)')
_USAGE: Final = re.compile(r"\b([A-Z]+):(\d+)")
_AMD_USAGE: Final = re.compile(r"^ +\.(vgpr_count|private_segment_fixed_size): +(\d+)", re.MULTILINE)
_AMD_CODE: Final = re.compile(r"^\t([a-z].*?)(?:\s*;.*)?$", re.MULTILINE)
_SASS: Final = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")


@dataclass(frozen=True)
class Binary:
    """A module built for a GPU. warps: of a CTA, workers of partitions included.

    shared_bytes: of a launch; registers: of a thread (AMD: its vector registers, those for accumulation
    included); local_bytes: stack and spills of a thread; instructions: padding left out. contractions: None
    without PTX.
    """

    target: str
    warps: int
    shared_bytes: int
    registers: int
    local_bytes: int
    instructions: tuple[str, ...]
    contractions: Contractions | None


def build(text: str, file: str, bare: str = "") -> Binary:
    """Build a module to a binary, with no GPU. Raises ToolchainError if Triton or its tools cannot.

    bare: the module without records, if it is to round as that one does, as it would in a session.
    """
    return binary_of(*built(text, file, bare))


def binary_of(target: str, left: dict[str, Any], metadata: dict[str, Any]) -> Binary:
    """The binary of a kernel from `built`. Raises ToolchainError if NVIDIA's tools cannot read it."""
    usage = _of_cubin(left["cubin"]) if "cubin" in left else _of_amdgcn(left["amdgcn"])
    contractions = contractions_of(left["ptx"]) if "ptx" in left else None
    return Binary(target, int(metadata["num_warps"]), int(metadata["shared"]), *usage, contractions)


def built(text: str, file: str, bare: str = "") -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A module's target, the output of each stage of its build, and the metadata. Raises ToolchainError."""
    module = parse(text, file)
    target = unquote(module.attr("ttg.target") or '""')
    stages = {"cuda": ("llir", "ptx", "cubin"), "hip": ("llir", "amdgcn", "hsaco")}.get(
        target.partition(":")[0]
    )
    if stages is None:
        raise ToolchainError(
            f"{file}: can build for cuda and hip targets, not for {target or '(no ttg.target)'}"
        )
    left, metadata = _stages(
        text, target, stages, module.integer("ttg.num-warps", 1), module.integer("ttg.num-ctas", 1), bare
    )
    return target, left, metadata


def disassembled(cubin: bytes) -> str:
    """The output of nvdisasm for a cubin's code: with encodings, and the lines of the source and of the PTX.

    Raises ToolchainError without Triton, or where nvdisasm cannot read the cubin.
    """
    _libtriton()
    from triton import knobs

    with _file("module.cubin", cubin) as path:
        return _tool(knobs.nvidia.nvdisasm.path, "-c", "-hex", "-g", "-gp", path)


def resources_of(cubin: bytes) -> tuple[int, int]:
    """Registers and local bytes of a thread. Raises ToolchainError if NVIDIA's tool cannot tell."""
    from triton import knobs

    with _file("module.cubin", cubin) as path:
        usage = dict(_USAGE.findall(_tool(knobs.nvidia.cuobjdump.path, "-res-usage", path)))
    return int(usage["REG"]), int(usage.get("STACK", 0)) + int(usage.get("LOCAL", 0))


def _of_cubin(cubin: bytes) -> tuple[int, int, tuple[str, ...]]:
    """Registers, local bytes and instructions, by NVIDIA's own tools."""
    from triton import knobs

    with _file("module.cubin", cubin) as path:
        listing = _tool(knobs.nvidia.nvdisasm.path, "-c", path)
    sass = tuple(line for line in _SASS.findall(listing) if not line.startswith("NOP"))
    return *resources_of(cubin), sass


def _of_amdgcn(assembly: str) -> tuple[int, int, tuple[str, ...]]:
    """The same, from the metadata of the code object, which stand in the assembly."""
    used = dict(_AMD_USAGE.findall(assembly))
    code = tuple(line for line in _AMD_CODE.findall(assembly) if not line.startswith("s_code_end"))
    return int(used["vgpr_count"]), int(used["private_segment_fixed_size"]), code


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
    from triton.backends.amd.compiler import HIPBackend
    from triton.backends.nvidia.compiler import CUDABackend

    # AMD's pass wants an architecture, which says nothing of how scratch is lowered.
    lowerings = {
        CUDABackend: proton.add_convert_proton_nvidia_gpu_to_llvm,
        HIPBackend: lambda manager: proton.add_convert_proton_amd_gpu_to_llvm(manager, "gfx942"),
    }
    ours = {
        backend: _Instrumentation(proton.load_dialects, lowering, backend.instrumentation)
        for backend, lowering in lowerings.items()
    }
    try:
        for backend, own in ours.items():
            backend.instrumentation = own
        yield
    finally:
        for backend, own in ours.items():
            if backend.instrumentation is own:  # else Proton has been started or ended meanwhile
                backend.instrumentation = own.user


@dataclass(frozen=True)
class _Instrumentation:
    """What a compiler of Triton up to 3.7 calls while it builds; user: what was installed before."""

    load: Callable[[Any], None]
    lower: Callable[[Any], None]
    user: Any

    def load_dialects(self, context: Any) -> None:
        self.load(context)
        if self.user:
            self.user.load_dialects(context)

    def patch(self, point: str, manager: Any, context: Any) -> None:
        if self.user:
            self.user.patch(point, manager, context)
        if point == "llvmir_to_llvm":  # Proton's own adds this too; the second one finds nothing to do
            self.lower(manager)


def verify(text: str, file: str) -> None:
    """Have Triton parse and verify a module.

    Raises IRError with Triton's own diagnostic, the line and the op; ToolchainError without Triton.
    """
    module = parse(text, file)
    context = _context(unquote(module.attr("ttg.target") or '""'))
    if _said_against(text, context) is not None:
        raise rejection(text, file, context)


def rejection(text: str, file: str, context: Any) -> IRError:
    """Why Triton does not accept a module: its own diagnostic, with the op that it is about.

    context: an MLIR context that has the module's dialects loaded.
    """
    bare = _without_locations(text, file)
    said = _said_against(bare, context)
    if said is None:  # so it is a location that is wrong
        bare, said = text, _said_against(text, context)
    match = _DIAGNOSTIC.search(said or "")
    if match is None:
        return IRError(f"Triton rejects the module: {said or 'no diagnostic'}", file)
    line = int(match[1])
    op = bare.splitlines()[line - 1].strip()
    return IRError(f"Triton rejects the module: {match[2]}: {op[:200]}", file, line)


def _without_locations(text: str, file: str) -> str:
    """An op with a location is reported at its line in the source, one without at its line in the text."""
    try:
        module = parse(text, file)
    except IRError:
        return text
    for op in module.walk():
        op.without_location()
    return str(module)


def _said_against(text: str, context: Any) -> str | None:
    """What Triton says against a module, None if it accepts it."""
    said = io.StringIO()
    try:
        with _descriptor_2(said):
            parsed(text, context)
    except RuntimeError as error:
        return said.getvalue().strip() or str(error)
    return None


def parsed(text: str, context: Any) -> Any:
    """Triton's own module of a text, verified. Raises RuntimeError if it rejects it."""
    with _file("module.ttgir", text.encode()) as path:
        module = _libtriton().ir.parse_mlir_module(path, context)
    module.context = context
    return module


@contextlib.contextmanager
def _file(name: str, content: bytes) -> Iterator[str]:
    """A file with this content for the body of a with statement."""
    with tempfile.TemporaryDirectory(prefix="profscope-") as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        yield str(path)


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


def _stages(
    text: str, target: str, names: Sequence[str], warps: int, ctas: int, bare: str = ""
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What each of Triton's stages leaves, and the metadata."""
    context = _context(target)
    from triton.backends.compiler import Language
    from triton.compiler import make_backend
    from triton.runtime.errors import PTXASError

    gpu = _gpu_target(target)
    backend = make_backend(gpu)
    # 3.9 warns where fp fusion is left to the default, which is this.
    options = backend.parse_options({"num_warps": warps, "num_ctas": ctas, "enable_fp_fusion": True})
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, Language.TRITON)
    metadata = {"target": gpu, **options.__dict__}
    left: dict[str, Any] = {}

    def lower_bare() -> str:
        return str(_stages(bare, target, ("llir",), warps, ctas)[0]["llir"])

    with scratch_lowering(triton_version()):
        try:
            result = parsed(text, context)
            for stage in names:
                result = stages[stage](result, metadata)
                if stage == "llir":
                    result = corrected(str(result), lower_bare if bare else None)
                left[stage] = result
        except (RuntimeError, PTXASError) as error:
            raise ToolchainError(f"Triton cannot build the module: {error}") from error
    return left, metadata


def _tool(path: str, *arguments: str) -> str:
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().removeprefix(f"{Path(path).name} fatal   : ")
        for name in (f"File {arguments[-1]}", arguments[-1]):
            said = said.replace(name, "this file")  # it is ours, and gone
        raise ToolchainError(f"{Path(path).name} failed: {said}")
    return done.stdout


def _libtriton() -> Any:
    try:
        from triton._C import libtriton
    except ImportError as error:
        raise ToolchainError("this needs Triton, which is not installed: pip install triton") from error
    return libtriton


def _gpu_target(target: str) -> Any:
    """Triton's GPUTarget of a target named as in `ttg.target`."""
    from triton.backends.compiler import GPUTarget

    backend, _, arch = target.partition(":")
    if backend == "cuda" and arch.isdecimal():
        return GPUTarget("cuda", int(arch), 32)
    if backend == "hip":
        return GPUTarget("hip", arch, 64)
    raise ToolchainError(f"the module's ttg.target {target!r} is neither cuda nor hip")


def _context(target: str) -> Any:
    """A context with the dialects of a target, named as in `ttg.target`."""
    libtriton = _libtriton()
    from triton.compiler import make_backend

    context = libtriton.ir.context()
    libtriton.ir.load_dialects(context)
    make_backend(_gpu_target(target)).load_dialects(context)
    if hasattr(libtriton, "proton"):  # up to 3.6 the scratch allocation is an op of its dialect
        libtriton.proton.load_dialects(context)
    return context
