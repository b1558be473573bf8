"""A compiled kernel, compiled once more with other settings, to be launched in its place."""

from __future__ import annotations

import copy
import re
from typing import Any, Final

import triton
from triton import knobs
from triton.compiler import ASTSource, CompiledKernel

from profscope.errors import CompileError

__all__ = ["compiled_again"]

_NUM_WARPS: Final = re.compile(r'"ttg\.num-warps" = (\d+)')
# What two binaries must share, if one is to be launched in place of the other.
_SHARED: Final = ("name", "num_warps", "num_ctas", "tensordesc_meta")


def compiled_again(kernel: CompiledKernel) -> CompiledKernel:
    """The same kernel as the settings of this thread have it. Raises CompileError where it is another one."""
    if not isinstance(kernel.src, ASTSource):
        raise CompileError("it was compiled from a file")
    options = {name: _as_given(value) for name, value in kernel.metadata._asdict().items()}
    options["instrumentation_mode"] = knobs.compilation.instrumentation_mode
    # The metadata count the warps of warp-specialised partitions, too.
    warps = _NUM_WARPS.search(kernel.asm.get("ttgir", ""))
    if warps is not None:
        options["num_warps"] = int(warps[1])
    again = triton.compile(_source(kernel.src), target=kernel.metadata.target, options=options)
    for name in _SHARED:
        was, now = (getattr(each.metadata, name, None) for each in (kernel, again))
        if was != now:
            raise CompileError(f"compiled again, its {name} is {now} and not {was}")
    return again


def _source(source: ASTSource) -> ASTSource:
    """What was compiled, under the name that it has in Triton's cache without a session: since 3.7 a hook on
    the stages counts as one more argument."""
    arguments = len(source.fn.arg_names)
    attributes = {path: value for path, value in source.attrs.items() if path[0] < arguments}
    if len(attributes) == len(source.attrs):
        return source
    source = copy.copy(source)
    source.attrs = attributes
    return source


def _as_given(value: Any) -> Any:
    """An option as it was before it went through JSON."""
    return tuple(map(_as_given, value)) if isinstance(value, list) else value
