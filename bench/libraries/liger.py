"""Calls of liger-kernel: its norms, activations, softmax and losses, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import torch

from bench.libraries.calls import Call, Calls

__all__ = ["MODULE", "cases"]

Tensors = Mapping[str, torch.Tensor]

MODULE: Final = "liger_kernel"
_SHAPE: Final = (6, 384)
_LOGITS: Final = (5, 700)  # rows, words


def cases(device: str) -> dict[str, Calls]:
    """The calls of each op by its name."""
    ops = (_rms_norm, _layer_norm, _geglu, _softmax, _swiglu, _cross_entropy)
    return {op.__name__.removeprefix("_"): partial(_one, op, device) for op in ops}


def _one(op: Callable[[Tensors], Tensors], device: str) -> dict[str, Call]:
    inputs = _logits if op is _cross_entropy else _rows
    return {"float32": lambda: op(inputs(device))}


def _rows(device: str) -> Tensors:
    generator = torch.Generator().manual_seed(1)
    x, y, dy = (torch.randn(_SHAPE, generator=generator).to(device) for _ in range(3))
    return {"x": x, "y": y, "dy": dy, "w": torch.randn(_SHAPE[1], generator=generator).to(device)}


def _logits(device: str) -> Tensors:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(_LOGITS, generator=generator)
    return {
        "x": x.to(device),
        "target": torch.randint(_LOGITS[1], _LOGITS[:1], generator=generator).to(device),
    }


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone().requires_grad_()


def _rms_norm(t: Tensors) -> Tensors:
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction

    x, w = _leaf(t["x"]), _leaf(t["w"])
    out = LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, "llama", False)
    dx, dw = torch.autograd.grad(out, (x, w), t["dy"].clone())
    return {"out": out.detach(), "dx": dx, "dw": dw}


def _gated(function: Any, t: Tensors) -> Tensors:
    a, b = _leaf(t["x"]), _leaf(t["y"])
    out = function.apply(a, b)
    out_value = out.detach().clone()
    da, db = torch.autograd.grad(out, (a, b), t["dy"].clone())
    return {"out": out_value, "da": da, "db": db}


def _swiglu(t: Tensors) -> Tensors:
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction

    return _gated(LigerSiLUMulFunction, t)


def _cross_entropy(t: Tensors) -> Tensors:
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction

    x = _leaf(t["x"])
    # The kernel writes the gradient over its input, so it gets a copy.
    loss = LigerCrossEntropyFunction.apply(x * 1, t["target"], None)[0]
    (dx,) = torch.autograd.grad(loss, (x,))
    return {"loss": loss.detach(), "dx": dx}


def _layer_norm(t: Tensors) -> Tensors:
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction

    x, w, b = _leaf(t["x"]), _leaf(t["w"]), _leaf(t["w"])
    out = LigerLayerNormFunction.apply(x, w, b, 1e-6)
    dx, dw, db = torch.autograd.grad(out, (x, w, b), t["dy"].clone())
    return {"out": out.detach(), "dx": dx, "dw": dw, "db": db}


def _geglu(t: Tensors) -> Tensors:
    from liger_kernel.ops.geglu import LigerGELUMulFunction

    return _gated(LigerGELUMulFunction, t)


def _softmax(t: Tensors) -> Tensors:
    from liger_kernel.ops.softmax import LigerSoftmaxFunction

    x = _leaf(t["x"])
    out = LigerSoftmaxFunction.apply(x)
    (dx,) = torch.autograd.grad(out, (x,), t["dy"].clone())
    return {"out": out.detach(), "dx": dx}
