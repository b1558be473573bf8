"""Events of torch's own profiler, Kineto, during a session: kernels, copies and operators, as columns.

Kineto asks CUPTI on a GPU, and torch's operators on the host. It is asked once a session, without stacks and
shapes, which would cost several times as much; its own Python objects for events are not made.

torch says in a flag of its module that a profiler is on. While it is up, torch.compile tells the profiler of
each of its launches, in Python, and those that are recorded go the long way. Kineto
itself needs no flag, so it is down.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch
from torch.autograd.profiler import profile
from torch.profiler import ProfilerActivity, supported_activities

from profscope.compat.torch_parts import is_profiling, make_quiet, of_all_threads, on_host, was_quiet
from profscope.errors import SessionError

__all__ = ["Kineto", "groups_in", "kind_of", "only_asks", "process_group", "process_groups", "refuse_kineto"]

_KINDS: Final = {
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "gpu_memset": "set",
    "cpu_op": "op",
    "cuda_runtime": "call",
    "cuda_driver": "call",
    "user_annotation": "annotation",
}
"""By Kineto's name of an activity; others are left out, as annotations on the GPU, which span kernels."""

_COLLECTIVE: Final = "nccl"
_COMMUNICATES: Final = "record_param_comms"
_SAVED: Final = re.compile(rf'"name": "{_COMMUNICATES}",[^{{}}]*"args": {{([^{{}}]*)}}')
_NUMBER: Final = re.compile(r'"External id": *(\d+)')
_GROUP: Final = {
    "name": re.compile(r'"Process Group Name": *"([^"]*)"'),
    "description": re.compile(r'"Process Group Description": *"([^"]*)"'),
    "ranks": re.compile(r'"Process Group Ranks": *"?\[([^\]]*)\]'),
}
"""Of the operator that NCCL's collectives are launched in: what stands in its metadata."""

_OVERHEAD: Final = (
    "Activity Buffer Request", "Buffer Flush", "Command Buffer Full", "Driver Compiler", "Instrumentation",
    "Lazy Function Loading", "Resource", "Runtime Triggered Module Loading", "UVM Activity Init",
)  # fmt: skip
"""Times that CUPTI itself took: "overhead", where an event says of what activity it is."""

_OWN: Final = "profscope_"  # kernels that ask a GPU for its clock
_TAKEN: Final = (
    "events are missing: the program ran a torch.profiler of its own, and there is only one at a time; "
    "end it before the session, or leave out events=True"
)


_ASKS: Final = re.compile(
    r"^cu(da)?("
    r"(Ctx|Device|DevicePrimaryCtx|Driver|Runtime|Func|Kernel|Library|Module|Pointer|Stream|Thread)?"
    r"(Get|Query|Peek|Is[A-Z]|CanAccess)"
    r"|MemGet(Info|AddressRange)|Occupancy|ThreadExchange|TensorMapEncode|Ctx(Set|Push|Pop)Current"
    r"|SetDevice_|FuncSet|KernelSet|Event(Create|Destroy|Query|ElapsedTime))"
    r"|^__cuda(Push|Pop)CallConfiguration"
)
"""A question, or a setting of the calling thread's or of a kernel's: none gives the GPU work, moves or takes
memory, or waits."""


class Kineto:
    """Kineto in a session with `events=True`. on_gpu: its launches run on a GPU. changes: how often there was
    something new."""

    def __init__(self, *, on_gpu: bool) -> None:
        self.changes = 0
        self.notes: list[str] = []
        self._on_gpu = on_gpu
        self._parts: list[dict[str, list[Any]]] = []

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Kineto watches the body of a with statement. Raises SessionError if it cannot."""
        refuse_kineto(on_gpu=self._on_gpu)
        try:
            config = of_all_threads()
        except (AttributeError, TypeError) as error:
            why = str(error).partition("\n")[0]
            raise SessionError(
                f"events=True: torch {torch.__version__} has a Kineto that is asked in another way ({why}); "
                "leave out events=True"
            ) from error
        device = "cuda" if self._on_gpu else None
        watching = profile(use_kineto=True, use_cpu=True, use_device=device, experimental_config=config)
        with contextlib.ExitStack() as stack:
            watching.__enter__()
            stack.callback(self._end, watching)
            make_quiet()
            yield

    def columns(self) -> dict[str, list[Any]] | None:
        """All that was seen, None if nothing was: name, kind, on_gpu, device, resource (a stream, or a
        thread of the host's), start_unix_ns, end_unix_ns, correlation, bytes and group (the process group
        that an operator communicates in)."""
        if not self._parts:
            return None
        return {name: [each for part in self._parts for each in part[name]] for name in self._parts[0]}

    def _end(self, watching: Any) -> None:
        self.changes += 1
        if not was_quiet() and not is_profiling():  # one of the program's has begun, and has ended since
            self.notes = [_TAKEN]
            return
        try:
            watching.__exit__(None, None, None)
        except RuntimeError as error:  # the device has faulted, or a profiler of the program's is in the way
            self.notes = [f"events are missing: {str(error).splitlines()[0]}"]
            return
        try:
            self._parts.append(_columns(watching.kineto_results, self.notes))
        except AttributeError as error:  # what was recorded beside them is to be kept
            self.notes = [f"events are missing: torch {torch.__version__} says them in another way: {error}"]
            return
        if not self._on_gpu and not self.notes:
            self.notes = ["events are of the host only: there is no GPU, and the emulator is none to Kineto"]


def refuse_kineto(*, on_gpu: bool) -> None:
    """Raises SessionError if Kineto cannot watch."""
    if is_profiling():
        raise SessionError(
            "events=True: a torch.profiler is active, and there is only one at a time; end it before the "
            "session, or leave out events=True"
        )
    if on_gpu and ProfilerActivity.CUDA not in supported_activities():
        raise SessionError(
            f"events=True: Kineto in torch {torch.__version__} has no GPU support; install a torch that was "
            "built with CUPTI, or leave out events=True"
        )


def process_group(said: str) -> str:
    """The process group of a collective, by what Kineto says of it in JSON: "mesh_tp 3: ranks 0, 1"; the same
    text on all its ranks, and on no rank of another group. "" if Kineto does not report it."""
    known = {name: match[1] for name, pattern in _GROUP.items() if (match := pattern.search(said))}
    if "name" not in known or "ranks" not in known:
        return ""
    description = known.get("description", "undefined")
    return f"{'group' if description == 'undefined' else description} {known['name']}: ranks {known['ranks']}"


def process_groups(results: Any, events: list[Any], names: list[str], notes: list[str]) -> list[str]:
    """By event the process group that it communicates in, "" for others. results: of Kineto, whose events;
    notes: the list for a note that they are unknown."""
    communicate = [at for at, name in enumerate(names) if name == _COMMUNICATES]
    groups = [""] * len(names)
    for at in communicate:
        said: dict[str, str] = getattr(events[at], "extra_meta", dict)()
        groups[at] = process_group(", ".join(f'"{name}": {value}' for name, value in said.items()))
    if communicate and not any(groups):  # before torch 2.13 only Kineto's own file says it
        try:
            saved = _saved_groups(results)
        except OSError as error:  # what was recorded is to be kept, whatever the disk has room for
            saved = {}
            why = f"process groups are missing: Kineto's file could not be written, {error.strerror or error}"
            notes += [why] * (why not in notes)
        for at in communicate:
            groups[at] = saved.get(events[at].correlation_id(), "")
    return groups


def _saved_groups(results: Any) -> dict[int, str]:
    """By number of an operator its process group, from the file that Kineto writes."""
    with tempfile.TemporaryDirectory(prefix="profscope-") as folder:
        path = Path(folder, "kineto.json")
        results.save(str(path))
        return groups_in(path.read_bytes().decode(errors="replace"))


def groups_in(trace: str) -> dict[int, str]:
    """By number of an operator its process group, from a trace in JSON as Kineto writes it."""
    said = (match[1] for match in _SAVED.finditer(trace))
    return {int(number[1]): process_group(args) for args in said if (number := _NUMBER.search(args))}


def _columns(results: Any, notes: list[str]) -> dict[str, list[Any]]:
    """The columns of Kineto's events, less those that _KINDS leaves out. notes: gets what is missing."""
    events = results.events()
    kinds = ["" if event.name().startswith(_OWN) else kind_of(event) for event in events]
    kept = [(event, kind) for event, kind in zip(events, kinds, strict=True) if kind]
    names = [event.name() for event, _ in kept]
    return {
        "name": names,
        "kind": [
            "collective" if kind == "kernel" and _COLLECTIVE in name else kind
            for name, (_, kind) in zip(names, kept, strict=True)
        ],
        "on_gpu": [not on_host(event) for event, _ in kept],
        "device": [event.device_index() for event, _ in kept],
        "resource": [event.device_resource_id() for event, _ in kept],
        "start_unix_ns": [event.start_ns() for event, _ in kept],
        "end_unix_ns": [event.end_ns() for event, _ in kept],
        "correlation": [event.correlation_id() for event, _ in kept],
        "bytes": [event.nbytes() if kind in ("copy", "set") else -1 for event, kind in kept],
        "group": process_groups(results, [event for event, _ in kept], names, notes),
    }


def kind_of(event: Any) -> str:
    """The kind of an event; "" if it is left out."""
    name = event.name()
    if hasattr(event, "activity_type"):
        kind = _KINDS.get(event.activity_type(), "")
        return "" if kind == "call" and only_asks(name) else kind
    # Older versions of torch say it by the name.
    if not on_host(event):
        if event.is_user_annotation() or "Sync" in name:
            return ""
        return "copy" if name.startswith("Memcpy") else "set" if name.startswith("Memset") else "kernel"
    if event.is_user_annotation():
        return "annotation"
    if name in _OVERHEAD:
        return ""
    is_call = name.startswith("cuda") or (name.startswith("cu") and name[2:3].isupper())
    if is_call and only_asks(name):
        return ""
    return "call" if is_call else "op"


def only_asks(call: str) -> bool:
    """Whether a call of CUDA's gives the GPU nothing to do, and does not wait: cuPointerGetAttribute,
    cudaStreamIsCapturing. Such calls are no events."""
    return _ASKS.match(call) is not None
