"""Two clear groups of numbers, and spans that have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profscope.analysis.two_levels import dip_of, error_left_out, levels_of
from profscope.profiles import Profile
from tests.support.examples import examples
from tests.support.made_up_spans import Row, made_up

numbers = st.lists(st.integers(0, 1000), min_size=2, max_size=60)


@pytest.mark.parametrize(
    ("values", "dip"),
    [
        ([1, 2, 3, 11, 12, 13], 1 / 5),
        ([1, 1, 1, 9, 9, 9], 1 / 4),
        ([1, 2, 2, 2, 3], 1 / 10),
        ([0, 0, 0, 5, 10, 10, 10], 3 / 14),
        ([1, 3, 4, 4.5, 5, 6, 9, 20, 21, 22, 22.5, 23, 25], 4.157894736842105 / 26),
    ],
)
def test_the_dip_is_that_of_the_reference_implementation(values: list[float], dip: float) -> None:
    """As `dipstat` of the package diptest 0.12 has it, which wraps that of R."""
    assert dip_of(np.array(values, np.float64)) == pytest.approx(dip)


@settings(max_examples=examples(40))
@given(numbers, st.integers(1, 100), st.integers(-1000, 1000))
def test_the_dip_depends_on_the_shape_alone(values: list[int], scale: int, away: int) -> None:
    ordered = np.sort(np.array(values, np.float64))
    dip = dip_of(ordered)
    assert 1 / (2 * len(ordered)) <= dip + 1e-12 <= 1 / 4 + 1e-9
    assert dip_of(np.sort(-ordered)) == pytest.approx(dip)
    assert dip_of(ordered * scale + away) == pytest.approx(dip)


@pytest.mark.parametrize("shape", ["normal", "uniform", "exponential", "lognormal", "ticks"])
def test_one_group_has_no_levels(shape: str) -> None:
    random = np.random.default_rng(0)
    for count in (20, 40, 200, 3000):
        for _ in range(50):
            values = {
                "normal": random.normal(1000, 300, count),
                "uniform": random.uniform(0, 2000, count),
                "exponential": random.exponential(1000, count),
                "lognormal": random.lognormal(6, 1, count),
                "ticks": random.integers(1, 13, count) * 32.0,
            }[shape]
            assert levels_of(np.maximum(values, 0).astype(np.int64), count) is None


@pytest.mark.parametrize(("share", "count"), [(0.5, 40), (0.25, 60), (0.75, 60), (0.12, 2000)])
def test_two_groups_have(share: float, count: int) -> None:
    random = np.random.default_rng(1)
    longer = int(share * count)
    values = np.concatenate([random.normal(300, 30, count - longer), random.normal(900, 90, longer)])
    levels = levels_of(values.astype(np.int64), count)
    assert levels is not None
    assert (levels.low, levels.high) == (pytest.approx(300, rel=0.1), pytest.approx(900, rel=0.1))
    assert levels.is_high.tolist() == [False] * (count - longer) + [True] * longer
    assert levels_of(values, 10) is None  # warps that run together say one thing
    assert levels_of(np.where(levels.is_high, 1200, 1000), count) is None  # near each other


def test_a_key_that_tells_groups_apart() -> None:
    high = np.array([False, True] * 8)
    assert error_left_out(high, np.arange(16) % 2) == 1.0
    assert error_left_out(high, np.arange(16) // 2) == 0.0
    assert error_left_out(np.zeros(4, np.bool_), np.arange(4)) == 0.0


def bimodal(profile: Profile) -> list[dict[str, Any]]:
    table = profile.findings()
    return table[table["finding"] == "bimodal-spans"].to_dict("records")


def steps_of(lengths: list[int], name: str = "store", **inside: Any) -> list[Row]:
    """A kernel with a loop, and an op of such lengths in its steps."""
    rows: list[Row] = [
        ("k", "kernel", 1, -1, -1, 0, 100 + sum(lengths)),
        ("loop L5", "loop", 5, -1, 0, 0, sum(lengths)),
    ]
    begin = 0
    for step, length in enumerate(lengths):
        rows.append(("iteration L5", "iteration", 5, step, 1, begin, length))
        rows.append((name, "op", 6, step, len(rows) - 1, begin + 5, length - 10))
        begin += length
    return rows


def test_the_inner_span_is_told_and_what_tells_its_groups_apart() -> None:
    (row,) = bimodal(made_up(steps_of([100, 400] * 10)))
    assert (row["line"], row["confidence"]) == (6, "high")
    assert row["evidence"] == (
        "store: 50 % of 160 take 90 cycles, 50 % 390, and hardly any in between; "
        "the longer ones are odd steps, counted from 0"
    )
    assert row["gain_pct"] == pytest.approx(100 * 10 * 300 / 5100)
    assert bimodal(made_up(steps_of([100, 120] * 10))) == []
    clock = {"read_cycles": 2.0, "row_cycles": 20.0, "basis": "measured"}
    short = steps_of([20, 38] * 10)  # as far apart as a record could put them
    assert (len(bimodal(made_up(short))), bimodal(made_up(short, clock=clock))) == (1, [])
    assert bimodal(made_up(steps_of([100, 200, 300, 400, 500] * 4))) == []


def scaled(profile: Profile, longer: pd.Series[bool]) -> Profile:
    """The profile with spans of some rows twice as long."""
    columns = {
        name: profile.df[name].where(~longer, profile.df[name] * 2)
        for name in ("start_ns", "start_cycle", "duration_ns", "duration_cycles")
    }
    return Profile(profile.df.assign(**columns), profile.launches, profile.metadata)


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("sm", (0, 2, 4, 6), "the longer ones are those of 4 of 8 SMs: 0, 2, 4, 6"),
        ("warp", (1,), "the longer ones are those of 1 of 2 warps: 1"),
    ],
)
def test_halves_of_the_chip_and_warps(column: str, values: tuple[int, ...], said: str) -> None:
    even = made_up(steps_of([300] * 8), ctas=8)
    (row,) = bimodal(scaled(even, even.df[column].isin(values)))
    assert said in row["evidence"]
    assert row["line"] == 6


def test_few_sms_that_are_not_alike_are_chance() -> None:
    even = made_up(steps_of([300] * 20), ctas=4)
    assert bimodal(scaled(even, even.df["sm"] < 2)) == []


def launches_of_two_lengths(launches: int, ctas: int, scope: str, kind: str) -> Profile:
    """Every second launch takes longer, in one scope."""
    each = [
        made_up([("k", "kernel", 1, -1, -1, 0, length), (scope, kind, 5, -1, 0, 0, length)], ctas=ctas)
        for length in (500, 3000) * (launches // 2)
    ]
    rows = len(each[0].df)
    spans = pd.concat([profile.df for profile in each], ignore_index=True)
    launch = np.repeat(np.arange(launches, dtype=np.int32), rows)
    spans = spans.assign(launch=launch, parent=spans["parent"] + rows * launch * (spans["parent"] >= 0))
    table = pd.concat([profile.launches for profile in each], ignore_index=True)
    return Profile(spans, table.assign(launch=np.arange(launches, dtype=np.int32)), each[0].metadata)


@pytest.mark.parametrize(("launches", "ctas"), [(12, 4), (40, 1)])
def test_launches_of_two_sizes_are_no_two_levels_of_a_loop(launches: int, ctas: int) -> None:
    assert bimodal(launches_of_two_lengths(launches, ctas, "loop L5", "loop")) == []


def test_an_op_is_the_same_in_each_launch() -> None:
    (row,) = bimodal(launches_of_two_lengths(12, 4, "store", "op"))
    assert "6 of 12 launches: 1, 3, 5, 7, ..." in row["evidence"]


def test_a_branch_that_some_steps_take() -> None:
    rows: list[Row] = [("k", "kernel", 1, -1, -1, 0, 9000), ("loop L5", "loop", 5, -1, 0, 0, 9000)]
    begin, random = 0, np.random.default_rng(2)
    for step in range(24):
        taken = bool(random.random() < 0.4)
        length = 600 if taken else 100
        rows.append(("iteration L5", "iteration", 5, step, 1, begin, length))
        if taken:
            rows.append(("exp2 p", "op", 7, step, len(rows) - 1, begin + 50, 500))
        begin += length
    (row,) = bimodal(made_up(rows))
    assert row["line"] == 5
    assert "only the longer ones run exp2 p (line 7)" in row["evidence"]


def test_what_another_finding_says_is_not_said_twice() -> None:
    rows: list[Row] = [("k", "kernel", 1, -1, -1, 0, 20_000), ("loop L5", "loop", 5, -1, 0, 0, 20_000)]
    for step in range(20):
        waits = (300, 900)[step % 2]
        rows += [
            ("load x", "op", 6, step, 1, 1000 * step, 10),
            ("reduce x", "op", 7, step, 1, 1000 * step + 10, waits),
        ]
    (row,) = made_up(rows).findings().to_dict("records")
    assert row["finding"] == "exposed-load"
    assert "; reduce x: 50 % of 160 take 300 cycles, 50 % 900, and hardly any in between; " in row["evidence"]
    fills: list[Row] = [
        ("async wait x", "op", 6, step, 1, 1000 * step, 900 if step == 0 else 20) for step in range(5)
    ]
    assert bimodal(made_up([rows[0], rows[1], *fills], ctas=8)) == []
