"""Launches of one loaded program, each with the memory that it records into, in one step.

What the profile allocator and the launch hooks do one after the other is done here at once, for those who
know which program is launched. It is done in one function for each program, written out as text: each call
of another one, and each tuple of arguments that is packed and unpacked, costs a launch as much as all that
is to be done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from profscope.recording.launch_log import Route
from profscope.recording.programs import Program

__all__ = ["POINTER", "DirectCall", "Inside", "OthersTurns", "Written", "direct_launcher", "written"]

POINTER: Final = "our_pointer"
_NAMES_OF_OURS: Final = "our_"
# What stands in braces is the launcher's: its parameters, what it does before, the grid, all arguments as
# Triton's launcher takes them, and the call. No name is a parameter's, whatever a kernel calls these.
_LAUNCH: Final = """\
def our_launch({parameters}):
{before}
    our_captured = stream and our_capturing()
    if not (our_captured or (our_apart and our_threads.trial)):
        if our_next(our_numbers) % our_every == our_rest:
            return our_instead({arguments})
    our_lane = our_thread.lane
    our_route = our_settled.get(({ctas} * our_ctas_of_cluster, our_own, stream, our_device))
    if our_route is None or our_captured or our_lane.filling is not None or our_lane.captured is not None:
        return our_first({arguments})
    our_lane.about = our_route  # if the launch fails, who gives it up looks here
    our_at = our_lane.next  # of its thread's claim, as in `DeviceBuffers.place`
    our_lane.filling = our_filling = our_lane.claim
    if our_at + our_route[{room}] <= our_lane.end and our_lane.claimant is our_route[{claimant}]:
        our_lane.next = our_at + our_route[{room}]
        our_lane.offset = our_at
        our_lane.launches += 1
        our_pointer = our_filling.address + our_at | our_route[3]
    else:
        our_pointer = None  # nowhere, as in `launch_path`; it never waits for memory
        try:
            our_lane.enqueued()  # with nothing of the claim, as in `place`
            our_pointer = our_route[0](our_lane, our_route[1], stream, our_route[3], None, False)
            if our_pointer is None:
                our_leave_out(our_program.manifest)
        except our_exception as our_error:  # as in `LaunchPath.allocate`
            our_fail(our_error)
    {call}
    our_filling = our_lane.filling
    if our_filling is not None:
        our_entries.append((our_program, our_route, our_filling, our_lane.offset, our_lane.mark))
        our_lane.filling = None  # as Lane.enqueued does
        if our_filling.awaited:
            our_filling.wake()
"""
# Triton's launcher's own parameters, and the grid among them.
_ARGUMENTS: Final = ("x", "y", "z", "stream", "function", "packed", "about", "enter", "leave", "*args")
_WRITTEN: Final = "written"


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


class DirectCall(NamedTuple):
    """What launches a program with a pointer that it records to.

    text: of the call, in which the pointer is named `POINTER`, from those of the arguments that Triton's
    launcher takes. scope: the values of other names in it.
    """

    text: Callable[[Sequence[str]], str]
    scope: Mapping[str, Any]


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


class Written(NamedTuple):
    """What a launcher is made of, for those who write one of their own with more in it."""

    call: DirectCall
    scope: Mapping[str, Any]


def direct_launcher(
    inside: Inside,
    run: Callable[..., Any],
    program: Program,
    call: DirectCall | None,
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

    if call is None:
        return launch_by_triton
    ctas_of_cluster = run.num_ctas  # type: ignore[attr-defined]

    def first(x: int, y: int, z: int, stream: int, *args: Any) -> None:
        """Launch where no route is settled, or none can be taken."""
        run(x, y, z, stream, *args)
        if thread.lane.filling is not None:  # there is memory for such launches
            remember(program.manifest, x * y * z * ctas_of_cluster, own, stream, device)
        enqueued(program)

    scope = {
        "our_entries": entries, "our_thread": thread, "our_settled": settled, "our_device": device,
        "our_capturing": capturing, "our_leave_out": leave_out, "our_fail": fail, "our_own": own,
        "our_apart": apart, "our_threads": threads, "our_numbers": numbers, "our_every": every,
        "our_rest": rest, "our_instead": instead, "our_program": program, "our_first": first,
        "our_ctas_of_cluster": ctas_of_cluster, "our_next": next, "our_exception": Exception,
    }  # fmt: skip
    parts = Written(call, scope)
    launch = _made(parts, ", ".join(_ARGUMENTS), "", _ARGUMENTS, _ARGUMENTS)
    setattr(launch, _WRITTEN, parts)
    return launch


def written(
    launcher: Callable[..., Any],
    names: Sequence[str],
    parameters: str,
    before: Sequence[str],
    arguments: Sequence[str],
    instead: Mapping[str, str],
    scope: Mapping[str, Any],
) -> Callable[..., Any] | None:
    """What does `before` and then what a launcher of `direct_launcher` does, with these texts of the
    arguments that this takes. names: of its parameters; instead: what the call itself is given in place of
    some arguments; scope: the values of names in all of them.

    None where the launcher is another's, or a parameter has a name that must not be one.
    """
    parts: Written | None = getattr(launcher, _WRITTEN, None)
    if parts is None or any(name.startswith(_NAMES_OF_OURS) for name in names):
        return None
    parts = parts._replace(scope={**scope, **parts.scope})
    lines = "\n".join(f"    {line}" for line in before)
    return _made(parts, parameters, lines, arguments, [instead.get(each, each) for each in arguments])


def _made(
    parts: Written, parameters: str, before: str, arguments: Sequence[str], called: Sequence[str]
) -> Callable[..., Any]:
    text = _LAUNCH.format(
        parameters=parameters, before=before, arguments=", ".join(arguments),
        ctas=" * ".join(arguments[:3]), call=parts.call.text(called),
        room=Route._fields.index("room"), claimant=Route._fields.index("claimant"),
    )  # fmt: skip
    scope = {**parts.scope, **parts.call.scope}
    exec(compile(text, f"<launches of {parts.scope['our_program'].manifest.kernel}>", "exec"), scope)
    return scope["our_launch"]  # type: ignore[no-any-return]
