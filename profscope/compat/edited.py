"""Kernels compiled from an edited TTGIR module, and launched in place of the kernel that it was printed of.

Used of Triton 3.6 to 3.9: `triton.compile` of a file, and `CompiledKernel.src`, `metadata`, `_init_handles`,
`packed_metadata` and `function`.
"""

from __future__ import annotations

import contextlib
import threading
from collections import namedtuple
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import CompiledKernel

from profscope.compat.compiling import options_given, unheard
from profscope.compat.patches import patched_property
from profscope.errors import CompileError

__all__ = ["KernelSwap", "Options", "build", "loaded", "options_of"]


class Options(NamedTuple):
    """What a module is compiled with: the target's backend, architecture and warp size, and the options."""

    target: tuple[str, Any, int]
    given: dict[str, Any]


def options_of(kernel: CompiledKernel) -> Options:
    """Those that a kernel was compiled with; they can be pickled."""
    given, target = options_given(kernel), kernel.metadata.target
    del given["target"]
    return Options((target.backend, target.arch, target.warp_size), given)


def build(path: str, options: Options) -> CompiledKernel:
    """Compile a module, or find it in Triton's cache. Raises what Triton does."""
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


class KernelSwap:
    """Launches of a kernel by this thread go to another one, or to itself. kernel: the one to launch, None
    for itself."""

    def __init__(self, bare: CompiledKernel) -> None:
        self.bare = bare
        self.kernel: CompiledKernel | None = None
        self._thread = threading.get_ident()

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """For the body of a with statement."""
        original = vars(CompiledKernel)["run"]

        def get(kernel: CompiledKernel) -> Any:
            run = original.__get__(kernel, CompiledKernel)
            other = self.kernel
            if kernel is not self.bare or other is None or threading.get_ident() != self._thread:
                return run
            launcher: Any = other._run

            def launch(x: int, y: int, z: int, stream: int, _: Any, __: Any, *rest: Any) -> Any:
                return launcher(x, y, z, stream, other.function, other.packed_metadata, *rest)

            return launch

        with patched_property(CompiledKernel, "run", get):
            yield
