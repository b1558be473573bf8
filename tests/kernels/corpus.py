"""Every kernel the TTGIR tests run on."""

from __future__ import annotations

from tests.kernels import (
    add,
    atomics,
    attention,
    control_flow,
    forms,
    gluon_tcgen05,
    gluon_ws,
    layer_norm,
    matmul,
    matmul_tma,
    matmul_ws,
    reductions,
    softmax,
)
from tests.kernels.spec import Spec


def _exchanges() -> list[Spec]:
    """Kernels whose threads exchange values, for the ops with regions that they print in generic form."""
    row = {"x_ptr": "*fp32", "out_ptr": "*fp32"}
    block = {"BLOCK": 256}
    return [
        Spec(
            "argmax",
            reductions.argmax_kernel,
            {"x_ptr": "*fp32", "value_ptr": "*fp32", "index_ptr": "*i32", "cols": "i32"},
            block,
        ),
        Spec("cumsum", reductions.cumsum_kernel, row | {"cols": "i32"}, block | {"REVERSE": True}),
        Spec(
            "scan",
            reductions.scan_kernel,
            {"a_ptr": "*fp32", "b_ptr": "*fp32", "out_ptr": "*fp32"},
            {"ROWS": 32, "COLS": 16},
        ),
        Spec("sort", reductions.sort_kernel, row, {"BLOCK": 64, "DESCENDING": False}),
        Spec(
            "histogram",
            reductions.histogram_kernel,
            {"x_ptr": "*i32", "out_ptr": "*i32", "n": "i32"},
            block | {"BINS": 16},
        ),
        Spec(
            "atomics",
            atomics.atomic_kernel,
            {"x_ptr": "*fp32", "index_ptr": "*i32", "out_ptr": "*fp32", "n": "i32"},
            block | {"OP": "add"},
        ),
        Spec("lock", atomics.lock_kernel, {"lock_ptr": "*i32", "total_ptr": "*fp32", "x_ptr": "*fp32"}),
    ]


def specs() -> list[Spec]:
    families = (
        add, softmax, layer_norm, matmul, matmul_tma, matmul_ws, gluon_ws, gluon_tcgen05, attention,
        control_flow, forms,
    )  # fmt: skip
    return [spec for family in families for spec in family.specs()] + _exchanges()
