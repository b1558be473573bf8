"""Kernels nobody here wrote: liger-kernel's norms, activations, softmax and losses, forward and backward."""

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


def _layer_norm(t: Tensors) -> Tensors:
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction

    x, w, b = _leaf(t["x"]), _leaf(t["w"]), _leaf(t["w"])
    out = LigerLayerNormFunction.apply(x, w, b, 1e-6)
    dx, dw, db = torch.autograd.grad(out, (x, w, b), t["dy"].clone())
    return {"out": out.detach(), "dx": dx, "dw": dw, "db": db}


def _layer_norm_reference(t: Tensors) -> Tensors:
    x, w, b = _leaf(t["x"]), _leaf(t["w"]), _leaf(t["w"])
    out = torch.nn.functional.layer_norm(x, (x.shape[1],), w, b, 1e-6)
    dx, dw, db = torch.autograd.grad(out, (x, w, b), t["dy"])
    return {"out": out.detach(), "dx": dx, "dw": dw, "db": db}


def _geglu(t: Tensors) -> Tensors:
    from liger_kernel.ops.geglu import LigerGELUMulFunction

    a, b = _leaf(t["x"]), _leaf(t["y"])
    out = LigerGELUMulFunction.apply(a, b)
    out_value = out.detach().clone()
    da, db = torch.autograd.grad(out, (a, b), t["dy"].clone())
    return {"out": out_value, "da": da, "db": db}


def _geglu_reference(t: Tensors) -> Tensors:
    a, b = _leaf(t["x"]), _leaf(t["y"])
    out = torch.nn.functional.gelu(a, approximate="tanh") * b
    da, db = torch.autograd.grad(out, (a, b), t["dy"])
    return {"out": out.detach(), "da": da, "db": db}


def _softmax(t: Tensors) -> Tensors:
    from liger_kernel.ops.softmax import LigerSoftmaxFunction

    x = _leaf(t["x"])
    out = LigerSoftmaxFunction.apply(x)
    (dx,) = torch.autograd.grad(out, (x,), t["dy"].clone())
    return {"out": out.detach(), "dx": dx}


def _softmax_reference(t: Tensors) -> Tensors:
    x = _leaf(t["x"])
    out = torch.softmax(x, dim=-1)
    (dx,) = torch.autograd.grad(out, (x,), t["dy"])
    return {"out": out.detach(), "dx": dx}


def cases(size: str) -> list[Case]:
    """Norms, activations, softmax, cross entropy, size "small" or "real"; needs liger-kernel (INSTALLED)."""
    rows, logits = partial(_rows, _SHAPES[size]), partial(_logits, _VOCABULARY[size])
    return [
        Case("liger_rms_norm", size, rows, _rms_norm, _rms_norm_reference, tolerance=1e-3),
        Case("liger_layer_norm", size, rows, _layer_norm, _layer_norm_reference, tolerance=1e-3),
        Case("liger_geglu", size, rows, _geglu, _geglu_reference, tolerance=1e-4),
        Case("liger_softmax", size, rows, _softmax, _softmax_reference, tolerance=1e-4),
        Case("liger_swiglu", size, rows, _swiglu, _swiglu_reference, tolerance=1e-4),
        Case("liger_cross_entropy", size, logits, _cross_entropy, _cross_entropy_reference, tolerance=1e-4),
    ]
