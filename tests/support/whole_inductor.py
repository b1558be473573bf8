"""All of torch.compile with its kernels on the emulator: for the CPU Inductor has a way to Triton, too.

    with compiling_for_the_emulator():
        torch.compile(model)(x)             # x on the CPU

Importing Inductor takes seconds, and compiling a model takes more.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
import triton.backends
from torch._dynamo import device_interface
from torch._inductor import config
from torch._inductor.runtime import hints
from torch._inductor.runtime import triton_heuristics as heuristics
from torch.utils import _triton as triton_of_torch

from profscope import emulator
from profscope.emulator.compiler import ARCH, BACKEND_NAME, EmulatorBackend
from profscope.emulator.driver import EmulatorDriver


@contextlib.contextmanager
def compiling_for_the_emulator() -> Iterator[None]:
    """In the body of a with statement torch.compile makes Triton kernels of what runs on the CPU, anew,
    without workers."""
    properties = hints.DeviceProperties(
        type=BACKEND_NAME,
        index=0,
        multi_processor_count=2,
        cc=ARCH,
        major=ARCH // 10,
        regs_per_multiprocessor=1 << 16,
        max_threads_per_multi_processor=2048,
        warp_size=32,
    )
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        folder = enter(tempfile.TemporaryDirectory(prefix="inductor-"))
        enter(mock.patch.dict(os.environ, PROFSCOPE_EMULATOR="1", TORCHINDUCTOR_CACHE_DIR=folder))
        enter(emulator.activate())
        enter(config.patch(cpu_backend="triton", compile_threads=1))
        enter(mock.patch.object(hints.DeviceProperties, "create", return_value=properties))
        # It times nothing by the emulator: the first configuration is the best.
        enter(mock.patch.object(heuristics.CachingAutotuner, "bench", return_value=1.0))
        # That there is one is all that Inductor asks.
        enter(mock.patch.dict(triton.backends.backends, cpu=triton.backends.Backend(_Never, EmulatorDriver)))
        device_interface.get_interface_for_device("cpu")  # the first time all of them are registered
        interfaces = device_interface.device_interfaces
        enter(mock.patch.dict(interfaces, {BACKEND_NAME: _Interface}))
        stack.callback(_forget)
        _forget()
        yield


class _Never(EmulatorBackend):
    """A compiler that Triton chooses for nothing."""

    @staticmethod
    def supports_target(target: Any) -> bool:
        return False


class _Interface(device_interface.CpuInterface):  # type: ignore[misc]
    """The emulator as a device of Inductor's."""

    @staticmethod
    def exchange_device(device: int) -> int:
        return 0

    @staticmethod
    def maybe_exchange_device(device: int) -> int:
        return 0

    @staticmethod
    def current_device() -> int:
        return 0


def _forget() -> None:
    """What torch has found out of Triton, and what it has compiled."""
    for name in ("has_triton", "triton_backend", "triton_hash_with_backend"):
        getattr(getattr(triton_of_torch, name), "cache_clear", bool)()
    torch._dynamo.reset()
