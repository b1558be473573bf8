"""Stalls are charged to what an instruction waits for."""

from __future__ import annotations

from collections import Counter

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profscope.binaries.blame import blame
from profscope.binaries.listing import class_of, split
from tests.support.examples import examples

LINES = {
    0x00: ("LDG.E R2, [R8.64]", []),
    0x10: ("LDG.E R3, [R8.64+0x4]", []),
    0x20: ("LDS R4, [R10]", []),
    0x30: ("MOV R6, 0x1", []),
    0x40: ("FADD R5, R2, R3", [0x00, 0x10]),
    0x50: ("FADD R5, R2, R4", [0x00, 0x20]),
    0x60: ("BAR.SYNC.DEFER_BLOCKING 0x0", []),
    0x70: ("FADD R7, R5, R6", [0x30, 0x50]),
    0x80: ("BAR.SYNC.DEFER_BLOCKING 0x0", []),
    0x90: ("UTMALDG.2D [UR8], [UR4]", []),
    0xA0: ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR6], R5", [0x90]),
    0xB0: ("@!P0 BRA 0xa0", [0xA0]),
    0xC0: ("EXIT", []),
}


def table() -> pd.DataFrame:
    rows = [
        {"pc": pc, "sass": sass, "class": class_of(split(pc, sass).name), "waits_for": waits}
        for pc, (sass, waits) in LINES.items()
    ]
    return pd.DataFrame(rows)


def blamed(*stalls: tuple[int, str, int]) -> dict[tuple[int, str], dict[int, float]]:
    found = blame(table(), pd.DataFrame(stalls, columns=["pc", "stall", "samples"]))
    assert {name: str(dtype) for name, dtype in found.dtypes.items()} == {
        "pc": "int64", "stall": "category", "samples": "float64", "blamed_pc": "int64"
    }  # fmt: skip
    shares: dict[tuple[int, str], dict[int, float]] = {}
    for row in found.itertuples():
        shares.setdefault((row.pc, row.stall), {})[row.blamed_pc] = row.samples
    return shares


def test_a_long_scoreboard_is_divided_by_distance() -> None:
    (shares,) = blamed((0x40, "long_scoreboard", 70)).values()
    assert shares == pytest.approx({0x00: 70 * 3 / 7, 0x10: 70 * 4 / 7})  # 4 and 3 instructions before it


def test_what_issued_more_often_gets_more() -> None:
    shares = blamed((0x40, "long_scoreboard", 100), (0x00, "selected", 40), (0x10, "selected", 30))
    assert shares[0x40, "long_scoreboard"] == pytest.approx({0x00: 50, 0x10: 50})


def test_a_reason_is_charged_to_those_that_can_cause_it() -> None:
    assert blamed((0x50, "short_scoreboard", 8))[0x50, "short_scoreboard"] == {0x20: 8}
    assert blamed((0x50, "long_scoreboard", 8))[0x50, "long_scoreboard"] == {0x00: 8}
    assert blamed((0x70, "wait", 7))[0x70, "wait"] == pytest.approx({0x30: 7 / 3, 0x50: 14 / 3})
    assert blamed((0x70, "long_scoreboard", 8))[0x70, "long_scoreboard"] == {0x70: 8}, "nothing causes it"


def test_other_reasons_stay() -> None:
    for stall in ("math_pipe_throttle", "selected", "not_selected", "no_instructions", "a_new_reason"):
        assert blamed((0x50, stall, 8))[0x50, stall] == {0x50: 8}


def test_a_wait_in_between_stands_for_what_it_waits_for() -> None:
    assert blamed((0xB0, "long_scoreboard", 8))[0xB0, "long_scoreboard"] == {0x90: 8}


def test_a_wait_for_who_knows_what_is_charged_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LINES, 0x90, ("SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR8], R5", []))
    assert blamed((0xB0, "long_scoreboard", 8))[0xB0, "long_scoreboard"] == {0x90: 8}, "another warp"
    monkeypatch.setitem(LINES, 0xA0, (LINES[0xA0][0], [0x30]))  # what computes its address
    for stall in ("long_scoreboard", "short_scoreboard"):
        assert blamed((0xB0, stall, 8))[0xB0, stall] == {0xA0: 8}


def test_a_wait_for_wgmma_is_charged_to_it_under_whatever_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hopper calls it `barrier`; and who waits for it keeps the others waiting at the next barrier."""
    monkeypatch.setitem(LINES, 0x30, ("HGMMA.64x64x16.F32 R24, gdesc[UR8], R24, gsb0", []))
    monkeypatch.setitem(LINES, 0x70, ("WARPGROUP.DEPBAR.LE gsb0, 0x0", [0x30]))
    found = blamed((0x70, "barrier", 90), (0x80, "barrier", 10))
    assert found == {(0x70, "barrier"): {0x30: 90}, (0x80, "barrier"): {0x70: 10}}


def test_a_wait_for_copies_is_seen_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Hopper: `DEPBAR`, an instruction that needs nothing of memory, `BAR`."""
    monkeypatch.setitem(LINES, 0x30, ("LDGSTS.E [R4], [R2.64]", []))
    monkeypatch.setitem(LINES, 0x60, ("DEPBAR.LE SB0, 0x1", [0x30]))
    monkeypatch.setitem(LINES, 0x70, ("IADD3 R9, R9, 0x1, RZ", []))
    assert blamed((0x70, "long_scoreboard", 8))[0x70, "long_scoreboard"] == {0x30: 8}
    assert blamed((0x80, "long_scoreboard", 8))[0x80, "long_scoreboard"] == {0x80: 8}, "not right behind it"
    monkeypatch.setitem(LINES, 0x70, ("FADD R9, R8, R9", [0x00]))
    assert blamed((0x70, "long_scoreboard", 8))[0x70, "long_scoreboard"] == {0x00: 8}, "a load of its own"


def test_a_barrier_is_charged_to_what_others_do_on_the_way() -> None:
    stalls = [(0x80, "barrier", 90), (0x70, "wait", 1), (0x40, "long_scoreboard", 500)]
    assert blamed(*stalls)[0x80, "barrier"] == {0x70: 90}
    assert blamed((0x80, "barrier", 90))[0x80, "barrier"] == {0x80: 90}, "nobody was seen"


def test_a_warp_that_has_arrived_is_seen_behind_the_barrier() -> None:
    stalls = [(0x70, "barrier", 90), (0x50, "wait", 1), (0x40, "long_scoreboard", 2)]
    assert blamed(*stalls)[0x70, "barrier"] == pytest.approx({0x40: 60, 0x50: 30})


def test_a_pc_of_another_function_stays() -> None:
    assert blamed((0x1000, "long_scoreboard", 3))[0x1000, "long_scoreboard"] == {0x1000: 3}


REASONS = ["long_scoreboard", "short_scoreboard", "wait", "barrier", "selected", "math_pipe_throttle"]
STALLS = st.tuples(st.sampled_from([*LINES, 0x1000]), st.sampled_from(REASONS), st.integers(0, 1000))


@settings(max_examples=examples(20))
@given(st.lists(STALLS, max_size=8))
def test_no_sample_is_lost_or_made(stalls: list[tuple[int, str, int]]) -> None:
    before: Counter[tuple[int, str]] = Counter()
    for pc, stall, samples in stalls:
        before[pc, stall] += samples
    after = {key: sum(shares.values()) for key, shares in blamed(*stalls).items()}
    assert after == pytest.approx({key: samples for key, samples in before.items() if samples})
