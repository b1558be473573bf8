"""Kernels nobody here wrote: liger-kernel's, unmodified, forward and backward, against torch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

pytestmark = pytest.mark.exhaustive  # importing liger-kernel alone takes ten seconds


@pytest.fixture(scope="module")
def ops() -> Any:
    """Imported where the first test runs: it takes seconds."""
    return pytest.importorskip("liger_kernel.ops", reason="liger-kernel is not installed")


ROWS, COLS = 12, 320


def check(
    ours: Callable[..., torch.Tensor],
    reference: Callable[..., torch.Tensor],
    *inputs: torch.Tensor,
) -> None:
    """Same outputs and same gradients of all inputs."""
    results = []
    for function in (ours, reference):
        leaves = [t.clone().requires_grad_() for t in inputs]
        out = function(*leaves)
        torch.manual_seed(1)
        # The gradient may be overwritten by kernels that work in place.
        out.backward(torch.randn_like(out))
        results.append([out.detach(), *(leaf.grad for leaf in leaves)])
    for got, expected in zip(*results, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def rms_norm(ops: Any) -> Any:
    return lambda x, w: ops.LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, "llama", False)


Pair = Callable[[Any], tuple[Callable[..., torch.Tensor], Callable[..., torch.Tensor]]]
CASES: dict[str, tuple[Pair, tuple[tuple[int, ...], ...]]] = {
    "rms_norm": (
        lambda ops: (rms_norm(ops), lambda x, w: functional.rms_norm(x, (COLS,), w, 1e-6)),
        ((ROWS, COLS), (COLS,)),
    ),
    "geglu": (
        lambda ops: (
            ops.LigerGELUMulFunction.apply,
            lambda a, b: functional.gelu(a, approximate="tanh") * b,
        ),
        ((ROWS, COLS), (ROWS, COLS)),
    ),
    # Several blocks, as for a large vocabulary.
    "softmax of 5000": (
        lambda ops: (ops.LigerSoftmaxFunction.apply, lambda x: x.softmax(-1)),
        ((ROWS, 5000),),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_forward_and_backward(ops: Any, name: str) -> None:
    pair, shapes = CASES[name]
    check(*pair(ops), *map(torch.randn, shapes))


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-high, low], dim=-1) * sin


def test_rope(ops: Any) -> None:
    batch, heads, length, width = 2, 4, 10, 32
    angles = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(0, width, 2) / width)[None, :]
    cos, sin = (torch.cat([f(angles)] * 2, dim=-1)[None] for f in (torch.cos, torch.sin))

    def ours(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        # The kernel rotates in place, and leaves may not be written.
        q, k = ops.LigerRopeFunction.apply(q * 1, k * 1, cos, sin)
        return torch.cat([q, k])

    def reference(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return torch.cat([rotate(q, cos, sin), rotate(k, cos, sin)])

    check(ours, reference, *(torch.randn(batch, heads, length, width) for _ in range(2)))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(ops: Any, smoothing: float) -> None:
    target = torch.randint(0, 1000, (ROWS,))
    target[3] = -100  # ignored

    def ours(x: torch.Tensor) -> torch.Tensor:
        result: Any = ops.LigerCrossEntropyFunction.apply(x * 1, target, None, -100, 0.0, smoothing)
        return result[0]  # type: ignore[no-any-return]

    check(
        ours,
        lambda x: functional.cross_entropy(x, target, label_smoothing=smoothing),
        torch.randn(ROWS, 1000),
    )


def test_bfloat16_rms_norm(ops: Any) -> None:
    x, w = torch.randn(ROWS, COLS).bfloat16(), torch.randn(COLS).bfloat16()
    got = rms_norm(ops)(x, w)
    torch.testing.assert_close(got, functional.rms_norm(x, (COLS,), w, 1e-6), rtol=2e-2, atol=2e-2)
