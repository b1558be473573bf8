"""Samples of the kernels between `start` and `stop`: by binary, instruction and stall reason.

    with Sampler() as sampler:
        sampler.start()
        kernel[grid](...)
        torch.cuda.synchronize()
        samples = sampler.stop()

Every 2^period_log2 cycles the hardware notes of a warp of each SM where it stands and why it does not go on.
Kernels run as without it, beside one another too (CUPTI's continuous mode; in its other one, which tells
launches apart, those that wait for one another hang).
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from dataclasses import dataclass
from types import TracebackType
from typing import Final

import numpy as np
import numpy.typing as npt

from profscope.evidence.cupti import OVERFLOW, Cupti, SamplerError
from profscope.evidence.structures import (
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

__all__ = [
    "ANY", "ENOUGH", "FIRST", "FREQUENT", "PERIODS_LOG2", "RARE", "SAMPLE", "Periods", "Sampler", "Samples",
    "periods_after",
]  # fmt: skip

PERIODS_LOG2: Final = range(5, 32)
FREQUENT: Final = 5  # the shortest period that the hardware knows: a sample each 32 cycles
RARE: Final = 20
FIRST: Final = 12
ENOUGH: Final = 1_000  # samples of a launch
_WANTED: Final = 8_000  # tell a share of a tenth to a third of a percent
_MANY: Final = 120_000  # take 12 ms to fetch
_MOST_DROPPED: Final = 0.01
_CAPACITY: Final = 4096  # records that are fetched at a time
_NAME_BYTES: Final = 128  # of a reason, as CUPTI's headers say
_CONTINUOUS: Final = 1
# Half a million samples took 16 MB. The larger it is, the longer a start takes that follows a new period: by
# default it is 512 MB.
_BUFFER_BYTES: Final = 8 << 20
_OVERFLOWN: Final = 1 << 20  # how many samples count as dropped if the number is unknown
_MOST_OVERFLOWS: Final = 2  # in a row: CUPTI may say for ever that the buffer was full
_PREFIX: Final = "smsp__pcsamp_warps_issue_stalled_"
_NOT_ISSUED: Final = "_not_issued"  # a part of the samples of the reason without it

SAMPLE: Final = np.dtype(
    [
        ("cubin_crc", np.uint64),
        ("function", np.int32),
        ("pc", np.uint64),
        ("reason", np.int32),
        ("samples", np.uint32),
        ("not_issued", np.uint32),
    ]
)
"""One row per instruction and reason. function, reason: places in `Samples.functions` and `Samples.reasons`.
not_issued: those samples at which the warp's scheduler issued nothing at all."""


@dataclass(frozen=True)
class Samples:
    """rows: dtype SAMPLE. taken: all samples, `dropped` ones and `unknown` ones among them. unknown: of
    kernels whose binary CUPTI has not seen, of which there are no rows."""

    rows: npt.NDArray[np.void]
    functions: tuple[str, ...]
    reasons: tuple[str, ...]
    period_log2: int
    taken: int
    dropped: int
    unknown: int = 0


class _Block:
    """Memory for records that CUPTI fills, each with room for every reason."""

    def __init__(self, reasons: int) -> None:
        self.records = np.zeros(_CAPACITY, PC_RECORD)
        self.stalls = np.zeros((_CAPACITY, reasons), STALL)
        self.data = Data(size=ctypes.sizeof(Data), capacity=_CAPACITY, records=self.records.ctypes.data)
        self.data.count = _CAPACITY
        self.clear()

    def clear(self) -> None:
        """Ready to be filled; only the records that are filled cost time."""
        records, stalls = self.records[: self.data.count], self.stalls[: self.data.count]
        records[:] = 0
        stalls[:] = 0
        records["size"] = PC_RECORD.itemsize
        records["stall_count"] = stalls.shape[1]
        start, step = self.stalls.ctypes.data, self.stalls.strides[0]
        records["stalls"] = start + step * np.arange(len(records), dtype=np.uint64)
        self.data.count = self.data.samples = self.data.dropped = 0

    def stalls_of(self, records: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """STALL, shape (records, reasons), zeros where a record has fewer."""
        first, step = self.stalls.ctypes.data, self.stalls.strides[0]
        row, inside = np.divmod(records["stalls"].astype(np.int64) - first, step)
        ours = (row >= 0) & (row < len(self.stalls)) & (inside == 0)
        stalls: npt.NDArray[np.void] = self.stalls[np.where(ours, row, 0)]
        given = np.where(ours, records["stall_count"], 0)[:, None]
        stalls["samples"][np.arange(stalls.shape[1]) >= given] = 0
        for at in np.flatnonzero(~ours):  # CUPTI has put a pointer of its own there
            count = int(records["stall_count"][at])
            taken = ctypes.string_at(int(records["stalls"][at]), STALL.itemsize * count)
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

    def __init__(self, period_log2: int = FIRST) -> None:
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
                (Kind.COLLECTION, _CONTINUOUS),
                (Kind.START_STOP, 1),
                (Kind.HARDWARE_BUFFER, _BUFFER_BYTES),
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
        if period_log2 != self.period_log2:
            self._configure((Kind.PERIOD, period_log2))
            self.period_log2 = period_log2

    def crc(self, cubin: bytes) -> int:
        """The `cubin_crc` of a binary's rows."""
        return self._cupti.crc(cubin)

    def start(self) -> None:
        self._cupti.call("Start", Context())

    def stop(self) -> Samples:
        """The samples since the start. Waits for all kernels of the context to end."""
        self._cupti.call("Stop", Context())
        functions: dict[str, int] = {}
        parts = [self._rows(self._configured, functions)]
        taken, dropped, unknown = self._counted(self._configured)
        overflows = 0
        while overflows < _MOST_OVERFLOWS and self._fetch():
            overflows = 0 if self._fetched.data.count else overflows + 1
            parts.append(self._rows(self._fetched, functions))
            more = self._counted(self._fetched)
            taken, dropped, unknown = taken + more[0], dropped + more[1], unknown + more[2]
        rows = np.concatenate(parts)
        names = self._reason_names()
        return Samples(rows, tuple(functions), names, self.period_log2, taken, dropped, unknown)

    def _fetch(self) -> bool:
        """Whether there were samples left, which are in `_fetched` now."""
        data = self._fetched.data
        try:
            self._cupti.call("GetData", GetData(data=ctypes.addressof(data)))
        except SamplerError as error:
            if error.result != OVERFLOW:
                raise
            data.dropped = max(data.dropped, _OVERFLOWN)
        return bool(data.count or data.samples or data.dropped)

    def _counted(self, block: _Block) -> tuple[int, int, int]:
        """All samples, those dropped and those of kernels that CUPTI does not know; clears the block."""
        data = block.data
        counts = data.samples, data.dropped, data.samples_of_others
        block.clear()
        return counts

    def _rows(self, block: _Block, functions: dict[str, int]) -> npt.NDArray[np.void]:
        """dtype SAMPLE: of the block's records, those reasons that were met."""
        records = block.records[: block.data.count]
        if not len(records):
            return np.zeros(0, SAMPLE)
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
        for field in ("cubin_crc", "pc"):
            rows[field] = records[field][of]
        numbers = {pointer: _name_at(pointer, functions) for pointer in set(records["name"].tolist())}
        rows["function"] = np.array([numbers[name] for name in records["name"].tolist()], np.int32)[of]
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


@dataclass(frozen=True)
class Periods:
    """The log2 of the cycles between two samples: the shortest and the longest that do, and the best."""

    shortest: int
    best: int
    longest: int

    def near(self, period_log2: int) -> int:
        """The same period if it does, else the best. To set another one takes 0.13 s (H200, CUPTI 13.0)."""
        return period_log2 if self.shortest <= period_log2 <= self.longest else self.best


ANY: Final = Periods(FREQUENT, FIRST, RARE)


def periods_after(period_log2: int, taken: int, dropped: int) -> Periods:
    """Those for the next launch of a kernel, after one that had so many samples: from ENOUGH to _MANY."""
    if dropped > _MOST_DROPPED * (taken + dropped):
        longer = 1 + math.ceil(math.log2((taken + dropped) / max(taken, 1)))
        period = min(period_log2 + longer, RARE)
        return Periods(period, period, RARE)

    def with_samples(samples: int) -> float:
        return period_log2 + math.log2(max(taken, 1) / samples)

    shortest = _within(math.ceil(with_samples(_MANY)))
    longest = max(_within(math.floor(with_samples(ENOUGH))), shortest)
    best = min(max(round(with_samples(_WANTED)), shortest), longest)
    return Periods(shortest, best, longest)


def _within(period_log2: int) -> int:
    return min(max(period_log2, FREQUENT), RARE)
