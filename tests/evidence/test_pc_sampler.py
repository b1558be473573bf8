"""What CUPTI puts into its records, and what comes of it. The library is made up, the structures are real."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from profscope.evidence import pc_sampler as sampler
from profscope.evidence.cupti import OVERFLOW, SamplerError
from profscope.evidence.pc_sampler import Sampler
from profscope.evidence.structures import PC_RECORD, STALL, Data, Kind

PREFIX = "smsp__pcsamp_"
NAMES = {
    3: f"{PREFIX}warps_issue_stalled_wait",
    5: f"{PREFIX}sample_count",
    7: f"{PREFIX}warps_issue_stalled_wait_not_issued",
    9: f"{PREFIX}warps_issue_stalled_barrier",
}
KERNEL, OTHER = ctypes.create_string_buffer(b"kernel"), ctypes.create_string_buffer(b"other")

# Address of the name, checksum, pc, samples by index of the reason.
Record = tuple[Any, int, int, dict[int, int]]


class Library:
    """In place of `cupti.Cupti`. pending: records that are yet to be given away, `room` at a time. elsewhere:
    whether it keeps the stalls of records in memory of its own."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.settings: dict[int, tuple[int, ...]] = {}
        self.pending: list[Record] = []
        self.room = 4096
        self.elsewhere = False
        self.full = False
        self.stays_full = False
        self.dropped = 0
        self.held: list[Any] = []

    def call(self, name: str, parameters: Any) -> None:
        self.said.append(name)
        getattr(self, f"_{name}", lambda _: None)(parameters)

    def _GetNumStallReasons(self, parameters: Any) -> None:  # noqa: N802
        parameters.count[0] = len(NAMES)

    def _GetStallReasons(self, parameters: Any) -> None:  # noqa: N802
        texts = ctypes.cast(parameters.names, ctypes.POINTER(ctypes.c_void_p))
        for at, (index, name) in enumerate(NAMES.items()):
            parameters.indices[at] = index
            ctypes.memmove(texts[at], name.encode(), len(name))

    def _SetConfigurationAttribute(self, parameters: Any) -> None:  # noqa: N802
        for at in range(parameters.count):
            attribute = parameters.attributes[at]
            self.settings[attribute.kind] = tuple(attribute.value)

    def _Stop(self, parameters: Any) -> None:  # noqa: N802
        self._fill(self.settings[Kind.BUFFER][0])

    def _GetData(self, parameters: Any) -> None:  # noqa: N802
        if self.full:
            self.full = self.stays_full
            raise SamplerError("the buffer is full", OVERFLOW)
        self._fill(parameters.data)

    def _fill(self, address: int) -> None:
        data = Data.from_address(address)
        taken, self.pending = self.pending[: self.room], self.pending[self.room :]
        memory = (ctypes.c_char * (data.capacity * PC_RECORD.itemsize)).from_address(data.records)
        records = np.frombuffer(memory, PC_RECORD)
        for record, (name, crc, pc, stalls) in zip(records, taken, strict=False):
            assert record["size"] == PC_RECORD.itemsize
            assert record["stall_count"] == 3  # room for those that are asked for
            own = np.array(list(stalls.items()), STALL) if stalls else np.zeros(0, STALL)
            if self.elsewhere:
                self.held.append(own)
                record["stalls"] = own.ctypes.data
            else:
                ctypes.memmove(int(record["stalls"]), own.ctypes.data, own.nbytes)
            record["name"] = ctypes.addressof(name)
            record["cubin_crc"], record["pc"], record["stall_count"] = crc, pc, len(own)
        counts = (sum(s for i, s in stalls.items() if i != 7) for _, _, _, stalls in taken)
        data.count, data.remaining = len(taken), len(self.pending)
        data.samples, data.dropped, self.dropped = sum(counts) + self.dropped, self.dropped, 0


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    made = Library()
    monkeypatch.setattr(sampler, "Cupti", lambda: made)
    yield made
    assert made.said[-1] == "Disable"


def rows(found: Any) -> list[tuple[str, int, int, str, int, int]]:
    return [
        (found.functions[row["function"]], *row[["cubin_crc", "pc"]].tolist(), found.reasons[row["reason"]],
         *row[["samples", "not_issued"]].tolist())
        for row in found.rows
    ]  # fmt: skip


RECORDS: Sequence[Record] = [
    (KERNEL, 11, 16, {3: 5, 7: 2}),
    (KERNEL, 11, 32, {9: 4}),
    (OTHER, 12, 16, {3: 1, 9: 1}),
]
SAMPLED = [
    ("kernel", 11, 16, "wait", 5, 2),
    ("kernel", 11, 32, "barrier", 4, 0),
    ("other", 12, 16, "wait", 1, 0),
    ("other", 12, 16, "barrier", 1, 0),
]


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("room", [4096, 2, 1])
def test_records_become_rows_however_they_come(library: Library, room: int, elsewhere: bool) -> None:
    with Sampler(9) as opened:
        for _ in range(2):  # what was there before is gone
            library.pending, library.room, library.elsewhere = list(RECORDS), room, elsewhere
            opened.start()
            found = opened.stop()
            assert rows(found) == SAMPLED
            assert (found.taken, found.dropped, found.unknown, found.period_log2) == (11, 0, 0, 9)
        assert found.reasons == ("wait", "barrier")
        library.pending, library.elsewhere = [], False
        opened.start()
        assert len(opened.stop().rows) == 0


def test_it_is_configured_for_kernels_that_run_as_ever(library: Library) -> None:
    with Sampler(9) as opened:
        assert library.settings[Kind.COLLECTION][0] == 1  # continuous
        assert library.settings[Kind.PERIOD][0] == 9
        assert library.settings[Kind.REASONS][0] == 3
        opened.set_period(9)
        assert library.said.count("SetConfigurationAttribute") == 1
        opened.set_period(7)
        assert library.settings[Kind.PERIOD][0] == 7
        assert opened.stop().period_log2 == 7


def test_what_the_hardware_drops_is_counted(library: Library) -> None:
    with Sampler() as opened:
        library.pending, library.dropped = list(RECORDS), 3
        found = opened.stop()
        assert (found.taken, found.dropped) == (14, 3)
        library.pending, library.full = list(RECORDS), True
        found = opened.stop()
        assert rows(found) == SAMPLED
        assert found.dropped > 100 * found.taken
        library.full = library.stays_full = True
        found = opened.stop()
        assert found.dropped > 0, "and it comes to an end"


def test_it_is_closed_where_it_cannot_be_configured(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Library, parameters: Any) -> None:
        raise SamplerError("no such period")

    monkeypatch.setattr(Library, "_SetConfigurationAttribute", refuse)
    with pytest.raises(SamplerError, match="no such period"), Sampler():
        pass


@pytest.mark.parametrize("period", [4, 32])
def test_periods_that_there_are_not(period: int) -> None:
    with pytest.raises(ValueError, match=f"period_log2={period} must be 5 to 31"):
        Sampler(period)
