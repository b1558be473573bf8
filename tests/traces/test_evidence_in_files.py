"""Instruction counts and counters in traces and spools, and of several ranks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import profscope
from profscope.evidence.tables import Evidence, evidence, with_evidence
from profscope.profiles import Profile
from profscope.store.chunks import SpoolWriter
from profscope.traces.merging import Part, merged
from profscope.viewer.header import render_top
from tests.support.h200_evidence import counted, values
from tests.support.models import shown
from tests.support.profiles import regular_profile
from tests.support.round_trips import assert_same
from tests.support.validation import validate

KEY = "the key"
KERNEL = "matmul_kernel"


def taken_of(kernel: str = KERNEL) -> Evidence:
    own = {"kernel": kernel, "key": KEY}
    return evidence([counted("gather", **own)], [], [values("gather", **own)])


EVIDENCE = taken_of()
ENTRY = {
    "kernels": {KERNEL: {"counts": 1, "counters": 12}},
    "added_s": 0.5,
    "not_measured": ["no samples: x"],
    "tensors": [{"kernel": KERNEL, "key": KEY, "bytes": {"a_ptr": 4096}}],
}
SPANS = regular_profile(launches=2, ctas=2, warps=2, iterations=2)
TABLES = with_evidence(
    replace(SPANS.tables, metadata={**SPANS.metadata, "evidence": ENTRY}),
    EVIDENCE,
)
PROFILE = Profile.of(TABLES)


def test_tables_come_back(tmp_path: Path) -> None:
    PROFILE.save(tmp_path / "t.json")
    loaded = profscope.load(tmp_path / "t.json")
    assert_same(loaded, PROFILE)
    assert loaded.limits().equals(PROFILE.limits())


def test_a_spool_keeps_what_was_stated_last_in_the_numbers_of_its_launches(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, {"backend": "gpu", "tool": "profscope"})
    for stated in (taken_of("another"), EVIDENCE):
        writer.evidence(stated)
    writer.close()
    loaded = profscope.load(writer.path)
    assert loaded.counts.equals(EVIDENCE.counts)
    assert loaded.counters.equals(EVIDENCE.counters)


def test_counts_of_ranks_add_up_and_counters_are_of_the_first() -> None:
    parts = [Part(replace(TABLES), f"rank{rank}.json", rank) for rank in (0, 1)]
    whole = Profile.of(merged(parts))
    assert validate(whole.tables) == []
    assert whole.counts["executed"].sum() == 2 * PROFILE.counts["executed"].sum()
    assert set(whole.counts["launches"]) == {2}
    assert whole.counters.equals(PROFILE.counters)
    assert whole.metadata["evidence"] == {**ENTRY, "kernels": {KERNEL: {"counts": 2, "counters": 24}}}


def test_views_say_in_one_line_what_binds_a_kernel() -> None:
    top = [line.plain for line in render_top(shown(PROFILE), 100)]
    assert any(f"{KERNEL} is bound by L2 (94 %)" in line for line in top)
    told = PROFILE.report()["kernels"][0]["limits"]
    assert told["bound"] == "bound by L2 (94 %)"
    assert told["peak_pct"]["l2"] > 90
    assert Profile.of(SPANS.tables).report()["kernels"][0]["limits"] is None


def test_diff_tells_counters_that_changed() -> None:
    counters = TABLES.counters
    more = counters["value"].where(counters["counter"] != "dram_read", counters["value"] * 1.4)
    hit = more.where(counters["counter"] != "l2_hit_rate", more - 30)
    other = replace(TABLES, counters=counters.assign(value=hit))
    table = profscope.diff(PROFILE, Profile.of(other))
    changed = {row["counter"]: row["change"] for row in table.attrs["counters"]}
    assert changed == {"dram_read": pytest.approx(40), "l2_hit_rate": pytest.approx(-30)}
    (note,) = [note for note in table.attrs["notes"] if "counters" in note]
    assert note.startswith(f"{KERNEL}: counters: dram_read +40 %, l2_hit_rate ")
    assert profscope.diff(PROFILE, PROFILE).attrs["counters"] == []
