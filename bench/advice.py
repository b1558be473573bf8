"""Kernels of libraries that nobody here wrote: what the findings say of them, and what the advice brings.

    python -m bench.advice [--kernels REGEX] [--rounds N] [--level heavy]     # on a GPU
    python -m bench.advice --dry-run                                          # on the emulator, small

Of each kernel one launch is taken out of a call of its library, and launched again: recorded, for its
findings; bare, for its time; and bare with what the findings advise to try, all in interleaved rounds.
Libraries that are not installed are left out. `saved` is what a change really takes off the launch's time.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Final

import torch
import triton
from triton.runtime.autotuner import Heuristics

import profscope
from bench import kernels
from bench.libraries.calls import function, is_installed
from bench.timing import device_us, why

__all__ = ["KERNELS", "Kernel", "Launch", "edited", "launch_of", "main"]


@dataclass(frozen=True)
class Launch:
    """A launch as a library makes it: what `kernel[grid](*args, **kwargs)` needs."""

    kernel: Any
    grid: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __call__(self) -> Any:
        return self.kernel[self.grid](*self.args, **self.kwargs)

    def changed(self, grid: Any = None, **options: Any) -> Launch:
        return Launch(self.kernel, grid or self.grid, self.args, {**self.kwargs, **options})


Make = Callable[[str, bool], Callable[[], Any]]
"""A call of the library, on a device; whether small."""


@dataclass(frozen=True)
class Kernel:
    """A kernel of a library.

    at: its module and name, as the library's own code looks it up. changes: by what is tried, what becomes
    of the launch.
    """

    at: str
    make: Make
    changes: Mapping[str, Callable[[Launch], Launch]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.at.partition('.')[0]} {self.at.rpartition('.')[2]}"


class _Watched:
    """Stands in a library's module for a kernel, launches it, and notes the last launch."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.last: Launch | None = None

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            self.last = Launch(self.kernel, grid, args, kwargs)
            return self.last()

        return run

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kernel, name)


@contextmanager
def _watched(at: str) -> Iterator[_Watched]:
    path, _, name = at.rpartition(".")
    module = importlib.import_module(path)
    kernel = vars(module)[name]
    watched = _Watched(kernel)
    setattr(module, name, watched)
    try:
        yield watched
    finally:
        setattr(module, name, kernel)


def launch_of(kernel: Kernel, device: str, small: bool) -> Launch:
    """The last launch of a kernel in a call of its library. Raises RuntimeError where there was none."""
    call = kernel.make(device, small)
    with _watched(kernel.at) as watched:
        call()
    if watched.last is None:
        raise RuntimeError(f"{kernel.name} was not launched")
    return watched.last


def _options(**options: Any) -> Callable[[Launch], Launch]:
    return lambda launch: launch.changed(**options)


def edited(before: str, after: str, **options: Any) -> Callable[[Launch], Launch]:
    """The same launch of a kernel whose source has `after` for `before`; ValueError if it is not there."""

    def change(launch: Launch) -> Launch:
        return replace(launch, kernel=_copy(launch.kernel, before, after)).changed(**options)

    return change


def _copy(kernel: Any, before: str, after: str) -> Any:
    if isinstance(kernel, Heuristics):
        return Heuristics(_copy(kernel.fn, before, after), kernel.arg_names, kernel.values)
    if before not in kernel.src:
        raise ValueError(f"{kernel.fn.__name__} has no {before!r}")
    copy = triton.JITFunction(kernel.fn, do_not_specialize=kernel.do_not_specialize)
    copy._unsafe_update_src(kernel.src.replace(before, after))
    return copy


def _pipelined(loop: str, stages: int = 3) -> dict[str, Callable[[Launch], Launch]]:
    """Loads of a loop without dots start steps ahead where its range has num_stages."""
    ahead = re.sub(r"(tl\.)?range\((.*)\)", rf"tl.range(\2, num_stages={stages})", loop)
    return {f"{ahead}": edited(loop, ahead)}


def _trials(name: str, *values: int) -> dict[str, Callable[[Launch], Launch]]:
    return {f"{name}={value}": _options(**{name: value}) for value in values}


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
KERNELS: Final = (
    Kernel(
        "liger_kernel.ops.group_norm._group_norm_forward_kernel", _group_norm,
        _trials(_WARPS, 16, 32) | {"BLOCK_SIZE=8192, num_warps=16": _options(BLOCK_SIZE=8192, num_warps=16)},
    ),
    Kernel(
        "liger_kernel.ops.group_norm._group_norm_backward_kernel", _group_norm_backward,
        _trials(_WARPS, 8, 16),
    ),
    Kernel(
        "liger_kernel.ops.cross_entropy.liger_cross_entropy_kernel", _cross_entropy,
        _trials("BLOCK_SIZE", 8192, 16384, 65536)
        | _pipelined("range(0, n_cols, BLOCK_SIZE)")
        | {"BLOCK_SIZE=8192, pipelined": edited(
            "range(0, n_cols, BLOCK_SIZE)", "tl.range(0, n_cols, BLOCK_SIZE, num_stages=3)", BLOCK_SIZE=8192,
        )},
    ),
    Kernel(
        "liger_kernel.ops.rms_norm._rms_norm_backward_kernel", _rms_norm_backward,
        _trials(_WARPS, 16, 32)
        | _pipelined("range(row_start, row_end)", 2)
        | _pipelined("range(row_start, row_end)", 3),
    ),
    Kernel(
        "liger_kernel.ops.kl_div._kldiv_kernel_forward", _kl_div,
        _trials("BLOCK_SIZE", 4096, 8192, 16384),
    ),
    Kernel(
        "conch.kernels.quantization.gemm._gemm_kernel", _mixed_gemm,
        _trials(_STAGES, 3, 4) | _NEIGHBOURS,
    ),
    Kernel(
        "conch.kernels.quantization.gemm._gemm_kernel", _scaled_gemm,
        _trials(_STAGES, 3, 4) | _NEIGHBOURS,
    ),
    Kernel(
        "conch.kernels.attention.paged_attention._paged_attention_compute_splits_kernel", _paged_attention,
        _trials(_STAGES, 1, 2, 5) | _trials(_WARPS, 1, 2),
    ),
    Kernel(
        f"{_MLSTM}.fw_parallel.mlstm_chunkwise__parallel_fw_H_kernel", _mlstm,
        _trials(_STAGES, 2, 3) | _trials(_WARPS, 4, 8),
    ),
    Kernel(
        f"{_MLSTM}.fw_recurrent.mlstm_chunkwise__recurrent_fw_C_kernel", _mlstm,
        _trials(_STAGES, 2, 3) | _trials(_WARPS, 4, 8),
    ),
    Kernel(
        f"{_FLA.format('gated_delta_rule')}.fused_recurrent_gated_delta_rule_fwd_kernel",
        _delta_rule("fla.ops.gated_delta_rule.fused_recurrent_gated_delta_rule", True),
        _trials(_WARPS, 2, 4) | _pipelined("tl.range(0, T)"),
    ),
    Kernel(
        f"{_FLA.format('delta_rule')}.fused_recurrent_delta_rule_fwd_kernel",
        _delta_rule("fla.ops.delta_rule.fused_recurrent_delta_rule", False),
        _trials(_WARPS, 2, 4) | _pipelined("range(0, T)"),
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


def _show(kernel: Kernel, options: argparse.Namespace, device: str) -> None:
    """Print a kernel's findings, its time, and what each change takes off it."""
    launch = launch_of(kernel, device, options.dry_run)
    with profscope.session(instrument=options.level, memory=2048) as prof:
        launch()
    findings = prof.findings()
    for row in findings.to_dict("records"):
        print(f"{row['gain_pct']:5.1f} % {row['finding']} line {row['line']} ({row['confidence']})")
        print(f"        {row['evidence']}")
    print("       ", *findings.attrs["clean"].values(), *findings.attrs["not_measured"], sep="\n        ")
    tried = {"as it is": launch} | {name: change(launch) for name, change in kernel.changes.items()}
    took_us: dict[str, list[float]] = {name: [] for name in tried}
    for turn in range(options.rounds + 1):
        for name, each in list(tried.items()):
            try:
                took = device_us(each, 1 if options.dry_run or not turn else 5)
            except Exception as error:  # noqa: BLE001  what is tried may not fit; the others still count
                print(f"        {name}: {why(error)[:160]}")
                del tried[name], took_us[name]
                continue
            if turn:  # the first one compiles
                took_us[name].append(took)
    for name, took in took_us.items():
        if not took:
            continue
        before = median(took_us["as it is"])
        saved = 100 * (1 - median(took) / before)
        print(
            f"        {name}: {median(took):.1f} us ({min(took):.1f} to {max(took):.1f}), saved {saved:.0f} %"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where a kernel failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.advice", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="small, on the emulator where there is no GPU")
    parser.add_argument("--rounds", type=int, default=7, help="samples of each time; 0 compiles")
    parser.add_argument("--level", default="heavy", help="what is recorded")
    parser.add_argument("--kernels", default="", metavar="REGEX", help="only those whose name it matches")
    options = parser.parse_args(argv)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not options.dry_run:
        print("bench.advice: no GPU is active; --dry-run shows that it runs", file=sys.stderr)
        return 1
    failed = 0
    with kernels.surroundings():
        for kernel in KERNELS:
            library = kernel.at.partition(".")[0]
            if not re.search(options.kernels, kernel.name) or not is_installed(library):
                continue
            print(f"== {kernel.name}", flush=True)
            try:
                _show(kernel, options, device)
            except Exception:  # noqa: BLE001  the others' figures still count
                traceback.print_exc()
                failed += 1
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
