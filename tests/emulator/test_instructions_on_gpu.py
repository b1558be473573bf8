"""Some 250 forms of instructions on edge values, on the emulator and on a GPU: the same results."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from profscope.emulator.launcher import Launch
from tests.support.hardware import run_on_both
from tests.support.instructions import INTEGER, ONE_OPERAND, execute

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

NUMPY = {
    "s16": "i2", "u16": "u2", "s32": "i4", "u32": "u4", "s64": "i8", "u64": "u8",
    "b16": "u2", "b32": "u4", "b64": "u8", "f16": "f2", "f32": "f4", "f64": "f8",
}  # fmt: skip
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
Form = tuple[str, str, str]  # instruction, types of its operands, type of its result


def forms() -> Iterator[Form]:
    for opcode in INTEGER:
        kind = opcode.split(".")[-1]
        yield f"{opcode} {{d}}, {{a}}, {{b}}", f"{kind} {kind}", kind
    for opcode, (source, target, _) in ONE_OPERAND.items():
        yield (
            f"{opcode} {{d}}, {{a}}",
            f"u{8 * np.dtype(source).itemsize}",
            f"u{8 * np.dtype(target).itemsize}",
        )
    for kind in ("b16", "b32", "b64", "u32", "s32", "s64", "s16"):
        yield f"shr.{kind} {{d}}, {{a}}, {{b}}", f"{kind} count", kind
    for opcode in ("lop3.b32 {d}, {a}, {b}, {c}, 0xCA", "mad.lo.u32 {d}, {a}, {b}, {c}",
                   "mad.hi.u32 {d}, {a}, {b}, {c}",
                   "prmt.b32 {d}, {a}, {b}, {c}", "add.cc.u32 {d}, {a}, {b}; addc.u32 {d}, {c}, 0",
                   "sub.cc.u32 {d}, {a}, {b}; subc.u32 {d}, {c}, 0",
                   "mad.lo.cc.u32 {d}, {a}, {b}, {c}; madc.hi.u32 {d}, {a}, {b}, 0"):  # fmt: skip
        yield opcode, "u32 u32 u32", "u32"
    for opcode in ("bfe.u32", "bfe.s32"):
        yield f"{opcode} {{d}}, {{a}}, {{b}}, {{c}}", "u32 count count", "u32"
    for opcode in ("shf.l.wrap.b32", "shf.r.clamp.b32"):
        yield f"{opcode} {{d}}, {{a}}, {{b}}, {{c}}", "u32 u32 count", "u32"
    yield "bfi.b32 {d}, {a}, 0x55555555, {b}, {c}", "u32 count count", "u32"
    yield from float_forms()
    yield from narrow_forms()


def float_forms() -> Iterator[Form]:
    for kind in ("f32", "f64"):
        for opcode in ("add", "sub", "mul", "div.rn", "min", "max", "copysign"):
            yield f"{opcode}.{kind} {{d}}, {{a}}, {{b}}", f"{kind} {kind}", kind
        for direction in ("rn", "rm", "rp", "rz"):
            for opcode in ("add", "sub", "mul", "div"):
                yield f"{opcode}.{direction}.{kind} {{d}}, {{a}}, {{b}}", f"{kind} {kind}", kind
            for opcode in ("sqrt", "rcp"):
                yield f"{opcode}.{direction}.{kind} {{d}}, {{a}}", kind, kind
            yield f"fma.{direction}.{kind} {{d}}, {{a}}, {{b}}, {{c}}", f"{kind} {kind} {kind}", kind
        for name in COMPARISONS:
            yield (
                f"setp.{name}.{kind} %p1|%p2, {{a}}, {{b}}; selp.b32 {{d}}, 1, 0, %p1",
                f"{kind} {kind}",
                "u32",
            )
        for mode in ("rni", "rzi", "rmi", "rpi"):
            yield f"cvt.{mode}.{kind}.{kind} {{d}}, {{a}}", kind, kind
            for target in ("s16", "s32", "u32", "s64", "u64"):
                yield f"cvt.{mode}.{target}.{kind} {{d}}, {{a}}", kind, target
        for source in ("s16", "s32", "s64", "u16", "u32", "u64"):
            yield f"cvt.rn.{kind}.{source} {{d}}, {{a}}", source, kind
    for opcode in ("ex2.approx.ftz", "lg2.approx.ftz", "rcp.approx.ftz", "rsqrt.approx.ftz",
                   "sqrt.approx.ftz", "tanh.approx"):  # fmt: skip
        yield f"{opcode}.f32 {{d}}, {{a}}", "f32", "f32"
    for opcode in ("add.ftz", "mul.ftz", "mul.rz.ftz", "add.sat", "min.NaN", "max.ftz", "div.full"):
        yield f"{opcode}.f32 {{d}}, {{a}}, {{b}}", "f32 f32", "f32"


def narrow_forms() -> Iterator[Form]:
    for direction in ("rn", "rz"):
        yield f"cvt.{direction}.f16.f32 {{d}}, {{a}}", "f32", "b16"
        yield f"cvt.{direction}.bf16.f32 {{d}}, {{a}}", "f32", "b16"
        yield f"cvt.{direction}.f16x2.f32 {{d}}, {{a}}, {{b}}", "f32 f32", "b32"
        yield f"cvt.{direction}.bf16x2.f32 {{d}}, {{a}}, {{b}}", "f32 f32", "b32"
    yield "cvt.rna.tf32.f32 {d}, {a}", "f32", "b32"
    for opcode in ("add.f16", "sub.f16", "mul.f16", "max.f16", "min.NaN.f16", "max.bf16"):
        yield f"{opcode} {{d}}, {{a}}, {{b}}", "f16 f16", "b16"
    for opcode in (
        "add.f16x2",
        "mul.f16x2",
        "min.f16x2",
        "set.gt.f16x2.f16x2",
        "set.nan.f16x2.f16x2",
        "max.bf16x2",
    ):
        yield f"{opcode} {{d}}, {{a}}, {{b}}", "f16x2 f16x2", "b32"
    for opcode in ("fma.rn.f16", "fma.rn.bf16"):
        yield f"{opcode} {{d}}, {{a}}, {{b}}, {{c}}", "f16 f16 f16", "b16"
    for opcode in ("fma.rn.f16x2", "fma.rn.bf16x2"):
        yield f"{opcode} {{d}}, {{a}}, {{b}}, {{c}}", "f16x2 f16x2 f16x2", "b32"


def values(kind: str, rng: np.random.Generator) -> np.ndarray:
    """32 values of a type: edges, and numbers of all sizes."""
    if kind == "count":
        return np.r_[rng.integers(0, 70, 31), 2**32 - 1].astype(np.uint32)
    if kind == "f16x2":
        return np.stack([values("f16", rng) for _ in range(2)], -1).view(np.uint32)[:, 0].copy()
    dtype = np.dtype(NUMPY[kind])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        edges = np.array([info.min, info.max, 0, 1, info.max // 2, 3], dtype)
        middle = rng.integers(info.min, info.max, 20, dtype=dtype, endpoint=True)
        return rng.permutation(np.r_[edges, edges, middle])
    limits = np.finfo(dtype)
    edges = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, limits.tiny, limits.max], dtype)
    size = 3 if kind == "f16" else 30
    middle = rng.standard_normal(16).astype(dtype) * dtype.type(10) ** rng.integers(-size, size, 16).astype(
        dtype
    )
    return rng.permutation(np.r_[edges, edges, middle.astype(dtype)])


@pytest.mark.parametrize(("instruction", "sources", "target"), list(forms()))
def test_form(instruction: str, sources: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Launch, "run", run_on_both)
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        execute(instruction, [values(kind, rng) for kind in sources.split()], np.dtype(NUMPY[target]))
