"""What sessions add to a program's launches and steps, beside Proton and torch.profiler.

    python -m bench.programs [--rounds 9] [--programs NAME ...] [--tools NAME ...] [--limit-s 500]

Programs: launches of a small kernel; launches of Inductor's kernels of 3 and of 9 pointers, through their
autotuner; steps of a small, launch-bound GPT, compiled by torch.compile. In each round every tool has one
block of work between two bare blocks of the same process; what it adds is its block less their mean: medians
over rounds, with quartiles. Host time ends when the last launch returns, the other when the GPU is done. A
session is paused for the bare blocks. `first`: the first 30 calls of a session, in which it builds binaries
and measures costs, over 30 bare ones. CUPTI is Proton's or Kineto's until a process ends: each tool has its
own. Without a GPU an operator of torch's and one layer of the model run, to show that it works.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest import mock

import torch
import triton
import triton.language as tl
from torch import nn
from torch.nn import functional

import profscope

__all__ = ["PROGRAMS", "TOOLS", "main"]

_NOTHING: Final = "^no kernel$"
_ON_GPU: Final = torch.cuda.is_available()
_FIRST: Final = 30  # calls of a session
_WARM_UP: Final = 8  # calls, before each block
_REST_S: Final = 0.15  # as pausing may take; a host is faster after a rest

Block = AbstractContextManager[Any]
Tool = Callable[..., AbstractContextManager[Callable[[], Block]]]
"""Is open in all rounds; makes a context for each block of work that it watches."""


@triton.jit
def small_kernel(x_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) + 1.0, mask=at < n)


def _small_launches() -> Callable[[], None]:
    x = torch.zeros(64 * 128, device="cuda" if _ON_GPU else "cpu")

    def launch() -> None:
        small_kernel[(64,)](x, x.numel(), BLOCK=128)

    return launch if _ON_GPU else lambda: torch.neg(x, out=x)


def _compiled_launches(pointers: int) -> Callable[[], None]:
    """Launches one kernel of Inductor's through its autotuner."""
    from torch._inductor.runtime import triton_heuristics

    calls: list[tuple[Any, ...]] = []
    run = triton_heuristics.CachingAutotuner.run

    def seen(tuner: Any, *args: Any, stream: Any, **kwargs: Any) -> Any:
        calls.append((tuner, args, stream))
        return run(tuner, *args, stream=stream, **kwargs)

    inputs = [torch.randn(4096 + 16 * pointers, device="cuda") for _ in range(pointers - 1)]
    with mock.patch.object(triton_heuristics.CachingAutotuner, "run", seen):
        torch.compile(lambda *tensors: sum(tensors))(*inputs)
    (tuner, args, stream), *_ = calls
    return lambda: tuner.run(*args, stream=stream)


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        split = self.qkv(self.norm_1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm_2(x))))


class GPT(nn.Module):
    """tokens: int64, shape (batch, length); returns the mean loss of predicting each next one."""

    def __init__(self, layers: int, words: int, width: int = 384, heads: int = 6) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(256, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = layer(x)
        guess = self.head(self.norm(x))[:, :-1]
        return functional.cross_entropy(guess.flatten(0, 1).float(), tokens[:, 1:].flatten())


def _gpt_steps() -> Callable[[], None]:
    torch.manual_seed(0)
    model: Any = GPT(6, 8192).to("cuda", torch.bfloat16) if _ON_GPU else GPT(1, 256)
    tokens = torch.randint(0, 8192, (8, 256), device="cuda") if _ON_GPU else torch.zeros(1, 16).long()
    loss_of = torch.compile(model) if _ON_GPU else model

    def step() -> None:
        model.zero_grad(set_to_none=True)
        loss_of(tokens).backward()

    return step


PROGRAMS: Final[dict[str, tuple[Callable[[], Callable[[], None]], int]]] = {
    "launches": (_small_launches, 10_000),
    "compiled launches, 3 pointers": (partial(_compiled_launches, 3), 2000),
    "compiled launches, 9 pointers": (partial(_compiled_launches, 9), 2000),
    "steps of the GPT": (_gpt_steps, 150),
}
"""By name: what prepares the program, and how many calls a block has."""


@contextlib.contextmanager
def _session(wait: bool = True, **options: Any) -> Iterator[Callable[[], Block]]:
    with profscope.session(wait=wait, **options) as prof:

        @contextlib.contextmanager
        def block() -> Iterator[None]:
            prof.resume()
            try:
                yield
            finally:
                prof.pause()

        yield block


@contextlib.contextmanager
def _proton() -> Iterator[None]:
    import triton.profiler as proton

    with tempfile.TemporaryDirectory() as folder:
        session = proton.start(str(Path(folder) / "proton"))
        try:
            yield
        finally:
            proton.finalize(session)


def _torch_profiler() -> Block:
    activities = [torch.profiler.ProfilerActivity.CPU]
    return torch.profiler.profile(activities=[*activities, *[torch.profiler.ProfilerActivity.CUDA] * _ON_GPU])


def _events() -> Block:
    return profscope.session(events=True, wait=True, kernels=_NOTHING)


TOOLS: Final[dict[str, Tool]] = {
    "Proton": lambda: contextlib.nullcontext(_proton),
    "torch.profiler": lambda: contextlib.nullcontext(_torch_profiler),
    "events=True": lambda: contextlib.nullcontext(_events),
    "kernels= that matches none": partial(_session, kernels=_NOTHING),
    "ctas=64": partial(_session, ctas=64),
    "ctas=64, every=100": partial(_session, ctas=64, every=100),
    "ctas=64, overhead_pct=1": partial(_session, ctas=64, overhead_pct=1),
}


def _times(work: Callable[[], None], count: int) -> tuple[float, float]:
    """Seconds of a call: until the last one returns, and until the GPU is done."""
    _synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        work()
    returned = time.perf_counter()
    _synchronize()
    return (returned - begin) / count, (time.perf_counter() - begin) / count


def _block(work: Callable[[], None], count: int, watched: Block) -> tuple[float, float]:
    time.sleep(_REST_S)
    with watched:
        _times(work, _WARM_UP)
        return _times(work, count)


def measured(program: str, tool: str, rounds: int, count: int, limit_s: float) -> dict[str, Any]:
    """What a tool adds to a program, in this process."""
    for category in (profscope.EmptyProfileWarning, profscope.DistrustWarning):
        warnings.simplefilter("ignore", category)
    work = PROGRAMS[program][0]()
    _times(work, _WARM_UP)
    first, bare, watched = _first(work, TOOLS[tool]), [], []
    until = time.monotonic() + limit_s
    with TOOLS[tool]() as block:
        _block(work, _FIRST, block())
        before = _block(work, count, contextlib.nullcontext())
        while len(watched) < rounds and (not watched or time.monotonic() < until):
            watched.append(_block(work, count, block()))
            behind = _block(work, count, contextlib.nullcontext())
            bare.append([(a + b) / 2 for a, b in zip(before, behind, strict=True)])
            before = behind
    return {"bare": bare, "watched": watched, "first": first}


def _first(work: Callable[[], None], tool: Tool) -> float | None:
    """Of a session that does not wait for its binaries: its first calls over bare ones."""
    if not isinstance(tool, partial):
        return None
    bare = _times(work, _FIRST)[1]
    with tool(wait=False):
        return _times(work, _FIRST)[1] / bare


def _synchronize() -> None:
    if _ON_GPU:
        torch.cuda.synchronize()


def _row(tool: str, found: dict[str, Any], unit_s: float) -> str:
    """Bare, what is added on the host and in all, with quartiles, and ratios to bare."""
    pairs = list(zip(found["watched"], found["bare"], strict=True))
    text = f"  {tool:28}{statistics.median(bare[1] for _, bare in pairs) / unit_s:9.3f}"
    for at in (0, 1):
        low, high = _quartiles([(watched[at] - bare[at]) / unit_s for watched, bare in pairs])
        added = statistics.median(watched[at] - bare[at] for watched, bare in pairs) / unit_s
        text += f"{added:+9.3f}{f'{low:+.3f} {high:+.3f}':>18}"
    ratios = [watched[1] / bare[1] for watched, bare in pairs]
    low, high = _quartiles(ratios)
    first = "" if found["first"] is None else f"{found['first']:.3f}"
    return f"{text}{statistics.median(ratios):8.3f}{f'{low:.3f} {high:.3f}':>14}{first:>8}{len(pairs):8}"


def _quartiles(figures: Sequence[float]) -> tuple[float, float]:
    if len(figures) < 2:
        return figures[0], figures[0]
    low, _, high = statistics.quantiles(figures, n=4)
    return low, high


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables; returns 1 if a figure is missing."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.programs", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--programs", nargs="*", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--tools", nargs="*", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--calls", type=int, help="of a block, in place of each program's own number")
    parser.add_argument(
        "--limit-s", type=float, default=500.0, help="share of each pair, begin no round after"
    )
    options = parser.parse_args(argv)
    share_s = options.limit_s / max(1, len(options.programs) * len(options.tools))
    failed = 0
    for program in options.programs:
        unit, unit_s = ("ms", 1e-3) if "steps" in program else ("us", 1e-6)
        count = options.calls or PROGRAMS[program][1]
        print(f"{program}, {count} in a block, {unit}")
        heads = (f"{'':30}{'bare':>9}", f"{'on host':>9}{'quartiles':>18}", f"{'in all':>9}{'quartiles':>18}")
        print("".join(heads), f"{'of bare':>7}{'quartiles':>14}{'first':>8}{'rounds':>8}", flush=True)
        for tool in options.tools:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                try:
                    found = pool.apply(measured, (program, tool, options.rounds, count, share_s))
                    print(_row(tool, found, unit_s), flush=True)
                except Exception as error:  # noqa: BLE001  the others' figures still count
                    failed += 1
                    print(f"  {tool}: {type(error).__name__}: {str(error)[:200]}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
