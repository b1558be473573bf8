"""The observed configurations: their order, the sizes of their tensors, and the evidence that is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "CountedLaunch",
    "CounterValues",
    "ExperimentedKernel",
    "LargestFirst",
    "SampledLaunch",
    "Subject",
    "Witness",
    "largest",
    "named",
    "of_configurations",
    "tensor_bytes",
]  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """One configuration of a kernel, of which any launch can be observed in place of another.

    kernel: as in `launches["kernel"]`. key: of the configuration in metadata["variants"]. shape: what else
    tells launches of different work apart: the grid and the integer arguments. function: the name in the
    binary. cubin, ptx: the bare binary, and the PTX that it was made of.
    """

    kernel: str
    key: str
    shape: Hashable
    function: str
    cubin: bytes = field(repr=False)
    ptx: str = field(repr=False)


@dataclass(frozen=True, eq=False)
class CountedLaunch:
    """Instruction counts. pcs: of the kernel, ascending. counts: by column of `metrics.COUNTS`, one for each
    pc. in_callees: warp instructions of functions that the kernel calls, which have no
    rows."""

    subject: Subject
    pcs: npt.NDArray[np.int64] = field(repr=False)
    counts: dict[str, npt.NDArray[np.int64]] = field(repr=False)
    in_callees: int = 0


@dataclass(frozen=True, eq=False)
class CounterValues:
    """Counters. values: by NVIDIA's name; not finite where the hardware gave none. launches: passes that they
    took, of one launch each."""

    subject: Subject
    values: dict[str, float] = field(repr=False)
    launches: int


@dataclass(frozen=True, eq=False)
class ExperimentedKernel:
    """Experiments with one configuration of a kernel. kernel, key: as of `Subject`. rows: of the table
    `experiments`, whatever the number of the configuration in it."""

    kernel: str
    key: str
    rows: pd.DataFrame = field(repr=False)


@dataclass(frozen=True, eq=False)
class SampledLaunch:
    """One bare launch under the sampler.

    period_log2: the hardware took a sample every 2^period_log2 cycles on each SM. taken: samples of this
    kernel, `rows` has them all; dropped: samples that the hardware lost meanwhile, whosever they were. rows:
    dtype `SAMPLE`, all of one function: `pc` is bytes from its start, `reason` a place in `reasons`.
    in_callees: samples of noinline functions of the same binary, which are in neither `taken` nor `rows`.
    """

    subject: Subject
    period_log2: int
    taken: int
    dropped: int
    rows: npt.NDArray[np.void] = field(repr=False)
    reasons: tuple[str, ...] = field(repr=False)
    in_callees: int = 0


class Witness(Protocol):
    """One kind of evidence in one context: here, of one that has nothing to prepare and keeps nothing between
    launches.

    open: raises SamplerError if it cannot be had. wants: whether another launch of the subject would add
    something. prepare: makes all ready for a launch of it, and other threads may run meanwhile; returns why
    no launch of it may be observed, "" if it may. before, after: around the launch, `after` once it has
    ended. abandon: in place of `after`, if the launch failed. holds: whether it keeps the hardware between
    launches, until `release`. waits: whether a launch of the subject should wait for launches of others that
    need the witness, because of what it takes to change over. close: gives the hardware back for good.
    results: what there is so far. notes: what is missing there, for the user.
    """

    name: str
    results: Sequence[Any]

    def open(self) -> None: ...

    def wants(self, subject: Subject) -> bool: ...

    @property
    def holds(self) -> bool:
        return False

    def waits(self, subject: Subject, others: Sequence[Subject]) -> bool:
        return False

    def prepare(self, subject: Subject) -> str:
        return ""

    def before(self, subject: Subject) -> None: ...

    def after(self, subject: Subject) -> None: ...

    def abandon(self) -> None: ...

    def release(self) -> None:
        return

    def close(self) -> None:
        self.release()

    def notes(self) -> list[str]:
        return []


class LargestFirst:
    """Which of several subjects is observed first: the one that takes most of the program's time.

    That is the number of its launches so far, observed or not, times the quickest of those that were timed.
    """

    def __init__(self) -> None:
        self._launches: Counter[Subject] = Counter()
        self._quickest_s: dict[Subject, float] = {}
        self._number = 0  # of the last launch, of any subject
        self._last: dict[Subject, int] = {}
        self._before: dict[Subject, int] = {}

    def launches(self, subject: Subject) -> None:
        """The subject is about to be launched."""
        self._number += 1
        self._launches[subject] += 1
        self._before[subject], self._last[subject] = self._last.get(subject, self._number), self._number

    def took(self, subject: Subject, seconds: float) -> None:
        """A launch of the subject has been timed."""
        self._quickest_s[subject] = min(seconds, self._quickest_s.get(subject, seconds))

    def precedes(self, other: Subject, subject: Subject) -> bool:
        """Whether the other one has taken more time, and will come by soon: it was launched since the last
        launch but one of the subject, which is about to be launched."""
        return self._so_far_s(other) > self._so_far_s(subject) and (
            self._last.get(other, 0) > self._before.get(subject, self._number)
        )

    def _so_far_s(self, subject: Subject) -> float:
        return self._launches[subject] * self._quickest_s.get(subject, 0.0)


def tensor_bytes(signature: Mapping[str, Any], arguments: Sequence[Any]) -> dict[str, int]:
    """By name, the bytes that a kernel may reach from the first element of a tensor: to the end of its
    storage, as kernels also read behind a view. Of a tensor descriptor, those of its tensor. Arguments that
    are neither have no entry. signature, arguments: see `named`.
    """
    sizes = {name: _reach(value) for name, value in named(signature, arguments).items()}
    return {name: size for name, size in sizes.items() if size is not None}


def named(signature: Mapping[str, Any], arguments: Sequence[Any]) -> dict[str, Any]:
    """A launch's arguments by name.

    signature: by name the type of each argument, as of Triton's `ASTSource`. arguments: with constexprs or,
    as Inductor launches, without. Empty for any other number of arguments, which cannot be matched.
    """
    given = [name for name, kind in signature.items() if kind != "constexpr"]
    names = next((each for each in ([*signature], given) if len(each) == len(arguments)), [])
    return {str(name): value for name, value in zip(names, arguments, strict=False)}


def largest(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """Of two launches, the larger size of each tensor whose size is known of both."""
    return {name: max(size, other[name]) for name, size in one.items() if name in other}


def of_configurations(entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Entries of the metadata ("kernel", "key" and "bytes"), those of one configuration as one."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for each in entries:
        configuration = each["kernel"], each["key"]
        found[configuration] = largest(each["bytes"], found.get(configuration, each["bytes"]))
    return [{"kernel": kernel, "key": key, "bytes": sizes} for (kernel, key), sizes in found.items() if sizes]


def _reach(value: Any) -> int | None:
    """None for what is no tensor, or has no sizes: also tensors of other libraries are launched with."""
    try:
        tensor = getattr(value, "base", value)
        before = int(tensor.storage_offset()) * int(tensor.element_size())
        return int(tensor.untyped_storage().nbytes()) - before
    except Exception:  # noqa: BLE001  whatever it is, the user's launch goes on
        return None
