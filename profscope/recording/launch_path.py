"""Hands every instrumented launch its buffer and remembers which launch it was.

Triton's launcher calls the profile allocator, launches, and calls the launch-exit hooks. The allocator
learns the size and the stream, the hook the function; a thread-local joins them.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import torch
from triton import knobs
from triton.runtime import _allocation, driver

from instrument_passes.manifest import Manifest
from instrument_passes.records import BASE_ALIGNMENT
from profscope.recording.graphs import Graphs
from profscope.recording.hook_chain import ChainedHook
from profscope.recording.host_scopes import about_to_launch
from profscope.recording.journal import Journal
from profscope.recording.lanes import Lanes
from profscope.recording.launch_log import LaunchLog
from profscope.recording.messages import one_line
from profscope.recording.programs import PROGRAMS, Program
from profscope.recording.routes import Routes

__all__ = ["LaunchPath"]

# What another thread needs at most between choosing a binary and asking for its memory.
_GRACE_S: Final = 0.1
_NOWHERE: Final = None  # the pointer of a launch that is not recorded: without the enable bit


class LaunchPath:
    """Installed for the length of a session. Thread-safe: launches may come from any thread.

    mode: of the session's binaries. every_launch: all launches are recorded; else those that `listening` or
    `record` says. cuda: launches run on a GPU. captured: kernel -> its launches captured into CUDA graphs.
    bare: kernels of which a binary was launched that does not record. capturing(): whether what this thread
    launches into its current stream is captured into a CUDA graph.
    """

    def __init__(
        self,
        lanes: Lanes,
        log: LaunchLog,
        routes: Routes,
        graphs: Graphs | None,
        journal: Journal,
        *,
        mode: str,
        every_launch: bool,
        cuda: bool,
    ) -> None:
        self.captured: Counter[str] = Counter()
        self.bare: set[str] = set()
        self._lanes = lanes
        self._thread = lanes.thread
        self._log = log
        self._routes = routes
        self._settled = routes.settled
        self._graphs = graphs
        self._journal = journal
        self._mode = mode
        self._every_launch = every_launch
        self._lock = threading.Lock()
        self._listeners = 0
        self._hook = ChainedHook("launch_exit_hook", self.launched)
        self._user_allocator: Callable[..., Any] | None = None
        self._device: Callable[[], int] = _current_device() if cuda else int
        self.capturing: Callable[[], bool] = _capturing() if cuda else bool

    @staticmethod
    def is_installed() -> bool:
        """Whether this process has one installed."""
        return isinstance(getattr(_allocation._profile_allocator.get(), "__self__", None), LaunchPath)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install allocator and hooks for the body of a with statement; the user's come back after it."""
        user = _allocation._profile_allocator.get()
        self._user_allocator = user
        with contextlib.ExitStack() as stack:
            stack.callback(_allocation._profile_allocator.set, user)
            _allocation._profile_allocator.set(
                self.allocate if self._every_launch else self._allocate_sampled
            )
            stack.enter_context(ChainedHook("kernel_load_end_hook", self.loaded))
            if knobs.runtime.launch_enter_hook is None:  # then Triton would not say what it launches
                stack.callback(setattr, knobs.runtime, "launch_enter_hook", None)
                knobs.runtime.launch_enter_hook = knobs.HookChain()
            if self._every_launch:
                stack.enter_context(self._hook)
            yield

    def let_others_launch(self) -> None:
        """Triton 3.6 and 3.7 refuse an instrumented binary that finds no allocator: wait for threads that may
        have chosen one."""
        if self._lanes.others_alive():
            time.sleep(_GRACE_S)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """What this thread launches in the body of the with statement is recorded.

        Where only some launches are, the others then pay for no hook.
        """
        if self._every_launch:
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

    def record(self, launch: Callable[[], Any]) -> Any:
        """Returns what `launch` does, the binary that it launches, which is recorded; with no hook."""
        thread = self._thread
        before, thread.listening = thread.listening, True
        try:
            kernel = launch()
        finally:
            thread.listening = before
        if kernel is not None:
            self.tie(kernel.function, kernel.name)
        return kernel

    def recording(self, launch: Callable[..., Any], program: Program) -> Callable[..., Any]:
        """`launch`, and what it launches is recorded; with no hook. program: what that is."""
        thread, enqueued = self._thread, self.enqueued

        def record(*args: Any, **options: Any) -> None:
            before, thread.listening = thread.listening, True
            try:
                launch(*args, **options)
            finally:
                thread.listening = before
            enqueued(program)

        return record

    def preparation(self) -> Callable[[], object]:
        """What has memory ready on this thread's current device before a launch asks for it: to allocate it,
        and to compare the clocks of device and host, takes tens of milliseconds once. Any thread may call it.
        """
        return partial(self._routes.buffers, self._device())

    def others_hook(self) -> bool:
        """Whether somebody else has launch hooks."""
        runtime = knobs.runtime
        for chain in (runtime.launch_enter_hook, runtime.launch_exit_hook):
            if not isinstance(chain, knobs.HookChain):
                if chain is not None:
                    return True
            elif any(call != self.launched for call in chain.calls):
                return True
        return False

    def numbered(self, launch: Callable[[], Any]) -> tuple[Any, int]:
        """What `launch` returns, and the number of what it launches among the recorded launches; -1 if it was
        not recorded. Other threads may launch meanwhile."""
        lane, entries = self._thread.lane, self._log.entries
        before = lane.mark
        lane.mark = own = before._replace()  # equal, but an object of its own
        begun = len(entries)
        try:
            result = launch()
        finally:
            lane.mark = before
        since = enumerate(entries[begun:], begun)
        return result, next((at for at, entry in since if entry is not None and entry[4] is own), -1)

    def allocate(self, size: int, alignment: int, stream: int | None) -> Any:
        """The profile allocator. Other profilers' allocations, told by their alignment, go to theirs.

        It raises what theirs does, and nothing of its own: a launch that cannot be recorded goes on without.
        """
        about_to_launch()
        lane = self._thread.lane
        try:
            if lane.filling is not None or lane.captured is not None:
                self._lanes.give_up()
            route = self._settled.get((size, alignment, stream, self._device()))
            if route is not None:
                if stream and self.capturing():  # stream 0, the default one, cannot be captured
                    return self._capture(PROGRAMS.tagged(alignment), size // alignment)
                lane.about = route
                pointer = route.place(lane, route.needed, route.stream, route.bits)
                return pointer if pointer is not None else self._leave_out()
            programs = PROGRAMS.tagged(alignment)
            if programs:
                return self._place(programs, size, alignment, stream)
        except Exception as error:  # noqa: BLE001  whatever it is, the user's launch goes on
            self._fail(error)
            return _NOWHERE
        return self._foreign(size, alignment, stream)

    def launched(self, metadata: Any) -> None:
        """launch_exit_hook: the launch is in its stream, so its memory may be drained behind it."""
        if metadata is not None:
            self.tie(metadata.data["function"], metadata.data["name"])

    def loaded(
        self, module: Any, function: int, name: str, metadata_group: dict[str, str], hash: str
    ) -> None:
        """kernel_load_end_hook: learn what a binary records, or why it records nothing."""
        manifest = PROGRAMS.loaded(function, metadata_group)
        if manifest is None:
            return
        if manifest.failure:
            self._note_failed(function)
        elif len(PROGRAMS.tagged(manifest.tag)) > 1:  # what was planned for the tag is not enough for both
            self._routes.forget()

    def after_fork(self) -> None:
        """In a child process: the lock may be held by a thread that is gone."""
        self._lock = threading.Lock()

    def _allocate_sampled(self, size: int, alignment: int, stream: int | None) -> Any:
        """The profile allocator where only some launches are recorded; others have no hook to report them."""
        if self._thread.listening:
            return self.allocate(size, alignment, stream)
        programs = PROGRAMS.tagged(alignment)
        if not programs:
            return self._foreign(size, alignment, stream)
        return self._kept(programs, "a launch that every= recorded")

    def _place(self, programs: Sequence[Manifest], size: int | float, tag: int, stream: int | None) -> Any:
        """The pointer of a launch whose route is not settled."""
        if not isinstance(size, int):  # a grid of floats, with which the launcher is about to raise
            return _NOWHERE
        if not PROGRAMS.has(tag, self._mode):
            return self._kept(programs, "a session with other options")
        if self._journal.stopped:
            self._journal.skip(self._journal.stopped)
            return _NOWHERE
        if self.capturing():  # before planning, which may wait for a launch
            return self._capture(programs, size // tag)
        route = self._routes.find(programs, size, tag, stream, self._device())
        if route is None:
            return _NOWHERE
        lane = self._thread.lane
        lane.about = route
        pointer = route.place(lane, route.needed, route.stream, route.bits, route.plan.zero)
        return pointer if pointer is not None else self._leave_out()

    def _leave_out(self) -> None:
        """The pointer of a launch that finds the buffers closed."""
        self._journal.skip(self._journal.stopped)
        return _NOWHERE

    def _fail(self, error: Exception) -> None:
        """A launch cannot be recorded."""
        self._journal.skip(one_line(error))

    def _kept(self, programs: Sequence[Manifest], where: str) -> None:
        """The pointer of a launch by other means than a session sees, of a binary that someone has kept."""
        names = " or ".join(sorted({manifest.kernel for manifest in programs}))
        self._journal.skip(f"a binary of {names} was kept from {where}, and launched directly")
        return _NOWHERE

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

    def _capture(self, programs: Sequence[Manifest], ctas: int) -> int | None:
        """The pointer of a launch that is captured into a CUDA graph; it must not wait for anything."""
        lane = self._thread.lane
        graph = None if self._graphs is None else self._graphs.current()
        if graph is None:
            self._journal.skip("the CUDA graph they were captured into began outside the session")
            return _NOWHERE
        if graph.free_bytes < BASE_ALIGNMENT:
            self._journal.skip("CUDA graphs captured in the session need more memory; memory= gives more")
            return _NOWHERE
        plan = self._routes.plan_captured(programs, ctas, graph.free_bytes)
        if plan is None:
            return _NOWHERE
        lane.captured, lane.about = graph, plan
        address, lane.offset = graph.place(plan.needed)
        return address | plan.pointer_bits

    def _note_failed(self, function: int) -> None:
        """Note why a binary records nothing, if it should; launches of unreadable ones are counted."""
        failed = PROGRAMS.failed(function)
        if failed is not None and not failed.unreadable:
            self._journal.failures[failed.manifest.kernel] = failed.manifest.failure

    def tie(self, function: int, name: str) -> None:
        """Tie the memory that was given in this thread, if any was, to the function that was launched."""
        program = PROGRAMS.of(function)
        if program is None:  # a bare one; the memory may be for another, of which a hook launched this
            self.bare.add(name)
            failed = PROGRAMS.failed(function)
            if failed is not None and failed.unreadable:
                self._journal.skip(f"{name}: {failed.manifest.failure}")
            else:
                self._note_failed(function)  # it may have been loaded before this session
            return
        self.enqueued(program)

    def enqueued(self, program: Program) -> None:
        """As `tie`, for those who know the program of what they launched."""
        lane = self._thread.lane
        filling = lane.filling
        if filling is not None:
            self._log.entries.append((program, lane.about, filling, lane.offset, lane.mark))
            lane.enqueued()
        elif lane.captured is not None:
            graph, lane.captured = lane.captured, None
            graph.launches.append((program, lane.about, lane.offset))
            with self._lock:
                self.captured[program.manifest.kernel] += 1


def _current_device() -> Callable[[], int]:
    """torch.cuda.current_device(), or the function behind it, which costs less, where torch has that."""
    quick: Callable[[], int] | None = getattr(torch._C, "_cuda_getDevice", None)
    return quick or torch.cuda.current_device


def _capturing() -> Callable[[], bool]:
    quick: Callable[[], bool] | None = getattr(torch._C, "_cuda_isCurrentStreamCapturing", None)
    return quick or torch.cuda.is_current_stream_capturing
