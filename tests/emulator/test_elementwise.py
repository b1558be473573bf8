"""Elementwise kernels against torch and numpy."""

from collections.abc import Callable

import pytest
import torch

from tests.kernels.elementwise import (
    cast_kernel,
    hints_kernel,
    libdevice_kernel,
    math_kernel,
    where_kernel,
)
from tests.support.quick import quick

pytestmark = pytest.mark.on_gpu_too

N = 700
GRID = (3,)
BLOCK = 256

MATH: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp": torch.exp, "exp2": torch.exp2, "log": torch.log, "log2": torch.log2, "sin": torch.sin,
    "cos": torch.cos, "sqrt": torch.sqrt, "sqrt_rn": torch.sqrt, "rsqrt": torch.rsqrt, "erf": torch.erf,
    "floor": torch.floor, "ceil": torch.ceil, "abs": torch.abs, "sigmoid": torch.sigmoid,
    "reciprocal": torch.reciprocal, "fma": lambda x: x * x + x,
}  # fmt: skip
LIBDEVICE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp": torch.exp, "log": torch.log, "log1p": torch.log1p, "expm1": torch.expm1, "sin": torch.sin,
    "cos": torch.cos, "tan": torch.tan, "erf": torch.erf, "tanh": torch.tanh, "atan": torch.atan,
    "rsqrt": torch.rsqrt, "rint": torch.round, "cbrt": lambda x: x.pow(1 / 3), "lgamma": torch.lgamma,
    "pow": lambda x: x**2.5,
}  # fmt: skip
POSITIVE = {"log", "log2", "sqrt", "sqrt_rn", "rsqrt", "log1p", "pow", "lgamma", "cbrt", "reciprocal"}


def inputs(name: str, dtype: torch.dtype) -> torch.Tensor:
    x = torch.randn(N, dtype=dtype) * 3
    return x.abs() + 0.01 if name in POSITIVE else x


@pytest.mark.parametrize(
    "name", quick(MATH, ("exp2", "log", "sin", "sqrt_rn", "erf", "floor", "fma", "sigmoid"))
)
def test_math(name: str) -> None:
    x = inputs(name, torch.float32)
    out = torch.full_like(x, float("nan"))
    math_kernel[GRID](x, out, N, OP=name, BLOCK=BLOCK)
    torch.testing.assert_close(out, MATH[name](x.double()).float(), rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("name", ["exp", "sqrt", "floor", "fma", "abs"])
def test_math_in_float64(name: str) -> None:
    x = inputs(name, torch.float64)
    out = torch.empty_like(x)
    math_kernel[GRID](x, out, N, OP=name, BLOCK=BLOCK)
    torch.testing.assert_close(out, MATH[name](x), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("name", quick(LIBDEVICE, ("pow", "tan", "erf")))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_libdevice(name: str, dtype: torch.dtype) -> None:
    x = inputs(name, dtype)
    out = torch.empty_like(x)
    libdevice_kernel[GRID](x, out, N, OP=name, BLOCK=BLOCK)
    tolerance = 3e-6 if dtype == torch.float32 else 3e-14
    torch.testing.assert_close(out, LIBDEVICE[name](x.double()).to(dtype), rtol=tolerance, atol=tolerance)


def test_large_angles_take_the_slow_reduction() -> None:
    """libdevice reduces large arguments with integer arithmetic, carries and local memory."""
    x = torch.linspace(-1e7, 1e7, N)
    out = torch.empty_like(x)
    libdevice_kernel[GRID](x, out, N, OP="sin", BLOCK=BLOCK)
    torch.testing.assert_close(out, torch.sin(x.double()).float(), rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_where(dtype: torch.dtype) -> None:
    x = torch.randn(N, dtype=dtype)
    x[::50] = float("nan")
    out = torch.empty_like(x)
    where_kernel[GRID](x, out, N, BLOCK=BLOCK)
    index = torch.arange(N)
    doubled = (x > 0) & (index % 3 == 0) | (x < -1)
    expected = torch.where(doubled, x * 2, torch.where(x != x, torch.full_like(x, 7), -x))
    assert torch.equal(out, expected)


FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("source", quick(FLOATS + INTEGERS, [torch.bfloat16, torch.int8]), ids=str)
def test_casts(source: torch.dtype) -> None:
    for target in FLOATS + INTEGERS:
        scale = 100 if source in FLOATS else 1
        x = (torch.randn(N, dtype=torch.float64) * scale).to(source)
        if target == torch.uint8:
            x = x.abs() if source != torch.int8 else x.clamp(min=0)
        if source in FLOATS and target in (torch.int8, torch.uint8):
            x = x.clamp(-127, 127)
        out = torch.zeros(N, dtype=target)
        cast_kernel[GRID](x, out, N, BLOCK=BLOCK)
        assert torch.equal(out, x.to(target)), f"{source} to {target}"


@pytest.mark.parametrize("other", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_fp8_casts(other: torch.dtype) -> None:
    bits = torch.arange(256, dtype=torch.uint8)
    x = bits.view(torch.float8_e5m2)
    finite = x.float().isfinite()  # Triton's integer conversion from and to bfloat16 knows no infinity ...
    kept = finite & (x.float().abs() >= 2**-14) if other == torch.bfloat16 else finite  # ... nor subnormals
    out = torch.zeros(256, dtype=other)
    cast_kernel[(1,)](x, out, 256, BLOCK=256)
    assert torch.equal(out[finite], x.to(other)[finite])
    back = torch.zeros(256, dtype=torch.float8_e5m2)
    cast_kernel[(1,)](x.to(other), back, 256, BLOCK=256)
    assert torch.equal(back.view(torch.uint8)[kept], bits[kept])


HINTS = [
    ("", "", ""), ("evict_first", "", ""), ("evict_last", "", ""), ("", ".ca", ".wb"), ("", ".cg", ".cg"),
    ("", "", ".cs"), ("", ".ca", ".wt"),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "load", "store"), HINTS)
def test_cache_hints(policy: str, load: str, store: str) -> None:
    x, out = torch.randn(N), torch.zeros(N)
    hints_kernel[GRID](x, out, N, EVICT=policy, LOAD=load, STORE=store, BLOCK=BLOCK)
    assert torch.equal(out, x + x)
