"""Where a step's time goes in sessions around a small GPT under torch.compile.

    python -m bench.where [--batch 8] [--rounds 3] [--steps 100] [--only NAME ...] [--no-counters]

Each round runs every variant once, with bare steps before and behind it. A session first does some steps
that are not timed, in which binaries are loaded, memory is pinned and processes begin; the longest is said.
CPU: what the main thread and autograd's took of it, of what they take bare: other programs disturb that less.
Before that, in sessions of their own: what the launching threads waited for, what the threads behind them
did, how far these were behind, and how long the GPU worked with and without sums.
"""

from __future__ import annotations

import contextlib
import gc
import os
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final
from unittest import mock

from torch.profiler import ProfilerActivity, profile

import profscope
from bench.event_tools import NOTHING
from bench.model import compiled_step
from bench.rounds import rounds_parser, steps_ms
from profscope.recording import arenas, arrivals, cuda_driver, folder, folding_process

__all__ = ["VARIANTS", "main"]

VARIANTS: Final[dict[str, Callable[[], AbstractContextManager[Any]]]] = {
    "sums": lambda: profscope.session(wait=True, keep="sums"),
    "sums, spans_every=0": lambda: profscope.session(wait=True, keep="sums", spans_every=0),
    "sums, every=100": lambda: profscope.session(wait=True, keep="sums", every=100),
    "sums, ctas=64": lambda: profscope.session(wait=True, keep="sums", ctas=64),
    "events": lambda: profscope.session(wait=True, events=True, kernels=NOTHING),
    "events, no operators": lambda: profscope.session(
        wait=True, events=True, operators=False, kernels=NOTHING
    ),
}
_WATCHED: Final = (
    (arenas.DeviceBuffers, "_make_room"),
    (arenas.DeviceBuffers, "_rotate"),
    (arenas.DeviceBuffers, "_zero"),
    (arenas, "pin"),
    (arenas, "move"),
    (cuda_driver, "zero"),
    (cuda_driver, "copy"),
    (folder.Folder, "full"),
    (folder.Folder, "fold"),
    (arrivals.Arrivals, "take_sums"),
    (folding_process.Aside, "add"),
)
_SAMPLE_S: Final = 0.02


def main() -> None:
    parser = rounds_parser(__doc__, VARIANTS, rounds=3, steps=100, limit_s=100.0)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--warm-up", type=int, default=60)
    parser.add_argument("--no-counters", action="store_true")
    parser.add_argument("--no-gpu-times", action="store_true")
    asked = parser.parse_args()
    begin = time.monotonic()
    step = compiled_step(asked.batch)
    if not asked.no_counters:
        _counted(step, asked.warm_up, asked.steps)
    if not asked.no_gpu_times:
        _gpu_times(step)
    times: dict[str, list[float]] = {name: [] for name in ("bare", *asked.only)}
    ratios: dict[str, list[float]] = {name: [] for name in asked.only}
    cpus: dict[str, list[float]] = {name: [] for name in asked.only}
    for turn in range(asked.rounds):
        if time.monotonic() - begin > asked.limit_s:
            break
        before = steps_ms(step, asked.steps)
        for name in asked.only:
            with VARIANTS[name]() as prof:
                first = steps_ms(step, asked.warm_up)
                recorded, left = _launches(prof)
                cpu = _launching_ms()
                took = steps_ms(step, asked.steps)
                cpu = (_launching_ms() - cpu) / asked.steps
                now, now_left = _launches(prof)
                ended = time.monotonic()
            end_s = time.monotonic() - ended
            bare_cpu = _launching_ms()
            after = steps_ms(step, asked.steps)
            bare_cpu = (_launching_ms() - bare_cpu) / asked.steps
            cpus[name].append(cpu / bare_cpu)
            bare = statistics.fmean([*before, *after])
            ratios[name].append(statistics.fmean(took) / bare)
            times[name].append(statistics.fmean(took))
            times["bare"].append(statistics.fmean(after))
            before = after
            print(
                f"round {turn} {name}: {statistics.fmean(took):.2f} ms a step, median "
                f"{statistics.median(took):.2f}, longest {max(took):.1f}, {ratios[name][-1]:.3f} of bare; "
                f"CPU of launching threads {cpu:.2f} ms, bare {bare_cpu:.2f}; "
                f"{now - recorded} recorded, {now_left - left} left out; longest of the first steps "
                f"{max(first):.0f} ms; end {end_s:.2f} s",
                flush=True,
            )
            del prof
            gc.collect()
    print(f"{'':28}{'ms a step':>10} {'of bare':>8} {'CPU':>8}   least to most")
    for name, figures in times.items():
        if figures:
            of_bare, of_cpu = ratios.get(name, [1.0]), cpus.get(name, [1.0])
            print(
                f"{name:28}{statistics.median(figures):10.3f} {statistics.median(of_bare):8.3f} "
                f"{statistics.median(of_cpu):8.3f}   {min(of_bare):.3f} to {max(of_bare):.3f}"
            )


def _launching_ms() -> float:
    """ms of CPU that the main thread and autograd's have had."""
    spent = _thread_times()
    return spent["MainThread"] + spent["Dummy-"]


def _launches(prof: profscope.Session) -> tuple[int, int]:
    """How many were recorded and left out so far, without reading them."""
    recorder = prof._parts().recorder
    return len(recorder.log), sum(recorder.journal.left_out.values())


@contextlib.contextmanager
def _watched() -> Iterator[dict[tuple[str, str], list[float]]]:
    """By kind of thread and function: calls, seconds, longest, and seconds of CPU."""
    figures: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0.0, 0.0, 0.0])

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def count(*args: Any, **options: Any) -> Any:
            began, cpu = time.perf_counter(), time.thread_time()
            try:
                return call(*args, **options)
            finally:
                took = time.perf_counter() - began
                ours = threading.current_thread().name.startswith("profscope")
                each = figures["behind" if ours else "launching", name]
                each[:] = each[0] + 1, each[1] + took, max(each[2], took), each[3] + time.thread_time() - cpu

        return count

    with contextlib.ExitStack() as stack:
        for owner, name in _WATCHED:
            if hasattr(owner, name):
                call = counted(f"{owner.__name__.split('.')[-1]}.{name}", getattr(owner, name))
                stack.enter_context(mock.patch.object(owner, name, call))
        yield figures


def _counted(step: Callable[[], None], warm_up: int, steps: int) -> None:
    """Of a session with sums of every launch: what threads did, and how far folding was behind."""
    with _watched() as figures, VARIANTS["sums"]() as prof:
        recorder = prof._parts().recorder
        seen: list[tuple[float, int, int, bool]] = []
        going = threading.Event()

        def look() -> None:
            begin = time.monotonic()
            while not going.wait(_SAMPLE_S):
                assert recorder.folder is not None
                counts = len(recorder.log), sum(recorder.journal.left_out.values())
                seen.append((time.monotonic() - begin, *counts, recorder.folder.behind()))

        looking = threading.Thread(target=look, name="profscope-bench")
        looking.start()
        first = steps_ms(step, warm_up)
        warm, figures_then = len(seen), {key: list(each) for key, each in figures.items()}
        own, before = os.times(), _thread_times()
        took = steps_ms(step, steps)
        own_then, after = os.times(), _thread_times()
        going.set()
        looking.join()
        most = recorder.routes._planner._most_ctas
    cpu = (own_then.user - own.user + own_then.system - own.system) * 1e3 / steps
    mean, middle = statistics.fmean(took), statistics.median(took)
    print(f"counted: {mean:.2f} ms a step, {cpu:.2f} ms of CPU; at most {most} CTAs a launch")
    for what, figures_ms in (("first", first), ("later", took)):
        print(
            f"  long {what} steps, ms: " + " ".join(f"{each:.0f}" for each in figures_ms if each > 2 * middle)
        )
    for who in ("launching", "behind"):
        for (whose, name), now in sorted(figures.items(), key=lambda each: -each[1][1]):
            if whose == who:
                then = figures_then.get((whose, name), [0, 0.0, 0.0, 0.0])
                calls, wall, spent = (now[at] - then[at] for at in (0, 1, 3))
                print(
                    f"  {who:10}{name:28}{calls:7.0f} calls {wall * 1e3 / steps:8.3f} ms a step, CPU "
                    f"{spent * 1e3 / steps:8.3f}; longest of all {now[2] * 1e3:.1f} ms"
                )
    for name, ran in sorted(after.items(), key=lambda each: before.get(each[0], 0.0) - each[1]):
        spent = (ran - before.get(name, 0.0)) / steps
        if spent > 0.02:
            print(f"  thread {name}: {spent:.2f} ms of CPU a step")
    for begin in range(0, len(seen), max(1, len(seen) // 16)):
        at, recorded, left, behind = seen[begin]
        mark = "" if begin < warm else " (timed)"
        print(f"  at {at:.2f} s{mark}: {recorded} recorded, {left} left out{', behind' if behind else ''}")


def _thread_times() -> dict[str, float]:
    """ms of CPU of this process's threads, by name."""
    names = {each.native_id: each.name for each in threading.enumerate()}
    spent: dict[str, float] = defaultdict(float)
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError, ValueError):
            ran_ns = int((task / "schedstat").read_text().split()[0])
            name = names.get(int(task.name), "others") or "others"
            spent[name.rstrip("0123456789_")] += ran_ns / 1e6
    return spent


def _gpu_times(step: Callable[[], None], steps: int = 4) -> None:
    """What the GPU did in a step: bare, with sums of all CTAs, of one in 64, and of those that come to be
    recorded."""
    figures: dict[str, dict[str, float]] = {}
    for name, variant, warm_up in (
        ("bare", None, 3),
        ("all CTAs", "sums, spans_every=0", 2),
        ("one in 64", "sums, ctas=64", 2),
        ("later", "sums", 80),
    ):
        with contextlib.ExitStack() as stack:
            prof = None if variant is None else stack.enter_context(VARIANTS[variant]())
            steps_ms(step, warm_up)
            begun = (0, 0) if prof is None else _launches(prof)
            with profile(activities=[ProfilerActivity.CUDA]) as watching:
                steps_ms(step, steps)
            if prof is not None:
                recorded, left = (now - then for now, then in zip(_launches(prof), begun, strict=True))
                print(f"GPU time, {name}: {recorded} launches recorded, {left} left out")
        kinds: dict[str, float] = defaultdict(float)
        for event in watching.key_averages():
            kernel, memory = event.key.startswith("triton_"), event.key.startswith("Mem")
            us = event.self_device_time_total / steps
            kinds["Triton kernels" if kernel else "copies and sets" if memory else "others"] += us
            if kernel:
                kinds[event.key] += us
        figures[name] = kinds
    print(f"{'GPU time of a step, us':58}" + "".join(f"{name:>10}" for name in figures) + "   of bare")
    for kind in sorted(figures["bare"], key=lambda each: -figures["bare"][each])[:20]:
        us = [each.get(kind, 0.0) for each in figures.values()]
        of_bare = "".join(f"{each / us[0]:8.3f}" for each in us[1:] if us[0])
        print(f"  {kind[:56]:56}" + "".join(f"{each:10.1f}" for each in us) + of_bare)


if __name__ == "__main__":
    main()
