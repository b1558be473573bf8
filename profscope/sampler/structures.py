"""CUPTI's structures for PC sampling, as ctypes and numpy know them.

From `cupti_pcsampling.h`, which is the same in CUPTI 12 and 13. Each structure carries its own size, by
which the library knows which of its fields there are.
"""

from __future__ import annotations

import ctypes
import enum
from typing import Any, ClassVar, Final

import numpy as np

__all__ = [
    "PC_RECORD",
    "STALL",
    "Attribute",
    "Configuration",
    "Context",
    "Data",
    "GetData",
    "Kind",
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
