"""Hands every instrumented launch its buffer and remembers which launch it was.

Triton's launcher calls the profile allocator, launches, and calls the launch-exit hooks. The allocator
learns the size and the stream, the hook the function; a thread-local joins them.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch
from triton import knobs
from triton.runtime import _allocation, driver

from instrument_passes.manifest import Manifest
from instrument_passes.records import BASE_ALIGNMENT
from profscope.decoding.raw import ORDINARY, Mark, RawLaunch
from profscope.options import Options
from profscope.recording.backend import Backend
from profscope.recording.buffers import Buffers, DeviceBuffers, HostBuffers, Lane
from profscope.recording.graphs import Captured, Graphs
from profscope.recording.host_memory import available_bytes
from profscope.recording.launch_log import Launch, LaunchLog, Route, fetched
from profscope.recording.planner import Planner
from profscope.recording.programs import PROGRAMS
from profscope.recording.spooler import Spooler

__all__ = ["Collector"]


# What another thread needs at most between choosing a binary and asking for its memory.
_GRACE_S: Final = 0.1


class _Thread(threading.local):
    """This thread's lane; made when the thread launches first. every: gets the threads that have one."""

    def __init__(self, every: list[weakref.ref[threading.Thread]]) -> None:
        every.append(weakref.ref(threading.current_thread()))
        self.listening = False
        self.lane = Lane()
        self.lane.mark = ORDINARY


_NOWHERE: Final = None  # the pointer of a launch that is not recorded: without the enable bit


class Collector:
    """Installed for the length of a session. Thread-safe: launches may come from any thread."""

    def __init__(self, options: Options, backend: Backend) -> None:
        self.failures: dict[str, str] = {}  # kernel -> why it runs bare
        self.unrecorded: dict[str, int] = {}  # why launches ran without recording -> how many
        self._options = options
        self._cuda = backend.device_type == "cuda"
        self._lock = threading.RLock()
        self._threads: list[weakref.ref[threading.Thread]] = []  # those that have launched
        self._thread = _Thread(self._threads)
        self._listeners = 0
        self._hook = _Hook("launch_exit_hook", self.launched)
        self._user_allocator: Callable[..., Any] | None = None
        self._buffers: dict[int, Buffers] = {}
        self._log = LaunchLog()
        self._notes_of_backend = backend.notes
        self._planner = Planner(options, backend, lambda: self.launches, self._skip)
        self.taken: Counter[str] = Counter()  # kernel -> ordinary launches taken to the spool
        self.captured: Counter[str] = Counter()  # kernel -> launches captured into CUDA graphs
        self.spooler: Spooler | None = None
        self._stopped = ""  # why nothing is recorded any more
        self._held_bytes = 0  # on the host, without a spool
        available = available_bytes()
        self._may_hold_bytes = None if available is None else available // 2
        self._pid = os.getpid()
        # By tag and size asked for, stream and device; settled ones only.
        self._routes: dict[tuple[int, int, int | None, int], Route] = {}
        # The functions behind torch.cuda.current_device() and is_current_stream_capturing().
        self._device: Callable[[], int] = torch._C._cuda_getDevice if self._cuda else int
        self._capturing: Callable[[], bool] = torch._C._cuda_isCurrentStreamCapturing if self._cuda else bool
        # A graph's memory comes in pieces of an eighth of what sessions may take, beside that.
        self._graphs = Graphs(options.memory << 17, options.every, self.settle, self.keep)

    @property
    def launches(self) -> list[Launch]:
        """The launches so far, less those in the spool."""
        return self._log.launches

    def __len__(self) -> int:
        return len(self._log)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install allocator and hooks for the body of a with statement; the user's come back after it."""
        user = _allocation._profile_allocator.get()
        self._user_allocator = user
        timer = None
        if self._options.limit_s is not None:
            why = f"limit_s={self._options.limit_s} had passed"
            timer = threading.Timer(self._options.limit_s, self.stop, (why,))
            timer.daemon = True
        this = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _forked(this()))
        with contextlib.ExitStack() as stack:
            if timer is not None:
                timer.start()
                stack.callback(timer.cancel)
            stack.callback(_allocation._profile_allocator.set, user)
            sampling = self._options.every > 1
            _allocation._profile_allocator.set(self._allocate_sampled if sampling else self.allocate)
            stack.enter_context(_Hook("kernel_load_end_hook", self.loaded))
            if knobs.runtime.launch_enter_hook is None:  # then Triton would not say what it launches
                stack.callback(setattr, knobs.runtime, "launch_enter_hook", None)
                knobs.runtime.launch_enter_hook = knobs.HookChain()
            if not sampling:
                stack.enter_context(self._hook)
            if self._cuda:
                stack.enter_context(self._graphs.installed())
            stack.callback(self._let_others_launch)
            yield

    def _let_others_launch(self) -> None:
        """Triton 3.6 and 3.7 refuse an instrumented binary that finds no allocator."""
        threads = [thread() for thread in self._threads]
        own = threading.current_thread()
        if any(thread is not None and thread is not own and thread.is_alive() for thread in threads):
            time.sleep(_GRACE_S)

    @staticmethod
    def active() -> bool:
        """Whether a collector is installed in this process."""
        return isinstance(getattr(_allocation._profile_allocator.get(), "__self__", None), Collector)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """What this thread launches in the body of the with statement is recorded.

        Where only some launches are, the others then pay for no hook.
        """
        if self._options.every == 1:
            yield
            return
        with self._lock:
            self._listeners += 1
            if self._listeners == 1:
                self._hook.__enter__()
        before, self._thread.listening = self._thread.listening, True
        try:
            yield
        finally:
            self._thread.listening = before
            with self._lock:
                self._listeners -= 1
                if not self._listeners:
                    self._hook.__exit__()

    def _allocate_sampled(self, size: int, alignment: int, stream: int | None) -> Any:
        """The profile allocator where only some launches are recorded; others have no hook to report them."""
        if self._thread.listening:
            return self.allocate(size, alignment, stream)
        if PROGRAMS.tagged(alignment):  # a binary of the session's that someone kept
            return _NOWHERE
        return self._foreign(size, alignment, stream)

    def allocate(self, size: int, alignment: int, stream: int | None) -> Any:
        """The profile allocator. Other profilers' allocations, told by their alignment, go to theirs."""
        lane = self._thread.lane
        if lane.filling is not None or lane.captured is not None:
            self._give_up(lane)
        route = self._routes.get((size, alignment, stream, self._device()))
        if route is None:
            found = self._find_route(size, alignment, stream)
            if not isinstance(found, Route):
                return found
            route = found
        elif stream and self._capturing():  # stream 0, the default one, cannot be captured
            return self._capture(PROGRAMS.tagged(alignment), size // alignment)
        lane.about = route
        place, needed, stream, bits, _, _, _, _ = route
        return place(lane, needed, stream, bits)

    def launched(self, metadata: Any) -> None:
        """launch_exit_hook: the launch is in its stream, so its memory may be drained behind it."""
        if metadata is not None:
            self._tie(metadata.data["function"])

    def record(self, launch: Callable[[], Any]) -> Any:
        """Returns what `launch` does, the binary that it launches, which is recorded; with no hook."""
        thread = self._thread
        before, thread.listening = thread.listening, True
        try:
            kernel = launch()
        finally:
            thread.listening = before
        if kernel is not None:
            self._tie(kernel.function)
        return kernel

    def _tie(self, function: int) -> None:
        """Tie the memory that was given in this thread, if any was, to the function that was launched."""
        manifest = PROGRAMS.of(function)
        if manifest is None:  # a bare one; the memory may be for another, of which a hook launched this
            return
        lane = self._thread.lane
        filling = lane.filling
        if filling is not None:
            self._log.entries.append((manifest, lane.about, filling, lane.offset, lane.mark))
            lane.enqueued()
        elif lane.captured is not None:
            captured, lane.captured = lane.captured, None
            captured.launches.append((manifest, lane.about, lane.offset))
            with self._lock:
                self.captured[manifest.kernel] += 1

    @contextlib.contextmanager
    def trial(self) -> Iterator[None]:
        """What this thread launches in the body of the with statement is an autotuner's trial."""
        lane = self._thread.lane
        lane.mark = Mark(trial=True)
        try:
            yield
        finally:
            lane.mark = ORDINARY

    def loaded(
        self, module: Any, function: int, name: str, metadata_group: dict[str, str], hash: str
    ) -> None:
        """kernel_load_end_hook: learn what a binary records, or why it records nothing."""
        manifest = PROGRAMS.loaded(function, metadata_group)
        if manifest is None:
            return
        if manifest.failure:
            self.failures[manifest.kernel] = manifest.failure
        elif len(PROGRAMS.tagged(manifest.tag)) > 1:  # what was planned for the tag is not enough for both
            self._planner.forget()
            self._routes.clear()

    def _give_up(self, lane: Lane) -> None:
        """Wait no longer for the hook of the launch that this thread was given memory for: it has failed, or
        another hook of its launches a kernel, or asks for the records so far."""
        filling, route = lane.filling, lane.about
        if filling is None and lane.captured is None:
            return
        if filling is not None and len(route.programs) == 1:
            self._log.entries.append((route.programs[0], route, filling, lane.offset, lane.mark))
        else:
            self._skip("they failed, or a hook of theirs launched another, so that their kernel is unknown")
        lane.captured = None
        lane.enqueued()

    def fetch(self) -> tuple[list[RawLaunch], list[str]]:
        """The launches so far with their bytes on the host, as `fetched`."""
        self._give_up(self._thread.lane)
        return fetched(self.launches)

    def stop(self, why: str) -> None:
        """Record nothing any more; a note will say why, and how many launches there were."""
        self._stopped = self._stopped or why
        self._routes.clear()

    @property
    def forked(self) -> bool:
        """Whether this is a copy in a process that was forked from the session's."""
        return os.getpid() != self._pid

    def notes(self) -> list[str]:
        """What ran bare or unrecorded so far, one line each."""
        bare = [f"{kernel} runs bare: {why}" for kernel, why in sorted(self.failures.items())]
        bare += [f"{count} launches ran unrecorded: {why}" for why, count in self.unrecorded.items()]
        if self._graphs.strangers:
            bare.append(
                f"{self._graphs.strangers} replays of CUDA graphs ran unrecorded: they were captured outside "
                "the session"
            )
        return [*bare, *self._notes_of_backend()]

    def drain(self) -> None:
        """Bring the launches so far to the host; waits for them."""
        self._give_up(self._thread.lane)
        with contextlib.suppress(RuntimeError):  # a faulted device: fetch() reports what is lost
            for launch in self.launches:
                launch.slice.fetch()

    def take(self, limit_bytes: int) -> tuple[list[RawLaunch], list[str]] | None:
        """Launches that have drained, out of the log; see `spooler.Take`."""
        chosen = self._log.drained(limit_bytes)
        if not chosen:
            return None
        self._give_up(self._thread.lane)
        found = fetched(chosen)
        self._log.forget(chosen)
        self.taken.update(launch.manifest.kernel for launch in chosen if launch.mark == ORDINARY)
        return found

    def close(self) -> None:
        """Fetch everything and give the device memory back; in a forked process, nothing."""
        if self.forked:
            return
        self.stop("the session had ended")
        self._give_up(self._thread.lane)
        with self._lock, contextlib.suppress(RuntimeError):  # a faulted device: fetch() reports what is lost
            for buffers in self._buffers.values():
                buffers.close()

    def _full(self, drained_bytes: int) -> None:
        """An arena is on its way to the host."""
        if self.spooler is not None:
            self.spooler.full()
            if self.spooler.error:
                self.stop(self.spooler.error)
            return
        self._held_bytes += drained_bytes
        if self._may_hold_bytes is not None and self._held_bytes > self._may_hold_bytes:
            self.stop(
                f"half of the host's free memory was full of records ({self._held_bytes >> 20} MiB); spool= "
                "writes them to disk"
            )

    def _foreign(self, size: int, alignment: int, stream: int | None) -> Any:
        """Another tool's kernel: what Triton would have done without this session.

        Where nobody has set an allocator, Triton 3.6 and 3.7 raise, and the driver of later ones allocates.
        """
        user = self._user_allocator
        by_driver = getattr(driver.active, "allocate_default_profile_scratch", None)
        if by_driver is not None and (user is None or isinstance(user, _allocation.NullAllocator)):
            return by_driver(size, alignment, stream)
        assert user is not None
        return user(size, alignment, stream)

    def _find_route(self, size: int, alignment: int, stream: int | None) -> Any:
        """The route of a launch, kept once its plan is settled; or what the allocator answers instead."""
        programs = PROGRAMS.tagged(alignment)
        if not programs:
            return self._foreign(size, alignment, stream)
        if self._stopped:
            self._skip(self._stopped)
            return _NOWHERE
        if self._capturing():  # before planning, which may wait for a launch
            return self._capture(programs, size // alignment)
        plan = self._planner.plan(programs, alignment, size)
        if plan is None:
            return _NOWHERE
        device = self._device()
        buffers = self._buffers.get(device) or self._open_buffers(device)
        if buffers is None:
            return _NOWHERE
        route = Route.of(buffers, plan, stream or 0, device, programs)
        if self._planner.is_settled(alignment, size):
            self._keep((size, alignment, stream, device), route)
        return route

    def _capture(self, programs: Sequence[Manifest], ctas: int) -> int | None:
        """The pointer of a launch that is captured into a CUDA graph; it must not wait for anything."""
        lane = self._thread.lane
        graph = self._graphs.current()
        if graph is None:
            self._skip("the CUDA graph they were captured into began outside the session")
            return _NOWHERE
        if graph.free_bytes < BASE_ALIGNMENT:
            self._skip("CUDA graphs captured in the session need more memory; memory= gives more")
            return _NOWHERE
        plan = self._planner.plan_captured(programs, ctas, graph.free_bytes)
        if plan is None:
            return _NOWHERE
        lane.captured, lane.about = graph, plan
        address, lane.offset = graph.place(plan.needed)
        return address | plan.pointer_bits

    def _keep(self, key: tuple[int, int, int | None, int], route: Route) -> None:
        self._routes[key] = route
        if self._stopped:  # while the route was looked for
            self._routes.clear()

    def settle(self) -> None:
        """Learn what can be learned of the launches so far, before a time when nothing may wait."""
        for manifest, ctas in self._log.programs():
            self._planner.learn(manifest, ctas)

    def keep(self, graph: Captured, replay: int, stream: int) -> None:
        """Copy what a replay recorded behind it, and note its launches."""
        lane = self._thread.lane
        self._give_up(lane)
        if self._stopped:
            self._skip(self._stopped, len(graph.launches))
            return
        buffers = self._buffers.get(graph.device) or self._open_buffers(graph.device)
        if buffers is None:
            return
        memory = graph.memory
        buffers.place(lane, memory.nbytes, stream, 0)
        filling, offset = lane.filling, lane.offset
        if filling is None:
            return
        try:
            buffers.copy(filling, offset, memory)
            mark = Mark(graph=graph.index, replay=replay)
            for manifest, made, at in graph.launches:
                route = Route.of(buffers, made, stream, graph.device, (manifest,))
                self._log.entries.append((manifest, route, filling, offset + at, mark))
        finally:
            lane.enqueued()

    def _open_buffers(self, device: int) -> Buffers | None:
        budget = self._options.memory << 20
        with self._lock:
            if device in self._buffers:  # another thread was quicker
                return self._buffers[device]
            why = f"no device memory for the {self._options.memory} MiB of memory="
            if why in self.unrecorded:  # not tried again: an attempt that fails empties torch's cache
                self._skip(why)
                return None
            try:
                full = self._full
                made = DeviceBuffers(device, budget, full) if self._cuda else HostBuffers(budget, full)
                self._buffers[device] = made
            except torch.OutOfMemoryError:
                self._skip(why)
                return None
            return self._buffers[device]

    def _skip(self, why: str, launches: int = 1) -> None:
        with self._lock:
            self.unrecorded[why] = self.unrecorded.get(why, 0) + launches


def _forked(collector: Collector | None) -> None:
    """In a child process: locks may be held by threads that are gone, and nothing is recorded."""
    if collector is not None:
        collector._lock = threading.RLock()
        collector._threads = []
        collector._thread = _Thread(collector._threads)
        collector._routes = {}
        collector.stop("this process was forked from the session's")


class _Hook:
    """Adds `call` to one of Triton's hook chains; a user's plain function in its place keeps running."""

    def __init__(self, name: str, call: Callable[..., None]) -> None:
        self._name = name
        self._call = call
        self._found: Any = None
        self._chain: Any = None

    def __enter__(self) -> None:
        self._found = self._chain = getattr(knobs.runtime, self._name)
        if not isinstance(self._found, knobs.HookChain):
            self._chain = knobs.HookChain()
            if self._found is not None:
                self._chain.add(self._found)
            setattr(knobs.runtime, self._name, self._chain)
        self._chain.add(self._call)

    def __exit__(self, *error: object) -> None:
        self._chain.remove(self._call)
        if self._chain is not self._found:
            setattr(knobs.runtime, self._name, self._found)
