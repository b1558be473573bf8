"""Launches of instrumented binaries by what Triton's launcher for NVIDIA GPUs calls in the end.

That launcher asks for the memory of each launch by a function of its own and the profile allocator, which has
to find out of which binary the launch is. Who launches one binary knows, and hands its memory over.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Final

from triton.compiler import CompiledKernel

from profscope.recording.direct_launches import POINTER, DirectCall

__all__ = ["direct_call"]

# The arguments of its `__call__` behind the first six, by version.
_SINCE_3_7: Final = ("kernel_metadata", "launch_metadata", "launch_enter_hook", "launch_exit_hook", "args")
_OF_3_6: Final = ("args",)
_PACKED: Final = 5  # the first that stands behind the binary's function
_OTHERS: Final = 9  # the first of the kernel's own


def direct_call(kernel: CompiledKernel) -> DirectCall | None:
    """What launches a loaded binary with a pointer that it records to.

    None where its launcher does more than is known here.
    """
    launcher = kernel._run
    code = getattr(type(launcher).__call__, "__code__", None)
    if code is None:
        return None
    names = code.co_varnames[: code.co_argcount + bool(code.co_flags & inspect.CO_VARARGS)]
    if names[:6] != ("self", "gridX", "gridY", "gridZ", "stream", "function"):
        return None
    if launcher.global_scratch_size or getattr(launcher, "gsan_enabled", False):
        return None
    scope = {
        "our_call": launcher.launch,
        "our_cooperative": launcher.launch_cooperative_grid,
        "our_pdl": launcher.launch_pdl,
    }
    if names[6:] == _OF_3_6:
        return DirectCall(_call_of_3_6, scope)
    if names[6:] != _SINCE_3_7:
        return None
    scope |= {"our_annotations": launcher.arg_annotations, "our_signature": launcher.kernel_signature}
    return DirectCall(_call_since_3_7, scope)


def _call_of_3_6(arguments: Sequence[str]) -> str:
    own = "our_cooperative", "our_pdl", "None", POINTER
    return f"our_call({', '.join([*arguments[:_PACKED], *own, *arguments[_PACKED:]])})"


def _call_since_3_7(arguments: Sequence[str]) -> str:
    before = *arguments[:_PACKED], "our_cooperative", "our_pdl", *arguments[_PACKED:_OTHERS]
    others = f"({''.join(f'{each}, ' for each in arguments[_OTHERS:])})"
    return f"our_call({', '.join([*before, 'None', POINTER, 'our_annotations', 'our_signature', others])})"
