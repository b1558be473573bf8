"""Samples of the kernels between `start` and `stop`: by launch, instruction and stall reason.

    with Sampler() as sampler:
        sampler.start()
        kernel[grid](...)
        samples = sampler.stop()

Every 2^period_log2 cycles the hardware notes of a warp of each SM partition where it stands and why it does not
go on. The kernels run one after another meanwhile, which tells their launches apart: kernels that wait for one
another would hang.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final

import numpy as np
import numpy.typing as npt

from profscope.sampler.cupti import Cupti
from profscope.sampler.structures import (
    PC_RECORD,
    STALL,
    Attribute,
    Configuration,
    Context,
    Data,
    GetData,
    Kind,
    ReasonCount,
    Reasons,
)

__all__ = ["PERIODS_LOG2", "SAMPLE", "Sampler", "Samples"]

PERIODS_LOG2: Final = range(5, 32)
_CAPACITY: Final = 4096  # records that are fetched at a time
_NAME_BYTES: Final = 128  # of a reason, as CUPTI's headers say
_SERIALISED: Final = 2
_PREFIX: Final = "smsp__pcsamp_warps_issue_stalled_"
_NOT_ISSUED: Final = "_not_issued"  # a part of the samples of the reason without it

SAMPLE: Final = np.dtype(
    [
        ("launch", np.uint32),
        ("cubin_crc", np.uint64),
        ("function", np.int32),
        ("pc", np.uint64),
        ("reason", np.int32),
        ("samples", np.uint32),
        ("not_issued", np.uint32),
    ]
)
"""One row per launch, instruction and reason. launch: CUPTI's correlation id, rising with the order of launches.
function, reason: places in `Samples.functions` and `Samples.reasons`. not_issued: those samples at which
the warp's scheduler issued nothing at all."""


@dataclass(frozen=True)
class Samples:
    """rows: dtype SAMPLE. taken: all samples, `dropped` ones and those of other kernels among them."""

    rows: npt.NDArray[np.void]
    functions: tuple[str, ...]
    reasons: tuple[str, ...]
    period_log2: int
    taken: int
    dropped: int


class _Block:
    """Memory for records that CUPTI fills, each with room for every reason."""

    def __init__(self, reasons: int) -> None:
        self.records = np.zeros(_CAPACITY, PC_RECORD)
        self.stalls = np.zeros((_CAPACITY, reasons), STALL)
        self.data = Data(size=ctypes.sizeof(Data), capacity=_CAPACITY, records=self.records.ctypes.data)
        self.clear()

    def clear(self) -> None:
        self.records[:] = 0
        self.stalls[:] = 0
        self.records["size"] = PC_RECORD.itemsize
        self.records["stall_count"] = self.stalls.shape[1]
        start, step = self.stalls.ctypes.data, self.stalls.strides[0]
        self.records["stalls"] = start + step * np.arange(_CAPACITY, dtype=np.uint64)
        self.data.count = self.data.samples = self.data.dropped = 0

    def stalls_of(self, records: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """STALL, shape (records, reasons), zeros where a record has fewer."""
        stalls = np.zeros((len(records), self.stalls.shape[1]), STALL)
        for at, (pointer, count) in enumerate(records[["stalls", "stall_count"]].tolist()):
            taken = ctypes.string_at(
                pointer, STALL.itemsize * count
            )  # CUPTI may have put its own pointer there
            stalls[at, :count] = np.frombuffer(taken, STALL)
        return stalls


def _name_at(pointer: int, functions: dict[str, int]) -> int:
    """The number of the function whose name is there; a new one if it is new.

    CUPTI says that the name is ours to free. But records of later launches share it, and so it stays.
    """
    name = (ctypes.cast(pointer, ctypes.c_char_p).value or b"").decode() if pointer else ""
    return functions.setdefault(name, len(functions))


class Sampler:
    """Of the CUDA context that is current. Entering takes tens of milliseconds, and raises SamplerError where
    the GPU, its driver or the permissions have no sampler."""

    def __init__(self, period_log2: int = 10) -> None:
        if period_log2 not in PERIODS_LOG2:
            raise ValueError(f"period_log2={period_log2} must be 5 to 31")
        self.period_log2 = period_log2
        self._undo = contextlib.ExitStack()

    def __enter__(self) -> Sampler:
        with contextlib.ExitStack() as undo:
            self._cupti = Cupti()
            self._cupti.call("Enable", Context())
            undo.callback(self._cupti.call, "Disable", Context())
            self._names = self._reasons()
            indices = list(self._names)
            self._indices = (ctypes.c_uint32 * len(indices))(*indices)
            self._configured, self._fetched = _Block(len(indices)), _Block(len(indices))
            self._configure(
                (Kind.COLLECTION, _SERIALISED),
                (Kind.START_STOP, 1),
                (Kind.BUFFER, ctypes.addressof(self._configured.data)),
                (Kind.REASONS, len(indices), ctypes.addressof(self._indices)),
                (Kind.PERIOD, self.period_log2),
            )
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def set_period(self, period_log2: int) -> None:
        """Sample every 2^period_log2 cycles from the next start on."""
        self._configure((Kind.PERIOD, period_log2))
        self.period_log2 = period_log2

    def start(self) -> None:
        self._cupti.call("Start", Context())

    def stop(self, synchronize: Callable[[], None] = lambda: None) -> Samples:
        """What was sampled since the start; the kernels must have ended, for which `synchronize` may wait."""
        synchronize()
        self._cupti.call("Stop", Context())
        functions: dict[str, int] = {}
        parts, taken, dropped = [], 0, 0
        for block in (self._configured, self._fetched):
            while True:
                if block is self._fetched:
                    self._cupti.call("GetData", GetData(data=ctypes.addressof(block.data)))
                taken += block.data.samples
                dropped += block.data.dropped
                parts.append(self._rows(block, functions))
                more = block is self._fetched and block.data.remaining and block.data.count
                block.clear()
                if not more:
                    break
        rows = np.concatenate(parts)
        return Samples(rows, tuple(functions), self._reason_names(), self.period_log2, taken, dropped)

    def _rows(self, block: _Block, functions: dict[str, int]) -> npt.NDArray[np.void]:
        """dtype SAMPLE: of the block's records, those reasons that were met."""
        records = block.records[: block.data.count]
        stalls = block.stalls_of(records)
        number = {name: at for at, name in enumerate(self._reason_names())}
        places = np.full(1 + max(self._names, default=0), -1, np.int32)
        partial = np.zeros(len(places), np.bool_)
        for index, name in self._names.items():
            places[index] = number[name.removesuffix(_NOT_ISSUED)]
            partial[index] = name.endswith(_NOT_ISSUED)
        record, slot = np.nonzero(stalls["samples"])
        reason, samples = stalls["reason"][record, slot], stalls["samples"][record, slot]
        known = (reason < len(places)) & (places[np.minimum(reason, len(places) - 1)] >= 0)
        record, reason, samples = record[known], reason[known], samples[known]
        keys, row = np.unique(record * len(number) + places[reason], return_inverse=True)
        of, which = np.divmod(keys, len(number))
        rows = np.zeros(len(keys), SAMPLE)
        for field in ("launch", "cubin_crc", "pc"):
            rows[field] = records[field][of]
        rows["function"] = np.array([_name_at(p, functions) for p in records["name"].tolist()], np.int32)[of]
        rows["reason"] = which
        rows["samples"] = np.bincount(row, np.where(partial[reason], 0, samples), len(keys))
        rows["not_issued"] = np.bincount(row, np.where(partial[reason], samples, 0), len(keys))
        return rows

    def _reason_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name.removesuffix(_NOT_ISSUED) for name in self._names.values()))

    def _reasons(self) -> dict[int, str]:
        """Names of the stall reasons by index, without their prefix; what is none of them left out."""
        count = ctypes.c_size_t()
        self._cupti.call("GetNumStallReasons", ReasonCount(count=ctypes.pointer(count)))
        indices = (ctypes.c_uint32 * count.value)()
        texts = [ctypes.create_string_buffer(_NAME_BYTES) for _ in range(count.value)]
        names = (ctypes.c_char_p * count.value)(*(ctypes.cast(text, ctypes.c_char_p) for text in texts))
        self._cupti.call("GetStallReasons", Reasons(count=count.value, indices=indices, names=names))
        every = {index: text.value.decode() for index, text in zip(indices, texts, strict=True)}
        return {i: name.removeprefix(_PREFIX) for i, name in every.items() if name.startswith(_PREFIX)}

    def _configure(self, *settings: tuple[int, ...]) -> None:
        attributes = (Attribute * len(settings))()
        for attribute, (kind, *values) in zip(attributes, settings, strict=True):
            attribute.kind = kind
            for at, value in enumerate(values):
                attribute.value[at] = value
        self._cupti.call(
            "SetConfigurationAttribute", Configuration(count=len(settings), attributes=attributes)
        )
