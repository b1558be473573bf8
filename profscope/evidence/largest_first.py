"""Which of several subjects is observed first: the one that takes most of the program's time."""

from __future__ import annotations

from collections import Counter

from profscope.evidence.subject import Subject

__all__ = ["LargestFirst"]


class LargestFirst:
    """What the launches so far, observed or not, took by subject: their number times the quickest of those
    that were timed."""

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
