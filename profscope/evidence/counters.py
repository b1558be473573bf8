"""Hardware counters of a whole kernel, by NVIDIA's range profiler.

The hardware counts a few things at a time, so all counters take several passes. Each pass is one launch of
the same configuration: nothing is launched twice, and no memory is saved or restored.

CUPTI's profiler counts passes itself, whatever it was launched for: the pass that it is told is ignored once
it has begun (CUPTI 13.0, H200). So the passes of one configuration follow each other. If another one comes in
between, the profiler is enabled again, which takes 0.2 s, and then it begins with the pass that it is told.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from profscope.evidence.cupti import Library, SamplerError, bytes_for, names_for
from profscope.evidence.metrics import COUNTERS, MOST_PASSES, Counter, user_counters
from profscope.evidence.subject import CounterValues, Subject, Witness

__all__ = ["Counters", "DisturbedError", "Selection", "select"]

_RANGE_PROFILER: Final = 0  # CUPTI_PROFILER_TYPE_RANGE_PROFILER
_EACH_KERNEL: Final = 1  # CUPTI_AutoRange
_USER_REPLAY: Final = 3  # CUPTI_UserReplay
_MOST_RANGES: Final = 4


class DisturbedError(SamplerError):
    """Other kernels ran in between: drop the counts, which belong to no kernel alone."""


@dataclass(frozen=True)
class Selection:
    """Counters that a chip has. metrics: NVIDIA's names of all that is evaluated. passes: how many launches
    they take. left_out: names of counters that would have taken more passes, or that the chip lacks. host:
    CUPTI's object that evaluates them. image: how they are scheduled."""

    metrics: tuple[str, ...]
    passes: int
    left_out: tuple[str, ...]
    host: int = field(repr=False)
    image: Any = field(repr=False)


def select(library: Library, chip: bytes, added: Sequence[str] = (), most: int = MOST_PASSES) -> Selection:
    """The counters that a chip has, in at most so many passes; those that a user added always. Needs no GPU.

    Raises SamplerError, also for an added metric that the chip does not have.
    """
    own = user_counters(added)
    for counter in own:
        if not _available(library, chip, counter):
            raise SamplerError(f"this GPU has no metric {counter.metric!r}")
    counters = (*own, *COUNTERS)
    names = [counter.name for counter in counters]
    wanted = [counter.metrics for counter in counters]
    left_out: list[str] = []
    host = _host(library, chip, _together(wanted))
    if host is None:
        groups = [_available(library, chip, counter) for counter in counters]
        left_out = [name for name, group in zip(names, groups, strict=True) if not group]
        names = [name for name, group in zip(names, groups, strict=True) if group]
        wanted = [group for group in groups if group]
        host = _host(library, chip, _together(wanted))
    while host is not None:
        image, passes = _scheduled(library, host)
        if passes <= most or len(wanted) <= len(own):
            return Selection(_together(wanted), passes, tuple(left_out), host, image)
        library.call("cuptiProfilerHostDeinitialize", pHostObject=host)
        left_out.append(names.pop())
        wanted.pop()
        host = _host(library, chip, _together(wanted))
    raise SamplerError("this GPU cannot count these metrics together")


def _together(groups: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for group in groups for each in group))


def _scheduled(library: Library, host: int) -> tuple[Any, int]:
    """How the metrics are scheduled, and in how many passes."""
    size = library.call("cuptiProfilerHostGetConfigImageSize", pHostObject=host).configImageSize
    image = bytes_for(size)
    at = ctypes.cast(image, ctypes.c_void_p)
    library.call("cuptiProfilerHostGetConfigImage", pHostObject=host, configImageSize=size, pConfigImage=at)
    passes = library.call("cuptiProfilerHostGetNumOfPasses", configImageSize=size, pConfigImage=at)
    return image, passes.numOfPasses


def _available(library: Library, chip: bytes, counter: Counter) -> tuple[str, ...]:
    """A counter's metrics as the chip names them; empty if it has none."""
    for metrics in (counter.metrics, *counter.others):
        host = _host(library, chip, metrics)
        if host is not None:
            library.call("cuptiProfilerHostDeinitialize", pHostObject=host)
            return tuple(metrics)
    return ()


def _host(library: Library, chip: bytes, metrics: Sequence[str]) -> int | None:
    """CUPTI's object with these metrics; None if the chip does not have them all."""
    host = library.call(
        "cuptiProfilerHostInitialize", profilerType=_RANGE_PROFILER, pChipName=chip
    ).pHostObject
    names = names_for(metrics)
    try:
        library.call(
            "cuptiProfilerHostConfigAddMetrics",
            pHostObject=host,
            ppMetricNames=ctypes.cast(names, ctypes.c_void_p),
            numMetrics=len(metrics),
        )
    except SamplerError:
        library.call("cuptiProfilerHostDeinitialize", pHostObject=host)
        return None
    return int(host)


@dataclass(eq=False)
class _Series:
    """The passes of one subject so far. data: CUPTI's image of what was counted."""

    data: Any = None
    pass_index: int = 0
    level: int = 1
    launches: int = 0


class Counters(Witness):
    """The witness of one context. results: of each subject all of whose passes have run."""

    name = "counters"

    def __init__(self, library: Library, context: int, device: int, added: Sequence[str] = ()) -> None:
        self.results: list[CounterValues] = []
        self._library = library
        self._context = context
        self._device = device
        self._added = tuple(added)
        self._selection: Selection | None = None
        self._series: dict[Subject, _Series] = {}
        self._done: set[Subject] = set()
        self._profiler: int | None = None
        self._next_pass: tuple[Subject | None, int] = None, 0  # of the enabled profiler, and whose it is
        self._image_in_use: Any = None  # CUPTI has a pointer to it until it is configured anew

    def open(self) -> None:
        """Find out what the GPU can count, which takes 150 ms. Raises SamplerError.

        Not in a thread: two threads within CUPTI end the process, whatever they call (CUPTI 13.0).
        """
        self._library.call("cuptiProfilerInitialize")
        chip = self._library.call("cuptiDeviceGetChipName", deviceIndex=self._device).pChipName
        self._selection = select(self._library, chip, self._added)

    @property
    def selection(self) -> Selection:
        """The counters. Raises SamplerError once the witness is closed."""
        if self._selection is None:
            raise SamplerError("the counters are closed")
        return self._selection

    def wants(self, subject: Subject) -> bool:
        return subject not in self._done

    @property
    def holds(self) -> bool:
        return self._profiler is not None

    def waits(self, subject: Subject, others: Sequence[Subject]) -> bool:
        """See `Witness`: for the one whose passes have begun."""
        return self._next_pass[0] in others

    def before(self, subject: Subject) -> None:
        """Have the next kernel counted, in the subject's next pass."""
        selection, call = self.selection, self._library.call
        series = self._series.setdefault(subject, _Series())
        if self._next_pass != (subject if series.pass_index else None, series.pass_index):
            self._disable()
        if self._profiler is None:
            self._profiler = call("cuptiRangeProfilerEnable", ctx=self._context).pRangeProfilerObject
        if series.data is None:
            series.data = self._image(selection)
        if self._image_in_use is not series.data:
            self._configure(selection, series)
        call("cuptiRangeProfilerStart", pRangeProfilerObject=self._profiler)

    def after(self, subject: Subject) -> None:
        """Keep the pass of a launch that has ended; evaluate, if it was the last one."""
        call, series = self._library.call, self._series[subject]
        stopped = call("cuptiRangeProfilerStop", pRangeProfilerObject=self._profiler)
        series.pass_index, series.level = stopped.passIndex, stopped.targetNestingLevel
        series.launches += 1
        self._next_pass = None if stopped.isAllPassSubmitted else subject, stopped.passIndex
        dropped = call("cuptiRangeProfilerDecodeData", pRangeProfilerObject=self._profiler).numOfRangeDropped
        image = _image_fields(series.data)
        kernels = call("cuptiRangeProfilerGetCounterDataInfo", **image).numTotalRanges + dropped
        if kernels != 1:
            del self._series[subject]
            raise DisturbedError(f"{kernels} kernels ran while one was to be counted")
        if stopped.isAllPassSubmitted:
            del self._series[subject]
            self._done.add(subject)
            self._evaluate(subject, series)

    def _configure(self, selection: Selection, series: _Series) -> None:
        """Have all passes of a series counted, which takes 10 ms: the profiler goes from one to the next."""
        self._library.call(
            "cuptiRangeProfilerSetConfig",
            pRangeProfilerObject=self._profiler,
            configSize=len(selection.image),
            pConfig=ctypes.cast(selection.image, ctypes.c_void_p),
            counterDataImageSize=len(series.data),
            pCounterDataImage=ctypes.cast(series.data, ctypes.c_void_p),
            range=_EACH_KERNEL,
            replayMode=_USER_REPLAY,
            maxRangesPerPass=_MOST_RANGES,
            numNestingLevels=1,
            minNestingLevel=1,
            passIndex=series.pass_index,
            targetNestingLevel=series.level,
        )
        self._image_in_use = series.data

    def abandon(self) -> None:
        """Stop counting; a later launch takes the same pass."""
        if self._profiler is not None:
            self._next_pass = None, -1  # nobody's
            self._library.call("cuptiRangeProfilerStop", pRangeProfilerObject=self._profiler)

    def release(self) -> None:
        """Give the hardware's counters back until the next launch; passes of incomplete series are lost."""
        self._series.clear()
        self._disable()

    def _disable(self) -> None:
        profiler, self._profiler = self._profiler, None
        self._next_pass = None, 0
        if profiler is not None:
            self._library.call("cuptiRangeProfilerDisable", pRangeProfilerObject=profiler)
        self._image_in_use = None  # CUPTI has it until here

    def close(self) -> None:
        """Give the hardware's counters back for good, and the memory of series that are not complete."""
        self.release()
        selection, self._selection = self._selection, None
        if selection is not None:
            self._library.call("cuptiProfilerHostDeinitialize", pHostObject=selection.host)

    def _image(self, selection: Selection) -> Any:
        """CUPTI's memory for the counters of one subject."""
        call, profiler = self._library.call, self._profiler
        names = names_for(selection.metrics)
        size = call(
            "cuptiRangeProfilerGetCounterDataSize",
            pRangeProfilerObject=profiler,
            pMetricNames=ctypes.cast(names, ctypes.c_void_p),
            numMetrics=len(selection.metrics),
            maxNumOfRanges=_MOST_RANGES,
            maxNumRangeTreeNodes=_MOST_RANGES,
        ).counterDataSize
        image = bytes_for(size)
        call(
            "cuptiRangeProfilerCounterDataImageInitialize",
            pRangeProfilerObject=profiler,
            counterDataSize=size,
            pCounterData=ctypes.cast(image, ctypes.c_void_p),
        )
        return image

    def _evaluate(self, subject: Subject, series: _Series) -> None:
        selection = self.selection
        names = names_for(selection.metrics)
        values = (ctypes.c_double * len(selection.metrics))()
        self._library.call(
            "cuptiProfilerHostEvaluateToGpuValues",
            pHostObject=selection.host,
            **_image_fields(series.data),
            rangeIndex=0,
            ppMetricNames=ctypes.cast(names, ctypes.c_void_p),
            numMetrics=len(selection.metrics),
            pMetricValues=ctypes.cast(values, ctypes.c_void_p),
        )
        found = dict(zip(selection.metrics, values, strict=True))
        self.results.append(CounterValues(subject, found, series.launches))


def _image_fields(data: Any) -> dict[str, Any]:
    return {"pCounterDataImage": ctypes.cast(data, ctypes.c_void_p), "counterDataImageSize": len(data)}
