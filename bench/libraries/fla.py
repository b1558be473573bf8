"""Calls of fla-core (flash-linear-attention): its ops and modules, with gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import torch
from torch.nn.functional import logsigmoid, normalize

from bench.libraries.calls import Call, Calls, forward_and_backward, function

__all__ = ["MODULE", "cases"]

MODULE: Final = "fla"
_BATCH, _LENGTH, _HEADS, _WIDTH = 2, 256, 2, 64
_TOKENS: Final = (_BATCH, _LENGTH)
_WIDE: Final = (*_TOKENS, _HEADS, _WIDTH)

Made = Callable[[], torch.Tensor]


def _bf16(shape: tuple[int, ...], change: Callable[[torch.Tensor], torch.Tensor] = lambda x: x) -> Made:
    return lambda: change(torch.randn(shape)).to(torch.bfloat16)


def _f32(shape: tuple[int, ...], change: Callable[[torch.Tensor], torch.Tensor] = lambda x: x) -> Made:
    return lambda: change(torch.randn(shape))


wide, unit = _bf16(_WIDE), _bf16(_WIDE, lambda x: normalize(x, dim=-1))
opposite = _bf16(_WIDE, lambda x: -normalize(x, dim=-1))
gate, decay = _bf16(_WIDE, torch.sigmoid), _f32(_WIDE, lambda x: logsigmoid(x) / 16)
beta, decay_of_head = _bf16(_WIDE[:3], torch.sigmoid), _f32(_WIDE[:3], lambda x: logsigmoid(x) / 16)
rows, weights = _bf16((*_TOKENS, 128)), _bf16((_HEADS, _WIDTH))
decay_of_rows = _f32((*_TOKENS, 128), lambda x: logsigmoid(x) / 16)


def _classes() -> torch.Tensor:
    return torch.randint(0, 1000, (_BATCH * _LENGTH,))


QKV: Final = {"q": wide, "k": unit, "v": wide}
_DELTA: Final = QKV | {"beta": beta}
_GATED_DELTA: Final = _DELTA | {"g": decay_of_head}
_RWKV6: Final = {"r": wide, "k": wide, "v": wide, "w": decay, "u": weights}
_RWKV7: Final = {"r": wide, "w": decay, "k": wide, "v": wide, "a": opposite, "b": unit}
_DPLR: Final = QKV | {"a": opposite, "b": unit}
_LINEAR: Final = {"scale": 0.125}
_LIGHTNING: Final = QKV | {"layer_idx": 1, "num_layers": 4}
_PRECONDITIONED: Final = _GATED_DELTA | {"g_atk": decay_of_head, "beta_atk": beta}
_PRECONDITIONED_KDA: Final = _PRECONDITIONED | {"g": decay}
_CHANNELS: Final = QKV | {"g": decay, "b": gate, "w": gate}
_OJA: Final = {"q": wide, "k": wide, "v": unit, "gv": decay, "beta": beta}
_MOMENTUM: Final = QKV | {"log_alpha": decay_of_head, "log_mu": decay_of_head, "beta": beta}
_TTT: Final = {
    **QKV, "w": weights, "b": weights, "eta": _bf16((*_WIDE[:3], 1), lambda x: x.sigmoid() / 64),
}  # fmt: skip
_MESA: Final = QKV | {
    "g": decay_of_head, "beta": _f32(_WIDE[:3], torch.sigmoid),
    "lamb": _f32((_HEADS, _WIDTH), lambda x: x.sigmoid() + 0.25),
}  # fmt: skip

# Function below fla.ops -> its arguments: how to make a tensor, or a value.
OPS: Final[Mapping[str, Mapping[str, Any]]] = {
    "abc.chunk_abc": QKV | {"s": wide},
    "attn.parallel_attn": QKV,
    "based.fused_chunk_based": {"q": _bf16((*_WIDE[:3], 16)), "k": _bf16((*_WIDE[:3], 16)), "v": wide},
    "based.parallel_based": {"q": _bf16((*_WIDE[:3], 16)), "k": _bf16((*_WIDE[:3], 16)), "v": wide},
    "comba.chunk_comba": _GATED_DELTA | {"p": unit},
    "comba.fused_recurrent_comba": _GATED_DELTA | {"p": unit},
    "delta_rule.chunk_delta_rule": _DELTA,
    "delta_rule.fused_recurrent_delta_rule": _DELTA,
    "forgetting_attn.parallel_forgetting_attn": QKV | {"g": decay_of_head},
    "gated_delta_product.chunk_gated_delta_product": _GATED_DELTA | {
        "k": _bf16((_BATCH, 2 * _LENGTH, _HEADS, _WIDTH), lambda x: normalize(x, dim=-1)),
        "v": _bf16((_BATCH, 2 * _LENGTH, _HEADS, _WIDTH)),
        "beta": _bf16((_BATCH, 2 * _LENGTH, _HEADS), torch.sigmoid),
        "num_householder": 2,
    },
    "gated_delta_rule.chunk_gated_delta_rule": _GATED_DELTA,
    "gated_delta_rule.fused_recurrent_gated_delta_rule": _GATED_DELTA,
    "gated_oja_rule.chunk_gated_oja_rule": _OJA,
    "gated_oja_rule.fused_recurrent_gated_oja_rule": _OJA,
    "gdn2.chunk_gdn2": _CHANNELS,
    "gdn2.fused_recurrent_gdn2": _CHANNELS,
    "generalized_delta_rule.chunk_dplr_delta_rule": _DPLR | {"gk": decay},
    "generalized_delta_rule.chunk_iplr_delta_rule": _DPLR,
    "generalized_delta_rule.fused_recurrent_dplr_delta_rule": _DPLR | {"gk": decay},
    "generalized_delta_rule.fused_recurrent_iplr_delta_rule": _DPLR,
    "gla.chunk_gla": QKV | {"g": decay},
    "gla.fused_recurrent_gla": QKV | {"gk": decay},
    "gsa.chunk_gsa": QKV | {"s": gate, "g": decay},
    "gsa.fused_recurrent_gsa": QKV | {"s": gate, "g": decay},
    "hgrn.chunk_hgrn": {"x": rows, "g": decay_of_rows},
    "hgrn.fused_recurrent_hgrn": {"x": rows, "g": decay_of_rows},
    "kda.chunk_kda": _DELTA | {"g": decay},
    "kda.fused_recurrent_kda": _DELTA | {"g": decay},
    "lightnet.chunk_lightnet": QKV,
    "lightnet.fused_recurrent_lightnet": QKV,
    "lightning_attn.chunk_lightning_attn": _LIGHTNING,
    "lightning_attn.fused_recurrent_lightning_attn": _LIGHTNING,
    "linear_attn.chunk_linear_attn": QKV | _LINEAR,
    "linear_attn.fused_chunk_linear_attn": QKV | _LINEAR,
    "linear_attn.fused_recurrent_linear_attn": QKV | _LINEAR,
    "log_linear_attn.chunk_log_linear_attn": QKV | {
        "g": decay_of_head, "level_scales": _f32((*_WIDE[:3], 12), torch.sigmoid)
    },
    "mesa_net.chunk_mesa_net": _MESA,
    "momentum_delta_rule.chunk_momentum_delta_rule": _MOMENTUM,
    "momentum_delta_rule.fused_recurrent_momentum_delta_rule": _MOMENTUM,
    "nsa.parallel_nsa": {
        "q": _bf16((*_TOKENS, 32, _WIDTH)), "k": unit, "v": wide,
        **{f"g_{kind}": _bf16((*_TOKENS, 32), torch.sigmoid) for kind in ("cmp", "slc")},
        "block_counts": 2, "block_size": 32,
    },
    "parallax.parallel_parallax": QKV | {"r": wide},
    "path_attn.parallel_path_attn": QKV | {
        "w": _f32(_WIDE, lambda x: normalize(x, dim=-1)), "beta": _f32(_WIDE[:3], torch.sigmoid),
        "g": decay_of_head,
    },
    "precond_gated_delta_rule.chunk_precond_gated_delta_rule": _PRECONDITIONED,
    "precond_gated_delta_rule.fused_recurrent_precond_gated_delta_rule": _PRECONDITIONED,
    "precond_kda.chunk_precond_kda": _PRECONDITIONED_KDA,
    "precond_kda.fused_recurrent_precond_kda": _PRECONDITIONED_KDA,
    "rebased.parallel_rebased": {"q": _bf16((*_WIDE[:3], 16)), "k": _bf16((*_WIDE[:3], 16)), "v": wide},
    "retention.chunk_retention": QKV,
    "retention.fused_chunk_retention": QKV,
    "retention.fused_recurrent_retention": QKV,
    "retention.parallel_retention": QKV,
    "rwkv4.fused_recurrent_rwkv4": {
        "w": _f32((128,), lambda x: -x.exp()), "u": _f32((128,)), "k": _f32((*_TOKENS, 128)),
        "v": _f32((*_TOKENS, 128)), "state": _f32((_BATCH, 3, 1, 128)),
    },
    "rwkv6.chunk_rwkv6": _RWKV6,
    "rwkv6.fused_recurrent_rwkv6": _RWKV6,
    "rwkv7.chunk_rwkv7": _RWKV7,
    "rwkv7.fused_recurrent_rwkv7": _RWKV7,
    "simple_gla.chunk_simple_gla": QKV | {"g": decay_of_head},
    "simple_gla.fused_chunk_simple_gla": QKV | {"g": decay_of_head},
    "simple_gla.fused_recurrent_simple_gla": QKV | {"g": decay_of_head},
    "simple_gla.parallel_simple_gla": QKV | {"g": decay_of_head},
    "stickbreaking_attn.parallel_stickbreaking_attn": QKV,
    "ttt.chunk_ttt_linear": _TTT,
    "ttt.fused_chunk_ttt_linear": _TTT,
    "utils.addmm": {"x": _bf16((256, 256)), "a": _bf16((256, 128)), "b": _bf16((128, 256))},
    "utils.matmul": {"a": _bf16((256, 128)), "b": _bf16((128, 256))},
    "utils.chunk_global_cumsum": {"s": _f32(_WIDE)},
    "utils.chunk_local_cumsum": {"g": _f32(_WIDE), "chunk_size": 64},
    "utils.mean_pooling": {"x": wide, "chunk_size": 32},
    "utils.logsumexp_fwd": {"x": _f32((256, 300))},
    "utils.softmax_fwd": {"x": _f32((256, 300))},
    "utils.solve_tril": {"A": _f32((*_WIDE[:3], 64), lambda x: x / 16)},
    "wall_attn.parallel_wall_attn": QKV | {"g": decay},
}  # fmt: skip

# Class below fla.modules -> what it is built of, and its inputs.
MODULES: Final[Mapping[str, tuple[Mapping[str, Any], tuple[Made, ...]]]] = {
    "FusedBitLinear": ({"in_features": 128, "out_features": 64}, (rows,)),
    "FusedCrossEntropyLoss": ({}, (_bf16((_BATCH * _LENGTH, 1000)), _classes)),
    "FusedLayerNormGated": ({"hidden_size": 128}, (rows, rows)),
    "FusedLayerNormSwishGateLinear": (
        {"hidden_size": 128}, (rows, rows, _bf16((64, 128)), lambda: torch.zeros(64, dtype=torch.bfloat16)),
    ),
    "FusedRMSNormGated": ({"hidden_size": 128}, (rows, rows)),
    "GatedMLP": ({"hidden_size": 128}, (rows,)),
    "GroupNorm": ({"num_groups": 4, "hidden_size": 128}, (rows,)),
    "L2Norm": ({}, (rows,)),
    "LayerNorm": ({"hidden_size": 128, "bias": True}, (rows,)),
    "LayerNormLinear": ({"hidden_size": 128}, (rows, _bf16((64, 128)), lambda: None)),
    "RMSNorm": ({"hidden_size": 128}, (rows,)),
    "RMSNormLinear": ({"hidden_size": 128}, (rows, _bf16((64, 128)), lambda: None)),
    "RotaryEmbedding": ({"dim": _WIDTH}, (wide, wide)),
    "ShortConvolution": ({"hidden_size": 128, "kernel_size": 4}, (rows,)),
}  # fmt: skip


def cases(device: str) -> dict[str, Calls]:
    """The calls of each op and module by its name."""
    found: dict[str, Calls] = {
        path: partial(_one, partial(_op, f"fla.ops.{path}", made, device)) for path, made in OPS.items()
    }
    return found | {
        name: partial(_one, partial(_module, name, built, made, device))
        for name, (built, made) in MODULES.items()
    }


def _one(call: Call) -> dict[str, Call]:
    return {"bfloat16": call}


def _op(path: str, arguments: Mapping[str, Any], device: str) -> Any:
    made = {name: value().to(device) if callable(value) else value for name, value in arguments.items()}
    return forward_and_backward(function(path), **made)


def _module(name: str, built: Mapping[str, Any], made: tuple[Made, ...], device: str) -> Any:
    inputs = [None if (value := each()) is None else value.to(device) for each in made]
    module = function(f"fla.modules.{name}")(**built)
    if isinstance(module, torch.nn.Module):
        return forward_and_backward(module.to(device, torch.bfloat16), *inputs)
    return forward_and_backward(module, *inputs)
