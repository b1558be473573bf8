"""torch.compile's launches, through Inductor's tuners and launchers.

A `CachingAutotuner` holds the launchers of one generated kernel, one for each configuration, and a single one
after tuning. Its `run` tunes, then launches through that one. Inductor's launchers fetch `CompiledKernel.run`
when they are made, and outlive any session. Used of torch 2.11 to 2.15: `CachingAutotuner.run`,
`._precompile_config`, `.launchers`, `._cached_launcher`, `.precompile`, `.autotune_to_one_config`,
`._reload_kernel`, and `make_launcher` of what it compiles.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch

from profscope.compat.torch_parts import missing_attribute

__all__ = [
    "MODULE",
    "NEEDED",
    "TUNER",
    "copied",
    "is_timed",
    "makes_graphs",
    "missing_of_tuner",
    "precompiled",
    "reloaded",
    "warms_up_a_graph",
]

MODULE: Final = "torch._inductor.runtime.triton_heuristics"
TUNER: Final = "CachingAutotuner"
NEEDED: Final = tuple(
    f"{TUNER}.{name}" for name in ("run", "_precompile_config", "precompile", "autotune_to_one_config")
)
_NEEDED_OF_A_TUNER: Final = ("fn.__name__", "launchers", "inductor_meta", "filename")
_NAMELESS: Final = "DESCRIPTIVE_NAME"
_TREES: Final = "torch._inductor.cudagraph_trees"


def missing_of_tuner(tuner: Any) -> str:
    """The attributes that a tuner of this torch lacks; "" if none."""
    return missing_attribute(tuner, *_NEEDED_OF_A_TUNER)


def precompiled(tuner: Any, config: Any) -> Any:
    """The compiled configuration of Inductor: it has a `kernel` and a `make_launcher`. Raises compilation
    errors."""
    if tuner.fn.fn is None:  # compiled in another process
        tuner.fn = tuner._reload_kernel().fn
    return tuner._precompile_config(config)


def reloaded(file: str, name: str) -> Any:
    """The tuner `name` of a module that Inductor has generated."""
    from torch._inductor.runtime.compile_tasks import _reload_python_module

    key = os.path.splitext(os.path.basename(file))[0]
    return getattr(_reload_python_module(key, file), name)


def is_timed(tuner: Any) -> bool:
    """Whether Inductor launches a kernel to choose a fusion or a template: it has no name of its own."""
    if tuner.inductor_meta.get("kernel_name") == _NAMELESS:
        return True
    config: Any = sys.modules.get("torch._inductor.config")
    unique = config is not None and getattr(config.triton, "unique_kernel_names", False)
    return bool(unique and tuner.fn.__name__ == "triton_")


def makes_graphs() -> bool:
    """Whether Inductor captures CUDA graphs on this device; it decides that before it launches a kernel."""
    return _graph_manager() is not None


def warms_up_a_graph() -> bool:
    """Whether Inductor launches for the last time before it captures a CUDA graph."""
    manager = _graph_manager()
    return manager is not None and bool(getattr(manager, "in_warmup", True))


def _graph_manager() -> Any:
    """What captures CUDA graphs on this device, None if nothing does. An object without attributes if this
    torch does not say: then a launch waits for its binary."""
    trees: Any = sys.modules.get(_TREES)
    if trees is None or not torch.cuda.is_initialized():
        return None
    if missing_attribute(trees, "get_manager"):
        return object()
    return trees.get_manager(torch.cuda.current_device(), create_if_none_exists=False)


def copied(tuner: Any, run: Callable[..., Any], launcher: Any) -> Callable[..., Any]:
    """The `run` of a tuner that is as this one but for its launcher. run: of this one."""
    copy = object.__new__(type(tuner))
    vars(copy).update(vars(tuner), launchers=[launcher], _cached_launcher=None)  # the latter since torch 2.12
    return partial(run.__func__, copy)  # type: ignore[attr-defined]
