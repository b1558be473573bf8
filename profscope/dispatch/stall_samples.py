"""Sessions that sample: the launches that run under the GPU's sampler, and what is kept of them.

Which launches these are is `policy.py`'s to say; the dispatcher has each of them launched through here.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from triton.compiler import CompiledKernel
from triton.runtime import driver

from profscope.compat.compiling import recompile
from profscope.compat.kernels import load
from profscope.dispatch.configurations import Binary, Configuration
from profscope.dispatch.left_bare import reason
from profscope.dispatch.proton_sampling import refuse_proton_sampling
from profscope.options import Options
from profscope.recording.backend import Backend
from profscope.recording.builds import ptx_of
from profscope.recording.graphs import Graphs
from profscope.recording.journal import number_of_launches
from profscope.recording.recorded_launches import RecordedLaunches
from profscope.sampler.cupti import SamplerError
from profscope.sampler.engine import Engine
from profscope.sampler.gpu import Cuda, Gpu
from profscope.sampler.periods import ENOUGH, FIRST, next_period
from profscope.sampler.sampled import SampledLaunch
from profscope.sampler.sampler import Samples

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["StallSamples", "gpu_here"]

STREAM: Final = 3  # among the arguments of Triton's launchers
_SHOWN_KERNELS: Final = 8
# Why samples of a launch are not kept.
_UNKNOWN: Final = "CUPTI has not seen the binary that they are of"
_NONE: Final = "there are none; the kernel is too short"


@dataclass(eq=False)
class _Sampled:
    """What has been sampled of a configuration. binary: its bare binary, loaded while the sampler was open,
    for CUPTI may not know what was loaded before; None if it could not be: `why`. samples: how many."""

    name: str
    binary: Binary | None = None
    why: str = ""
    key: str | None = None  # as `SampledLaunch.variant_key`, None until it was asked for
    period_log2: int = FIRST
    launches: int = 0
    samples: int = 0


class StallSamples:
    """Installed for the length of a session; does nothing if nothing is to be sampled.

    gpu: that is sampled, or why there is none. graphs: None if there are none. taken: in the order of
    launches.
    """

    def __init__(
        self, options: Options, launches: RecordedLaunches, graphs: Graphs | None, gpu: Gpu | str
    ) -> None:
        self.taken: list[SampledLaunch] = []
        self._joined: tuple[int, tuple[pd.DataFrame, dict[str, Any]]] | None = None  # of so many of these
        self._options = options
        self._launches = launches
        self._graphs = graphs
        self._why = gpu if isinstance(gpu, str) else ""
        self._engine = None if isinstance(gpu, str) else Engine(gpu)
        self._sampled: dict[Configuration, _Sampled] = {}
        self._unclear: Counter[str] = Counter()  # why samples were not kept -> launches
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """For the body of a with statement; the sampler is opened when it is first needed."""
        if self._engine is not None:
            self._engine.reopen()
        try:
            yield
        finally:
            if self._engine is not None:
                self._engine.close()
            with self._lock:
                for sampled in self._sampled.values():
                    sampled.binary = None

    def launch(self, configuration: Configuration, bare: Binary, arguments: tuple[Any, ...]) -> bool:
        """Launch a bare binary under the sampler; False if that cannot be, and then nothing was launched."""
        engine, stream = self._engine, arguments[STREAM]
        if (
            engine is None
            or (self._graphs is not None and self._graphs.capturing)
            or not engine.open(configuration.name)
        ):
            return False
        with self._lock:
            sampled = self._sampled.setdefault(configuration, _Sampled(configuration.name))
        binary = self._reloaded(sampled, bare)
        if binary is None:
            return False
        run = partial(binary.launch, *arguments)
        _, samples = engine.sample(sampled.name, stream, sampled.period_log2, run)
        with self._lock:
            sampled.launches += 1
        if samples is not None:
            self._keep(sampled, binary.kernel, samples)
        return True

    def _reloaded(self, sampled: _Sampled, bare: Binary) -> Binary | None:
        with self._lock:
            if sampled.binary is None and not sampled.why:
                try:
                    kernel = recompile(bare.kernel)
                    sampled.binary = Binary(kernel, load(kernel))
                except Exception as error:  # noqa: BLE001  whatever it is, the user's launch goes on
                    sampled.why = reason(error)
            return sampled.binary

    def tables(self) -> tuple[pd.DataFrame, dict[str, Any]] | None:
        """What `sample_tables` makes of all that is taken so far, once; None if that is nothing."""
        from profscope.sampler.tables import sample_tables  # here, since pandas takes its time

        with self._lock:
            taken = list(self.taken)
        joined = self._joined
        if taken and (joined is None or joined[0] != len(taken)):
            joined = self._joined = len(taken), sample_tables(taken)
        return None if joined is None else joined[1]

    def describe(self) -> tuple[dict[str, Any], list[str]]:
        """The metadata's entry "sampler" where launches are to be sampled, and notes.

        kernels: by name, launches that ran `bare` under the sampler; `why` if nothing was sampled, or from
        some moment on nothing any more.
        """
        if not self._options.samples:
            return {}, []
        with self._lock:
            sampled = list(self._sampled.values())
        kernels = Counter[str]()
        for each in sampled:
            kernels[each.name] += each.launches
        why = self._why or (self._engine.why if self._engine is not None else "")
        counts = {name: {"bare": count} for name, count in sorted(kernels.items()) if count}
        entry = {"kernels": counts} | ({"why": why} if why else {})
        return {"sampler": entry}, [*self._notes(sampled, kernels, why), *self._not_sampled()]

    def _notes(self, sampled: list[_Sampled], kernels: Mapping[str, int], why: str) -> Iterator[str]:
        if why:
            yield f"{'no samples any more' if self.taken else 'no samples'}: {why}"
        for name, count in sorted(kernels.items()):
            if count:
                yield f"{name}: {number_of_launches(count)} ran bare under the sampler, unrecorded"
        for each in sampled:
            if each.why:
                yield f"{each.name}: no launch ran under the sampler: {each.why}"
        few = {each.name for each in sampled if each.launches and each.samples < ENOUGH}
        for name in [] if why else sorted(few):
            yield f"{name}: fewer than {ENOUGH:,} samples; a larger samples= takes more"

    def _not_sampled(self) -> Iterator[str]:
        if self._engine is not None:
            for name, because in sorted(self._engine.left_alone.items()):
                yield f"{name}: not sampled any more: {because}"
            for because, count in self._engine.unsampled.items():
                yield f"{number_of_launches(count)} ran without being sampled: {because}"
            for because, count in self._unclear.items():
                yield f"samples of {number_of_launches(count)} are left out: {because}"
            captured = sorted(self._launches.captured)
            if captured:
                more = ", ..." * (len(captured) > _SHOWN_KERNELS)
                yield (
                    "launches captured into CUDA graphs are not sampled, nor are their replays: "
                    f"{', '.join(captured[:_SHOWN_KERNELS])}{more}"
                )

    def _keep(self, sampled: _Sampled, kernel: CompiledKernel, samples: Samples) -> None:
        rows = self._rows_of(kernel, samples)
        if rows is None:
            sampled.period_log2 = next_period(samples.period_log2, 0, samples.dropped)
            return
        name = samples.functions.index(kernel.name)
        own = rows[rows["function"] == name]
        taken, everywhere = int(own["samples"].sum()), int(rows["samples"].sum())
        launch = SampledLaunch(
            kernel=sampled.name,
            variant_key=self._key(sampled, kernel),
            launch=-1,
            binary="bare",
            period_log2=samples.period_log2,
            taken=taken,
            dropped=samples.dropped,
            rows=own,
            reasons=samples.reasons,
            cubin=kernel.kernel,
            ptx=ptx_of(kernel),
            in_callees=everywhere - taken,
        )
        with self._lock:
            self.taken.append(launch)
            sampled.samples += taken
            sampled.period_log2 = next_period(samples.period_log2, everywhere, samples.dropped)

    def _rows_of(self, kernel: CompiledKernel, samples: Samples) -> npt.NDArray[np.void] | None:
        """The rows of the binary, of its callees too; None, and a note, where it has none."""
        assert self._engine is not None
        try:
            rows: npt.NDArray[np.void] = samples.rows[
                samples.rows["cubin_crc"] == self._engine.crc(kernel.kernel)
            ]
        except SamplerError as error:  # another thread has closed it meanwhile
            why = str(error)
        else:
            if len(rows) and kernel.name in samples.functions:
                return rows
            why = _UNKNOWN if samples.unknown else _NONE
        with self._lock:
            self._unclear[why] += 1
        return None

    def _key(self, sampled: _Sampled, kernel: CompiledKernel) -> str:
        if sampled.key is None:
            build = self._launches.describe(kernel)
            sampled.key = "" if build is None else build.key
        return sampled.key


def gpu_here(machine: Backend) -> Gpu | str:
    """The GPU of a session, to be sampled, or why it cannot be. Raises SessionError where Proton has."""
    if machine.device_type != "cuda":
        return "the emulator has no hardware sampler"
    if driver.active.get_current_target().backend != "cuda":
        return "only NVIDIA's GPUs are sampled, through CUPTI"
    refuse_proton_sampling()
    try:
        return Cuda()
    except SamplerError as error:
        return str(error)
