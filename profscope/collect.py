"""Hands every instrumented launch its buffer and remembers which launch it was.

Triton's launcher calls the profile allocator, then the launch-enter hooks, launches, and calls the
launch-exit hooks. The allocator learns the size and the stream, the hooks the function; all run in the
launching thread, so a thread-local joins them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from triton import knobs
from triton.runtime import _allocation

from instrument_passes.manifest import Manifest
from instrument_passes.records import LaunchBits
from profscope.assemble import RawLaunch
from profscope.buffers import Buffers, DeviceBuffers, HostBuffers, Slice
from profscope.decode import ring_rows
from profscope.options import Options
from profscope.programs import PROGRAMS
from profscope.sizing import needed_bytes, plan, ring_log2_for_records, ring_log2_for_rows

__all__ = ["Collector", "Launch"]


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of an instrumented kernel. ctas: those of the whole grid."""

    index: int
    manifest: Manifest
    device: int
    stream: int
    ctas: int
    bits: LaunchBits
    slice: Slice


@dataclass(frozen=True, slots=True)
class _Pointer:
    """What Triton's launcher takes from an allocator. Without a slice the kernel records nothing."""

    value: int
    slice: Slice | None = None
    bits: LaunchBits = LaunchBits()
    ctas: int = 0

    def data_ptr(self) -> int:
        return self.value

    @property
    def extent(self) -> tuple[int, int]:
        """Start address and bytes of the memory behind it."""
        return (0, 0) if self.slice is None else (self.slice.address, self.slice.size)


_NOWHERE: Final = _Pointer(0)


class Collector:
    """Installed for the length of a session. Thread-safe: launches may come from any thread."""

    def __init__(self, options: Options, device_type: str) -> None:
        self.launches: list[Launch] = []
        self.failures: dict[str, str] = {}  # kernel -> why it runs bare
        self.unrecorded: dict[str, int] = {}  # why launches ran without recording -> how many
        self._options = options
        self._device_type = device_type
        self._lock = threading.RLock()
        self._thread = threading.local()
        self._user_allocator: Callable[..., Any] | None = None
        self._buffers: dict[int, Buffers] = {}
        self._ring_log2: dict[int, int] = {}  # by manifest digest: learned from a launch
        self._first: dict[int, Launch] = {}  # by manifest digest: the launch to learn from

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install allocator and hooks for the body of a with statement; the user's come back after it."""
        user = _allocation._profile_allocator.get()
        self._user_allocator = user
        hooks: dict[str, Callable[..., None]] = {
            "launch_enter_hook": self.launched,
            "launch_exit_hook": self.enqueued,
            "kernel_load_end_hook": self.loaded,
        }
        with contextlib.ExitStack() as stack:
            stack.callback(_allocation._profile_allocator.set, user)
            _allocation._profile_allocator.set(self.allocate)
            for name, hook in hooks.items():
                stack.enter_context(_hooked(name, hook))
            yield

    def allocate(self, size: int, alignment: int, stream: int | None) -> Any:
        """The profile allocator. Other profilers' allocations, told by their alignment, go to theirs."""
        programs = PROGRAMS.tagged(alignment)
        if not programs:
            assert self._user_allocator is not None
            return self._user_allocator(size, alignment, stream)
        self.enqueued(None)  # whatever this thread launched last is in its stream by now, or failed
        capturing = self._device_type == "cuda" and torch.cuda.is_current_stream_capturing()
        if capturing:
            return self._skip("CUDA graph capture is not recorded")
        try:
            buffers = self._device_buffers()
        except torch.OutOfMemoryError:
            return self._skip(f"no device memory for the {self._options.memory} MiB of memory=")
        ctas = size // alignment
        bits, needed = LaunchBits(), 0
        for manifest in programs:  # nearly always one; which one it is, the hook will tell
            planned = plan(
                manifest, ctas, buffers.limit_bytes, self._rings(manifest), self._options.stride_log2
            )
            if planned is None:
                return self._skip(f"one CTA of {manifest.kernel} writes more than memory= allows")
            if needed_bytes(manifest, ctas, planned) >= needed:
                bits, needed = planned, needed_bytes(manifest, ctas, planned)
        needed = max(needed_bytes(manifest, ctas, bits) for manifest in programs)
        if needed > buffers.limit_bytes:
            return self._skip("programs that share a tag need more than memory= allows")
        slice_ = buffers.place(needed, stream or 0)
        pointer = _Pointer(slice_.address | bits.encode(), slice_, bits, ctas)
        self._thread.pointer = pointer
        return pointer

    def launched(self, metadata: Any) -> None:
        """launch_enter_hook: ties the pointer just given in this thread to the function being launched."""
        pointer = getattr(self._thread, "pointer", _NOWHERE)
        if pointer.slice is None:
            return
        data = metadata.data
        manifest = PROGRAMS.of(data["function"])
        if manifest is None:
            return
        with self._lock:
            launch = Launch(
                len(self.launches), manifest, self._device(), int(data["stream"] or 0), pointer.ctas, pointer.bits,
                pointer.slice,
            )  # fmt: skip
            self.launches.append(launch)
            self._first.setdefault(manifest.digest, launch)

    def enqueued(self, metadata: Any) -> None:
        """launch_exit_hook: the launch is in its stream, so its buffer may be drained behind it."""
        pointer = getattr(self._thread, "pointer", _NOWHERE)
        if pointer.slice is not None:
            pointer.slice.enqueued()
            self._thread.pointer = _NOWHERE

    def loaded(
        self, module: Any, function: int, name: str, metadata_group: dict[str, str], hash: str
    ) -> None:
        """kernel_load_end_hook: learn what a binary records, or why it records nothing."""
        manifest = PROGRAMS.loaded(function, metadata_group)
        if manifest is not None and manifest.failure:
            self.failures[manifest.kernel] = manifest.failure

    def fetch(self, launches: Sequence[Launch]) -> tuple[list[RawLaunch], list[str]]:
        """The launches with their bytes on the host; waits for them. Also notes on what was lost and why."""
        raw: list[RawLaunch] = []
        notes = [f"{count} launches ran unrecorded: {why}" for why, count in self.unrecorded.items()]
        for launch in launches:
            try:
                buffer = launch.slice.fetch()[: needed_bytes(launch.manifest, launch.ctas, launch.bits)]
            except RuntimeError as error:
                why = str(error).splitlines()[0]
                lost = len(launches) - len(raw)
                notes.append(
                    f"{lost} launches are lost, from launch {launch.index} ({launch.manifest.kernel}) on: the "
                    f"device has faulted: {why}"
                )
                break
            raw.append(
                RawLaunch(launch.index, launch.manifest, launch.device, launch.stream, launch.ctas, buffer)
            )
        return raw, notes

    def close(self) -> None:
        """Fetch everything and give the device memory back."""
        with self._lock, contextlib.suppress(RuntimeError):  # a faulted device: fetch() reports what is lost
            for buffers in self._buffers.values():
                buffers.close()

    def _rings(self, manifest: Manifest) -> int | None:
        """The length of a program's rings: as asked for, or learned from its first launch, or unknown yet."""
        if not manifest.ring_bytes:
            return 0
        if self._options.buffer is not None:
            return ring_log2_for_records(manifest, self._options.buffer)
        digest = manifest.digest
        if digest not in self._ring_log2 and digest in self._first:
            first = self._first[digest]
            buffer = first.slice.fetch()[: needed_bytes(manifest, first.ctas, first.bits)]
            self._ring_log2[digest] = ring_log2_for_rows(ring_rows(buffer, manifest))
        return self._ring_log2.get(digest)

    def _device(self) -> int:
        return torch.cuda.current_device() if self._device_type == "cuda" else 0

    def _device_buffers(self) -> Buffers:
        device = self._device()
        with self._lock:
            if device not in self._buffers:
                budget = self._options.memory << 20
                cuda = self._device_type == "cuda"
                self._buffers[device] = DeviceBuffers(device, budget) if cuda else HostBuffers(budget)
            return self._buffers[device]

    def _skip(self, why: str) -> _Pointer:
        with self._lock:
            self.unrecorded[why] = self.unrecorded.get(why, 0) + 1
        return _NOWHERE


@contextlib.contextmanager
def _hooked(name: str, hook: Callable[..., None]) -> Iterator[None]:
    """Add `hook` to one of Triton's hook chains; a user's plain function in its place keeps running."""
    found = getattr(knobs.runtime, name)
    if isinstance(found, knobs.HookChain):
        found.add(hook)
        try:
            yield
        finally:
            found.remove(hook)
        return
    chain: Any = knobs.HookChain()
    if found is not None:
        chain.add(found)
    chain.add(hook)
    try:
        setattr(knobs.runtime, name, chain)
        yield
    finally:
        setattr(knobs.runtime, name, found)
