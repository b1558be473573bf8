"""Launches of one loaded program, each with the memory that it records into, in one step.

What the profile allocator and the launch hooks do one after the other is done here at once, for those who
know which program is launched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from profscope.recording.launch_log import Route
from profscope.recording.programs import Program

__all__ = ["Inside", "OthersTurns", "direct_launcher"]

_NOWHERE: Final = None  # as in `launch_path`


class OthersTurns(NamedTuple):
    """Which launches of a binary are another's. Launches have the next one of `numbers`, but for trials, and
    for those that are captured into a CUDA graph; one in `every`, by its remainder, is a turn of `instead`,
    which launches with the same arguments. apart, threads: see `launching.bare.BareLaunches`."""

    apart: Sequence[int]
    threads: Any
    numbers: Iterator[int]
    every: int
    rest: int
    instead: Callable[..., Any]


class Inside(NamedTuple):
    """Of the launch path, what its launches need. entries: of the log; thread: the calling one's;
    settled, remember: of the routes; device: that of the program."""

    entries: list[Any]
    thread: Any
    settled: Mapping[Any, Route]
    remember: Callable[..., None]
    device: int
    enqueued: Callable[[Program], None]
    capturing: Callable[[], bool]
    leave_out: Callable[[Any], Any]
    fail: Callable[[Exception], None]


def direct_launcher(
    inside: Inside,
    run: Callable[..., Any],
    program: Program,
    launch: Callable[..., Any] | None,
    turns: OthersTurns,
) -> Callable[..., Any]:
    """See `LaunchPath.direct`."""
    entries, thread, settled, remember, device, enqueued, capturing, leave_out, fail = inside
    own = ~program.manifest.digest  # no tag, of which several programs may share one
    apart, threads, numbers, every, rest, instead = turns

    def launch_by_triton(*args: Any) -> Any:
        stream = args[3]  # 0, the default one, cannot be captured
        if not ((apart and threads.trial) or (stream and capturing())) and next(numbers) % every == rest:
            return instead(*args)
        result = run(*args)
        enqueued(program)
        return result

    if launch is None:
        return launch_by_triton
    ctas_of_cluster = run.num_ctas  # type: ignore[attr-defined]

    # One function, since each call would cost a launch as much as all that is said in it.
    def launch_directly(x: int, y: int, z: int, stream: int, *args: Any) -> None:
        captured = stream and capturing()
        if not (captured or (apart and threads.trial)) and next(numbers) % every == rest:
            instead(x, y, z, stream, *args)
            return
        lane = thread.lane
        begun = captured or lane.filling is not None or lane.captured is not None
        route = settled.get((x * y * z * ctas_of_cluster, own, stream, device))
        if route is None or begun:
            run(x, y, z, stream, *args)
            if lane.filling is not None:  # there is memory for such launches
                remember(program.manifest, x * y * z * ctas_of_cluster, own, stream, device)
            enqueued(program)
            return
        lane.about = route  # if the launch fails, who gives it up looks here
        place, needed, _, bits, _, _, _, _, _ = route
        pointer: Any = _NOWHERE
        try:
            pointer = place(lane, needed, stream, bits, None, False)  # it never waits for memory
            if pointer is None:
                leave_out(program.manifest)
        except Exception as error:  # noqa: BLE001  as in `allocate`
            fail(error)
        launch(pointer, x, y, z, stream, *args)
        filling = lane.filling
        if filling is not None:
            entries.append((program, route, filling, lane.offset, lane.mark))
            lane.filling = None  # as Lane.enqueued does
            filling.open.discard(lane)
            if filling.awaited:
                filling.wake()

    return launch_directly
