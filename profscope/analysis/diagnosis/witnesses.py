"""Which witnesses a cause needs: without one of them it says nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Final

from profscope.analysis.cause import Finding
from profscope.analysis.diagnosis.facts import KernelFacts

__all__ = ["Cause", "missing", "needs"]

Cause = Callable[[KernelFacts], Iterator[Finding]]

_HOW: Final = {
    "counters": "hardware counters: session(hardware=True) reads them",
    "counts": "instruction counts: session(hardware=True) takes them",
    "samples": "PC samples: too few or none; session(hardware=True) takes them",
    "ttgir": "TTGIR: the profile has none that can be read",
    "ctas": "CTAs: when they ran is unknown",
}
_ON_THE_EMULATOR: Final = "hardware counters: the emulator has no caches and no registers"


def needs(*witnesses: str) -> Callable[[Cause], Cause]:
    """A cause that is asked only if these of WITNESSES saw the configuration."""

    def decorate(cause: Cause) -> Cause:
        @wraps(cause)
        def asked(facts: KernelFacts) -> Iterator[Finding]:
            return cause(facts) if facts.known.issuperset(witnesses) else iter(())

        return asked

    return decorate


def missing(facts: KernelFacts) -> Iterator[str]:
    """A line for each witness that did not see the configuration."""
    for witness, how in _HOW.items():
        if witness not in facts.known:
            yield _ON_THE_EMULATOR if witness == "counters" and facts.emulated else how
