"""Kernels made of edited code: TTGIR, launched in place of the kernel that it was printed of, and PTX.

Used of Triton 3.6 to 3.9: `triton.compile` of a file, and `CompiledKernel.src`, `metadata`, `_init_handles`,
`packed_metadata` and `function`; `get_ptxas`, and the options `enable_fp_fusion` and `ptx_options`
in a kernel's metadata.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
import threading
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import CompiledKernel

from profscope.compat.compiling import options_given, unheard
from profscope.compat.kernels import Launcher, watched_binaries
from profscope.errors import CompileError

__all__ = ["Assembly", "Options", "assembly_of", "build", "loaded", "options_of", "swapped"]


class Options(NamedTuple):
    """The settings of a compilation: the target's backend, architecture and warp size, and the options."""

    target: tuple[str, Any, int]
    given: dict[str, Any]


def options_of(kernel: CompiledKernel) -> Options:
    """Those that a kernel was compiled with; they can be pickled."""
    given, target = options_given(kernel), kernel.metadata.target
    del given["target"]
    return Options((target.backend, target.arch, target.warp_size), given)


def build(path: str, options: Options) -> CompiledKernel:
    """Compile a module, or find it in Triton's cache. Raises Triton's errors."""
    with unheard():
        return triton.compile(path, target=GPUTarget(*options.target), options=dict(options.given))


def loaded(kernel: CompiledKernel, bare: CompiledKernel) -> CompiledKernel:
    """A kernel that `build` made, loaded so that it takes the arguments of `bare`.

    Raises CompileError if it takes others, and what loading does.
    """
    if kernel.name != bare.name:
        raise CompileError(f"compiled from TTGIR, it is called {kernel.name} and not {bare.name}")
    own = kernel.metadata._asdict()
    missing = {name: value for name, value in bare.metadata._asdict().items() if name not in own}
    metadata: Mapping[str, Any] = missing | own
    kernel.src = bare.src
    kernel.metadata = namedtuple("KernelMetadata", sorted(metadata))(**metadata)
    kernel._init_handles()
    return kernel


@contextlib.contextmanager
def swapped(
    bare: CompiledKernel, launch: Callable[[], Any]
) -> Iterator[Callable[[CompiledKernel | None], Any]]:
    """For the body of a with statement, what calls `launch`, which launches `bare`, and has this thread
    launch another kernel in its place; None: `bare` itself."""
    thread = threading.get_ident()
    current: CompiledKernel | None = None

    def swap(kernel: CompiledKernel, plain: Launcher) -> Launcher:
        other = current
        if kernel is not bare or other is None or threading.get_ident() != thread:
            return plain
        launcher: Any = other._run

        def run(x: int, y: int, z: int, stream: int, _: Any, __: Any, *rest: Any) -> Any:
            return launcher(x, y, z, stream, other.function, other.packed_metadata, *rest)

        return run

    def launch_in_place(kernel: CompiledKernel | None) -> Any:
        nonlocal current
        current = kernel
        try:
            return launch()
        finally:
            current = None

    with watched_binaries(swap):
        yield launch_in_place


_TARGET: Final = re.compile(r"^\.target\s+(sm_(\d+)\w*)", re.MULTILINE)
_ERROR: Final = re.compile(r"\b(?:error|fatal)\b")  # not what it says of the speed
_AROUND_BUGS: Final = "--regAllocOptLevel=2"  # of ptxas 13, as Triton has it from 3.7 on
_LONGEST_S: Final = 60.0


class Assembly:
    """The settings for assembling a kernel's PTX. It needs no Triton, so any thread can use it."""

    def __init__(self, command: list[str]) -> None:
        self._command = command

    def cubin(self, ptx: str) -> bytes:
        """Raises CompileError with what ptxas says; a crash, a compilation of more than a minute or a full
        disk is one, too."""
        try:
            with tempfile.TemporaryDirectory(prefix="profscope-") as folder:
                source, binary = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
                source.write_text(ptx, encoding="utf-8")
                done = subprocess.run(
                    [*self._command, str(source), "-o", str(binary)],
                    capture_output=True, text=True, timeout=_LONGEST_S, check=False,
                )  # fmt: skip
                if not done.returncode:
                    return binary.read_bytes()
        except subprocess.TimeoutExpired as error:
            raise CompileError(f"ptxas took more than {_LONGEST_S:g} s") from error
        except OSError as error:
            raise CompileError(f"ptxas: {error}") from error
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        said = next((line for line in lines if _ERROR.search(line)), lines[0])
        raise CompileError(f"ptxas ended with {done.returncode}: {said}")


def assembly_of(kernel: CompiledKernel) -> Assembly:
    """Raises CompileError for a kernel that has no PTX of a GPU, and if there is no ptxas."""
    target = _TARGET.search(str(kernel.asm.get("ptx", "")))
    if target is None:
        raise CompileError("it has no PTX")
    from triton.backends.nvidia.compiler import get_ptxas  # here, since a Triton for AMD alone has none

    try:
        ptxas = get_ptxas(int(target[2])).path
    except RuntimeError as error:  # which is all that says so
        raise CompileError(str(error)) from error
    options = str(getattr(kernel.metadata, "ptx_options", None) or "").split()
    fused = [] if getattr(kernel.metadata, "enable_fp_fusion", True) else ["--fmad=false"]
    return Assembly([ptxas, *fused, _AROUND_BUGS, *options, f"--gpu-name={target[1]}"])
