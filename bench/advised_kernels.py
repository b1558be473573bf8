"""The kernels of libraries that `bench.advice` tries: how each is called, and what its findings advise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from bench.libraries.calls import function
from bench.library_launches import Kernel, Launch, Make, all_of, edited, pipelined, trials, with_options

__all__ = ["CHOSEN", "KERNELS"]


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


def _rope(device: str, small: bool) -> Callable[[], Any]:
    """Four sequences of 4,096 tokens, 32 heads of queries and 8 of keys."""
    batch, tokens, heads, shared, width = (1, 8, 4, 2, 64) if small else (4, 4096, 32, 8, 128)
    q = _normal(device, batch, tokens, heads, width).transpose(1, 2)
    k = _normal(device, batch, tokens, shared, width).transpose(1, 2)
    angle = torch.rand(1, tokens, width // 2).repeat(1, 1, 2).to(device)
    cos, sin = angle.cos().to(q.dtype), angle.sin().to(q.dtype)
    run = function("liger_kernel.ops.rope.rope_forward")
    return lambda: run(q, k, cos, sin)


def _layer_norm_backward(device: str, small: bool) -> Callable[[], Any]:
    rows, columns = (32, 256) if small else (16384, 4096)
    x, dy = _normal(device, rows, columns), _normal(device, rows, columns)
    w, b = _normal(device, columns), _normal(device, columns)
    mean, rstd = torch.zeros(rows, device=device), torch.ones(rows, device=device)
    run = function("liger_kernel.ops.layer_norm.layer_norm_backward")
    return lambda: run(dy, x, w, b, mean, rstd)


def _chunk_output(device: str, small: bool) -> Callable[[], Any]:
    """The last kernel of a gated linear attention: 16 heads of 128, four sequences of 4,096 tokens."""
    batch, tokens, heads, width = (1, 128, 2, 64) if small else (4, 4096, 16, 128)
    q, k, v = (_normal(device, batch, tokens, heads, width) for _ in range(3))
    h = _normal(device, batch, tokens // 64, heads, width, width)
    g = (-torch.rand(batch, tokens // 64, 64, heads)).cumsum(2).reshape(batch, tokens, heads).to(device)
    run = function("fla.ops.common.chunk_o.chunk_fwd_o")
    return lambda: run(q, k, v, h, g)


def _causal_convolution(device: str, small: bool) -> Callable[[], Any]:
    """The short convolution in front of a linear attention: 2,048 channels, four steps, and SiLU."""
    batch, tokens, channels = (1, 64, 64) if small else (8, 4096, 2048)
    x, w = _normal(device, batch, tokens, channels), _normal(device, channels, 4)
    run = function("fla.modules.causal_conv1d.ops.causal_conv1d_fwd")
    return lambda: run(x, w, None, None, activation="silu")


def _varlen_attention(device: str, small: bool) -> Callable[[], Any]:
    """Prompts of 512 to 4,096 tokens, 32 heads of queries and 8 of keys, in pages of 16 tokens."""
    heads, shared, width = (4, 2, 64) if small else (32, 8, 128)
    lengths = (32, 64) if small else (4096, 2048, 2048, 1024, 1024, 1024, 512, 512)
    pages = max(lengths) // 16
    table = torch.randperm(len(lengths) * pages, generator=torch.Generator().manual_seed(0))
    begins = torch.tensor((0, *lengths)).cumsum(0)
    inputs = {
        "query": _normal(device, sum(lengths), heads, width, dtype=torch.float16),
        "key_cache": _normal(device, len(table), 16, shared, width, dtype=torch.float16),
        "value_cache": _normal(device, len(table), 16, shared, width, dtype=torch.float16),
        "cu_seqlens_q": begins.to(device, torch.int32),
        "max_seqlen_q": max(lengths),
        "seq_lens": torch.tensor(lengths, dtype=torch.int32, device=device),
        "max_seqlen_k": max(lengths),
        "block_table": table.reshape(len(lengths), pages).to(device, torch.int32),
        "causal": True,
    }
    run = function("conch.ops.attention.varlen_attention.varlen_attention")
    return lambda: run(**inputs)


def _bev_pool(device: str, small: bool) -> Callable[[], Any]:
    """Features of six cameras pooled into a map of 360 x 360 cells, as BEVFusion does; 80 channels."""
    side, cells, points = (8, 40, 256) if small else (360, 80_000, 1_993_728)
    random = torch.Generator().manual_seed(0)
    cell = torch.randperm(side * side, generator=random)[:cells].sort().values
    share = torch.rand(cells, generator=random) + 0.1
    lengths = 1 + (share * ((points - cells) / share.sum())).long()
    starts = lengths.cumsum(0) - lengths
    places = torch.stack([cell // side, cell % side, cell * 0, cell * 0], dim=1)
    feats = _normal(device, int(lengths.sum()), 80, dtype=torch.float32)
    geom = places.repeat_interleave(lengths, dim=0).to(device, torch.int32)
    args = (feats, geom, starts.to(device, torch.int32), lengths.to(device, torch.int32), 1, 1, side, side)
    run = function("conch.ops.vision.bev_pool.bev_pool")
    return lambda: run(*args)


def _topk(device: str, small: bool) -> Callable[[], Any]:
    """The eight best of 256 experts, for 65,536 tokens."""
    tokens, experts = (16, 256) if small else (65536, 256)
    x = _normal(device, tokens, experts, dtype=torch.float32)
    run = function("flag_gems.ops.topk")
    return lambda: run(x, 8)


def _batch_norm(device: str, small: bool) -> Callable[[], Any]:
    """Training, with the activations of a ResNet's first stage: 64 images of 56 x 56, 256 channels."""
    images, channels, side = (2, 4, 8) if small else (64, 256, 56)
    x = _normal(device, images, channels, side, side, dtype=torch.float32)
    w, b, mean = (_normal(device, channels, dtype=torch.float32) for _ in range(3))
    run = function("flag_gems.ops.batch_norm")
    return lambda: run(x, w, b, mean, torch.ones_like(mean), True)


def _mlstm_backward(device: str, small: bool) -> Callable[[], Any]:
    shape = (1, 1, 128, 64) if small else (4, 8, 4096, 128)
    q, k, v = (_normal(device, *shape).requires_grad_() for _ in range(3))
    i, f = (
        (_normal(device, *shape[:3]) - 2).requires_grad_(),
        (_normal(device, *shape[:3]) + 4).requires_grad_(),
    )
    run = function("mlstm_kernels.torch.chunkwise.triton_limit_chunk.mlstm_chunkwise__limit_chunk")
    return lambda: run(q, k, v, i, f, autocast_kernel_dtype=torch.bfloat16).sum().backward()


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
# What has been looked at while rules were written.
_LOOKED_AT: Final = (
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


def _rows_of(argument: str, rows: int) -> Callable[[Launch], Launch]:
    """Tiles of so many rows in place of those chosen, and the grid that goes with them."""

    def change(launch: Launch) -> Launch:
        first, *rest = launch.grid(dict(launch.kwargs)) if callable(launch.grid) else launch.grid
        grid = (-(-first * launch.kwargs[argument] // rows), *rest)
        return launch.changed(grid, **{argument: rows})

    return change


_LOAD: Final = "range(max_interval_length)"
_ROW_SUMS: Final = (
    "c1 = tl.sum(x_hat * wdy, axis=0) / n_cols\n        c2 = tl.sum(wdy, axis=0) / n_cols",
    "c1, c2 = tl.split(tl.sum(tl.join(x_hat * wdy, wdy), axis=0) / n_cols)",
)
_FROM_THE_END: Final = (
    "for m_step in range(0, tl.cdiv(batch_dim, BLOCK_M)):\n",
    "for m_step in tl.range(tl.cdiv(batch_dim, BLOCK_M) - 1, -1, -1):\n",
)
_SIGMOID: Final = (
    "b_y * tl.sigmoid(b_y)",
    'b_y * tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [1.0 + tl.exp(-b_y)], '
    "dtype=tl.float32, is_pure=True, pack=1)",
)
# Two of each library, chosen before anything of them was recorded; `changes` do what their findings say.
CHOSEN: Final = (
    Kernel("liger_kernel.ops.rope._triton_rope", _rope),
    Kernel(
        "liger_kernel.ops.layer_norm._layer_norm_backward_kernel", _layer_norm_backward,
        trials(_WARPS, 4, 16)
        | {"both sums in one reduction": edited(*_ROW_SUMS)}
        | {"both sums in one reduction, num_warps=4": edited(*_ROW_SUMS, num_warps=4)},
    ),
    Kernel("fla.ops.common.chunk_o.chunk_fwd_kernel_o", _chunk_output),
    Kernel(
        "fla.modules.causal_conv1d.ops.causal_conv1d_fwd_kernel", _causal_convolution,
        {"multiply by the reciprocal": edited(*_SIGMOID)},
    ),
    Kernel(
        "conch.kernels.attention.varlen_attention._varlen_attention_compute_splits_kernel", _varlen_attention,
        {
            f"{rows} queries a tile, num_warps={warps}": all_of(
                _rows_of("cxpr_query_chunk_size", rows), with_options(num_warps=warps)
            )
            for rows, warps in ((16, 4), (32, 4), (32, 8))
        },
    ),
    Kernel(
        "conch.kernels.vision.bev_pool._bev_pool_kernel", _bev_pool,
        pipelined(_LOAD, 3)
        | {"four loads at once": edited(_LOAD, "tl.range(max_interval_length, loop_unroll_factor=4)")}
        | trials(_WARPS, 8, 16)
        | trials("cxpr_block_size", 8, 16, 32),
    ),
    Kernel("flag_gems.ops.topk.topk_stage1_kernel", _topk),
    Kernel(
        "flag_gems.ops.batch_norm.batch_norm_forward_kernel", _batch_norm,
        {"the second pass from the end, whose data the L2 still has": edited(*_FROM_THE_END)},
    ),
    Kernel(
        f"{_MLSTM}.bw_recurrent.mlstm_chunkwise__recurrent_bw_dC_kernel", _mlstm_backward,
        trials(_STAGES, 2, 3, 4),
    ),
    Kernel(
        f"{_MLSTM}.bw_parallel.mlstm_chunkwise__parallel_bw_dQKV_kernel", _mlstm_backward,
        trials(_STAGES, 2, 3),
    ),
)  # fmt: skip
KERNELS: Final = (*_LOOKED_AT, *CHOSEN)
