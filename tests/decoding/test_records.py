"""The record format and the manifest: what a kernel's stores and the decoder must agree on."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profscope.compat.programs import manifest_in
from profscope.instrument_passes.errors import ManifestError
from profscope.instrument_passes.ir.tokens import quote, unquote
from profscope.instrument_passes.manifest import SCHEMA, Manifest
from profscope.instrument_passes.records import (
    BASE_ALIGNMENT,
    CTA_HEADER,
    LAUNCH_HEADER,
    MAX_RING_LOG2,
    MAX_STAMPED,
    PLACE_RANK_SHIFT,
    SECTOR,
    STAMP,
    STAMPS_ALIGN,
    VECTOR,
    LaunchBits,
    byte_offset,
)
from tests.support.programs import BODY, bodies, nodes
from tests.support.synth import Program, launch


@pytest.mark.parametrize(
    ("header", "size", "stores"),
    [
        (LAUNCH_HEADER, 2 * SECTOR, {"launch_bits": 0}),
        (CTA_HEADER, SECTOR, {"start_clock_low": 0, "end_clock": 16}),
        (STAMP, VECTOR, {"start_clock_low": 0, "start_ns_low": 4, "duration_cycles": 8, "place": 12}),
    ],
)
def test_header_fields_lie_where_the_vector_stores_put_them(
    header: np.dtype[np.void], size: int, stores: dict[str, int]
) -> None:
    assert header.itemsize == size
    assert {field: byte_offset(header, field) for field in stores} == stores
    ends = [offset + dtype.itemsize for _, dtype, offset in _fields(header)]
    assert [offset for _, _, offset in _fields(header)] == [0, *ends[:-1]]  # no hidden padding
    assert ends[-1] == size
    with pytest.raises(KeyError):
        byte_offset(header, "colour")


def _fields(header: np.dtype[np.void]) -> list[tuple[str, np.dtype[Any], int]]:
    assert header.fields is not None
    return [(name, dtype, offset) for name, (dtype, offset, *_) in header.fields.items()]


def test_the_page_about_the_format_tells_the_truth() -> None:
    page = (Path(__file__).parents[2] / "docs" / "records.md").read_text()
    rows = [line.split(" | ")[:3] for line in page.splitlines() if re.match(r"\| \d+ \| `", line)]
    assert rows == [
        [f"| {offset}", f"`{name}`", f"u{8 * dtype.itemsize}"]
        for header in (STAMP, LAUNCH_HEADER, CTA_HEADER)
        for name, dtype, offset in _fields(header)
        if name != "reserved"
    ]
    assert f"Version {SCHEMA}," in page
    assert f"## The launch header\n\n{LAUNCH_HEADER.itemsize} bytes" in page
    assert f"## Stamps\n\n{STAMP.itemsize} bytes" in page
    assert f"more than {MAX_STAMPED:,} CTAs" in page
    assert f"multiple of {STAMPS_ALIGN} bytes" in page
    assert f"## The CTA header\n\n{CTA_HEADER.itemsize} bytes" in page
    assert f"multiples of {SECTOR} bytes" in page
    assert f"bits from {PLACE_RANK_SHIFT} on" in page
    kinds = set(re.findall(r"^- \*\*(\w+)\*\*:", page, re.MULTILINE))
    made = launch([Program(BODY), Program((), 1, 1)]).manifest
    assert kinds == {c.kind for f in made.sections[0].frames for c in f.columns} | {"count", "ran"}


@given(st.integers(0, 31), st.integers(0, MAX_RING_LOG2))
def test_launch_bits_fit_below_the_base_address(stride_log2: int, ring_log2: int) -> None:
    bits = LaunchBits(stride_log2, ring_log2)
    assert LaunchBits.decode(bits.encode()) == bits
    assert bits.encode() & LaunchBits.ENABLE == LaunchBits.ENABLE
    assert 0 < bits.encode() < BASE_ALIGNMENT


@given(body=bodies, partition=st.lists(nodes, max_size=3).map(tuple))
def test_a_manifest_survives_json_and_a_module_attribute(body: tuple, partition: tuple) -> None:  # type: ignore[type-arg]
    manifest = launch([Program(body, 2), Program(partition, 1, 1)]).manifest
    assert Manifest.from_json(manifest.to_json()) == manifest
    assert Manifest.from_json(manifest.to_json()).digest == manifest.digest
    assert unquote(quote(manifest.to_json())) == manifest.to_json()
    # As MLIR prints it back.
    printed = quote(manifest.to_json()).replace('\\"', "\\22")
    assert manifest_in(f"module attributes {{profscope.manifest = {printed}}} {{\n}}") == manifest


@given(
    body=bodies,
    partitions=st.lists(st.lists(nodes, max_size=3).map(tuple), max_size=3),
    ring=st.integers(4, 9),
)
def test_no_two_frames_of_a_warp_overlap(body: tuple, partitions: list[tuple], ring: int) -> None:  # type: ignore[type-arg]
    programs = [Program(body), *(Program(p, 1, group) for group, p in enumerate(partitions, start=1))]
    manifest = launch(programs).manifest
    # A worker warp runs one partition of every warp_specialize op; the body runs on other warps.
    for sections in ([manifest.sections[0]], manifest.sections[1:]):
        taken: list[tuple[int, int]] = []
        for section in sections:
            for frame in section.frames:
                start = manifest.start(frame, ring)
                taken.append((start, start + frame.rows(ring) * frame.row_bytes))
                assert start % min(VECTOR, frame.row_bytes & -frame.row_bytes) == 0
        taken.sort()
        assert all(end <= begin for (_, end), (begin, _) in pairwise(taken))
        assert all(end <= manifest.segment_bytes(ring) for _, end in taken)
    # A warp's rows lie as its stores need it, whatever warp and CTA.
    widest = max(min(VECTOR, f.row_bytes & -f.row_bytes) for s in manifest.sections for f in s.frames)
    assert manifest.segment_bytes(ring) % widest == 0
    assert manifest.segment_bytes(ring) % SECTOR == 0 or SECTOR % manifest.segment_bytes(ring) == 0
    assert manifest.cta_bytes(ring) % SECTOR == 0


def test_what_is_no_manifest_is_refused() -> None:
    for text in ("", "{", "[]", "3", '{"kernel": "k"}'):
        with pytest.raises(ManifestError, match="not a profscope manifest"):
            Manifest.from_json(text)
    newer = json.loads(launch([Program(())]).manifest.to_json()) | {"schema": SCHEMA + 1}
    with pytest.raises(ManifestError, match=f"schema {SCHEMA + 1} is not {SCHEMA}"):
        Manifest.from_json(json.dumps(newer))
