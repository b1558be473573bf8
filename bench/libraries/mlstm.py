"""Calls of mlstm-kernels: every way it has to run an mLSTM in Triton, with gradients where it has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import torch

from bench.libraries.calls import Call, Calls, forward_and_backward, function

__all__ = ["MODULE", "cases"]

MODULE: Final = "mlstm_kernels"
_BATCH, _HEADS, _LENGTH, _WIDTH = 1, 2, 256, 64
_DTYPES: Final = (torch.float32, torch.float16, torch.bfloat16)
_SEQUENCES: Final[Mapping[str, Mapping[str, Any]]] = {
    "chunkwise.triton_limit_chunk.mlstm_chunkwise__limit_chunk": {},
    "chunkwise.triton_xl_chunk.mlstm_chunkwise__xl_chunk": {},
    "chunkwise.triton_xl_chunk_siging.mlstm_siging_chunkwise__xl_chunk": {},
    "parallel.triton_limit_headdim.mlstm_parallel__limit_headdim": {},
}
# The library has switched its "alternate" step off: it reads and writes beyond its vectors.
_STEPS: Final = {
    "recurrent.triton_step.mlstm_recurrent_step__triton": "recurrent_step_fused",
}
_LOOPS: Final = ("recurrent.native_sequence.mlstm_recurrent_sequence__triton_step_fused_fw",)


def cases(device: str) -> dict[str, Calls]:
    """The calls of each function by its name and dtype, since one takes minutes to compile."""
    paths: list[tuple[str, str, Callable[..., Any], Mapping[str, Any]]] = [
        *((path, path.rpartition(".")[2], _sequence, options) for path, options in _SEQUENCES.items()),
        *((path, name, _step, {}) for path, name in _STEPS.items()),
        *((path, path.rpartition(".")[2], _loop, {}) for path in _LOOPS),
    ]
    return {
        f"{name}, {_name_of(dtype)}": partial(_one, call, path, options, dtype, device)
        for dtype in _DTYPES
        for path, name, call, options in paths
    }


def _one(
    call: Callable[..., Any], path: str, options: Mapping[str, Any], dtype: torch.dtype, device: str
) -> dict[str, Call]:
    return {_name_of(dtype): partial(call, f"mlstm_kernels.torch.{path}", options, dtype, device)}


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _inputs(length: tuple[int, ...], dtype: torch.dtype, device: str) -> dict[str, torch.Tensor]:
    """Queries, keys, values and gates of a sequence, or without a length of one step."""
    shape = (_BATCH, _HEADS, *length)
    gates = shape if length else (*shape, 1)
    found = {name: torch.randn((*shape, _WIDTH)) for name in "qkv"}
    found |= {"i": torch.randn(gates) - 2, "f": torch.randn(gates) + 4}
    return {name: tensor.to(device, dtype) for name, tensor in found.items()}


def _sequence(path: str, options: Mapping[str, Any], dtype: torch.dtype, device: str) -> Any:
    inputs = _inputs((_LENGTH,), dtype, device)
    return forward_and_backward(function(path), **inputs, **options, autocast_kernel_dtype=dtype)


def _step(path: str, options: Mapping[str, Any], dtype: torch.dtype, device: str) -> Any:
    states = {
        name: torch.randn((_BATCH, _HEADS, *shape)).to(device)
        for name, shape in {"c": (_WIDTH, _WIDTH), "n": (_WIDTH,), "m": (1,)}.items()
    }
    return function(path)(**_inputs((), dtype, device), **states, **options)


def _loop(path: str, options: Mapping[str, Any], dtype: torch.dtype, device: str) -> Any:
    return function(path)(**_inputs((16,), dtype, device), **options, return_last_states=True)
