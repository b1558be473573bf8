"""How much a launch may record."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from profscope.device.backend import Backend
from profscope.device.sizing import needed_bytes, plan, ring_log2_for_rows
from profscope.instrument_passes.manifest import Manifest
from profscope.instrument_passes.records import (
    LAUNCH_HEADER,
    MAX_AREA_BYTES,
    MAX_RING_LOG2,
    MIN_RING_LOG2,
    LaunchBits,
)
from profscope.options import Options
from profscope.recording.launch_log import LaunchLog
from profscope.recording.routes import Planner
from tests.support.programs import bodies
from tests.support.synth import Program, launch

manifests = st.builds(lambda body, warps: launch([Program(body, warps)]).manifest, bodies, st.integers(1, 4))


@given(rows=st.integers(1, 1 << 25))
def test_a_ring_for_rows_is_the_shortest_that_holds_them(rows: int) -> None:
    log2 = ring_log2_for_rows(rows)
    assert MIN_RING_LOG2 <= log2 <= MAX_RING_LOG2
    assert 1 << log2 >= rows or log2 == MAX_RING_LOG2
    assert 1 << (log2 - 1) < rows or log2 == MIN_RING_LOG2


@given(
    manifest=manifests,
    ctas=st.integers(1, 1 << 20),
    limit=st.integers(64, 1 << 28),
    ring_log2=st.none() | st.integers(MIN_RING_LOG2, 12),
    stride_log2=st.integers(0, 5),
)
def test_a_plan_fits_the_limit_and_leaves_out_no_more_ctas_than_it_must(
    manifest: Manifest, ctas: int, limit: int, ring_log2: int | None, stride_log2: int
) -> None:
    bits = plan(manifest, ctas, limit, ring_log2, stride_log2)
    settled = MIN_RING_LOG2 if ring_log2 is None else ring_log2
    if bits is None:  # of three CTAs two areas record one or two
        assert LAUNCH_HEADER.itemsize + min(ctas, 2) * manifest.cta_bytes(settled) > limit
        return
    wanted = manifest.selection.stride_log2(ctas, stride_log2)
    assert needed_bytes(manifest, ctas, bits) <= limit
    assert bits.stride_log2 >= wanted
    assert ctas >> bits.stride_log2 >= 1  # so that there is a first area
    if ring_log2 is not None:
        assert bits.ring_log2 == ring_log2
    if bits.stride_log2 > wanted:
        assert needed_bytes(manifest, ctas, LaunchBits(bits.stride_log2 - 1, bits.ring_log2)) > limit


@given(manifest=manifests, segments=st.integers(1, 64))
def test_no_area_outgrows_what_a_kernel_can_count(manifest: Manifest, segments: int) -> None:
    large = replace(manifest, warps=manifest.warps * segments, ring_bytes=manifest.ring_bytes * 64)
    bits = plan(large, 1, 1 << 50, MAX_RING_LOG2, 0)
    assert bits is not None
    assert large.cta_bytes(bits.ring_log2) <= MAX_AREA_BYTES
    assert bits.ring_log2 == MAX_RING_LOG2 or large.cta_bytes(bits.ring_log2 + 1) > MAX_AREA_BYTES


large = manifests.map(lambda manifest: replace(manifest, warps=64, ring_bytes=manifest.ring_bytes * 64))


@given(manifest=manifests | large, ctas=st.integers(1, 64))
def test_a_program_whose_rings_are_not_known_gets_what_fits(manifest: Manifest, ctas: int) -> None:
    skipped: list[str] = []
    planner = Planner(Options(memory=1), Backend("cpu", dict), LaunchLog(), skipped.append)
    made = planner.plan(manifest, ctas)
    if made is None:
        assert manifest.cta_bytes(MIN_RING_LOG2) * ctas > 1 << 20
        assert len(skipped) == 1
        return
    assert made.needed == needed_bytes(manifest, ctas, made.bits) <= 1 << 20
    assert made.ctas == ctas
    assert made.guessed == (manifest.ring_bytes > 0)
