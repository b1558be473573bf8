"""How well a gain is known: a 90 % interval from the spread of what followed findings have saved.

On the corpus the real gain differs from the expected one, on the scale of log(gain / (1 - gain)), by a spread
that depends on the kind of scenario alone (docs/findings.md); the sampling error of the share that a cause
holds up is added. The figures are fitted by `python -m bench.diagnose --fit`, and checked on rounds of the
corpus that were left out of the fit.
"""

from __future__ import annotations

import math
from typing import Final

from profscope.analysis.cause import Gain

__all__ = ["SPREADS", "interval"]

SPREADS: Final = {
    "launch": (0.5, 0.5), "latency": (1.0, 1.0), "traffic": (0.8, 0.8), "exchange": (0.8, 0.8),
    "products": (0.8, 0.8), "arithmetic": (0.8, 0.8), "work": (0.8, 0.8),
}  # fmt: skip
"""By kind, how far below and above the expected gain the real one is in 90 % of the cases, in log odds."""
_Z: Final = 1.645  # 90 % of a normal distribution are within so many standard deviations
_WIDEST_PCT: Final = 60.0


def interval(pct: float, kind: str, samples: float) -> Gain:
    """A gain in percent with its interval. samples: that its share was taken from; 0 if it was not
    sampled."""
    share = min(max(pct / 100, 0.001), 0.999)
    below, above = SPREADS[kind]
    error = _Z / math.sqrt(samples * share * (1 - share)) if samples else 0.0
    middle = math.log(share / (1 - share))
    low, high = middle - math.hypot(below, error), middle + math.hypot(above, error)
    return Gain(pct, 100 / (1 + math.exp(-low)), 100 / (1 + math.exp(-high)))


def is_unknown(gain: Gain) -> bool:
    """Whether an interval is so wide that it says no more than "at most"."""
    return not math.isnan(gain.low) and gain.high - gain.low > _WIDEST_PCT
