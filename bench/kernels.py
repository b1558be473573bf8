"""What is measured: the kernels, their inputs, grids and tiles."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch
import triton
import triton.language as tl
from triton.runtime import _allocation

from tests.kernels.add import add_kernel
from tests.kernels.attention import attention_kernel
from tests.kernels.layer_norm import layer_norm_kernel
from tests.kernels.matmul import matmul_kernel
from tests.kernels.matmul_tma import matmul_tma_kernel
from tests.kernels.matmul_ws import matmul_ws_kernel
from tests.kernels.softmax import softmax_kernel
from tests.kernels.spec import Spec

# ruff: noqa: N803
__all__ = [
    "POINTS",
    "Workload",
    "add",
    "give_scratch",
    "matmul",
    "record_cost",
    "surroundings",
    "workloads",
]

_POINTERS: Final = {torch.float16: "*fp16", torch.float32: "*fp32", torch.int32: "*i32"}
POINTS: Final = 64  # records that one iteration of the record-cost kernel gets


@dataclass(frozen=True)
class Workload:
    """One launch of one kernel.

    tensors: shape and dtype of each, filled with random values, or None for one to write to; scalars: the
    other arguments in the order of the kernel. rows: iterations of the longest loop that gets a ring, which
    the profile buffer must hold (0: there is none). partition_warps: warps beyond num_warps on Hopper.
    """

    name: str
    fn: Any
    grid: tuple[int, ...]
    tensors: Mapping[str, tuple[tuple[int, ...], torch.dtype]]
    scalars: Mapping[str, int | float]
    constexprs: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    rows: int = 0
    partition_warps: int = 0

    @property
    def warps(self) -> int:
        """Warps of a CTA, those of partitions included."""
        return int(self.options["num_warps"]) + self.partition_warps

    @property
    def ctas(self) -> int:
        return math.prod(self.grid)

    def inputs(self, device: str) -> dict[str, Any]:
        """All arguments but the constexprs."""
        generator = torch.Generator(device).manual_seed(0)
        found: dict[str, Any] = {}
        for name, (shape, dtype) in self.tensors.items():
            tensor = torch.empty(shape, dtype=dtype, device=device)
            found[name] = tensor.normal_(generator=generator) if dtype.is_floating_point else tensor.zero_()
        return {**found, **self.scalars}

    def launch(self, inputs: Mapping[str, Any]) -> Any:
        """Launch on the device of the inputs; Triton's CompiledKernel."""
        return self.fn[self.grid](**inputs, **self.constexprs, **self.options)

    @property
    def spec(self) -> Spec:
        """The same compilation with no GPU."""
        signature = {name: _POINTERS[dtype] for name, (_, dtype) in self.tensors.items()}
        signature |= {name: "fp32" if isinstance(v, float) else "i32" for name, v in self.scalars.items()}
        aligned = [name for name, v in self.scalars.items() if isinstance(v, int) and v % 16 == 0]
        return Spec(
            name=self.name,
            fn=self.fn,
            signature={name: signature[name] for name in self.fn.arg_names if name in signature},
            constexprs=self.constexprs,
            options=self.options,
            aligned=(*self.tensors, *aligned),
        )


def give_scratch(device: str) -> None:
    """Let kernels of this process have memory of a device to build tensor descriptors in."""

    def allocate(size: int, alignment: int, stream: int | None) -> torch.Tensor:
        return torch.empty(size, dtype=torch.int8, device=device)

    triton.set_allocator(allocate)


@contextlib.contextmanager
def surroundings() -> Iterator[None]:
    """What kernels need around them: memory for tensor descriptors, and the emulator if there is no GPU."""
    on_gpu = torch.cuda.is_available()
    before = _allocation._allocator.get()
    give_scratch("cuda" if on_gpu else "cpu")
    try:
        if on_gpu:
            yield
        else:
            from profscope import emulator

            with emulator.activate():
                yield
    finally:
        triton.set_allocator(before)


@triton.jit
def record_cost_kernel(
    start_ptr, x_ptr, iterations, scale, shift, POINTS: tl.constexpr, WORK: tl.constexpr
):  # fmt: skip
    """Every iteration passes POINTS points, where a pass puts records, and between them WORK dependent FMAs.

    Stores the clock at the start of each iteration, by every thread. A point is a register move that ptxas
    removes.
    """
    threads = tl.arange(0, 128)
    x = tl.load(x_ptr)
    for i in range(iterations):
        clock = tl.inline_asm_elementwise(
            "{ .reg .f32 unused; mov.f32 unused, $1; mov.u32 $0, %clock; }",
            "=r,f", [x], dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip
        tl.store(start_ptr + (tl.program_id(0) * iterations + i) * 128 + threads, clock)
        for _ in tl.static_range(POINTS):
            x = tl.inline_asm_elementwise(
                "mov.f32 $0, $1; // point", "=f,f", [x], dtype=tl.float32, is_pure=False, pack=1
            )
            for _ in tl.static_range(WORK):
                x = x * scale + shift
    tl.store(x_ptr + threads, x, mask=(threads == 0) & (x == 12345.0))  # keeps x alive


def record_cost(ctas: int, work: int) -> Workload:
    """One CTA of 4 warps an SM; `work` FMAs of 4 cycles between records."""
    iterations = 16
    name = "back to back" if not work else f"{4 * work} cycles of work between"
    return Workload(
        name,
        record_cost_kernel,
        (ctas,),
        {"start_ptr": ((ctas, iterations, 128), torch.int32), "x_ptr": ((128,), torch.float32)},
        {"iterations": iterations, "scale": 0.5, "shift": 0.25},
        {"POINTS": POINTS, "WORK": work},
        {"num_warps": 4},
        rows=iterations,
    )


def add(elements: int, block: int = 1024) -> Workload:
    single = torch.float32
    return Workload(
        f"add, {elements >> 20} M" if elements >> 20 else f"add, {elements // block} CTAs",
        add_kernel,
        (elements // block,),
        dict.fromkeys(("x_ptr", "y_ptr", "out_ptr"), ((elements,), single)),
        {"n": elements},
        {"BLOCK": block},
        {"num_warps": 4},
    )


def softmax(rows: int, cols: int) -> Workload:
    shape = ((rows, cols), torch.float32)
    programs = min(rows, 264)
    return Workload(
        f"softmax, {rows} x {cols}",
        softmax_kernel,
        (programs,),
        {"out_ptr": shape, "in_ptr": shape},
        {"row_stride": cols, "n_rows": rows, "n_cols": cols},
        {"BLOCK": triton.next_power_of_2(cols), "STAGES": 2},
        {"num_warps": 8},
        rows=-(-rows // programs),
    )


def layer_norm(rows: int, cols: int) -> Workload:
    matrix, row = ((rows, cols), torch.float16), ((cols,), torch.float32)
    column = ((rows,), torch.float32)
    block = min(1024, cols)
    return Workload(
        f"layer norm, {rows} x {cols}",
        layer_norm_kernel,
        (rows,),
        {
            "x_ptr": matrix,
            "y_ptr": matrix,
            "w_ptr": row,
            "b_ptr": row,
            "mean_ptr": column,
            "rstd_ptr": column,
        },
        {"stride": cols, "n_cols": cols, "eps": 1e-5},
        {"BLOCK": block},
        {"num_warps": 4},
        rows=cols // block,
    )  # fmt: skip


def matmul(size: int, tile: tuple[int, int, int], warps: int) -> Workload:
    m, n, k = tile
    square = ((size, size), torch.float16)
    return Workload(
        f"matmul, {size}^3",
        matmul_kernel,
        ((size // m) * (size // n),),
        dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), square),
        dict.fromkeys(("M", "N", "K", "stride_am", "stride_bk", "stride_cm"), size),
        {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8},
        {"num_warps": warps, "num_stages": 3},
        rows=size // k,
    )


def matmul_tma(size: int, tile: tuple[int, int, int], warps: int, programs: int) -> Workload:
    plain = matmul(size, tile, warps)
    return replace(
        plain,
        name=f"{plain.name}, TMA",
        fn=matmul_tma_kernel,
        grid=(min(programs, plain.ctas),),
        scalars=dict.fromkeys("MNK", size),
        constexprs={**_tile(tile), "FLATTEN": False},
        rows=-(-plain.ctas // min(programs, plain.ctas)) * plain.rows,
    )


def matmul_ws(size: int, tile: tuple[int, int, int], warps: int) -> Workload:
    plain = matmul(size, tile, warps)
    return replace(
        plain,
        name=f"{plain.name}, warp-specialised",
        fn=matmul_ws_kernel,
        grid=(size // tile[0], size // tile[1]),
        scalars=dict.fromkeys("MNK", size),
        constexprs=_tile(tile),
        partition_warps=8,  # two groups of consumers, and the producer takes the CTA's own four
    )


def _tile(tile: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True))


def attention(heads: int, length: int) -> Workload:
    cube = ((heads, length, 64), torch.float16)
    return Workload(
        f"attention, {heads} x {length} x 64",
        attention_kernel,
        (length // 64, heads),
        dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "out_ptr"), cube),
        {"length": length, "scale": 0.125},
        {"BLOCK_M": 64, "BLOCK_N": 64, "HEAD": 64, "CAUSAL": False},
        {"num_warps": 4, "num_stages": 3},
        rows=length // 64,
    )


def workloads(*, small: bool = False) -> Iterator[Workload]:
    """The kernels whose slowdown is measured; small ones only show that the benchmark runs."""
    if small:
        yield add(1 << 14)
        yield softmax(16, 256)
        yield layer_norm(8, 512)
        yield matmul(128, (64, 64, 32), 4)
        yield attention(1, 256)
        return
    yield add(64 << 20)
    yield softmax(8192, 4096)
    yield layer_norm(8192, 4096)
    yield matmul(4096, (128, 256, 64), 8)
    yield matmul_tma(4096, (128, 256, 64), 8, programs=132)
    yield matmul_ws(4096, (128, 128, 64), 4)
    yield attention(64, 4096)
