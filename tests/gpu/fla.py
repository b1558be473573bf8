"""Kernels nobody here wrote: flash-linear-attention's chunked and recurrent ones, forward and backward.

They are autotuned, chain several kernels an op, and are pipelined, branch on block pointers and use atomics
as their authors saw fit. Nothing here installs them: `pip install fla-core einops`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from functools import partial

import torch

from tests.kernels.cases import Case

__all__ = ["INSTALLED", "cases"]

Tensors = Mapping[str, torch.Tensor]

INSTALLED = importlib.util.find_spec("fla") is not None
# Batch, length, heads, width of a head.
_SHAPES = {"small": (1, 128, 2, 64), "real": (4, 2048, 16, 64)}


def _inputs(shape: tuple[int, int, int, int], device: str) -> Tensors:
    generator = torch.Generator().manual_seed(3)
    wide = ("q", "k", "v", "grad")
    found = {name: torch.randn(shape, generator=generator).to(device, torch.bfloat16) for name in wide}
    found["k"] = torch.nn.functional.normalize(found["k"].float(), dim=-1).to(torch.bfloat16)
    gates = torch.rand(shape, generator=generator).to(device).log() / 16
    return {
        **found,
        "gates": gates.to(torch.bfloat16),
        "beta": torch.rand(shape[:3], generator=generator).to(device, torch.bfloat16),
    }


def _run(op: Callable[..., torch.Tensor], names: tuple[str, ...], t: Tensors) -> Tensors:
    """Output and gradients of an op of q, k, v and whatever else `names` says."""
    leaves = [t[name].clone().requires_grad_() for name in names]
    out = op(*leaves)
    grads = torch.autograd.grad(out, leaves, t["grad"])
    return {"out": out.detach(), **{f"d{name}": grad for name, grad in zip(names, grads, strict=True)}}


def _case(
    name: str,
    size: str,
    names: tuple[str, ...],
    op: Callable[..., torch.Tensor],
    naive: Callable[..., torch.Tensor],
) -> Case:
    inputs = partial(_inputs, _SHAPES[size])
    return Case(
        f"fla_{name}", size, inputs, partial(_run, op, names), partial(_run, naive, names), tolerance=5e-2
    )


def cases(size: str) -> list[Case]:
    """Attention, gated linear attention, delta rule; needs fla-core (see INSTALLED)."""
    from fla.ops.attn import parallel_attn
    from fla.ops.delta_rule import chunk_delta_rule
    from fla.ops.delta_rule.naive import delta_rule_recurrence
    from fla.ops.gla import chunk_gla
    from fla.ops.gla.naive import naive_recurrent_gla

    def heads_first(*tensors: torch.Tensor) -> list[torch.Tensor]:
        return [tensor.transpose(1, 2) for tensor in tensors]

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        found = torch.nn.functional.scaled_dot_product_attention(*heads_first(q, k, v), is_causal=True)
        return found.transpose(1, 2)

    qkv = ("q", "k", "v")
    return [
        _case("attention", size, qkv, parallel_attn, attention),
        _case(
            "gla", size, (*qkv, "gates"),
            lambda q, k, v, g: chunk_gla(q, k, v, g)[0],
            lambda q, k, v, g: naive_recurrent_gla(q, k, v, g)[0],
        ),
        _case(
            "delta_rule", size, (*qkv, "beta"),
            lambda q, k, v, beta: chunk_delta_rule(q, k, v, beta)[0],
            lambda q, k, v, beta: delta_rule_recurrence(*heads_first(q, k, v, beta))[0].transpose(1, 2),
        ),
    ]  # fmt: skip
