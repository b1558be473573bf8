"""CUPTI's counters and instruction counts without a GPU: what CUPTI is told, and what it answers."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from profscope.evidence.cupti import SamplerError
from profscope.evidence.driver import Driver
from profscope.evidence.metrics import COUNTS
from profscope.evidence.structures import STRUCTURES, InstanceValue, InstructionData, MetricDetails

# ruff: noqa: N802, N803  the names are CUPTI's

CRC = 7
_KEPT: list[bytes] = []  # texts that structures point to
_IDS = {metric: 100 + at for at, metric in enumerate(("other", *COUNTS.values()))}


class FakeCupti:
    """said: the functions that were called, in order. fails: function -> CUPTI's result, which is raised.

    records: (crc, function, pc, column, value), one for each metric of an instruction, as CUPTI has it.
    passes: that all counters take. kernels: that ran in a pass. lacks: metrics that the chip does not have.
    values: by metric; others are 1.0.
    """

    def __init__(
        self,
        records: Sequence[tuple[int, str, int, str, int]] = (),
        passes: int = 3,
        lacks: Sequence[str] = (),
        values: Mapping[str, float] | None = None,
    ) -> None:
        self.said: list[str] = []
        self.fails: dict[str, int] = {}
        self.records = list(records)
        self.passes = passes
        self.kernels = 1
        self.lacks = set(lacks)
        self.values = dict(values or {})
        self.started_passes: list[int] = []
        self._pass = 0
        self._begun = False

    def crc(self, cubin: bytes) -> int:
        return CRC

    def call(self, function: str, **fields: Any) -> Any:
        self.said.append(function.removeprefix("cupti"))
        if function in self.fails:
            raise SamplerError(f"{function} failed", self.fails[function])
        known = {name for name, _ in STRUCTURES[function]._fields_}
        assert fields.keys() <= known
        answer = getattr(self, f"_{function.removeprefix('cupti')}", lambda **_: {})(**fields)
        return SimpleNamespace(**answer)

    def _DeviceGetChipName(self, deviceIndex: int) -> dict[str, Any]:
        return {"pChipName": b"GH100"}

    def _ProfilerGetCounterAvailability(self, **fields: Any) -> dict[str, Any]:
        return {"counterAvailabilityImageSize": 8}

    def _SassMetricsGetNumOfMetrics(self, pChipName: bytes) -> dict[str, Any]:
        return {"numOfMetrics": len(_IDS)}

    def _SassMetricsGetMetrics(self, pMetricsList: Any, numOfMetrics: int, **fields: Any) -> dict[str, Any]:
        details = (MetricDetails * numOfMetrics).from_address(pMetricsList.value)
        for at, (name, number) in enumerate(_IDS.items()):
            details[at].metricId, details[at].pMetricName = number, _text(name)
        return {}

    def _SassMetricsGetDataProperties(self, ctx: int) -> dict[str, Any]:
        return {"numOfPatchedInstructionRecords": len(self.records), "numOfInstances": 1}

    def _SassMetricsFlushData(
        self, ctx: int, numOfPatchedInstructionRecords: int, pMetricsData: Any, **fields: Any
    ) -> dict[str, Any]:
        data = (InstructionData * numOfPatchedInstructionRecords).from_address(pMetricsData.value)
        for mine, (crc, function, pc, column, value) in zip(data, self.records, strict=True):
            mine.cubinCrc, mine.functionName, mine.pcOffset = crc, _text(function), pc
            first = InstanceValue.from_address(mine.pInstanceValues)
            first.metricId, first.value = _IDS[COUNTS[column]], value
        return {}

    def _ProfilerHostInitialize(self, **fields: Any) -> dict[str, Any]:
        return {"pHostObject": 1}

    def _ProfilerHostConfigAddMetrics(
        self, ppMetricNames: Any, numMetrics: int, **fields: Any
    ) -> dict[str, Any]:
        if self.lacks & set(_texts(ppMetricNames, numMetrics)):
            raise SamplerError("no such metric", 1)
        return {}

    def _ProfilerHostGetConfigImageSize(self, pHostObject: int) -> dict[str, Any]:
        return {"configImageSize": 8}

    def _ProfilerHostGetNumOfPasses(self, **fields: Any) -> dict[str, Any]:
        return {"numOfPasses": self.passes}

    def _RangeProfilerEnable(self, ctx: int) -> dict[str, Any]:
        self._begun = False
        return {"pRangeProfilerObject": 2}

    def _RangeProfilerGetCounterDataSize(self, **fields: Any) -> dict[str, Any]:
        return {"counterDataSize": 16}

    def _RangeProfilerSetConfig(self, passIndex: int, **fields: Any) -> dict[str, Any]:
        """As an H200's: the pass is heeded once, and then counted, whatever was launched."""
        self._pass = self._pass if self._begun else passIndex
        self._begun = True
        return {}

    def _RangeProfilerStart(self, pRangeProfilerObject: int) -> dict[str, Any]:
        self.started_passes.append(self._pass)
        return {}

    def _RangeProfilerStop(self, pRangeProfilerObject: int) -> dict[str, Any]:
        self._pass = (self._pass + 1) % self.passes
        return {"passIndex": self._pass, "targetNestingLevel": 1, "isAllPassSubmitted": int(not self._pass)}

    def _RangeProfilerDecodeData(self, pRangeProfilerObject: int) -> dict[str, Any]:
        return {"numOfRangeDropped": 0}

    def _RangeProfilerGetCounterDataInfo(self, **fields: Any) -> dict[str, Any]:
        return {"numTotalRanges": self.kernels}

    def _ProfilerHostEvaluateToGpuValues(
        self, ppMetricNames: Any, numMetrics: int, pMetricValues: Any, **fields: Any
    ) -> dict[str, Any]:
        values = (ctypes.c_double * numMetrics).from_address(pMetricValues.value)
        values[:] = [self.values.get(name, 1.0) for name in _texts(ppMetricNames, numMetrics)]
        return {}


class FakeMachine(Driver):
    """A GPU. here: the context of this thread. busy: it does not become idle. fault: what idle() raises."""

    def __init__(self) -> None:
        self.here = 1
        self.busy = False
        self.fault = ""
        self.captured = False
        self.clocks = [1980]
        self.closed = False

    def context(self) -> int:
        return self.here

    def device(self) -> int:
        return 0

    def clock_mhz(self) -> int:
        return self.clocks.pop(0) if len(self.clocks) > 1 else self.clocks[0]

    def capturing(self, stream: int) -> bool:
        return self.captured

    @contextlib.contextmanager
    def so_far(self, stream: int) -> Iterator[Callable[[], bool]]:
        yield lambda: not self.busy

    def idle(self, limit_s: float) -> bool:
        if self.fault:
            raise SamplerError(self.fault)
        return not self.busy

    @contextlib.contextmanager
    def entered(self, context: int) -> Iterator[None]:
        before, self.here = self.here, context
        try:
            yield
        finally:
            self.here = before

    def close(self) -> None:
        self.closed = True


def _text(text: str) -> bytes:
    _KEPT.append(text.encode())
    return _KEPT[-1]


def _texts(names: Any, number: int) -> list[str]:
    pointers = (ctypes.c_char_p * number).from_address(names.value)
    return [(name or b"").decode() for name in pointers]
