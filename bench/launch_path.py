"""What a session adds to a launch on the host, without a GPU and without what the driver takes.

Memory of the host stands in for a GPU's. What records a launch is called by itself; whole launches go through
Triton as far as its launcher, in place of which there is one that enqueues nothing.
"""

from __future__ import annotations

import contextlib
import gc
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

import profscope
from bench.kernels import Workload
from bench.table import Cell, Row
from bench.timing import interleave
from bench.variants import Variant
from profscope import emulator
from profscope.device import backend
from profscope.device.backend import Backend
from profscope.emulator.driver import EmulatorUtils
from profscope.options import Options
from profscope.recording.recorder import Recorder
from tests.support import standin

__all__ = ["launch_path"]

_LAUNCHES: Final = 500  # those of all rounds fit the memory, so that no drain is timed
_WARM_UP: Final = 250  # in each session: two recorded ones even if that is one in 100
_GPU: Final = Backend("cuda", lambda: {"backend": "gpu"})


class _Launcher:
    """Triton's launcher for NVIDIA GPUs, without the launch."""

    def __init__(self, src: Any, metadata: Any) -> None: ...

    def __call__(
        self, x: int, y: int, z: int, stream: int, function: Any, packed: Any, about: Any,
        enter: Callable[[Any], None], leave: Callable[[Any], None], *args: Any,
    ) -> None:  # fmt: skip
        enter(about)
        leave(about)

    def call_with_profile_buffer(self, pointer: Any, *args: Any) -> None:
        """As `recording_call` finds it."""
        self(*args)


class _Utils(EmulatorUtils):
    """Loads kernels for good: the emulator's have no module, so that Triton loads them at every launch."""

    def load_binary(self, name: str, ptx: bytes, shared: int, device: int) -> tuple[Any, ...]:
        return ("", *super().load_binary(name, ptx, shared, device)[1:])

    def unload_module(self, module: Any) -> None:
        """There is nothing to unload."""


def launch_path(workload: Workload, rounds: int) -> list[Row]:
    """Host time of what records one launch, and without it; and of whole launches, recorded and left out."""
    return [_recording(workload, rounds), _launches(workload, rounds)]


def _recording(workload: Workload, rounds: int) -> Row:
    with profscope.session(backend="emulator", instrument="light") as session:
        workload.launch(workload.inputs("cpu"))
        (launch,) = session._parts().recorder.log.launches
    metadata = SimpleNamespace(num_ctas=1)
    kernel: Any = SimpleNamespace(metadata=metadata, function=None, packed_metadata=None)
    args = launch.ctas, 1, 1, 0, None, None, None, None, None

    def call(pointer: Any, *args: Any) -> None: ...

    samples: dict[str, list[float]] = {"bare": [], "profscope": []}
    with standin.gpu():
        records = Recorder(Options(memory=256, instrument="light"), _GPU, {})
        record = records.launches.launcher(kernel, launch.program, call)
        for _ in range(rounds + 1):
            samples["bare"].append(_us(partial(call, None, *args)))
            with records.installed():
                samples["profscope"].append(_us(partial(record, *args)))
        records.close()
    cells = {name: Cell(tuple(values[1:])) for name, values in samples.items()}  # the first round allocates
    return Row("recording of a launch, on the host", workload.name, "us", cells)


def _launches(workload: Workload, rounds: int) -> Row:
    inputs = workload.inputs("cpu")
    session = partial(profscope.session, instrument="light")
    variants: dict[str, Variant] = {
        "bare": contextlib.nullcontext,
        "profscope": lambda: session(memory=256),
        "profscope every=100": lambda: session(memory=16, every=100),
        "profscope left out": lambda: session(memory=16, every=1 << 30),
    }

    def sample(name: str) -> dict[str, float]:
        for _ in range(_WARM_UP):
            workload.launch(inputs)
        return {"us": _us(lambda: workload.launch(inputs))}

    with _launching_nothing(workload.fn.device_caches), warnings.catch_warnings():
        warnings.simplefilter("ignore", profscope.EmptyProfileWarning)
        cells = interleave(variants, sample, rounds)["us"]
    return Row("a launch, on the host, without the driver", workload.name, "us", cells)


@contextlib.contextmanager
def _launching_nothing(kernels: dict[int, Any]) -> Iterator[None]:
    """Sessions find a GPU whose launcher does nothing. kernels: those in memory have another launcher."""

    @contextlib.contextmanager
    def select(name: str) -> Iterator[Backend]:
        yield _GPU

    with emulator.activate() as driver, standin.gpu(), mock.patch.object(backend, "select", select):
        driver.launcher_cls, driver.utils = _Launcher, _Utils(driver.device)
        kernels.clear()
        try:
            yield
        finally:
            kernels.clear()


def _us(run: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    for _ in range(_LAUNCHES):
        run()
    return (time.perf_counter() - start) * 1e6 / _LAUNCHES
