"""Stamps: when CTAs that do not record began and ended, completed by those that do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from profscope.decoding.areas import read_buffer
from profscope.decoding.assemble import assemble
from profscope.decoding.build import RawLaunch
from profscope.instrument_passes.records import (
    DURATION_SHIFT,
    FLOAT32_ONE,
    MAX_STAMPED,
    PLACE_RANK_SHIFT,
    STAMP,
    stamp_duration_ns,
)
from profscope.profiles import Profile
from tests.support.programs import BODY
from tests.support.synth import Program, Work, launch

CTAS, STRIDE_LOG2 = 32, 2
CYCLES_PER_NS = 2  # as in `launch`
STEP_NS = 32  # likewise
LOW = (1 << 32) - 1


def place(sm: int, duration_ns: int) -> int:
    """As a kernel packs them."""
    bits = int(np.array([kept(duration_ns, 24)], "<f4").view("<u4")[0]) - FLOAT32_ONE
    return sm | bits >> DURATION_SHIFT << PLACE_RANK_SHIFT


def kept(value: int, bits: int) -> int:
    """The number with so many significant bits, rounded down."""
    below = max(0, value.bit_length() - bits)
    return value >> below << below


@given(st.integers(1, 100_000) | st.integers(1, (1 << 32) - 1))
def test_a_duration_keeps_16_significant_bits(duration_ns: int) -> None:
    (decoded,) = stamp_duration_ns(np.array([place(131, duration_ns)], np.uint32)).tolist()
    assert decoded == kept(duration_ns, 16)


def stamped(index: int, start_clock: int, shift: int = 0) -> tuple[RawLaunch, dict[int, dict[str, int]]]:
    """A launch with a stamp of each CTA that did not record; and what these say in full, as columns of
    prof.ctas.

    Each ends shift cycles after a CTA that recorded, on its SM or on one where none did. The clock changes:
    it runs at another rate in each of them.
    """
    program = Program((Work(2_000), *BODY), 2)
    made = launch([program], CTAS, stride_log2=STRIDE_LOG2, start_clock=start_clock, seed=index)
    manifest = replace(made.manifest, twin=True, stamps=True)
    made.buffer[4:8] = np.array([manifest.digest], "<u4").view(np.uint8)
    headers = read_buffer(made.buffer, manifest).ctas
    stamps, full = np.zeros(CTAS, STAMP), {}
    for cta in sorted({*range(CTAS)} - set(headers["cta"].tolist())):
        like = headers[cta % len(headers)]
        sm = int(like["sm"]) if cta % 3 else 140 + cta
        end = int(like["end_clock"]) + shift + 64 * cta
        end_ns = end // CYCLES_PER_NS // STEP_NS * STEP_NS
        duration_ns = STEP_NS * (1 + 50 * cta)
        duration = duration_ns * (100 + cta) // 80
        stamps[cta] = (end - duration) & LOW, (end_ns - duration_ns) & LOW, duration, place(sm, duration_ns)
        full[cta] = {
            "sm": sm,
            "start_cycle": end - duration,
            "duration_cycles": duration,
            "start_ns": end_ns - duration_ns + STEP_NS // 2,
            "end_ns": end_ns + STEP_NS // 2,
        }
    buffer = np.concatenate([stamps.view(np.uint8), made.buffer])
    return RawLaunch(index, manifest, 0, 0, CTAS, buffer), full


def check(profile: Profile, index: int, full: dict[int, dict[str, int]]) -> None:
    ctas = profile.ctas[profile.ctas["launch"] == index].set_index("cta")
    assert ctas.index.tolist() == [*range(CTAS)]
    others = ctas[~ctas["recorded"]]
    assert others[list(next(iter(full.values())))].to_dict("index") == full
    own = profile.launches.set_index("launch").loc[index]
    assert own["start_ns"] == ctas["start_ns"].min()
    assert own["end_ns"] == ctas["end_ns"].max()
    assert (own["ctas"], own["unfinished"]) == (CTAS - len(full), 0)


@given(
    start_clock=st.integers(1 << 33, 1 << 45) | st.integers(-(1 << 20), 1 << 20).map(lambda d: (1 << 34) + d),
    shift=st.integers(-(10**9), 2 * 10**9),
)
def test_low_halves_are_completed(start_clock: int, shift: int) -> None:
    raw, full = stamped(0, start_clock, shift)
    check(Profile.of(assemble([raw], {"backend": "gpu"})), 0, full)


def test_launches_that_are_decoded_as_one_keep_their_stamps() -> None:
    """Their SMs are more than those of the CTAs that recorded."""
    launches = [stamped(index, (index + 3) << 32, 1_000) for index in range(5)]
    profile = Profile.of(assemble([raw for raw, _ in launches], {"backend": "gpu"}))
    for index, (_, full) in enumerate(launches):
        check(profile, index, full)


def test_a_cta_that_did_not_end_has_no_row() -> None:
    raw, full = stamped(0, 1 << 40)
    raw.stamps["duration_cycles"][::2] = 0
    ctas = Profile.of(assemble([raw], {"backend": "gpu"})).ctas
    assert ctas["cta"][~ctas["recorded"]].tolist() == [cta for cta in full if cta % 2]


def test_a_damaged_launch_is_left_out() -> None:
    whole, cut = (stamped(index, 1 << 40)[0] for index in range(2))
    profile = Profile.of(assemble([whole, replace(cut, buffer=cut.buffer[:100])], {"backend": "gpu"}))
    assert profile.launches["launch"].tolist() == [0]
    (note,) = [note for note in profile.metadata["notes"] if note.startswith("launch 1: ")]
    assert "100 bytes do not hold the stamps of 32 CTAs" in note


def test_a_large_grid_has_stamps_of_its_ends() -> None:
    manifest = stamped(0, 1 << 40)[0].manifest
    for ctas in (MAX_STAMPED, MAX_STAMPED + 1, 1 << 20):
        assert manifest.stamps_bytes(ctas) == MAX_STAMPED * STAMP.itemsize
    assert replace(manifest, stamps=False).stamps_bytes(8) == 0
