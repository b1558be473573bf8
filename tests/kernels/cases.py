"""Launch the corpus kernels and compute what they should return, on any device."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import triton

from tests.kernels.add import add_kernel
from tests.kernels.attention import attention_kernel
from tests.kernels.control_flow import (
    branch_in_loop_kernel,
    call_paths_kernel,
    collatz_kernel,
    early_return_kernel,
    joined_paths_kernel,
    nested_loops_kernel,
    noinline_kernel,
)
from tests.kernels.gluon_ws import gluon_ws_kernel, gluon_ws_loop_kernel
from tests.kernels.layer_norm import layer_norm_kernel
from tests.kernels.matmul import matmul_kernel
from tests.kernels.matmul_tma import matmul_tma_kernel
from tests.kernels.matmul_ws import matmul_ws_kernel
from tests.kernels.softmax import softmax_kernel

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Case:
    """One launch of one kernel.

    `launch(inputs)` runs the kernel on the device of its inputs and returns its outputs; `reference(inputs)`
    returns what they should be. Inputs are the same on every call. `capability` is the lowest CUDA compute
    capability it runs on.
    """

    name: str
    inputs: Callable[[str], Tensors]
    launch: Callable[[Tensors], Tensors]
    reference: Callable[[Tensors], Tensors]
    tolerance: float = 1e-5
    capability: int = 80


def check(case: Case, device: str) -> None:
    """Launch a case on `device`; AssertionError, naming the output, where it is not as it should be."""
    inputs = case.inputs(device)
    found, expected = case.launch(inputs), case.reference(inputs)
    for name, tensor in expected.items():
        torch.testing.assert_close(
            found[name],
            tensor,
            rtol=case.tolerance,
            atol=case.tolerance,
            msg=lambda text, name=name: f"{case.name}, output {name}: {text}",
        )


def _random(shapes: Mapping[str, tuple[int, ...]], dtype: torch.dtype, device: str) -> Tensors:
    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.randn(shape, generator=generator).to(dtype).to(device) for name, shape in shapes.items()
    }


def _with_scratch(launch: Callable[[], None], device: torch.device) -> None:
    """Launch a kernel that makes tensor descriptors: Triton asks for memory to build them in."""

    def allocate(size: int, alignment: int, stream: int | None) -> torch.Tensor:
        return torch.empty(size, dtype=torch.int8, device=device)

    def run() -> None:
        triton.set_allocator(allocate)  # a context variable: gone with the context
        launch()

    contextvars.copy_context().run(run)


def _add(t: Tensors) -> Tensors:
    out = torch.empty_like(t["x"])
    n = out.numel()
    add_kernel[(triton.cdiv(n, 1024),)](t["x"], t["y"], out, n, BLOCK=1024)
    return {"out": out}


def _softmax(t: Tensors, programs: int) -> Tensors:
    x = t["x"]
    out = torch.empty_like(x)
    rows, cols = x.shape
    block = triton.next_power_of_2(cols)
    softmax_kernel[(min(programs, rows),)](out, x, x.stride(0), rows, cols, BLOCK=block, STAGES=2)
    return {"out": out}


def _layer_norm(t: Tensors) -> Tensors:
    x = t["x"]
    rows, cols = x.shape
    out = torch.empty_like(x)
    mean = torch.empty(rows, device=x.device)
    rstd = torch.empty(rows, device=x.device)
    layer_norm_kernel[(rows,)](
        x, out, t["w"].float(), t["b"].float(), mean, rstd, x.stride(0), cols, 1e-5, BLOCK=256
    )
    return {"out": out, "mean": mean, "rstd": rstd}


def _layer_norm_reference(t: Tensors) -> Tensors:
    x = t["x"].float()
    mean = x.mean(1)
    rstd = 1 / torch.sqrt(x.var(1, correction=0) + 1e-5)
    out = (x - mean[:, None]) * rstd[:, None] * t["w"].float() + t["b"].float()
    return {"out": out.to(t["x"].dtype), "mean": mean, "rstd": rstd}


def _matmul(t: Tensors, num_ctas: int = 1) -> Tensors:
    a, b = t["a"], t["b"]
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(m, 64) * triton.cdiv(n, 64 * num_ctas),)
    matmul_kernel[grid](
        a, b, c, m, n, k, a.stride(0), b.stride(0), c.stride(0),
        BLOCK_M=64, BLOCK_N=64 * num_ctas, BLOCK_K=32, GROUP_M=8, num_stages=3, num_ctas=num_ctas,
    )  # fmt: skip
    return {"c": c}


def _matmul_descriptors(
    t: Tensors, kernel: Any, options: Mapping[str, Any], grid: tuple[int, ...]
) -> Tensors:
    a, b = t["a"], t["bt"]
    (m, k), n = a.shape, b.shape[0]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    _with_scratch(lambda: kernel[grid](a, b, c, m, n, k, **options, num_stages=3), a.device)
    return {"c": c}


def _matmul_reference(t: Tensors) -> Tensors:
    b = t["b"] if "b" in t else t["bt"].T
    return {"c": (t["a"].float() @ b.float()).to(t["a"].dtype)}


def _attention(t: Tensors) -> Tensors:
    q = t["q"]
    heads, length, dim = q.shape
    out = torch.empty_like(q)
    attention_kernel[(length // 64, heads)](
        q, t["k"], t["v"], out, length, dim**-0.5, BLOCK_M=64, BLOCK_N=32, HEAD=dim, CAUSAL=True, num_stages=2
    )
    return {"out": out}


def _attention_reference(t: Tensors) -> Tensors:
    q, k, v = (t[name].float() for name in ("q", "k", "v"))
    scores = q @ k.transpose(1, 2) * q.shape[-1] ** -0.5
    future = torch.ones_like(scores[0], dtype=torch.bool).triu(1)
    return {"out": (scores.masked_fill(future, -float("inf")).softmax(-1) @ v).to(t["q"].dtype)}


def _early_return(t: Tensors) -> Tensors:
    out = torch.zeros_like(t["x"])
    n = out.numel()
    early_return_kernel[(triton.cdiv(n, 128) + 2,)](t["x"], out, n, BLOCK=128)
    return {"out": out}


def _collatz(t: Tensors) -> Tensors:
    out = torch.zeros_like(t["x"])
    collatz_kernel[(out.numel(),)](t["x"], out)
    return {"out": out}


def _collatz_reference(t: Tensors) -> Tensors:
    value, steps = t["x"].clone(), torch.zeros_like(t["x"])
    while bool((value > 1).any()):
        going = value > 1
        value = torch.where(going, torch.where(value % 2 == 0, value // 2, 3 * value + 1), value)
        steps += going
    return {"out": steps}


def _nested_loops(t: Tensors) -> Tensors:
    rows, cols = t["x"].shape
    out = torch.zeros((rows + 1, 128), device=t["x"].device)
    nested_loops_kernel[(1,)](t["x"], out, rows, cols, BLOCK=128)
    return {"out": out}


def _nested_loops_reference(t: Tensors) -> Tensors:
    rows = t["x"].shape[0]
    best = t["x"].reshape(rows, -1, 128).amax(1)
    out = torch.zeros((rows + 1, 128), device=t["x"].device)
    out[: rows - 1] = best[-1]  # the last row overwrites what the rows before it wrote
    out[rows] = best.sum(0)
    return {"out": out}


def _branch_in_loop(t: Tensors) -> Tensors:
    out = torch.zeros((2, 128), device=t["x"].device)
    branch_in_loop_kernel[(1,)](t["x"], out, t["x"].shape[0], BLOCK=128)
    return {"out": out}


def _branch_in_loop_reference(t: Tensors) -> Tensors:
    signs = torch.tensor([1.0, -1.0], device=t["x"].device).repeat(t["x"].shape[0])[: t["x"].shape[0]]
    total = (t["x"] * signs[:, None]).sum(0)
    return {"out": torch.stack([total + t["x"].shape[0] // 2, total])}


def _noinline(t: Tensors) -> Tensors:
    out = torch.empty_like(t["x"])
    counts = torch.zeros(2, dtype=torch.int32, device=out.device)
    noinline_kernel[(out.numel(),)](t["x"], out, counts, 0.5)
    return {"out": out, "counts": counts}


def _noinline_reference(t: Tensors) -> Tensors:
    def scaled_square(value: torch.Tensor) -> torch.Tensor:
        return torch.where(value > 10.0, value, value * value * 0.5)

    y = scaled_square(t["x"])
    for i in range(3):
        y = scaled_square(y) - i
    n = y.numel()
    return {"out": y, "counts": torch.tensor([(n + 1) // 2, n // 2], dtype=torch.int32, device=y.device)}


def _call_paths(t: Tensors) -> Tensors:
    rows, cols = t["x"].shape
    out = torch.empty(4, device=t["x"].device)
    call_paths_kernel[(4,)](t["x"], out, rows, cols, BLOCK=128)
    return {"out": out}


def _call_paths_reference(t: Tensors) -> Tensors:
    sums = t["x"].sum(1)
    odd = torch.arange(len(sums), device=sums.device) % 2 == 1
    thirds = torch.arange(len(sums), device=sums.device) % 3 == 0
    total = sums + odd * torch.where(thirds, 1.0, sums.abs())
    return {"out": torch.stack([sums[pid] + total[pid:].sum() for pid in range(4)])}


def _joined_paths(t: Tensors) -> Tensors:
    out = torch.zeros((10, 128), device=t["x"].device)
    joined_paths_kernel[(5,)](t["x"], out, t["x"].shape[0], BLOCK=128)
    return {"out": out}


def _joined_paths_reference(t: Tensors) -> Tensors:
    x = t["x"]
    out = torch.zeros((10, 128), device=x.device)
    for pid in (0, 1, 2, 4):
        out[2 * pid : 2 * pid + 2] = x[:pid].sum(0) if pid > 1 else -x.sum(0)
    return {"out": out}


def _gluon_ws(t: Tensors) -> Tensors:
    out = torch.zeros((12, 128), device=t["x"].device)
    total = torch.empty(1, device=out.device)
    gluon_ws_kernel[(1,)](t["x"], out, total, BLOCK=128)
    return {"out": out, "total": total}


def _gluon_ws_reference(t: Tensors) -> Tensors:
    x = t["x"]
    out = torch.zeros((12, 128), device=x.device)
    out[0], out[6:9], out[9:12] = x[0] + 1, x * 2, x * 3
    return {"out": out, "total": (x[0].sum() + x[0].max()).reshape(1)}


def _gluon_ws_loop(t: Tensors) -> Tensors:
    tiles = len(t["x"])
    out = torch.zeros((2 * tiles, 128), device=t["x"].device)
    total = torch.empty(2, device=out.device)
    gluon_ws_loop_kernel[(2,)](t["x"], out, total, tiles, BLOCK=128)
    return {"out": out, "total": total}


def _gluon_ws_loop_reference(t: Tensors) -> Tensors:
    x = t["x"]
    tiles = len(x)
    out = torch.zeros((2 * tiles, 128), device=x.device)
    for tile in range(2, tiles, 3):  # those in which the loop of the workers gets to its second iteration
        out[2 * tile], out[2 * tile + 1] = x[1], x[1] + 1
    sums = [sum(float(x[:tile].sum()) + tile for tile in range(pid, tiles)) for pid in range(2)]
    return {"out": out, "total": torch.tensor(sums, device=x.device)}


def cases(size: str = "small") -> list[Case]:
    """All cases of a size, "small" or "real"."""
    small = {"small": True, "real": False}[size]
    half, single = torch.float16, torch.float32
    columns = 200 if small else 4096
    m, n, k = (128, 192, 96) if small else (2048, 2048, 2048)
    tile = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}
    wide = tile | {"BLOCK_M": 128}
    products = {"a": (m, k), "b": (k, n)}
    transposed = {"a": (m, k), "bt": (n, k)}

    def floats(
        shapes: Mapping[str, tuple[int, ...]], dtype: torch.dtype = single
    ) -> Callable[[str], Tensors]:
        return partial(_random, shapes, dtype)

    def integers(device: str) -> Tensors:
        return {"x": torch.arange(1, 33 if small else 4097, dtype=torch.int32, device=device)}

    length = 2500 if small else 1 << 24
    return [
        Case("add", floats({"x": (length,), "y": (length,)}), _add, lambda t: {"out": t["x"] + t["y"]}),
        Case(
            "softmax",
            floats({"x": (17 if small else 8192, columns)}),
            partial(_softmax, programs=4 if small else 264),
            lambda t: {"out": torch.softmax(t["x"], 1)},
        ),
        Case(
            "layer_norm",
            floats({"x": (5 if small else 4096, columns), "w": (columns,), "b": (columns,)}, half),
            _layer_norm,
            _layer_norm_reference,
            tolerance=4e-3,
        ),
        Case("matmul", floats(products, half), _matmul, _matmul_reference, tolerance=2e-2),
        Case(
            "matmul_cluster",
            floats(products, half),
            partial(_matmul, num_ctas=2),
            _matmul_reference,
            tolerance=2e-2,
            capability=90,
        ),
        Case(
            "matmul_tma",
            floats(transposed, half),
            partial(
                _matmul_descriptors,
                kernel=matmul_tma_kernel,
                options=tile | {"FLATTEN": False},
                grid=(2 if small else 132,),
            ),
            _matmul_reference,
            tolerance=2e-2,
        ),
        Case(
            "matmul_ws",
            floats(transposed, half),
            partial(_matmul_descriptors, kernel=matmul_ws_kernel, options=wide, grid=(m // 128, n // 64)),
            _matmul_reference,
            tolerance=2e-2,
            capability=90,
        ),
        Case(
            "attention",
            floats(dict.fromkeys("qkv", (2, 128, 64) if small else (64, 2048, 64)), half),
            _attention,
            _attention_reference,
            tolerance=5e-3,
        ),
        Case(
            "early_return",
            floats({"x": (300 if small else 100_000,)}),
            _early_return,
            lambda t: {"out": -t["x"] if t["x"][0] < 0 else t["x"] * 2},
        ),
        Case("while", integers, _collatz, _collatz_reference),
        Case(
            "nested_loops",
            floats({"x": (3 if small else 40, 256 if small else 4096)}),
            _nested_loops,
            _nested_loops_reference,
        ),
        Case(
            "branch_in_loop",
            floats({"x": (9 if small else 1000, 128)}),
            _branch_in_loop,
            _branch_in_loop_reference,
            tolerance=1e-4,
        ),
        Case("noinline", floats({"x": (8 if small else 10_000,)}), _noinline, _noinline_reference),
        Case(
            "call_paths",
            floats({"x": (20 if small else 1000, 256)}),
            _call_paths,
            _call_paths_reference,
            tolerance=1e-2,
        ),
        Case(
            "joined_paths",
            floats({"x": (6 if small else 1000, 128)}),
            _joined_paths,
            _joined_paths_reference,
            tolerance=1e-3,
        ),
        Case(
            "gluon_ws", floats({"x": (3, 128)}), _gluon_ws, _gluon_ws_reference, tolerance=1e-4, capability=90
        ),
        Case(
            "gluon_ws_loop",
            floats({"x": (12 if small else 300, 128)}),
            _gluon_ws_loop,
            _gluon_ws_loop_reference,
            tolerance=1e-2,
            capability=90,
        ),
    ]
