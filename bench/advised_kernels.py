"""The kernels of libraries that `bench.advice` tries: how each is called, and what its findings advise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from bench.libraries.calls import function
from bench.library_launches import Kernel, Make, edited, pipelined, trials, with_options

__all__ = ["KERNELS"]


def _normal(device: str, *shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device, dtype)


def _group_norm(device: str, small: bool) -> Callable[[], Any]:
    """The activations of an image model: 320 channels of 64 x 64 in 32 groups."""
    batch, channels, side, groups = (2, 8, 16, 4) if small else (8, 320, 64, 32)
    x = _normal(device, batch, channels, side, side, dtype=torch.float32)
    w, b = (_normal(device, channels, dtype=torch.float32) for _ in range(2))
    run = function("liger_kernel.ops.group_norm.group_norm_forward")
    return lambda: run(x, channels, groups, w, b, 1e-5)


def _group_norm_backward(device: str, small: bool) -> Callable[[], Any]:
    batch, channels, side, groups = (2, 8, 16, 4) if small else (8, 320, 64, 32)
    x, dy = (_normal(device, batch, channels, side, side, dtype=torch.float32) for _ in range(2))
    w, b = (_normal(device, channels, dtype=torch.float32) for _ in range(2))
    mean, rstd = torch.zeros(batch, groups, device=device), torch.ones(batch, groups, device=device)
    run = function("liger_kernel.ops.group_norm.group_norm_backward")
    flat = x.view(batch, channels, -1)
    return lambda: run(dy, flat, w, b, mean, rstd, channels, groups)


def _cross_entropy(device: str, small: bool) -> Callable[[], Any]:
    """A vocabulary of 128,256 words."""
    rows, words = (8, 3000) if small else (2048, 128256)
    x = _normal(device, rows, words)
    target = torch.randint(0, words, (rows,), generator=torch.Generator().manual_seed(0)).to(device)
    run = function("liger_kernel.ops.cross_entropy.cross_entropy_forward")
    return lambda: run(x.requires_grad_(), target, None, -100, 0.0, 0.0, "mean", None, False)


def _rms_norm_backward(device: str, small: bool) -> Callable[[], Any]:
    rows, columns = (32, 256) if small else (8192, 4096)
    x, dy = _normal(device, rows, columns), _normal(device, rows, columns)
    w, rstd = _normal(device, columns), torch.ones(rows, device=device)
    settings = function("liger_kernel.ops.utils.calculate_settings")(columns)
    run = function("liger_kernel.ops.rms_norm.rms_norm_backward")
    return lambda: run(dy, x, w, rstd, 0.0, 0, *settings, False, None)


def _kl_div(device: str, small: bool) -> Callable[[], Any]:
    rows, words = (8, 3000) if small else (4096, 32000)
    y, target = _normal(device, rows, words), _normal(device, rows, words)
    run = function("liger_kernel.ops.kl_div.kldiv_forward_triton")
    return lambda: run(y, target, True, "batchmean", 1e-10)


def _mixed_gemm(device: str, small: bool) -> Callable[[], Any]:
    """Weights of 4 bits."""
    m, n, k = (64, 128, 256) if small else (1024, 4096, 4096)
    words = torch.randint(-(2**31), 2**31 - 1, (k // 8, n), dtype=torch.int64).to(torch.int32)
    inputs = {
        "x": _normal(device, m, k, dtype=torch.float16),
        "w_q_packed": words.to(device),
        "w_s": _normal(device, k // 128, n, dtype=torch.float16),
        "w_zp": None,
        "weight_size_bits": 4,
        "weight_bias": 8,
        "group_size": 128,
    }
    run = function("conch.ops.quantization.gemm.mixed_precision_gemm")
    return lambda: run(**inputs)


def _scaled_gemm(device: str, small: bool) -> Callable[[], Any]:
    m, n, k = (128, 128, 256) if small else (1024, 4096, 4096)
    inputs = {
        "a": torch.randint(-128, 127, (m, k), dtype=torch.int8).to(device),
        "b": torch.randint(-128, 127, (k, n), dtype=torch.int8).to(device),
        "scale_a": torch.rand(m, 1).to(device),
        "scale_b": torch.rand(n, 1).to(device),
        "output_dtype": torch.float16,
    }
    run = function("conch.ops.quantization.gemm.scaled_gemm")
    return lambda: run(**inputs)


def _paged_attention(device: str, small: bool) -> Callable[[], Any]:
    """Decoding: 16 sequences of 2,048 tokens, 32 heads that share 8 of the cache."""
    batch, heads, shared, width, tokens = (2, 4, 2, 64, 128) if small else (16, 32, 8, 128, 2048)
    blocks = batch * tokens // 16
    table = torch.randperm(blocks, generator=torch.Generator().manual_seed(0)).reshape(batch, -1)
    inputs = {
        "query": _normal(device, batch, heads, width, dtype=torch.float16),
        "key_cache": _normal(device, blocks, 16, shared, width, dtype=torch.float16),
        "value_cache": _normal(device, blocks, 16, shared, width, dtype=torch.float16),
        "block_table": table.to(device, torch.int32),
        "seq_lens": torch.full((batch,), tokens, dtype=torch.int32, device=device),
    }
    run = function("conch.ops.attention.paged_attention.paged_attention")
    return lambda: run(**inputs)


def _mlstm(device: str, small: bool) -> Callable[[], Any]:
    shape = (1, 1, 128, 64) if small else (4, 8, 4096, 128)
    q, k, v = (_normal(device, *shape) for _ in range(3))
    i, f = _normal(device, *shape[:3]) - 2, _normal(device, *shape[:3]) + 4
    run = function("mlstm_kernels.torch.chunkwise.triton_limit_chunk.mlstm_chunkwise__limit_chunk")
    return lambda: run(q, k, v, i, f)


def _delta_rule(path: str, gated: bool) -> Make:
    def make(device: str, small: bool) -> Callable[[], Any]:
        batch, length, heads, width = (1, 32, 2, 64) if small else (4, 256, 16, 128)
        q, v = (_normal(device, batch, length, heads, width) for _ in range(2))
        k = torch.nn.functional.normalize(_normal(device, batch, length, heads, width).float(), dim=-1)
        inputs = {"q": q, "k": k.to(v.dtype), "v": v, "beta": torch.rand(batch, length, heads).to(device)}
        if gated:
            inputs["g"] = -torch.rand(batch, length, heads).to(device)
        run = function(path)
        return lambda: run(**inputs)

    return make


def _gems(name: str, small_columns: int, columns: int, *more: Callable[[str, int], Any]) -> Make:
    def make(device: str, small: bool) -> Callable[[], Any]:
        wide = small_columns if small else columns
        x = _normal(device, 8 if small else 1056, wide, dtype=torch.float16)
        others = [each(device, wide) for each in more]
        run = function(f"flag_gems.ops.{name}")
        return lambda: run(x, *others)

    return make


_FLA: Final = "fla.ops.{0}.fused_recurrent"
_MLSTM: Final = "mlstm_kernels.torch.chunkwise.triton_limit_chunk"
_WARPS: Final = "num_warps"
# The rows of `a` lie in one piece, but the kernel multiplies by a stride that Triton does not know.
_STRIDE: Final = ("group_offsets[None, :] * matrix_a_stride_k", "group_offsets[None, :]")
_NEIGHBOURS: Final = {
    "neighbours of a": edited(*_STRIDE),
    "neighbours of a, num_stages=3": edited(*_STRIDE, num_stages=3),
}
_STAGES: Final = "num_stages"
KERNELS: Final = (
    Kernel(
        "liger_kernel.ops.group_norm._group_norm_forward_kernel", _group_norm,
        trials(_WARPS, 16, 32)
        | {"BLOCK_SIZE=8192, num_warps=16": with_options(BLOCK_SIZE=8192, num_warps=16)},
    ),
    Kernel(
        "liger_kernel.ops.group_norm._group_norm_backward_kernel", _group_norm_backward,
        trials(_WARPS, 8, 16),
    ),
    Kernel(
        "liger_kernel.ops.cross_entropy.liger_cross_entropy_kernel", _cross_entropy,
        trials("BLOCK_SIZE", 8192, 16384, 65536)
        | pipelined("range(0, n_cols, BLOCK_SIZE)")
        | {"BLOCK_SIZE=8192, pipelined": edited(
            "range(0, n_cols, BLOCK_SIZE)", "tl.range(0, n_cols, BLOCK_SIZE, num_stages=3)", BLOCK_SIZE=8192,
        )},
    ),
    Kernel(
        "liger_kernel.ops.rms_norm._rms_norm_backward_kernel", _rms_norm_backward,
        trials(_WARPS, 16, 32)
        | pipelined("range(row_start, row_end)", 2)
        | pipelined("range(row_start, row_end)", 3),
    ),
    Kernel(
        "liger_kernel.ops.kl_div._kldiv_kernel_forward", _kl_div,
        trials("BLOCK_SIZE", 4096, 8192, 16384),
    ),
    Kernel(
        "conch.kernels.quantization.gemm._gemm_kernel", _mixed_gemm,
        trials(_STAGES, 3, 4) | _NEIGHBOURS,
    ),
    Kernel(
        "conch.kernels.quantization.gemm._gemm_kernel", _scaled_gemm,
        trials(_STAGES, 3, 4) | _NEIGHBOURS,
    ),
    Kernel(
        "conch.kernels.attention.paged_attention._paged_attention_compute_splits_kernel", _paged_attention,
        trials(_STAGES, 1, 2, 5) | trials(_WARPS, 1, 2),
    ),
    Kernel(
        f"{_MLSTM}.fw_parallel.mlstm_chunkwise__parallel_fw_H_kernel", _mlstm,
        trials(_STAGES, 2, 3) | trials(_WARPS, 4, 8),
    ),
    Kernel(
        f"{_MLSTM}.fw_recurrent.mlstm_chunkwise__recurrent_fw_C_kernel", _mlstm,
        trials(_STAGES, 2, 3) | trials(_WARPS, 4, 8),
    ),
    Kernel(
        f"{_FLA.format('gated_delta_rule')}.fused_recurrent_gated_delta_rule_fwd_kernel",
        _delta_rule("fla.ops.gated_delta_rule.fused_recurrent_gated_delta_rule", True),
        trials(_WARPS, 2, 4) | pipelined("tl.range(0, T)"),
    ),
    Kernel(
        f"{_FLA.format('delta_rule')}.fused_recurrent_delta_rule_fwd_kernel",
        _delta_rule("fla.ops.delta_rule.fused_recurrent_delta_rule", False),
        trials(_WARPS, 2, 4) | pipelined("range(0, T)"),
    ),
    Kernel("flag_gems.ops.softmax.softmax_kernel_inner", _gems("softmax", 600, 65536, lambda *_: -1)),
    Kernel(
        "flag_gems.ops.layernorm.layer_norm_loop_kernel",
        _gems(
            "layer_norm", 600, 16384, lambda _, n: [n],
            lambda device, n: _normal(device, n, dtype=torch.float16),
            lambda device, n: _normal(device, n, dtype=torch.float16),
        ),
    ),
)  # fmt: skip
