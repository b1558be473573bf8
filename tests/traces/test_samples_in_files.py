"""Samples in traces and spools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import profscope
from profscope.errors import TraceError
from profscope.evidence.sample_tables import sample_tables
from profscope.evidence.tables import Evidence, evidence
from profscope.profiles import Profile
from profscope.store.chunks import SpoolWriter
from profscope.store.spool import Spooler
from tests.support.captures import captured
from tests.support.profiles import regular_profile
from tests.support.round_trips import assert_same
from tests.support.trace_documents import changed

SPANS = regular_profile(launches=2, ctas=2, warps=2, iterations=2)


@cache
def all_evidence() -> Evidence:
    """What makes it takes a disassembler."""
    return evidence([], [captured("chase"), captured("chase", key="other")], [])


@cache
def sampled_profile() -> Profile:
    table, sampler = sample_tables([captured("chase"), captured("chase", key="other")])
    return Profile.of(replace(SPANS, samples=table, metadata={**SPANS.metadata, "sampler": sampler}))


def test_samples_come_back(tmp_path: Path) -> None:
    sampled_profile().save(tmp_path / "t.json")
    assert_same(profscope.load(tmp_path / "t.json"), sampled_profile())


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda samples: samples.update(rows=samples["rows"] + 1), "does not have"),
        (lambda samples: samples.update(rows=10**12), "in a file that can hold"),
        (lambda samples: samples.update(rows="many"), "is damaged"),
        (lambda samples: samples["columns"].pop("stall"), "has no 'stall'"),
        (lambda samples: samples["columns"]["stall"]["values"].pop(), "numbers of no text"),
        (lambda samples: samples["columns"]["stall"].update(values=[3] * 99), "no text"),
        (
            lambda samples: samples["columns"].update(line=samples["columns"]["samples"] | {"data": "x"}),
            "is d",
        ),
    ],
)
def test_damaged_samples_are_refused(damage: Callable[[Any], object], said: str, tmp_path: Path) -> None:
    sampled_profile().save(tmp_path / "t.json")
    document = changed(tmp_path / "t.json", lambda tables: damage(tables["samples"]))
    (tmp_path / "t.json").write_bytes(document)
    with pytest.raises(TraceError, match=said):
        profscope.load(tmp_path / "t.json")


def test_a_spool_keeps_the_samples_that_were_stated_last(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, {"backend": "gpu", "tool": "profscope"})
    writer.evidence(replace(all_evidence(), samples=None))
    writer.session({"backend": "gpu"}, ["a note"])
    loaded = profscope.load(writer.path)
    assert (len(loaded.samples), loaded.metadata.get("sampler")) == (0, None)
    writer.evidence(all_evidence())
    writer.close()
    loaded = profscope.load(writer.path)
    assert loaded.samples.equals(sampled_profile().samples)
    assert (loaded.metadata["sampler"], loaded.metadata["notes"]) == (
        sampled_profile().metadata["sampler"],
        ["a note"],
    )


def test_a_spooler_writes_samples_when_they_are_new(tmp_path: Path) -> None:
    spooler = Spooler(tmp_path, {"backend": "gpu", "tool": "profscope"}, take=lambda size: None)
    sizes = []
    last = replace(all_evidence())
    for sampled in (None, all_evidence(), last):
        for _ in range(2):
            spooler.flush({"backend": "gpu"}, [], sampled)
            sizes.append(spooler.path.stat().st_size)
    steps = [after - before for before, after in pairwise(sizes)]
    assert steps[0] == steps[2] == steps[4]
    assert min(steps[1], steps[3]) > 1000
    spooler.flush({"backend": "gpu"}, [], last, ends=True)
    assert profscope.load(tmp_path).samples.equals(sampled_profile().samples)
