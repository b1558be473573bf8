"""Calls of a library's functions: what they are, and the usual way to make one with its gradients."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

__all__ = ["Call", "Calls", "forward_and_backward", "function", "gradients", "is_installed", "random_like"]

Call = Callable[[], Any]
"""Makes its inputs, of the random state it finds, and runs; returns everything that was computed, nested."""

Calls = Callable[[], Mapping[str, Call]]
"""The calls of one op, by label. Only worked out where they are run, since there may be many."""


def is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def function(path: str) -> Callable[..., Any]:
    """The function of a dotted path, as "fla.ops.gla.chunk_gla"."""
    module, _, name = path.rpartition(".")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def forward_and_backward(run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What `run` returns, the gradients of its inputs and of a module's parameters, and the inputs then."""
    args, kwargs = tree_map(_leaf, (args, kwargs))
    parameters = list(run.parameters()) if isinstance(run, torch.nn.Module) else []
    found = run(*args, **kwargs)
    with contextlib.suppress(NotImplementedError):  # what is meant for decoding has no backward pass
        return found, gradients(found, (args, kwargs, parameters), random_like(found)), args, kwargs
    return found, args, kwargs


def random_like(found: Any) -> list[torch.Tensor]:
    """Gradients to be given for the outputs that ask for one."""
    return [
        torch.randn(out.shape, dtype=out.dtype).to(out.device) for out in _tensors(found) if out.requires_grad
    ]


def gradients(found: Any, inputs: Any, given: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    """Of all inputs that ask for one, for the given gradients of the outputs; empty where none has one."""
    outputs = [out for out in _tensors(found) if out.requires_grad]
    wanted = [leaf for leaf in _tensors(inputs) if leaf.requires_grad]
    if not outputs or not wanted:
        return []
    return list(torch.autograd.grad(outputs, wanted, given, allow_unused=True))


def _leaf(value: Any) -> Any:
    """A float tensor that gradients are asked of; anything else as it is."""
    if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype.itemsize > 1:
        return value.detach().clone().requires_grad_()
    return value


def _tensors(nested: Any) -> Iterable[torch.Tensor]:
    return (leaf for leaf in tree_leaves(nested) if isinstance(leaf, torch.Tensor))
