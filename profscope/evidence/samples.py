"""PC samples: where the hardware finds warps of a launch, and why they do not go on."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from profscope.evidence.pc_sampler import ANY, ENOUGH, Periods, Sampler, periods_after
from profscope.evidence.subject import SampledLaunch, Subject, Witness

__all__ = ["LAUNCHES", "Samples"]

LAUNCHES: Final = 3
"""Of a subject: the first ones find out how often to sample, and two tell how far launches are apart."""
# Why samples of a launch are not kept.
_UNKNOWN: Final = "CUPTI has not seen the binary that they are of"
_NONE: Final = "there are none; the kernel is too short"


class Samples(Witness):
    """The witness of one context. results: one for each launch that has samples.

    reload: loads a subject's binary once more, since CUPTI may not know what was loaded before the sampler
    was opened; returns why it cannot, "" if it can. probe: makes the sampler.
    """

    name = "samples"

    def __init__(
        self,
        reload: Callable[[Subject], str],
        probe: Callable[[], AbstractContextManager[Any]] = Sampler,
    ) -> None:
        self.results: list[SampledLaunch] = []
        self._reload = reload
        self._make_probe = probe
        self._probe: Sampler | None = None
        self._opened = contextlib.ExitStack()
        self._reloaded: set[Subject] = set()
        self._launches: Counter[Subject] = Counter()
        self._periods: dict[Subject, Periods] = {}
        self._left_out: Counter[str] = Counter()  # why samples of launches are not kept -> launches

    def open(self) -> None:
        """Open the sampler, which takes 0.1 s. Raises SamplerError."""
        self._probe = self._opened.enter_context(self._make_probe())

    @property
    def holds(self) -> bool:
        return self._probe is not None

    def waits(self, subject: Subject, others: Sequence[Subject]) -> bool:
        """See `Witness`: for those that can be sampled without another period."""
        return not self._keeps_period(subject) and any(self._keeps_period(other) for other in others)

    def _keeps_period(self, subject: Subject) -> bool:
        if self._probe is None:
            return True
        period = self._probe.period_log2
        return self._periods.get(subject, ANY).near(period) == period

    def wants(self, subject: Subject) -> bool:
        return self._launches[subject] < LAUNCHES

    def prepare(self, subject: Subject) -> str:
        """See `Witness`. Waits for the binary to be compiled and loaded."""
        if self._probe is None:
            self.open()
        if subject in self._reloaded:
            return ""
        why = self._reload(subject)
        if not why:
            self._reloaded.add(subject)
        return why

    def before(self, subject: Subject) -> None:
        """Sample from now on."""
        assert self._probe is not None
        period = self._periods.get(subject, ANY).near(self._probe.period_log2)
        if period != self._probe.period_log2:
            self._probe.set_period(period)
        self._probe.start()

    def after(self, subject: Subject) -> None:
        """Keep the samples of a launch that has ended."""
        assert self._probe is not None
        self._launches[subject] += 1
        taken = self._probe.stop()
        rows = taken.rows[taken.rows["cubin_crc"] == self._probe.crc(subject.cubin)]
        if not len(rows) or subject.function not in taken.functions:
            self._left_out[_UNKNOWN if taken.unknown else _NONE] += 1
            self._periods[subject] = periods_after(taken.period_log2, 0, taken.dropped)
            return
        own = rows[rows["function"] == taken.functions.index(subject.function)]
        mine, everywhere = int(own["samples"].sum()), int(rows["samples"].sum())
        self._periods[subject] = periods_after(taken.period_log2, everywhere, taken.dropped)
        self.results.append(
            SampledLaunch(
                subject=subject,
                period_log2=taken.period_log2,
                taken=mine,
                dropped=taken.dropped,
                rows=own,
                reasons=taken.reasons,
                in_callees=everywhere - mine,
            )
        )

    def abandon(self) -> None:
        """Stop sampling; what was sampled is lost."""
        if self._probe is not None:
            self._probe.stop()

    def release(self) -> None:
        """Close the sampler until the next `prepare`."""
        self._probe = None
        self._reloaded.clear()
        self._opened.close()

    def notes(self) -> list[str]:
        """Launches that were sampled in vain or too little."""
        notes = [
            f"samples of {count} launch{'es' * (count > 1)} are left out: {why}"
            for why, count in self._left_out.items()
        ]
        samples: dict[str, int] = {}
        for each in self.results:
            name = each.subject.kernel
            samples[name] = samples.get(name, 0) + each.taken
        few = [name for name, number in sorted(samples.items()) if number < ENOUGH]
        return notes + [f"{name}: fewer than {ENOUGH:,} samples" for name in few]
