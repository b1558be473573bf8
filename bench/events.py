"""What `events=True` costs beside Proton and torch.profiler: 10,000 small launches, and a GPT's steps.

    python -m bench.events [--launches 10000] [--rounds 3] [--steps 30] [--trace gpt.pftrace.gz]

Proton and Kineto both take CUPTI for themselves until their process ends: use a process for each (--only).
Every tool's runs stand between bare ones; figures are medians over rounds. `launch` is the host's time per
launch while the tool records, `end` what it takes to end it and have its table or its file. `events` is a
session that instruments no kernel, `events and sums` one that keeps sums of all.
--trace: a session with everything around two steps, with the forward and backward pass as scopes.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import torch
import triton
import triton.language as tl

import profscope
from bench.model import GPT
from bench.rounds import rounds_parser

__all__ = ["TOOLS", "main"]

NOTHING: Final = "^no kernel$"


@triton.jit
def small_kernel(x_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) + 1.0, mask=at < n)


@contextlib.contextmanager
def _bare() -> Iterator[None]:
    yield


@contextlib.contextmanager
def _ours(**options: Any) -> Iterator[None]:
    with profscope.session(events=True, wait=True, **options) as prof:
        yield
    assert len(prof.events)


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
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as prof:
        yield
    assert len(prof.events())


TOOLS: Final[dict[str, Callable[[], Any]]] = {
    "Proton": _proton,
    "Proton, Python call paths": lambda: _proton(context="python"),
    "torch.profiler": _torch_profiler,
    "events": lambda: _ours(kernels=NOTHING),
    "events, no operators": lambda: _ours(kernels=NOTHING, operators=False),
    "sums": lambda: profscope.session(wait=True, keep="sums", instrument="light"),
    "events and sums": lambda: _ours(keep="sums", instrument="light"),
}


def main() -> None:
    parser = rounds_parser(__doc__, TOOLS, rounds=3, steps=30, limit_s=100.0)
    parser.add_argument("--launches", type=int, default=10_000)
    parser.add_argument("--trace", type=Path)
    asked = parser.parse_args()
    for category in (profscope.EmptyProfileWarning, profscope.DistrustWarning):
        warnings.simplefilter("ignore", category)
    until = time.monotonic() + asked.limit_s
    x = torch.zeros(64 * 128, device="cuda")

    def launch() -> None:
        small_kernel[(64,)](x, x.numel(), BLOCK=128)

    tools = {name: TOOLS[name] for name in asked.only}
    what = f"{asked.launches} launches of 64 CTAs"
    _compare(tools, what, "us", launch, asked.launches, asked.rounds, until)
    step = gpt_step()
    if asked.trace is not None:
        _trace(step, asked.trace)
    _compare(tools, "steps of the GPT", "ms", step, asked.steps, asked.rounds, until)


def gpt_step(blocks: int = 6, batch: int = 8) -> Callable[[], None]:
    """A step of bench/model.py's GPT, compiled, with its passes as scopes."""
    torch.manual_seed(0)
    model = GPT(blocks=blocks).to("cuda", torch.bfloat16)
    tokens = torch.randint(0, 8192, (batch, 256), device="cuda")
    compiled = torch.compile(model)

    def step() -> None:
        with profscope.scope("step"):
            model.zero_grad(set_to_none=True)
            with profscope.scope("forward"):
                loss = compiled(tokens)
            with profscope.scope("backward"):
                loss.backward()

    for _ in range(5):
        step()
    return step


def _compare(
    tools: dict[str, Callable[[], Any]],
    what: str,
    unit: str,
    work: Callable[[], None],
    count: int,
    rounds: int,
    until: float,
) -> None:
    """Print a table: by tool the time of one, and what it is beside bare runs right before."""
    times: dict[str, list[float]] = {name: [] for name in ("bare", *tools)}
    ends: dict[str, list[float]] = {name: [] for name in tools}
    _timed(_bare, work, count)
    for _ in range(rounds):
        if time.monotonic() > until:
            break
        for name, tool in tools.items():
            times["bare"].append(_timed(_bare, work, count)[0])
            try:
                each_s, end_s = _timed(tool, work, count)
            except Exception as error:  # noqa: BLE001  another tool may fail: the others are still of interest
                print(f"{name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
                continue
            times[name].append(each_s)
            ends[name].append(end_s)
    if not times["bare"]:
        print(f"{what}: no time was left for these")
        return
    factor = {"us": 1e6, "ms": 1e3}[unit]
    print(f"{what}: {unit} each, beside bare, end in s", flush=True)
    bare = statistics.median(times["bare"])
    for name, figures in times.items():
        if not figures:
            continue
        each = statistics.median(figures)
        end = f"{statistics.median(ends[name]):9.3f}" if name in ends else f"{'':9}"
        print(
            f"  {name:28}{each * factor:10.3f}{(each - bare) * factor:+10.3f}{each / bare:8.3f}{end}",
            flush=True,
        )


def _timed(tool: Callable[[], Any], work: Callable[[], None], count: int) -> tuple[float, float]:
    """Seconds of one, and of the tool's end."""
    with tool():
        for _ in range(8):
            work()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            work()
        torch.cuda.synchronize()
        worked = time.perf_counter()
    return (worked - begin) / count, time.perf_counter() - worked


def _trace(step: Callable[[], None], path: Path) -> None:
    with profscope.session(events=True, wait=True, instrument="light", ctas=256) as prof:
        for _ in range(2):
            step()
    prof.save(path)
    events = prof.events
    print(prof, f"{len(events)} events", sep="\n")
    print(events.groupby("kind", observed=True).size().to_string())
    kernels = events[events["kind"] == "kernel"]
    known = int((kernels["launch"] >= 0).sum())
    print(f"{known} of {len(prof.launches)} launches found among {len(kernels)} kernels")
    print(prof.host.to_string())


if __name__ == "__main__":
    main()
