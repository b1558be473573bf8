"""Launches that are decoded as one give the tables that each of them gives alone, to the last bit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from profscope.decoding import bundles
from profscope.decoding.areas import packed_headers, read_buffer
from profscope.decoding.assemble import assemble
from profscope.decoding.build import RawLaunch
from profscope.instrument_passes.manifest import Manifest
from profscope.schema import Tables
from tests.support.examples import examples
from tests.support.programs import BODY, bodies, launches
from tests.support.synth import Loop, Program, Scope, Work, launch

DATA = Path(__file__).parents[1] / "data"
# Light and heavy, with and without in-flight spans, gaps, partitions, clusters.
CAPTURED = (
    "add-light-0",
    "matmul-heavy-0",
    "while-heavy-16-0",
    "gluon_ws_loop-heavy-16-0",
    "matmul_cluster-light-0",
)
FAULTS = st.sampled_from(["", "", "", "unfinished", "empty", "wrong CTA", "wrong digest"])


def tables(raws: Sequence[RawLaunch], *, alone: bool) -> Tables:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundles, "MOST_BYTES", 0 if alone else 1 << 20)
        return assemble(raws, {"backend": "gpu"})


def check(raws: Sequence[RawLaunch]) -> Tables:
    together, alone = tables(raws, alone=False), tables(raws, alone=True)
    pd.testing.assert_frame_equal(together.df, alone.df, check_exact=True)
    pd.testing.assert_frame_equal(together.launches, alone.launches, check_exact=True)
    pd.testing.assert_frame_equal(together.ctas, alone.ctas, check_exact=True)
    assert json.dumps(together.metadata, sort_keys=True) == json.dumps(alone.metadata, sort_keys=True)
    return together


def faulty(buffer: npt.NDArray[np.uint8], manifest: Manifest, fault: str) -> None:
    """Damage a launch's buffer."""
    read = read_buffer(buffer, manifest)
    headers = packed_headers(buffer, len(read.ctas), manifest.cta_bytes(read.bits.ring_log2))
    if fault == "unfinished":
        headers["end_clock"][-1] = 0
    if fault == "empty":
        headers["end_clock"] = 0
    if fault == "wrong CTA":
        headers["cta"][-1] += 1
    if fault == "wrong digest":
        buffer[4] ^= 1


@settings(max_examples=examples(15))
@example(  # damaged launches in front of sound ones
    body=(),
    options={"ctas": 4, "ring_log2": 2, "stride_log2": 0, "start_clock": 1 << 40, "seed": 0},
    kinds=[(2, "wrong CTA", 0), (3, "", 0), (1, "empty", 0), (1, "", 0)],
)
@given(
    body=bodies,
    options=launches,
    kinds=st.lists(st.tuples(st.integers(0, 3), FAULTS, st.integers(0, 1)), min_size=2, max_size=6),
)
def test_any_launches_decoded_as_one(
    body: tuple[object, ...],
    options: dict[str, int],
    kinds: list[tuple[int, str, int]],
) -> None:
    """kinds: of each launch the seed of its clocks, what is wrong, its device."""
    raws, ctas = [], options["ctas"]
    manifest = launch([Program(body, 2)], **options).manifest  # type: ignore[arg-type]
    for index, (seed, fault, device) in enumerate(kinds):
        made = launch([Program(body, 2)], **{**options, "seed": seed})  # type: ignore[arg-type]
        buffer = made.buffer.copy()
        buffer[4:8] = np.array([manifest.digest], "<u4").view(np.uint8)
        faulty(buffer, manifest, fault)
        raws.append(RawLaunch(index, manifest, device, 7, ctas, buffer))
    check(raws)


def test_launches_whose_rings_lost_rows_beside_others() -> None:
    """Some launches of a kernel ran a loop more often than a ring has rows: what is left out of them is not
    left out of the others."""
    raws: list[RawLaunch] = []
    for index, trips in enumerate((9, 40, 9, 40, 40, 9)):
        made = launch(
            [Program((Loop((trips,), BODY), Scope((Work(5),))), 2)], ctas=3, ring_log2=4, seed=index
        )
        manifest = raws[0].manifest if raws else made.manifest
        raws.append(RawLaunch(index, manifest, 0, 0, 3, made.buffer))
    assert (check(raws).launches["dropped"] > 0).tolist() == [False, True, False, True, True, False]


@pytest.mark.parametrize("name", CAPTURED)
def test_launches_that_a_gpu_recorded(name: str) -> None:
    with np.load(DATA / f"{name}.npz") as arrays:
        manifest = Manifest.from_json(arrays["manifest"].tobytes().decode())
        buffer = arrays["buffer"]
    ctas = len(read_buffer(buffer, manifest).ctas)
    raws = [RawLaunch(index, manifest, 0, index % 3, ctas, buffer.copy()) for index in range(7)]
    faulty(raws[3].buffer, manifest, "unfinished")
    faulty(raws[5].buffer, manifest, "wrong digest")
    area_bytes = manifest.cta_bytes(read_buffer(buffer, manifest).bits.ring_log2)
    for raw in raws[1:]:  # each begins later than the one before
        headers = packed_headers(raw.buffer, ctas, area_bytes)
        headers["end_globaltimer"] += np.uint64(raw.index << 20)
        headers["start_ns_low"] += np.uint32(raw.index << 20)
    together = check(raws)
    assert together.launches["launch"].tolist() == [0, 1, 2, 3, 4, 6]
    assert together.df["launch"].is_monotonic_increasing


def test_small_launches_share_bundles_and_large_ones_do_not() -> None:
    made = launch([Program(BODY)], ctas=3)
    other = launch([Program(BODY)], ctas=5)
    raws = [
        RawLaunch(i, one.manifest, 0, 0, n, one.buffer)
        for i, (one, n) in enumerate([(made, 3), (other, 5)] * 4)
    ]
    assert [[place for place, _ in group] for group in bundles.groups(raws)] == [[0, 2, 4, 6], [1, 3, 5, 7]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundles, "MOST_BYTES", 2 * made.buffer.nbytes)
        assert [len(group) for group in bundles.groups(raws)] == [2, 1, 1, 2, 1, 1]


def test_headers_with_the_grid_of_another_launch() -> None:
    """That is said of each, before CTAs are counted that the launches do not have."""
    with np.load(DATA / "attention-heavy-0.npz") as arrays:
        manifest = Manifest.from_json(arrays["manifest"].tobytes().decode())
        buffer = arrays["buffer"]
    assert len(read_buffer(buffer, manifest).ctas) == 4
    made = tables([RawLaunch(index, manifest, 0, 0, 3, buffer) for index in range(2)], alone=False)
    assert made.launches.empty
    assert sum("has a grid of" in note for note in made.metadata["notes"]) == 2
