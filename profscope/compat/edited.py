"""Kernels compiled from an edited TTGIR module, and launched in place of the kernel that it was printed of.

Used of Triton 3.6 to 3.9: `triton.compile` of a file, and `CompiledKernel.src`, `metadata`, `_init_handles`,
`packed_metadata` and `function`.
"""

from __future__ import annotations

import contextlib
import threading
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import CompiledKernel

from profscope.compat.compiling import options_given, unheard
from profscope.compat.patches import patched_property
from profscope.errors import CompileError

__all__ = ["Options", "build", "loaded", "options_of", "swapped"]


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


@contextlib.contextmanager
def swapped(
    bare: CompiledKernel, launch: Callable[[], Any]
) -> Iterator[Callable[[CompiledKernel | None], Any]]:
    """For the body of a with statement, what calls `launch`, which launches `bare`, and has this thread
    launch another kernel in its place; None: `bare` itself."""
    original, thread = vars(CompiledKernel)["run"], threading.get_ident()
    current: CompiledKernel | None = None

    def get(kernel: CompiledKernel) -> Any:
        other = current
        if kernel is not bare or other is None or threading.get_ident() != thread:
            return original.__get__(kernel, CompiledKernel)
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

    with patched_property(CompiledKernel, "run", get):
        yield launch_in_place
