"""What `bench.events` compares, and the process in which it runs: tools around a program, and two programs.

Proton and Kineto both take CUPTI for themselves until their process ends, so that each has its own process,
and they take turns: one is asked for one block of work at a time.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import torch
import triton
import triton.language as tl

import profscope
from bench.model import GPT
from profscope.around.kineto import Kineto

__all__ = ["BARE", "NOTHING", "OF_PROTON", "PROGRAMS", "TOOLS", "gpt_step", "serve"]

NOTHING: Final = "^no kernel$"
BARE: Final = "bare"
_WARM_UP: Final = 8  # calls, before each block
_ON_GPU: Final = torch.cuda.is_available()


@triton.jit
def small_kernel(x_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) + 1.0, mask=at < n)


@contextlib.contextmanager
def _ours(**options: Any) -> Iterator[None]:
    with profscope.session(events=True, wait=True, **options) as prof:
        yield
    assert len(prof.events)


@contextlib.contextmanager
def _kineto(**options: Any) -> Iterator[None]:
    """As a session asks it, without the session."""
    seen = Kineto(on_gpu=_ON_GPU, **options)
    with seen.installed():
        yield
    assert seen.columns()


@contextlib.contextmanager
def _proton(**options: Any) -> Iterator[None]:
    import triton.profiler as proton

    with tempfile.TemporaryDirectory() as folder:
        session = proton.start(str(Path(folder) / "proton"), **options)
        try:
            yield
        finally:
            proton.finalize(session)


@contextlib.contextmanager
def _torch_profiler() -> Iterator[None]:
    activities = [torch.profiler.ProfilerActivity.CPU]
    if _ON_GPU:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as prof:
        yield
    assert len(prof.events())


TOOLS: Final[dict[str, Callable[[], AbstractContextManager[Any]]]] = {
    "Proton": _proton,
    "events": lambda: _ours(kernels=NOTHING),
    "Kineto as events ask": _kineto,
    "torch.profiler": _torch_profiler,
    "Proton, Python call paths": lambda: _proton(context="python"),
    "ctas=64": lambda: profscope.session(wait=True, ctas=64, instrument="light"),
    "events and ctas=64": lambda: _ours(ctas=64, instrument="light"),
}
OF_PROTON: Final = frozenset({"Proton", "Proton, Python call paths"})


def _small_launches() -> Callable[[], None]:
    """Without a GPU one operator of torch's stands in for a launch."""
    x = torch.zeros(64 * 128, device="cuda" if _ON_GPU else "cpu")

    def launch() -> None:
        small_kernel[(64,)](x, x.numel(), BLOCK=128)

    return launch if _ON_GPU else lambda: torch.neg(x, out=x)


def gpt_step(blocks: int = 6, batch: int = 8) -> Callable[[], None]:
    """A step of bench/model.py's GPT, compiled, with its passes as scopes. Without a GPU one block of it, as
    it is."""
    torch.manual_seed(0)
    model = GPT(blocks=blocks) if _ON_GPU else GPT(blocks=1, words=256)
    if _ON_GPU:
        model = model.to("cuda", torch.bfloat16)
    tokens = torch.randint(0, 8192, (batch, 256), device="cuda") if _ON_GPU else torch.zeros(1, 16).long()
    compiled: Callable[[torch.Tensor], torch.Tensor] = torch.compile(model) if _ON_GPU else model

    def step() -> None:
        with profscope.scope("step"):
            model.zero_grad(set_to_none=True)
            with profscope.scope("forward"):
                loss = compiled(tokens)
            with profscope.scope("backward"):
                loss.backward()

    for _ in range(5 if _ON_GPU else 1):
        step()
    return step


PROGRAMS: Final[dict[str, Callable[[], Callable[[], None]]]] = {
    "launches": _small_launches,
    "steps of the GPT": gpt_step,
}


def serve(asked: Connection) -> None:
    """The process's own function. It is sent the names of a tool and a program and how often to run that, and
    sends back what `_block` says, or a text where the tool could not; None ends it."""
    for category in (profscope.EmptyProfileWarning, profscope.DistrustWarning):
        warnings.simplefilter("ignore", category)
    programs: dict[str, Callable[[], None]] = {}
    while (work := asked.recv()) is not None:
        tool, program, count = work
        if program not in programs:
            programs[program] = PROGRAMS[program]()
        try:
            asked.send(
                _block(contextlib.nullcontext if tool == BARE else TOOLS[tool], programs[program], count)
            )
        except Exception as error:  # noqa: BLE001  another tool may fail: the others are still of interest
            asked.send(f"{type(error).__name__}: {str(error)[:200]}")


def _block(
    tool: Callable[[], AbstractContextManager[Any]], work: Callable[[], None], count: int
) -> tuple[float, float, float]:
    """Seconds of one call by the clock, in CPU time of the process, and of the tool's end."""
    with tool():
        for _ in range(_WARM_UP):
            work()
        _synchronize()
        begin, cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            work()
        _synchronize()
        worked, cpu = time.perf_counter(), time.process_time() - cpu
    return (worked - begin) / count, cpu / count, time.perf_counter() - worked


def _synchronize() -> None:
    if _ON_GPU:
        torch.cuda.synchronize()
