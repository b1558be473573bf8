"""Dialects that MLIR brings: arith, math, scf, cf, ub, gpu, and what is printed of llvm and rocdl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from instrument_passes.ops.info import OpInfo, rows

__all__ = ["ROWS"]

ROWS: Final[Mapping[str, OpInfo]] = {
    **rows(
        "elementwise",
        "arith",
        "addf addi addui_extended andi cmpf cmpi maximumf maxnumf maxsi maxui minimumf minnumf minsi "
        "minui mulf muli mulsi_extended mului_extended negf ori select shli shrsi shrui subf subi "
        "subui_extended xori",
    ),
    **rows("math", "arith", "ceildivsi ceildivui divf divsi divui floordivsi remf remsi remui"),
    **rows(
        "convert",
        "arith",
        "convertf extf extsi extui fptosi fptoui scaling_extf scaling_truncf sitofp truncf trunci uitofp",
    ),
    **rows("view", "arith", "bitcast index_cast index_castui"),
    **rows("scalar", "arith", "constant"),
    **rows("elementwise", "arith", "flush_denormals"),
    **rows(
        "elementwise", "math", "absf absi clampf copysign ctlz ctpop cttz fma isfinite isinf isnan isnormal"
    ),
    **rows(
        "math",
        "math",
        "acos acosh asin asinh atan atan2 atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 floor fpowi "
        "ipowi log log10 log1p log2 powf round roundeven rsqrt sin sincos sinh sqrt tan tanh trunc",
    ),
    **rows(
        "control",
        "scf",
        "condition execute_region for forall forall.in_parallel if index_switch parallel reduce "
        "reduce.return while yield",
    ),
    **rows("control", "cf", "br cond_br switch"),
    **rows("control", "ub", "unreachable"),
    **rows("scalar", "ub", "poison"),
    **rows("debug", "cf", "assert"),
    "gpu.barrier": OpInfo("barrier", "barrier", completes=True),
    **rows("scalar", "gpu", "block_id block_dim grid_dim thread_id lane_id subgroup_id cluster_id"),
    **rows("hint", "rocdl", "s.setprio sched.barrier sched.group.barrier iglp.opt"),
    "rocdl.s.barrier": OpInfo("barrier", "barrier", completes=True),
    "rocdl.s.waitcnt": OpInfo("wait", "wait count", completes=True),
    **rows("hint", "llvm", "intr.assume"),
}
