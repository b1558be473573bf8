"""Instruction counts: CUPTI patches the loaded code of a kernel, and each instruction counts itself."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from profscope.evidence.cupti import Library, SamplerError, bytes_for
from profscope.evidence.metrics import COUNTS
from profscope.evidence.structures import InstanceValue, InstructionData, MetricConfig, MetricDetails
from profscope.evidence.subject import CountedLaunch, Subject, Witness

__all__ = ["CONFIGURED", "INITIALISED", "Counts"]

_DATA_SIZE: Final = InstructionData.pInstanceValues.offset + InstructionData.pInstanceValues.size
_WHOLE_GPU: Final = 0  # CUPTI_SASS_METRICS_OUTPUT_GRANULARITY_GPU
CONFIGURED: Final[dict[int, dict[int, str]]] = {}
"""By device of this process: the columns by metric id. CUPTI configures a device once in a process: after
cuptiSassMetricsUnsetConfig a second configuration answers CUPTI_ERROR_OUT_OF_MEMORY (CUPTI 13.0)."""
INITIALISED: Final[set[int]] = set()
"""Contexts of this process, see `_initialise_context`, which takes 0.1 s."""


class Counts(Witness):
    """The witness of one context. results: one for each subject that was counted."""

    name = "counts"

    def __init__(self, library: Library, context: int, device: int) -> None:
        self.results: list[CountedLaunch] = []
        self._library = library
        self._context = context
        self._device = device
        self._done: set[Subject] = set()

    def open(self) -> None:
        """Configure the device. Raises SamplerError."""
        self._library.call("cuptiProfilerInitialize")
        self._initialise_context()
        if self._device in CONFIGURED:
            return
        call = self._library.call
        chip = call("cuptiDeviceGetChipName", deviceIndex=self._device).pChipName
        number = call("cuptiSassMetricsGetNumOfMetrics", pChipName=chip).numOfMetrics
        details = (MetricDetails * number)()
        at = ctypes.cast(details, ctypes.c_void_p)
        call("cuptiSassMetricsGetMetrics", pChipName=chip, numOfMetrics=number, pMetricsList=at)
        columns = {metric: column for column, metric in COUNTS.items()}
        names = {each.metricId: each.pMetricName.decode() for each in details}
        ids = {metric: columns[name] for metric, name in names.items() if name in columns}
        configs = (MetricConfig * len(ids))(*(MetricConfig(metric, _WHOLE_GPU) for metric in ids))
        at = ctypes.cast(configs, ctypes.c_void_p)
        call("cuptiSassMetricsSetConfig", numOfMetricConfig=len(ids), pConfigs=at, deviceIndex=self._device)
        CONFIGURED[self._device] = ids

    def _initialise_context(self) -> None:
        """Ask for what the context can count. Without this, or a range profiler's start, before the first
        launch that is counted, no later launch is counted (CUPTI 13.0)."""
        if self._context in INITIALISED:
            return
        function = "cuptiProfilerGetCounterAvailability"
        size = self._library.call(function, ctx=self._context).counterAvailabilityImageSize
        image = bytes_for(size)
        self._library.call(
            function,
            ctx=self._context,
            counterAvailabilityImageSize=size,
            pCounterAvailabilityImage=ctypes.cast(image, ctypes.c_void_p),
        )
        INITIALISED.add(self._context)

    def wants(self, subject: Subject) -> bool:
        return subject not in self._done

    def before(self, subject: Subject) -> None:
        """Have the next launch counted; its code is patched when it starts."""
        self._library.call("cuptiSassMetricsEnable", ctx=self._context, enableLazyPatching=1)

    def after(self, subject: Subject) -> None:
        """Keep the counts of a launch that has ended."""
        try:
            rows = self._flushed()
        finally:
            self.abandon()
        self._done.add(subject)
        crc = self._library.crc(subject.cubin)
        own = {key[1:]: values for key, values in rows.items() if key[0] == crc}
        pcs = sorted(pc for function, pc in own if function == subject.function)
        if not pcs:
            raise SamplerError(f"CUPTI has not counted {subject.function}")
        values = [own[subject.function, pc] for pc in pcs]
        callees = sum(each["executed"] for (function, _), each in own.items() if function != subject.function)
        table = {name: np.array([each[name] for each in values], np.int64) for name in COUNTS}
        self.results.append(CountedLaunch(subject, np.array(pcs, np.int64), table, callees))

    def abandon(self) -> None:
        """Take the patched code out; what was counted and not kept is lost."""
        self._library.call("cuptiSassMetricsDisable", ctx=self._context)

    def _flushed(self) -> dict[tuple[int, str, int], dict[str, int]]:
        """By binary's crc, function and pc: the counts by column. An instruction has several records."""
        columns = CONFIGURED[self._device]
        counted = self._library.call("cuptiSassMetricsGetDataProperties", ctx=self._context)
        records, instances = counted.numOfPatchedInstructionRecords, counted.numOfInstances
        found: dict[tuple[int, str, int], dict[str, int]] = {}
        if not records:
            return found
        each = instances * len(columns)
        values = (InstanceValue * (records * each))()
        data = (InstructionData * records)()
        start = ctypes.addressof(values)
        for at, record in enumerate(data):
            record.structSize = _DATA_SIZE
            record.pInstanceValues = start + at * each * ctypes.sizeof(InstanceValue)
        self._library.call(
            "cuptiSassMetricsFlushData",
            ctx=self._context,
            numOfPatchedInstructionRecords=records,
            numOfInstances=instances,
            pMetricsData=ctypes.cast(data, ctypes.c_void_p),
        )
        pairs: npt.NDArray[Any] = np.frombuffer(values, np.uint64).reshape(records, each, 2)
        for record, mine in zip(data, pairs.tolist(), strict=True):
            key = record.cubinCrc, record.functionName.decode(), record.pcOffset
            counts = found.setdefault(key, dict.fromkeys(COUNTS, 0))
            for metric, value in mine:
                if metric in columns:
                    counts[columns[metric]] += value
        return found
