"""Launches whose CTAs are alike: laying out one of each kind changes nothing but the time that it takes."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profscope.decoding import bundles, decoded
from profscope.decoding.areas import packed_headers, read_buffer, segments
from profscope.decoding.assemble import assemble
from profscope.decoding.build import RawLaunch
from profscope.decoding.decoded import DecodedLaunch
from profscope.decoding.patterns import PAYLOAD_TYPES
from profscope.instrument_passes.manifest import Manifest
from profscope.schema import Tables
from tests.support.examples import examples

DATA = Path(__file__).parents[1] / "data"
# With asynchronous work and without, clusters, partitions, values; the last ones have CTAs of several kinds.
CAPTURES = ("add", "liger_rms_norm", "matmul_cluster", "matmul_tma", "matmul_ws", "attention", "softmax")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches of a few spans are laid out, too, a few at a time, and CTAs are cut in two."""
    for module, name, value in (
        (bundles, "LEAST_ALIKE", 1),
        (bundles, "LEAST_OF_CTA", 1),
        (decoded, "PART_SPANS", 150),
    ):
        monkeypatch.setattr(module, name, value)


def with_ctas(name: str, ctas: Sequence[int]) -> RawLaunch:
    """A captured launch whose CTAs recorded what these of it did, one after the other."""
    with np.load(DATA / f"{name}-heavy-0.npz") as arrays:
        manifest = Manifest.from_json(arrays["manifest"].tobytes().decode())
        captured = arrays["buffer"]
    read = read_buffer(captured, manifest)
    size, there = manifest.cta_bytes(read.bits.ring_log2), len(read.ctas)
    begin = len(captured) - there * size
    areas = captured[begin:].reshape(there, size)[np.array(ctas) % there]
    buffer = np.concatenate([captured[:begin], areas.reshape(-1)])
    packed_headers(buffer, len(ctas), size)["cta"] = np.arange(len(ctas))
    header = buffer[:begin].view(read.header.dtype)
    header["grid_x"], header["grid_y"] = len(ctas), 1
    return RawLaunch(0, manifest, 0, 0, len(ctas), buffer)


def laid_out(raw: RawLaunch) -> bool:
    return of(raw).layout is not None


def of(raw: RawLaunch) -> DecodedLaunch:
    (bundle,), _ = bundles.decoded([(0, raw)])
    return bundle.decoded


def check(raw: RawLaunch) -> Tables:
    """The tables, which are the same span by span."""
    tables = assemble([raw], {"backend": "gpu"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundles, "LEAST_ALIKE", sys.maxsize)
        expected = assemble([raw], {"backend": "gpu"})
    pd.testing.assert_frame_equal(tables.df, expected.df, check_exact=True)
    pd.testing.assert_frame_equal(tables.launches, expected.launches, check_exact=True)
    assert json.dumps(tables.metadata) == json.dumps(expected.metadata)
    return tables


@pytest.mark.parametrize("name", CAPTURES)
def test_laid_out_or_not_the_tables_are_the_same(name: str) -> None:
    raw = with_ctas(name, [0, 0, 1, 1, 1, 2, 3, 0, 1, 2, 3])
    assert laid_out(raw)
    assert len(check(raw).df) > 100


@pytest.mark.parametrize("dtype", ["<i4", "<f4"])
def test_values_that_spans_carry(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    """Ops carry a word of their own: of this kernel, the low half of the clock that they begin with."""
    monkeypatch.setitem(PAYLOAD_TYPES, "clock", np.dtype(dtype))
    raw = with_ctas("attention", [0, 0, 1, 1, 2, 3, 0, 1])
    (section,) = raw.manifest.sections
    section = replace(
        section,
        spans=tuple(
            replace(span, payloads=(span.begin,)) if span.kind == "op" else span for span in section.spans
        ),
        frames=tuple(
            replace(frame, columns=tuple(replace(column, name="value") for column in frame.columns))
            for frame in section.frames
        ),
    )
    manifest = replace(raw.manifest, sections=(section,))
    raw.buffer[4:8] = np.array([manifest.digest], "<u4").view(np.uint8)
    raw = replace(raw, manifest=manifest)
    assert laid_out(raw)
    df = check(raw).df
    ops = df["value"][df["kind"] == "op"]
    assert ops.notna().any()
    if dtype == "<i4":
        low = df["start_cycle"].to_numpy().astype(np.uint32).view(np.int32)
        assert (ops == low[ops.index]).all()


def words_of_cta(raw: RawLaunch, cta: int) -> npt.NDArray[np.uint32]:
    """Its segments' words one after the other, a view."""
    ring_log2 = read_buffer(raw.buffer, raw.manifest).bits.ring_log2
    return segments(raw.buffer, raw.ctas, raw.manifest, ring_log2)[cta].reshape(-1)


@settings(max_examples=examples(12), deadline=None)
@given(cta=st.integers(0, 7), place=st.integers(0, 10_000), cycles=st.integers(-300, 300))
def test_clocks_that_go_another_way_in_one_cta(cta: int, place: int, cycles: int) -> None:
    """Spans that end before they begin, begin in another order, or together with others."""
    raw = with_ctas("matmul", range(8))
    words = words_of_cta(raw, cta)
    clocks = np.flatnonzero(words > 1000)  # and no counts
    words[clocks[place % len(clocks)]] += np.array(cycles).astype(np.uint32)
    check(raw)


def test_a_span_out_of_order_in_one_cta() -> None:
    raw = with_ctas("matmul", range(8))
    assert laid_out(raw)
    begin = next(span.begin for span in raw.manifest.sections[0].spans if span.kind == "op")
    words_of_cta(raw, 5)[begin] += np.uint32(1 << 20)
    assert not laid_out(raw)
    check(raw)
