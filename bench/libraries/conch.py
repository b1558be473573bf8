"""Calls of conch-triton-kernels: norms, activations, paged attention, quantisation, vision."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch

from bench.libraries.calls import Call, Calls, function

__all__ = ["MODULE", "cases"]

MODULE: Final = "conch"
_F16: Final = torch.float16
_BATCH, _HEADS, _WIDTH, _BLOCK, _BLOCKS = 3, 4, 64, 16, 24


def _half(*shape: int) -> torch.Tensor:
    return torch.randn(shape).to(_F16)


def _words(*shape: int) -> torch.Tensor:
    """Random 32-bit words, as packed weights."""
    return torch.randint(-(2**31), 2**31 - 1, shape, dtype=torch.int64).to(torch.int32)


def _cache() -> dict[str, torch.Tensor]:
    """Keys and values in blocks of 16 tokens, and which blocks belong to which sequence."""
    names = ("key_cache", "value_cache")
    found = {name: _half(_BLOCKS, _BLOCK, _HEADS, _WIDTH) for name in names}
    table = torch.randperm(_BLOCKS)[: _BATCH * 8].reshape(_BATCH, 8)
    return found | {"block_table": table.to(torch.int32)}


def _boxes() -> torch.Tensor:
    corners = torch.rand(200, 2) * 10
    return torch.cat([corners, corners + torch.rand(200, 2) * 4 + 0.1], dim=1)


def _pooled() -> dict[str, Any]:
    places = torch.arange(64)
    cells = torch.stack([places % 8, places // 8, places * 0, places * 0], dim=1)  # x, y, z, batch
    return {
        "geom_feats": cells.repeat_interleave(4, dim=0).to(torch.int32),
        "interval_starts": torch.arange(0, 256, 4, dtype=torch.int32),
        "interval_lengths": torch.full((64,), 4, dtype=torch.int32),
    }


def _four_bits(kind: str, **inputs: Any) -> Any:
    at = "conch.ops.quantization.bitsandbytes.functional"
    packed, state = function(f"{at}.quantize_4bit")(**inputs, quant_type=kind)
    return packed, state.absmax, function(f"{at}.dequantize_4bit")(packed, state, quant_type=kind)


def _voxels(points: torch.Tensor) -> Any:
    at = "conch.ops.vision.voxelization"
    settings = function(f"{at}.VoxelizationParameter")((0.0, 0.0, 0.0), (8.0, 8.0, 8.0), (1.0, 1.0, 1.0), 16)
    filled, *_, counts = function(f"{at}.generate_voxels")(points, settings)
    # The library says that its voxels come in no order, and it leaves the rest of its memory as it was.
    return filled, counts[: int(filled)].sort().values


def _in_place(path: str, **inputs: Any) -> Any:
    return function(path)(**inputs), inputs


# Name -> what runs, and its inputs.
_CASES: Final[dict[str, tuple[Callable[..., Any] | str, Callable[[], dict[str, Any]]]]] = {
    "gelu_tanh_and_mul": (
        "activation.gelu_tanh_and_mul.gelu_tanh_and_mul", lambda: {"x": torch.randn(130, 512)},
    ),
    "silu_and_mul": ("activation.silu_and_mul.silu_and_mul", lambda: {"x": _half(130, 512)}),
    "rms_norm": (
        "normalization.rms_norm.rms_norm",
        lambda: {"x": _half(130, 512), "weight": _half(512), "epsilon": 1e-6},
    ),
    "fused_add_rms_norm": (
        "normalization.rms_norm.fused_add_rms_norm",
        lambda: {"x": _half(130, 512), "residual": _half(130, 512), "weight": _half(512), "epsilon": 1e-6},
    ),
    "gemma_rms_norm": (
        "normalization.gemma_rms_norm.gemma_rms_norm",
        lambda: {"x": _half(130, 512), "weight": _half(512), "variance_epsilon": 1e-6},
    ),
    "rotary_embedding": (
        "embedding.rotary_embedding.rotary_embedding",
        lambda: {
            "positions": torch.arange(100), "query": _half(100, 256), "key": _half(100, 256), "head_size": 64,
            "cos_sin_cache": _half(128, 64),
        },
    ),
    "paged_attention": (
        "attention.paged_attention.paged_attention",
        lambda: {
            "query": _half(_BATCH, _HEADS, _WIDTH), **_cache(),
            "seq_lens": torch.tensor([5, 100, 128], dtype=torch.int32),
        },
    ),
    "varlen_attention": (
        "attention.varlen_attention.varlen_attention",
        lambda: {
            "query": _half(90, _HEADS, _WIDTH), **_cache(), "causal": True,
            "cu_seqlens_q": torch.tensor([0, 5, 40, 90], dtype=torch.int32), "max_seqlen_q": 50,
            "seq_lens": torch.tensor([5, 100, 128], dtype=torch.int32), "max_seqlen_k": 128,
        },
    ),
    "scaled_fp8_quant": (
        "quantization.fp8.scaled_fp8_quant",
        lambda: {"input_tensor": _half(33, 512), "scale": torch.tensor([0.5])},
    ),
    "scaled_int8_quant": (
        "quantization.int8.scaled_int8_quant",
        lambda: {"input_tensor": _half(33, 512), "scale": torch.tensor([0.05])},
    ),
    "mixed_precision_gemm": (
        "quantization.gemm.mixed_precision_gemm",
        lambda: {
            "x": _half(70, 256), "w_q_packed": _words(32, 128), "w_s": _half(2, 128), "w_zp": None,
            "weight_size_bits": 4, "weight_bias": 8, "group_size": 128,
        },
    ),
    "scaled_gemm": (
        "quantization.gemm.scaled_gemm",
        lambda: {
            "a": torch.randint(-128, 127, (70, 256), dtype=torch.int8),
            "b": torch.randint(-128, 127, (256, 128), dtype=torch.int8),
            "scale_a": torch.rand(70, 1), "scale_b": torch.rand(128, 1), "output_dtype": _F16,
        },
    ),
    "quantize_nf4": (partial(_four_bits, "nf4"), lambda: {"x": torch.randn(4096)}),
    "quantize_fp4": (partial(_four_bits, "fp4"), lambda: {"x": torch.randn(4096)}),
    "bev_pool": (
        "vision.bev_pool.bev_pool",
        lambda: {
            "image_feats": torch.randn(256, 80), **_pooled(),
            "batch_size": 1, "grid_cells_z": 1, "grid_cells_x": 8, "grid_cells_y": 8,
        },
    ),
    "bev_pool_backward": (
        "vision.bev_pool.bev_pool_backward",
        lambda: {"grad_output": torch.randn(1, 1, 8, 8, 80), **_pooled()},
    ),
    "nms": ("vision.nms.nms", lambda: {"boxes": _boxes(), "scores": torch.rand(200), "iou_threshold": 0.4}),
    "generate_voxels": (_voxels, lambda: {"points": torch.rand(2000, 4) * 8}),
    "copy_blocks": (
        "vllm.copy_blocks.copy_blocks",
        lambda: {
            "key_caches": [_half(8, 1024) for _ in range(2)],
            "value_caches": [_half(8, 1024) for _ in range(2)],
            "block_mapping": torch.tensor([[0, 5], [2, 7]]),
        },
    ),
    "reshape_and_cache": (
        "vllm.reshape_and_cache.reshape_and_cache",
        lambda: {
            "key": _half(40, _HEADS, _WIDTH), "value": _half(40, _HEADS, _WIDTH),
            **{name: tensor for name, tensor in _cache().items() if name != "block_table"},
            "slot_mapping": torch.randperm(_BLOCKS * _BLOCK)[:40],
        },
    ),
}  # fmt: skip


def cases(device: str) -> dict[str, Calls]:
    """The calls of each op by its name."""
    return {name: partial(_one, run, inputs, device) for name, (run, inputs) in _CASES.items()}


def _one(run: Callable[..., Any] | str, inputs: Callable[[], dict[str, Any]], device: str) -> dict[str, Call]:
    return {"call": partial(_call, run, inputs, device)}


def _call(run: Callable[..., Any] | str, inputs: Callable[[], dict[str, Any]], device: str) -> Any:
    moved = {name: _moved(value, device) for name, value in inputs().items()}
    if isinstance(run, str):
        return _in_place(f"conch.ops.{run}", **moved)
    return run(**moved)


def _moved(value: Any, device: str) -> Any:
    if isinstance(value, list):
        return [_moved(each, device) for each in value]
    return value.to(device) if isinstance(value, torch.Tensor) else value
