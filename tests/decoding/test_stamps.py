"""Stamps: what CTAs that do not record say of their begin and end, completed by those that do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profscope.decoding.areas import read_buffer
from profscope.decoding.assemble import assemble
from profscope.decoding.build import RawLaunch
from profscope.instrument_passes.records import MAX_STAMPED, STAMP
from profscope.profiles import Profile
from tests.support.programs import BODY
from tests.support.synth import Program, Work, launch

CTAS, STRIDE_LOG2 = 32, 2
CYCLES_PER_NS = 2  # as in `launch`


def stamped(index: int, start_clock: int, shift: int = 0) -> tuple[RawLaunch, dict[int, tuple[int, ...]]]:
    """A launch with a stamp of each CTA that did not record; and what these say in full: SM, begin and end.

    Each ends shift cycles after a CTA that recorded, on its SM or on one where none did.
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
        begin = end - 1_000 - cta
        low = (1 << 32) - 1
        stamps[cta] = begin & low, end // 64 * 32 & low, end - begin, sm
        full[cta] = sm, begin, end
    buffer = np.concatenate([stamps.view(np.uint8), made.buffer])
    return RawLaunch(index, manifest, 0, 0, CTAS, buffer), full


def check(profile: Profile, index: int, full: dict[int, tuple[int, ...]]) -> None:
    ctas = profile.ctas[profile.ctas["launch"] == index].set_index("cta")
    assert ctas.index.tolist() == [*range(CTAS)]
    assert ctas.index[~ctas["recorded"]].tolist() == [*full]
    for cta, (sm, begin, end) in full.items():
        row = ctas.loc[cta]
        assert (row["sm"], row["start_cycle"], row["duration_cycles"]) == (sm, begin, end - begin)
        assert row["start_ns"] == pytest.approx(begin / CYCLES_PER_NS, abs=64)
        assert row["end_ns"] == pytest.approx(end / CYCLES_PER_NS, abs=64)
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


def on_no_sm(raw: RawLaunch) -> RawLaunch:
    raw.stamps["sm"][1] = 1 << 20
    return raw


def cut(raw: RawLaunch) -> RawLaunch:
    return replace(raw, buffer=raw.buffer[:100])


def test_a_cta_that_did_not_end_has_no_row() -> None:
    raw, full = stamped(0, 1 << 40)
    raw.stamps["duration_cycles"][::2] = 0
    ctas = Profile.of(assemble([raw], {"backend": "gpu"})).ctas
    assert ctas["cta"][~ctas["recorded"]].tolist() == [cta for cta in full if cta % 2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (on_no_sm, "it has a CTA on SM 1048576"),
        (cut, "100 bytes do not hold the stamps of 32 CTAs"),
    ],
)
def test_a_damaged_launch_is_left_out(change: Callable[[RawLaunch], RawLaunch], said: str) -> None:
    raw, _ = stamped(1, 1 << 40)
    whole, _ = stamped(0, 1 << 41)
    profile = Profile.of(assemble([whole, change(raw)], {"backend": "gpu"}))
    assert profile.launches["launch"].tolist() == [0]
    assert any(note.startswith("launch 1: ") and said in note for note in profile.metadata["notes"])


def test_a_large_grid_has_stamps_of_its_ends() -> None:
    manifest = stamped(0, 1 << 40)[0].manifest
    for ctas in (MAX_STAMPED, MAX_STAMPED + 1, 1 << 20):
        assert manifest.stamps_bytes(ctas) == MAX_STAMPED * STAMP.itemsize
    assert replace(manifest, stamps=False).stamps_bytes(8) == 0
