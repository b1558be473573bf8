"""What is process-wide in Triton and touched by profscope: a session must leave it as it found it."""

from __future__ import annotations

from typing import Any

from triton import knobs
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import CompiledKernel
from triton.runtime import _allocation, driver

__all__ = ["triton_globals"]

_HOOKS = ("launch_enter_hook", "launch_exit_hook", "kernel_load_start_hook", "kernel_load_end_hook")


def triton_globals() -> dict[str, Any]:
    """Everything in Triton that is process-wide and that profscope touches."""
    found: dict[str, Any] = {
        "stages hook": knobs.runtime.add_stages_inspection_hook,
        "instrumentation mode": knobs.compilation.instrumentation_mode,
        "CompiledKernel": (CompiledKernel.__init__, CompiledKernel.__getitem__, CompiledKernel.run),
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
