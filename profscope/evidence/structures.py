"""CUPTI's structures, as ctypes and numpy know them: of PC sampling, instruction counts and counters.

PC sampling: `cupti_pcsampling.h`, which is the same in CUPTI 12 and 13. Counts and counters: fields have the
names of NVIDIA's headers. Each structure begins with its own size, by which the library knows which of its
fields there are, and later versions only append fields: those of CUPTI 12.6 serve all versions up to 13.
"""

from __future__ import annotations

import ctypes
import enum
from typing import Any, ClassVar, Final

import numpy as np

__all__ = [
    "PC_RECORD",
    "STALL",
    "STRUCTURES",
    "Attribute",
    "Configuration",
    "Context",
    "CubinCrc",
    "Data",
    "GetData",
    "InstanceValue",
    "InstructionData",
    "Kind",
    "MetricConfig",
    "MetricDetails",
    "Parameters",
    "ReasonCount",
    "Reasons",
]

STALL: Final = np.dtype([("reason", np.uint32), ("samples", np.uint32)])
"""CUpti_PCSamplingStallReason: `samples` counts all, for one reason."""

PC_RECORD: Final = np.dtype(
    [
        ("size", np.uint64),
        ("cubin_crc", np.uint64),
        ("pc", np.uint64),
        ("function_index", np.uint32),
        ("padding", np.uint32),
        ("name", np.uint64),
        ("stall_count", np.uint64),
        ("stalls", np.uint64),
        ("launch", np.uint32),
    ],
    align=True,
)
"""CUpti_PCSamplingPCData. `pc`: bytes from the function's start. `name`: char*. `stalls`: pointer
to `stall_count` of STALL. `launch`: the correlation id, where kernels are serialised."""


class Kind(enum.IntEnum):
    """CUpti_PCSamplingConfigurationAttributeType: what an attribute sets."""

    PERIOD = 1  # the log2 of cycles, 5 to 31
    REASONS = 2
    HARDWARE_BUFFER = 4  # bytes
    COLLECTION = 5
    START_STOP = 6
    BUFFER = 8


class Attribute(ctypes.Structure):
    """CUpti_PCSamplingConfigurationInfo."""

    _fields_: ClassVar[Any] = (
        ("kind", ctypes.c_int),
        ("status", ctypes.c_int),
        ("value", ctypes.c_uint64 * 3),
    )


class Context(ctypes.Structure):
    """The parameters of what takes a context alone, and how all others begin."""

    _fields_: ClassVar[Any] = (
        ("size", ctypes.c_size_t),
        ("private", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


class Configuration(Context):
    _fields_: ClassVar[Any] = (("count", ctypes.c_size_t), ("attributes", ctypes.POINTER(Attribute)))


class ReasonCount(Context):
    _fields_: ClassVar[Any] = (("count", ctypes.POINTER(ctypes.c_size_t)),)


class Reasons(Context):
    _fields_: ClassVar[Any] = (
        ("count", ctypes.c_size_t),
        ("indices", ctypes.POINTER(ctypes.c_uint32)),
        ("names", ctypes.POINTER(ctypes.c_char_p)),
    )


class GetData(Context):
    _fields_: ClassVar[Any] = (("data", ctypes.c_void_p),)


class CubinCrc(ctypes.Structure):
    """CUpti_GetCubinCrcParams."""

    _fields_: ClassVar[Any] = (
        ("size", ctypes.c_size_t),
        ("cubin_size", ctypes.c_size_t),
        ("cubin", ctypes.c_char_p),
        ("crc", ctypes.c_uint64),
    )


class Data(ctypes.Structure):
    """CUpti_PCSamplingData: up to `capacity` records of PC_RECORD at `records`, of which `count` are
    filled."""

    _fields_: ClassVar[Any] = (
        ("size", ctypes.c_size_t),
        ("capacity", ctypes.c_size_t),
        ("samples", ctypes.c_uint64),
        ("dropped", ctypes.c_uint64),
        ("count", ctypes.c_size_t),
        ("remaining", ctypes.c_size_t),
        ("range", ctypes.c_uint64),
        ("records", ctypes.c_void_p),
        ("samples_of_others", ctypes.c_uint64),
        ("hardware_buffer_full", ctypes.c_uint8),
    )


_SIZE: Final = ctypes.c_size_t
_POINTER: Final = ctypes.c_void_p
_TEXT: Final = ctypes.c_char_p
_U8: Final = ctypes.c_uint8
_U16: Final = ctypes.c_uint16
_U32: Final = ctypes.c_uint32
_U64: Final = ctypes.c_uint64
_ENUM: Final = ctypes.c_int


class Parameters(ctypes.Structure):
    """The parameters of one CUPTI function. LAST: the field up to which CUPTI's headers count its size."""

    LAST: ClassVar[str]


def _parameters(name: str, last: str | None = None, **fields: Any) -> type[Parameters]:
    """A subclass of Parameters. last: default the last field."""
    members = [("structSize", _SIZE), ("pPriv", _POINTER), *fields.items()]
    return type(name, (Parameters,), {"_fields_": members, "LAST": last or members[-1][0]})


class MetricDetails(ctypes.Structure):
    """CUpti_SassMetrics_MetricDetails."""

    _fields_: ClassVar[Any] = (("metricId", _U64), ("pMetricName", _TEXT), ("pMetricDescription", _TEXT))


class MetricConfig(ctypes.Structure):
    """CUpti_SassMetrics_Config. outputGranularity: 0 for one value per GPU."""

    _fields_: ClassVar[Any] = (("metricId", _U64), ("outputGranularity", _U8))


class InstanceValue(ctypes.Structure):
    """CUpti_SassMetrics_InstanceValue."""

    _fields_: ClassVar[Any] = (("metricId", _U64), ("value", _U64))


class InstructionData(ctypes.Structure):
    """CUpti_SassMetrics_Data. pcOffset: bytes from the start of the function."""

    _fields_: ClassVar[Any] = (
        ("structSize", _SIZE),
        ("pPriv", _POINTER),
        ("cubinCrc", _U32),
        ("functionIndex", _U32),
        ("functionName", _TEXT),
        ("pcOffset", _U32),
        ("pInstanceValues", _POINTER),
    )


_PROFILER: Final = {"pRangeProfilerObject": _POINTER}
_HOST: Final = {"pHostObject": _POINTER}
_IMAGE: Final = {"pCounterDataImage": _POINTER, "counterDataImageSize": _SIZE}
_NAMES: Final = {"ppMetricNames": _POINTER, "numMetrics": _SIZE}
_CHIP_METRICS: Final = {"pChipName": _TEXT, "numOfMetrics": _SIZE}
_CONTEXT: Final = {"ctx": _POINTER}

# By function: the structure's name in the headers without CUpti_ and _Params, and its fields.
_FUNCTIONS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "cuptiProfilerInitialize": ("Profiler_Initialize", {}),
    "cuptiProfilerGetCounterAvailability": (
        "Profiler_GetCounterAvailability",
        {**_CONTEXT, "counterAvailabilityImageSize": _SIZE, "pCounterAvailabilityImage": _POINTER},
    ),
    "cuptiDeviceGetChipName": ("Device_GetChipName", {"deviceIndex": _SIZE, "pChipName": _TEXT}),
    "cuptiProfilerHostInitialize": (
        "Profiler_Host_Initialize",
        {"profilerType": _ENUM, "pChipName": _TEXT, "pCounterAvailabilityImage": _POINTER, **_HOST},
    ),
    "cuptiProfilerHostDeinitialize": ("Profiler_Host_Deinitialize", _HOST),
    "cuptiProfilerHostConfigAddMetrics": ("Profiler_Host_ConfigAddMetrics", {**_HOST, **_NAMES}),
    "cuptiProfilerHostGetConfigImageSize": (
        "Profiler_Host_GetConfigImageSize",
        {**_HOST, "configImageSize": _SIZE},
    ),
    "cuptiProfilerHostGetConfigImage": (
        "Profiler_Host_GetConfigImage",
        {**_HOST, "configImageSize": _SIZE, "pConfigImage": _POINTER},
    ),
    "cuptiProfilerHostGetNumOfPasses": (
        "Profiler_Host_GetNumOfPasses",
        {"configImageSize": _SIZE, "pConfigImage": _POINTER, "numOfPasses": _SIZE},
    ),
    "cuptiProfilerHostEvaluateToGpuValues": (
        "Profiler_Host_EvaluateToGpuValues",
        {**_HOST, **_IMAGE, "rangeIndex": _SIZE, **_NAMES, "pMetricValues": _POINTER},
    ),
    "cuptiRangeProfilerEnable": ("RangeProfiler_Enable", {**_CONTEXT, **_PROFILER}),
    "cuptiRangeProfilerDisable": ("RangeProfiler_Disable", _PROFILER),
    "cuptiRangeProfilerGetCounterDataSize": (
        "RangeProfiler_GetCounterDataSize",
        {
            **_PROFILER,
            "pMetricNames": _POINTER,
            "numMetrics": _SIZE,
            "maxNumOfRanges": _SIZE,
            "maxNumRangeTreeNodes": _U32,
            "counterDataSize": _SIZE,
        },
    ),
    "cuptiRangeProfilerCounterDataImageInitialize": (
        "RangeProfiler_CounterDataImage_Initialize",
        {**_PROFILER, "counterDataSize": _SIZE, "pCounterData": _POINTER},
    ),
    "cuptiRangeProfilerSetConfig": (
        "RangeProfiler_SetConfig",
        {
            **_PROFILER,
            "configSize": _SIZE,
            "pConfig": _POINTER,
            "counterDataImageSize": _SIZE,
            "pCounterDataImage": _POINTER,
            "range": _ENUM,
            "replayMode": _ENUM,
            "maxRangesPerPass": _SIZE,
            "numNestingLevels": _U16,
            "minNestingLevel": _U16,
            "passIndex": _SIZE,
            "targetNestingLevel": _U16,
        },
    ),
    "cuptiRangeProfilerStart": ("RangeProfiler_Start", _PROFILER),
    "cuptiRangeProfilerStop": (
        "RangeProfiler_Stop",
        {**_PROFILER, "passIndex": _SIZE, "targetNestingLevel": _SIZE, "isAllPassSubmitted": _U8},
    ),
    "cuptiRangeProfilerDecodeData": ("RangeProfiler_DecodeData", {**_PROFILER, "numOfRangeDropped": _SIZE}),
    "cuptiRangeProfilerGetCounterDataInfo": (
        "RangeProfiler_GetCounterDataInfo",
        {**_IMAGE, "numTotalRanges": _SIZE},
    ),
    "cuptiSassMetricsGetNumOfMetrics": ("SassMetrics_GetNumOfMetrics", _CHIP_METRICS),
    "cuptiSassMetricsGetMetrics": ("SassMetrics_GetMetrics", {**_CHIP_METRICS, "pMetricsList": _POINTER}),
    "cuptiSassMetricsSetConfig": (
        "SassMetricsSetConfig",
        {"numOfMetricConfig": _SIZE, "pConfigs": _POINTER, "deviceIndex": _U32},
    ),
    "cuptiSassMetricsEnable": ("SassMetricsEnable", {**_CONTEXT, "enableLazyPatching": _U8}),
    "cuptiSassMetricsGetDataProperties": (
        "SassMetricsGetDataProperties",
        {**_CONTEXT, "numOfPatchedInstructionRecords": _SIZE, "numOfInstances": _SIZE},
    ),
    "cuptiSassMetricsFlushData": (
        "SassMetricsFlushData",
        {
            **_CONTEXT,
            "numOfPatchedInstructionRecords": _SIZE,
            "numOfInstances": _SIZE,
            "pMetricsData": _POINTER,
        },
    ),
    "cuptiSassMetricsDisable": ("SassMetricsDisable", {**_CONTEXT, "numOfDroppedRecords": _SIZE}),
}
_SHORTER: Final = {"cuptiSassMetricsFlushData": "numOfInstances"}
"""Functions whose structure counts, in NVIDIA's headers, only up to this field."""

STRUCTURES: Final[dict[str, type[Parameters]]] = {
    function: _parameters(f"CUpti_{name}_Params", _SHORTER.get(function), **fields)
    for function, (name, fields) in _FUNCTIONS.items()
}
"""By CUPTI function: the structure of its parameters."""
