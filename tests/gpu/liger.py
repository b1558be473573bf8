"""Kernels nobody here wrote: liger-kernel's RMSNorm, SwiGLU and cross entropy, forward and backward."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from functools import partial

import torch

from tests.kernels.cases import Case

__all__ = ["INSTALLED", "cases"]

Tensors = Mapping[str, torch.Tensor]

INSTALLED = importlib.util.find_spec("liger_kernel") is not None
_SHAPES = {"small": (6, 384), "real": (4096, 4096)}
_VOCABULARY = {"small": (5, 700), "real": (2048, 32000)}


def _rows(shape: tuple[int, int], device: str) -> Tensors:
    generator = torch.Generator().manual_seed(1)
    x, y, dy = (torch.randn(shape, generator=generator).to(device) for _ in range(3))
    return {"x": x, "y": y, "dy": dy, "w": torch.randn(shape[1], generator=generator).to(device)}


def _logits(shape: tuple[int, int], device: str) -> Tensors:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(shape, generator=generator)
    return {"x": x.to(device), "target": torch.randint(shape[1], shape[:1], generator=generator).to(device)}


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone().requires_grad_()


def _rms_norm(t: Tensors) -> Tensors:
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction

    x, w = _leaf(t["x"]), _leaf(t["w"])
    out = LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, "llama", False)
    dx, dw = torch.autograd.grad(out, (x, w), t["dy"].clone())
    return {"out": out.detach(), "dx": dx, "dw": dw}


def _rms_norm_reference(t: Tensors) -> Tensors:
    x, w = _leaf(t["x"]), _leaf(t["w"])
    out = torch.nn.functional.rms_norm(x, (x.shape[1],), w, 1e-6)
    dx, dw = torch.autograd.grad(out, (x, w), t["dy"])
    return {"out": out.detach(), "dx": dx, "dw": dw}


def _swiglu(t: Tensors) -> Tensors:
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction

    a, b = _leaf(t["x"]), _leaf(t["y"])
    out = LigerSiLUMulFunction.apply(a, b)
    out_value = out.detach().clone()
    da, db = torch.autograd.grad(out, (a, b), t["dy"].clone())
    return {"out": out_value, "da": da, "db": db}


def _swiglu_reference(t: Tensors) -> Tensors:
    a, b = _leaf(t["x"]), _leaf(t["y"])
    out = torch.nn.functional.silu(a) * b
    da, db = torch.autograd.grad(out, (a, b), t["dy"])
    return {"out": out.detach(), "da": da, "db": db}


def _cross_entropy(t: Tensors) -> Tensors:
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction

    x = _leaf(t["x"])
    # The kernel writes the gradient over its input, so it gets a copy.
    loss = LigerCrossEntropyFunction.apply(x * 1, t["target"], None)[0]
    (dx,) = torch.autograd.grad(loss, (x,))
    return {"loss": loss.detach(), "dx": dx}


def _cross_entropy_reference(t: Tensors) -> Tensors:
    x = _leaf(t["x"])
    loss = torch.nn.functional.cross_entropy(x, t["target"])
    (dx,) = torch.autograd.grad(loss, (x,))
    return {"loss": loss.detach(), "dx": dx}


def cases(size: str) -> list[Case]:
    """RMSNorm, SwiGLU and cross entropy, size "small" or "real"; needs liger-kernel (see INSTALLED)."""
    rows, logits = partial(_rows, _SHAPES[size]), partial(_logits, _VOCABULARY[size])
    return [
        Case("liger_rms_norm", size, rows, _rms_norm, _rms_norm_reference, tolerance=1e-3),
        Case("liger_swiglu", size, rows, _swiglu, _swiglu_reference, tolerance=1e-4),
        Case("liger_cross_entropy", size, logits, _cross_entropy, _cross_entropy_reference, tolerance=1e-4),
    ]
