"""Hands every instrumented launch its buffer and remembers which launch it was.

Triton's launcher calls the profile allocator, then the launch-enter hooks, then launches; the allocator
learns the size and stream, the hook the function. Both run in the launching thread, so a thread-local
joins them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from triton import knobs
from triton.runtime import _allocation

from instrument_passes.manifest import Manifest
from instrument_passes.records import ALIGNMENT
from profscope.assemble import RawLaunch
from profscope.errors import SessionError
from profscope.programs import PROGRAMS

__all__ = ["Buffer", "Collector", "Launch"]

# Triton 3.6 and 3.7 compute a CTA's offset into the buffer in 32 bits, signed.
_NARROW_POINTER_BYTES = 1 << 31


class Buffer(Protocol):
    """What Triton's launcher takes from an allocator."""

    def data_ptr(self) -> int: ...


@dataclass(frozen=True)
class Launch:
    """One launch of an instrumented kernel. buffer: uint8 tensor, on the device that runs the kernel."""

    index: int
    manifest: Manifest
    device: int
    stream: int
    buffer: torch.Tensor


class Collector:
    """Installed for the length of a session. Thread-safe: launches may come from any thread.

    triton: (major, minor); device_type: torch device type of the buffers, "cuda" or "cpu".
    """

    def __init__(self, triton: tuple[int, int], device_type: str) -> None:
        self.launches: list[Launch] = []
        self.failures: dict[str, str] = {}  # kernel -> why it runs bare
        self._triton = triton
        self._device_type = device_type
        self._lock = threading.Lock()
        self._thread = threading.local()
        self._user_allocator: Callable[..., Any] | None = None
        self._fetched: dict[int, npt.NDArray[np.uint8]] = {}  # launch index -> bytes

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install allocator and hooks for the body of a with statement; the user's come back after it."""
        user = _allocation._profile_allocator.get()
        self._user_allocator = user
        with contextlib.ExitStack() as stack:
            stack.callback(_allocation._profile_allocator.set, user)
            _allocation._profile_allocator.set(self.allocate)
            for name, hook in (("launch_enter_hook", self.launched), ("kernel_load_end_hook", self.loaded)):
                stack.enter_context(_hooked(name, hook))
            yield

    def allocate(self, size: int, alignment: int, stream: int | None) -> Any:
        """The profile allocator. Other profilers' allocations, told by their alignment, go to theirs."""
        if alignment != ALIGNMENT:
            assert self._user_allocator is not None
            return self._user_allocator(size, alignment, stream)
        if size > _NARROW_POINTER_BYTES and self._triton < (3, 8):
            raise SessionError(
                f"this launch needs {size / 2**30:.1f} GiB of profile buffer, and Triton {self._triton[0]}."
                f"{self._triton[1]} addresses 2 GiB; take a smaller grid, buffer=, or instrument= level, or leave "
                "the kernel out with kernels="
            )
        try:
            buffer = torch.zeros(size, dtype=torch.uint8, device=self._device_type)
        except torch.OutOfMemoryError as error:
            raise SessionError(
                f"no device memory for a launch's profile buffer of {size / 2**20:.0f} MiB; take a smaller grid, "
                "buffer=, or instrument= level, or leave the kernel out with kernels="
            ) from error
        self._thread.buffer = buffer
        return buffer

    def launched(self, metadata: Any) -> None:
        """launch_enter_hook: ties the buffer just allocated in this thread to the function being launched."""
        buffer = getattr(self._thread, "buffer", None)
        if buffer is None:
            return
        self._thread.buffer = None
        manifest = PROGRAMS.of(metadata.data["function"])
        if manifest is None or manifest.failure:
            return
        device = buffer.device.index or 0
        with self._lock:
            launch = Launch(len(self.launches), manifest, device, int(metadata.data["stream"] or 0), buffer)
            self.launches.append(launch)

    def loaded(self, module: Any, function: int, name: str, metadata_group: dict[str, str], hash: str) -> None:
        """kernel_load_end_hook: learn what a binary records, or why it records nothing."""
        manifest = PROGRAMS.loaded(function, metadata_group)
        if manifest is not None and manifest.failure:
            self.failures[manifest.kernel] = manifest.failure

    def fetch(self, launches: Sequence[Launch]) -> tuple[list[RawLaunch], list[str]]:
        """The launches with their bytes on the host; waits for them. Also notes on those that were lost.

        Raises SessionError if the device has faulted and no exception said so yet.
        """
        raw: list[RawLaunch] = []
        for launch in launches:
            buffer = self._fetched.get(launch.index)
            if buffer is None:
                try:
                    buffer = launch.buffer.cpu().numpy()
                except RuntimeError as error:
                    kernel = launch.manifest.kernel
                    lost = f"launch {launch.index} ({kernel}) and later ones are lost: the device has faulted: {error}"
                    return raw, [lost.splitlines()[0]]
                self._fetched[launch.index] = buffer
            raw.append(RawLaunch(launch.index, launch.manifest, launch.device, launch.stream, buffer))
        return raw, []


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
