"""What is process-wide in Triton and touched by profscope: a session must leave it as it found it."""

from __future__ import annotations

from typing import Any

from triton import knobs
from triton.backends import backends
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import ASTSource, CompiledKernel
from triton.profiler import language as proton
from triton.runtime import _allocation, driver
from triton.runtime.autotuner import Autotuner

from profscope.emulator.compiler import EmulatorBackend

_HOOKS = ("launch_enter_hook", "launch_exit_hook", "kernel_load_start_hook", "kernel_load_end_hook")
_COMPILERS = {EmulatorBackend, *(backend.compiler for backend in backends.values())}


def triton_globals() -> dict[str, Any]:
    """Everything in Triton that is process-wide and that profscope could touch."""
    found: dict[str, Any] = {
        "CompiledKernel": (CompiledKernel.__init__, CompiledKernel.__getitem__, CompiledKernel.run),
        "Autotuner._bench": Autotuner._bench,
        "add_stages": {each.__name__: vars(each).get("add_stages") for each in _COMPILERS},
        "ASTSource.hash": ASTSource.hash,
        "proton.record": proton.record,
        "stages hook": knobs.runtime.add_stages_inspection_hook,
        "instrumentation mode": knobs.compilation.instrumentation_mode,
        "CUDABackend.instrumentation": getattr(CUDABackend, "instrumentation", None),
        "profile allocator": _allocation._profile_allocator.get(),
        "allocator": _allocation._allocator.get(),
        # The default driver comes to life on first use; that is no change.
        "driver": None if driver._active is driver._default else driver._active,
    }
    for name in _HOOKS:
        hook = getattr(knobs.runtime, name)
        found[name] = list(hook.calls) if isinstance(hook, knobs.HookChain) else hook
    return found
