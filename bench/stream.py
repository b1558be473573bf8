"""What folding in the background costs the thread that launches, without a GPU.

    python -m bench.stream [--parts]

Memory of the host stands in for a GPU's. One thread hands made-up launches to the launch path, as Triton's
launcher and the session do; what it is slowed by is time that folding takes from it. Two cores are needed.
--parts: CPU of each part of a launch's way, the least of many goes, for machines that others use, too.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final
from unittest import mock

import numpy as np
import torch

from instrument_passes.records import BASE_ALIGNMENT, LaunchBits, align
from profscope.decoding.alike import united
from profscope.decoding.raw import RawLaunch
from profscope.options import Options
from profscope.recording import arenas, cuda_driver
from profscope.recording.backend import Backend, Machine
from profscope.recording.direct_launches import POINTER, DirectCall, OthersTurns
from profscope.recording.host_pages import HostPages
from profscope.recording.launch_log import Plan, Route
from profscope.recording.pinned import move
from profscope.recording.programs import Program
from profscope.recording.recorder import Recorder, recorder
from tests.support import standin
from tests.support.synth.sums import site, sum_launch, sum_manifest

__all__ = ["main", "parts", "stream"]

_AT_ONCE: Final = 1000  # launches that are timed together
_L2_PIECE_BYTES: Final = 3 << 20  # a sixteenth of an H200's
_MOVED_MB: Final = 128
_GPU: Final = Backend("cuda", lambda: {"backend": "gpu"}, lambda: Machine(132, 64))


def stream(kernels: int, ctas: int, launches: int, work_us: float, memory_mib: int = 256) -> dict[str, float]:
    """Launch kernels in turn, each launch behind so much other work of the same thread.

    Returns us a launch: bare, recorded and not folded, and recorded and folded; and how many were recorded.
    """
    sites = [site(0 if at else -1, at) for at in range(8)]
    raws = [
        sum_launch(sum_manifest([sites], kernel=f"kernel_{at}"), 0, ctas, sms=132) for at in range(kernels)
    ]
    figures = {"bytes a launch": float(raws[0].buffer.nbytes)}
    for name, folds in (("bare", None), ("recorded", False), ("recorded and folded", True)):
        with standin.gpu():
            records = recorder(Options(memory=memory_mib, keep="sums"), _GPU, {})
            assert records.folder is not None
            if not folds:
                records.folder.fold = lambda log=records.log: log.entries.clear()  # type: ignore[method-assign]
            figures[name] = _us(records, raws, launches, work_us, bare=folds is None)
            if folds:
                left_out = sum(records.journal.left_out.values())
                figures["recorded, of all"] = 1 - left_out / launches
                begin = time.perf_counter()
                records.close()
                figures["end, s"] = time.perf_counter() - begin
                assert records.folded is not None
                folded = sum(len(program.launches) for program in records.folded.programs())
                assert folded == launches - left_out, (folded, launches, left_out, records.folder.notes)
            gc.collect()
    return figures


def _us(records: Recorder, raws: list[RawLaunch], launches: int, work_us: float, *, bare: bool) -> float:
    path, lane = records.path, records.lanes.thread.lane
    buffers = records.routes.buffers(0)
    assert isinstance(buffers, arenas.DeviceBuffers)
    programs, routes, slot = [], [], align(raws[0].buffer.nbytes, BASE_ALIGNMENT)
    for raw in raws:
        plan = Plan(raw.buffer.nbytes, LaunchBits().encode(), LaunchBits(), raw.ctas)
        routes.append(Route.of(buffers, plan, 0, 0, (raw.manifest,)))
        programs.append(Program(raw.manifest, ""))
    _fill(buffers, raws, slot)
    first = routes[0]
    with contextlib.ExitStack() as stack:
        # Both are done by the device, and the memory has what the launches would write.
        stack.enter_context(mock.patch.object(cuda_driver, "zero", _nothing))
        stack.enter_context(mock.patch.object(cuda_driver, "copy", _nothing))
        begin = time.perf_counter()
        for _ in range(launches):
            if not bare:
                if first.place(lane, first.needed, 0, first.bits, None, first.waits) is None:
                    path._leave_out(raws[0].manifest)
                else:
                    at = lane.offset // slot % len(routes)
                    lane.about = routes[at]
                    path.enqueued(programs[at])
            until = time.perf_counter() + work_us * 1e-6
            while time.perf_counter() < until:
                pass
        took_s = time.perf_counter() - begin
        records.drain()
    return took_s * 1e6 / launches


def _fill(buffers: arenas.DeviceBuffers, raws: list[RawLaunch], slot: int) -> None:
    """As if launches had recorded in turn into the memory of the device, and it had been copied before."""
    content = np.zeros(buffers.limit_bytes, np.uint8)
    for number, begin in enumerate(range(0, len(content) - slot + 1, slot)):
        raw = raws[number % len(raws)]
        content[begin : begin + raw.buffer.nbytes] = raw.buffer
    buffers._arenas.append(buffers._new_arena())
    for arena in buffers._arenas:
        pinned: Future[list[torch.Tensor]] = Future()
        pinned.set_result([torch.from_numpy(content)])
        arena.pinned = pinned
    copied = arenas.torch.empty

    def empty(size: int, **options: Any) -> Any:
        return (
            torch.from_numpy(content[:size].copy()) if not options.get("device") else copied(size, **options)
        )

    arenas.torch.empty = empty


def parts(kernels: int = 25, ctas: int = 64, launches: int = 15_000) -> dict[str, float]:
    """us of CPU that a recorded launch of sums costs in each part of its way, and ms a MB of moving."""
    sites = [site(0 if at else -1, at) for at in range(8)]
    raws = [
        sum_launch(sum_manifest([sites], kernel=f"kernel_{at}"), 0, ctas, sms=132) for at in range(kernels)
    ]
    slot = align(raws[0].buffer.nbytes, BASE_ALIGNMENT)
    figures: dict[str, float] = {}
    with standin.gpu(), contextlib.ExitStack() as stack:
        for name in ("zero", "copy"):  # the device does both
            stack.enter_context(mock.patch.object(cuda_driver, name, _nothing))
        records = recorder(Options(memory=3 * launches * slot >> 20, keep="sums"), _GPU, {})
        folder, path = records.folder, records.path
        assert folder is not None
        folder.fold = lambda: None  # type: ignore[method-assign]
        path.capturing = bool
        buffers = records.routes.buffers(0)
        assert isinstance(buffers, arenas.DeviceBuffers)
        buffers._piece_bytes = _L2_PIECE_BYTES
        _fill(buffers, raws, slot)
        launchers = []
        call = DirectCall(_call_of, {"our_call": _nothing})
        for raw in raws:
            plan = Plan(raw.buffer.nbytes, LaunchBits().encode(), LaunchBits(), raw.ctas)
            settled = Route.of(buffers, plan, 0, 0, (raw.manifest,))
            records.routes.settled[raw.ctas, ~raw.manifest.digest, 0, 0] = settled
            turns = OthersTurns((), None, itertools.count(1), 1 << 60, 0, _nothing)
            launchers.append(path.direct(_Launcher(), Program(raw.manifest, ""), call, turns))

        def of(run: Callable[[], object], count: int = 1) -> float:
            begin = time.thread_time()
            run()
            return (time.thread_time() - begin) * 1e6 / count

        in_turn = itertools.cycle(launchers)
        grid = ctas, 1, 1, 0, None, None, None, None, None, None, None, None, None  # and four arguments

        def launch() -> None:
            for one in itertools.islice(in_turn, _AT_ONCE):
                one(*grid)

        def launch_bare() -> None:
            for _ in itertools.islice(in_turn, _AT_ONCE):
                _nothing(None, *grid)

        figures["bare, the launcher's call"] = min(of(launch_bare, _AT_ONCE) for _ in range(60))
        figures["recorded"] = min(of(launch, _AT_ONCE) for _ in range(launches // _AT_ONCE))
        buffers._rotate()
        count = len(records.log)
        groups = list[Any]()
        figures["behind: sort by program"] = of(lambda: groups.extend(records.log.take_sums()), count)
        taken = list[Any]()
        arrivals = records.arrivals
        figures["behind: find their memory"] = of(
            lambda: taken.extend(arrivals._fetched(each) for each in groups), count
        )
        folded = folder.folded
        figures["behind: hand over"] = of(lambda: folded.add(united(taken), folder._workers), count)
        folded.close()
        records.close()
    content, one = np.ones(_MOVED_MB << 20, np.uint8), ThreadPoolExecutor(1)
    for name, pages in (("new", None), ("the same", HostPages(len(content)))):
        times = []
        for _ in range(5):
            begin = time.process_time()
            moved = move([content], pages or HostPages(len(content)), bool, one, 1)
            times.append((time.process_time() - begin) * 1e3 / _MOVED_MB)
            del moved
        figures[f"behind: move to {name} pages, ms a MB"] = min(times)
    one.shutdown()
    return figures


class _Launcher:
    """As Triton's, of a kernel without clusters."""

    num_ctas = 1

    def __call__(self, *args: Any) -> None: ...


def _nothing(*args: Any, **options: Any) -> None: ...


def _call_of(arguments: Sequence[str]) -> str:
    return f"our_call({', '.join([POINTER, *arguments])})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--launches", type=int, default=20_000)
    parser.add_argument("--work-us", type=float, default=17.0)
    parser.add_argument("--parts", action="store_true")
    asked = parser.parse_args()
    if asked.parts:
        for name, value in parts().items():
            print(f"{name:40}{value:8.3f}")
        return
    for kernels, ctas in ((1, 8), (1, 256), (25, 64), (25, 1024)):
        figures = stream(kernels, ctas, asked.launches, asked.work_us)
        said = ", ".join(f"{name} {value:,.2f}" for name, value in figures.items())
        print(f"{kernels} kernels of {ctas} CTAs: {said}", flush=True)


if __name__ == "__main__":
    main()
