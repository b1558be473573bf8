"""90 % intervals of gains."""

from __future__ import annotations

import math

import pytest

from profscope.analysis.rules.diagnose import RULES
from profscope.analysis.rules.intervals import SPREADS, angle, interval, kind_of, share_of


def test_the_kind_of_a_cause_gives_the_spread() -> None:
    widths = []
    for finding in ("uncoalesced-load", "serial-reduction", "register-spills"):
        gain, spread = interval(finding, 50.0, 0), SPREADS[kind_of(finding)]
        assert gain.expected == 50.0
        assert angle(gain.low) == pytest.approx(angle(50.0) + spread.low)
        assert angle(gain.high) == pytest.approx(angle(50.0) + spread.high)
        widths.append(gain.high - gain.low)
    assert widths == sorted(widths)
    assert {kind_of(rule.name) for rule in RULES} == set(SPREADS)


def test_few_samples_widen_it() -> None:
    exact, sampled = (interval("atomics", 50.0, samples) for samples in (0, 100))
    error = 1.645 / 20
    assert angle(sampled.high) - angle(50.0) == pytest.approx(
        math.hypot(angle(exact.high) - angle(50.0), error)
    )
    assert sampled.low < exact.low < exact.high < sampled.high


@pytest.mark.parametrize(
    ("finding", "is_wider"),
    [("idle-sms", (True, True)), ("atomics", (True, True)), ("register-spills", (True, False))],
)
def test_by_experiments_it_is_as_wide_as_theirs(finding: str, is_wider: tuple[bool, bool]) -> None:
    plain, told = interval(finding, 50.0, 0), interval(finding, 50.0, 0, by_experiments=True)
    assert (told.low < plain.low, told.high > plain.high) == is_wider


def test_the_ends_are_shares() -> None:
    assert interval("register-spills", 1.0, 0).low == 0.0
    assert interval("register-spills", 99.0, 0).high == 100.0
    assert interval("register-spills", 0.0, 50)[:3] == (0.0, 0.0, 0.0), "nothing to save has no interval"
    assert [share_of(angle(pct)) for pct in (0.0, 30.0, 100.0)] == pytest.approx([0.0, 30.0, 100.0])
