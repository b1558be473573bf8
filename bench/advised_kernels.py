"""The kernels of libraries that `bench.advice` tries: how each is called, and what its findings advise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from bench.libraries.calls import function
from bench.library_launches import Kernel, Launch, all_of, edited, pipelined, trials, with_options

__all__ = ["KERNELS"]


def _normal(device: str, *shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device, dtype)


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


def _delta_rule(device: str, small: bool) -> Callable[[], Any]:
    """16 heads of 128 over 128 steps of one sequence."""
    length, heads, width = (8, 1, 32) if small else (128, 16, 128)
    q, k, v = (_normal(device, 1, length, heads, width) for _ in range(3))
    beta, decay = (torch.rand(1, length, heads).to(device) for _ in range(2))
    inputs = {"q": q, "k": torch.nn.functional.normalize(k, dim=-1), "v": v, "beta": beta, "g": -decay}
    run = function("fla.ops.gated_delta_rule.fused_recurrent.fused_recurrent_gated_delta_rule")
    return lambda: run(**inputs)


def _rows_of(argument: str, rows: int) -> Callable[[Launch], Launch]:
    """Tiles of so many rows in place of those chosen, and the grid that goes with them."""

    def change(launch: Launch) -> Launch:
        first, *rest = launch.grid(dict(launch.kwargs)) if callable(launch.grid) else launch.grid
        grid = (-(-first * launch.kwargs[argument] // rows), *rest)
        return launch.changed(grid, **{argument: rows})

    return change


_MLSTM: Final = "mlstm_kernels.torch.chunkwise.triton_limit_chunk"
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
# Two of each library, chosen before anything of them was recorded, and the one of docs/source-view.md;
# `changes` do what their findings say.
KERNELS: Final = (
    Kernel("liger_kernel.ops.rope._triton_rope", _rope),
    Kernel(
        "liger_kernel.ops.layer_norm._layer_norm_backward_kernel", _layer_norm_backward,
        trials("num_warps", 4, 16)
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
        | trials("num_warps", 8, 16)
        | trials("cxpr_block_size", 8, 16, 32),
    ),
    Kernel("flag_gems.ops.topk.topk_stage1_kernel", _topk),
    Kernel(
        "flag_gems.ops.batch_norm.batch_norm_forward_kernel", _batch_norm,
        {"the second pass from the end, whose data the L2 still has": edited(*_FROM_THE_END)},
    ),
    Kernel(
        f"{_MLSTM}.bw_recurrent.mlstm_chunkwise__recurrent_bw_dC_kernel", _mlstm_backward,
        trials("num_stages", 2, 3, 4),
    ),
    Kernel(
        f"{_MLSTM}.bw_parallel.mlstm_chunkwise__parallel_bw_dQKV_kernel", _mlstm_backward,
        trials("num_stages", 2, 3),
    ),
    Kernel(
        "fla.ops.gated_delta_rule.fused_recurrent.fused_recurrent_gated_delta_rule_fwd_kernel", _delta_rule,
        pipelined("tl.range(0, T)"),
    ),
)  # fmt: skip
