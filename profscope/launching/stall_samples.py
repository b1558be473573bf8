"""Sessions that sample: the launches that run under the GPU's sampler, and what is kept of them.

Which launches these are stands in `roles.py`; `keeping.py` has each of them launched through here.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from triton.compiler import CompiledKernel
from triton.runtime import driver

from profscope.launching.proton_sampling import refuse_proton_sampling
from profscope.options import Options
from profscope.recording.backend import Backend
from profscope.recording.builds import build_of, ptx_of
from profscope.recording.graphs import Graphs
from profscope.recording.journal import number_of_launches
from profscope.recording.launch_path import LaunchPath
from profscope.sampler.cupti import SamplerError
from profscope.sampler.engine import Engine
from profscope.sampler.gpu import Cuda, Gpu
from profscope.sampler.periods import ENOUGH, FIRST, next_period
from profscope.sampler.sampled import SampledLaunch
from profscope.sampler.sampler import Samples

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Sampled", "StallSamples", "gpu_here"]

_SHOWN_KERNELS: Final = 8
# Why samples of a launch are not kept.
_UNKNOWN: Final = "CUPTI has not seen the binary that they are of"
_NONE: Final = "there are none; the kernel is too short"


@dataclass(eq=False)
class Sampled:
    """What has been sampled of a variant. key: as `SampledLaunch.variant_key`, None until it was asked for.
    bare, recorded: launches; samples: of the bare ones."""

    name: str
    key: str | None = None
    period_log2: int = FIRST
    bare: int = 0
    recorded: int = 0
    samples: int = 0


class StallSamples:
    """Installed for the length of a session; does nothing where nothing is to be sampled.

    gpu: that is sampled, or why there is none. graphs: None where there are none. taken: in the order of
    launches.
    """

    def __init__(self, options: Options, path: LaunchPath, graphs: Graphs | None, gpu: Gpu | str) -> None:
        self.taken: list[SampledLaunch] = []
        self._joined: tuple[int, tuple[pd.DataFrame, dict[str, Any]]] | None = None  # of so many of these
        self._options = options
        self._path = path
        self._graphs = graphs
        self._why = gpu if isinstance(gpu, str) else ""
        self._engine = None if isinstance(gpu, str) else Engine(gpu)
        self._variants: list[Sampled] = []
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

    def variant(self, name: str) -> Sampled:
        """What is kept of a variant of a kernel."""
        variant = Sampled(name)
        with self._lock:
            self._variants.append(variant)
        return variant

    def can(self, kernel: str) -> bool:
        """Whether a launch of the kernel by this thread can be sampled now."""
        if self._engine is None or (self._graphs is not None and self._graphs.capturing):
            return False
        return self._engine.open(kernel)

    def launch(
        self, variant: Sampled, kernel: CompiledKernel, keeps: str, stream: int, run: Callable[[], Any]
    ) -> Any:
        """What `run` returns, which launches the binary on the stream. keeps: "spans", or "bare" if the
        launch is not recorded."""
        engine = self._engine
        assert engine is not None
        numbered = run if keeps == "bare" else lambda: self._path.numbered(run)
        returned, samples = engine.sample(variant.name, stream, variant.period_log2, numbered)
        result, number = (returned, -1) if keeps == "bare" else returned
        with self._lock:
            if keeps == "bare":
                variant.bare += 1
            else:
                variant.recorded += 1
        if samples is not None:
            self._keep(variant, kernel, keeps, number, samples)
        return result

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

        kernels: by name, launches that ran `bare` under the sampler, and `recorded` ones; `why` if nothing
        was sampled, or from some moment on nothing any more.
        """
        if not self._options.samples:
            return {}, []
        with self._lock:
            variants = list(self._variants)
        kernels: dict[str, dict[str, int]] = {}
        for variant in variants:
            counts = kernels.setdefault(variant.name, {"bare": 0, "recorded": 0})
            counts["bare"] += variant.bare
            counts["recorded"] += variant.recorded
        kernels = {name: counts for name, counts in sorted(kernels.items()) if any(counts.values())}
        why = self._why or (self._engine.why if self._engine is not None else "")
        entry = {"kernels": kernels} | ({"why": why} if why else {})
        return {"sampler": entry}, [*self._notes(variants, kernels, why), *self._not_sampled()]

    def _notes(self, variants: list[Sampled], kernels: dict[str, dict[str, int]], why: str) -> Iterator[str]:
        if why:
            yield f"{'no samples any more' if self.taken else 'no samples'}: {why}"
        for name, counts in kernels.items():
            if counts["bare"]:
                yield f"{name}: {number_of_launches(counts['bare'])} ran bare under the sampler, unrecorded"
        few = {each.name for each in variants if each.bare and each.samples < ENOUGH}
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
            captured = sorted(self._path.captured)
            if captured:
                more = ", ..." * (len(captured) > _SHOWN_KERNELS)
                yield (
                    "launches captured into CUDA graphs are not sampled, nor are their replays: "
                    f"{', '.join(captured[:_SHOWN_KERNELS])}{more}"
                )

    def _keep(
        self, variant: Sampled, kernel: CompiledKernel, keeps: str, number: int, samples: Samples
    ) -> None:
        rows = self._rows_of(kernel, samples)
        if rows is None:
            variant.period_log2 = next_period(samples.period_log2, 0, samples.dropped)
            return
        name = samples.functions.index(kernel.name)
        own = rows[rows["function"] == name]
        taken, everywhere = int(own["samples"].sum()), int(rows["samples"].sum())
        launch = SampledLaunch(
            kernel=variant.name,
            variant_key=self._key(variant, kernel),
            launch=number,
            binary=keeps,
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
            variant.samples += taken if keeps == "bare" else 0
            variant.period_log2 = next_period(samples.period_log2, everywhere, samples.dropped)

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

    def _key(self, variant: Sampled, kernel: CompiledKernel) -> str:
        if variant.key is None:
            try:
                variant.key = build_of(kernel).key
            except Exception:  # noqa: BLE001  constexprs are users' objects, whose methods may raise anything
                variant.key = ""
        return variant.key


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
