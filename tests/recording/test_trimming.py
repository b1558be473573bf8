"""First launches: memory by what is known of them, and what a guess gave too much taken away again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import profscope
from profscope.decoding.areas import launch_header, read_buffer
from profscope.decoding.decode import decode, ring_rows
from profscope.device.buffers import HostBuffers
from profscope.device.sizing import Blocks, must_be_zero, ring_log2_for_rows
from profscope.instrument_passes.records import MIN_RING_LOG2, LaunchBits
from profscope.recording.trimming import trimmed
from tests.kernels.cases import Case
from tests.support.examples import examples
from tests.support.programs import bodies, launches, seen
from tests.support.quick import quick
from tests.support.sessions import CASES, count, parts_of_session, session, write_all
from tests.support.synth import Node, Program, launch

ANYTHING = 0xA5


@settings(max_examples=examples(150))
@given(body=bodies, warps=st.integers(1, 3), partition=st.none() | bodies, options=launches)
def test_a_trimmed_buffer_has_the_same_records(
    body: tuple[Node, ...], warps: int, partition: tuple[Node, ...] | None, options: dict[str, int]
) -> None:
    programs = [Program(body, warps), *([] if partition is None else [Program(partition, 1, 1)])]
    made = launch(programs, **options)
    short = trimmed(made.buffer, made.manifest)
    decoded, expected = (decode(buffer, made.manifest) for buffer in (short, made.buffer))
    assert seen(decoded, made.manifest) == seen(expected, made.manifest)
    assert (decoded.records, decoded.dropped) == (expected.records, expected.dropped)
    np.testing.assert_array_equal(decoded.headers, expected.headers)
    before, after = (read_buffer(buffer, made.manifest).bits for buffer in (made.buffer, short))
    wanted = ring_log2_for_rows(ring_rows(made.buffer, made.manifest))
    assert after == LaunchBits(before.stride_log2, min(before.ring_log2, wanted))
    np.testing.assert_array_equal(trimmed(short, made.manifest), short)


def anything_but(buffer: np.ndarray[Any, Any], zero: Sequence[Blocks]) -> None:
    """Put something into all of a buffer but what must be zero."""
    buffer[:] = ANYTHING
    for each in zero:
        shape, strides = (each.areas, each.segments, each.size), (each.area_step, each.segment_step, 1)
        np.lib.stride_tricks.as_strided(buffer[each.offset :], shape, strides)[:] = 0


def dirty_memory(patch: pytest.MonkeyPatch) -> list[int]:
    """Guessed launches find memory in which only what must be zero is. Returns the sizes."""
    clean, sizes = HostBuffers.place, []

    def place(self: HostBuffers, lane: Any, size: int, stream: int, bits: int, zero: Any = None) -> Any:
        slice_ = clean(self, lane, size, stream, bits)
        if zero is not None and slice_ is not None:
            sizes.append(size)
            anything_but(slice_.fetch(0, size), zero)
        return slice_

    patch.setattr(HostBuffers, "place", place)
    return sizes


def profile(case: Case, options: dict[str, Any]) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    with session(instrument="heavy", **options) as prof:
        case.launch(case.inputs("cpu"))
    return prof.df, prof.launches, prof.metadata["notes"]


@pytest.mark.parametrize(
    ("name", "options"),
    quick(
        [
            ("branch_in_loop", {}),
            ("joined_paths", {}),
            ("matmul", {"ctas": [0, 1]}),
            ("nested_loops", {"ctas": [0, 2]}),
            ("while", {}),
        ],
        [("branch_in_loop", {}), ("nested_loops", {"ctas": [0, 2]})],
    ),
)
def test_rings_need_not_be_zero(name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that a launch did not write into its rings is read, or kept."""
    expected = profile(CASES[name], options)
    sizes = dirty_memory(monkeypatch)
    found = profile(CASES[name], options)
    assert sizes
    for mine, theirs in zip(found[:2], expected[:2], strict=True):
        timeless = [column for column in mine if "ns" not in str(column).split("_")]
        pd.testing.assert_frame_equal(mine[timeless], theirs[timeless])
    assert found[2] == expected[2]


def test_nothing_of_other_memory_reaches_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = dirty_memory(monkeypatch)
    with session(spool=tmp_path) as prof:
        count(3)
    assert sizes
    content = prof.spool.read_bytes()  # type: ignore[union-attr]
    assert bytes([ANYTHING] * 8) not in content


def test_five_tiny_launches_take_little_memory_and_a_small_spool(tmp_path: Path) -> None:
    with parts_of_session(spool=tmp_path) as parts:
        for n in (3, 4, 5, 3, 3):
            count(n)
        sizes = [each.size for each in parts.recorder.log.launches]
        write_all(parts)
    assert max(sizes) < 1 << 20
    (spool,) = tmp_path.iterdir()
    assert spool.stat().st_size < 1 << 16
    launches = profscope.load(spool).launches
    assert len(launches) == 5
    assert launches["profile_bytes"].max() < 4096


def test_a_first_launch_takes_no_more_than_it_may_use() -> None:
    """The longer the rings, the less memory they may take; see `plan`."""
    with parts_of_session() as parts:
        count(3)
        (first,) = parts.recorder.log.launches
        assert first.guessed
        assert first.size <= 8 << 20
        assert sum(each.total_bytes for each in must_be_zero(first.manifest, 1, first.bits)) < 512
        assert len(parts.recorder.fetch()[0]) == 1  # now it is known
        (first,) = parts.recorder.log.launches
    assert not first.guessed
    assert first.bits.ring_log2 == MIN_RING_LOG2
    assert LaunchBits.decode(int(launch_header(first.fetch())["launch_bits"])) == first.bits
