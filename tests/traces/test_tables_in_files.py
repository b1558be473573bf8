"""CTAs, samples, counts, counters and experiments in traces and spools, of ranks, and in parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import profscope
from profscope.errors import TraceError
from profscope.evidence.sample_tables import sample_tables
from profscope.evidence.tables import Evidence, evidence, with_evidence
from profscope.profiles import Profile
from profscope.schema import Tables
from profscope.store.chunks import SpoolWriter
from profscope.store.spool import Spooler
from profscope.threads import worker_pool
from profscope.traces.html.document import document
from profscope.traces.jobs.merging import merged
from profscope.traces.jobs.stack import Part
from profscope.traces.selecting import selected
from profscope.traces.trace_filter import TraceFilter
from profscope.viewer.header import render_top
from tests.support.captures import captured
from tests.support.experiments import experiment
from tests.support.h200_evidence import counted, values
from tests.support.models import shown
from tests.support.profiles import regular_profile
from tests.support.round_trips import assert_same
from tests.support.sessions import count, launch_add, session
from tests.support.trace_documents import changed
from tests.support.validation import validate

SPANS = regular_profile(launches=2, ctas=2, warps=2, iterations=2)
KERNEL = "matmul_kernel"
KEY = "the key"
# What a session writes of its evidence.
ENTRY = {
    "kernels": {KERNEL: {"counts": 1, "counters": 12}},
    "added_s": 0.5,
    "not_measured": ["no samples: x"],
    "tensors": [{"kernel": KERNEL, "key": KEY, "bytes": {"a_ptr": 4096}}],
}


def taken_of(kernel: str = KERNEL) -> Evidence:
    own = {"kernel": kernel, "key": KEY}
    return evidence([counted("gather", **own)], [], [values("gather", **own)])


@cache
def with_counts() -> Tables:
    metadata = {**SPANS.metadata, "evidence": ENTRY}
    return with_evidence(replace(SPANS.tables, metadata=metadata), taken_of())


@cache
def all_samples() -> Evidence:
    """What makes it takes a disassembler."""
    return evidence([], [captured("chase"), captured("chase", key="other")], [])


@cache
def with_samples() -> Tables:
    table, sampler = sample_tables([captured("chase"), captured("chase", key="other")])
    return replace(SPANS.tables, samples=table, metadata={**SPANS.metadata, "sampler": sampler})


def of_experiments(*rows: pd.DataFrame) -> Tables:
    return replace(SPANS.tables, experiments=pd.concat(rows, ignore_index=True))


def with_experiments() -> Tables:
    return of_experiments(
        experiment("load a", "off", (40.0, 39.5, 40.5), kernel=KERNEL, place=("m.py", 12)),
        experiment("<store>", "contiguous", None, kernel=KERNEL, place=("m.py", 20)),
        experiment("all global memory", "off", (90.0, 89.0, 91.0), kernel=KERNEL, place=("", 0)),
        experiment("dot", "off", (70.0, 69.0, 71.0), kernel=KERNEL, place=("m.py", 14), valid=False),
    )


def recorded(**options: Any) -> Tables:
    with session(**options) as prof:
        for ctas in (1, 7, 40):
            count(3, ctas)
            launch_add(1024 * ctas)
    return prof.profile.tables


@cache
def every_cta() -> Tables:
    return recorded()


@cache
def some_ctas() -> Tables:
    tables = recorded(ctas=4)
    assert tables.ctas["recorded"].value_counts().to_dict() == {False: 60, True: 36}
    return tables


@pytest.mark.parametrize("suffix", [".json", ".parquet"])
@pytest.mark.parametrize("make", [some_ctas, with_samples, with_counts, with_experiments])
def test_tables_come_back(make: Callable[[], Tables], suffix: str, tmp_path: Path) -> None:
    profile = Profile.of(make())
    profile.save(tmp_path / f"t{suffix}")
    loaded = profscope.load(tmp_path / f"t{suffix}")
    assert_same(loaded, profile)
    assert loaded.limits().equals(profile.limits())


def test_ctas_of_launches_that_are_gone_are_not_saved(tmp_path: Path) -> None:
    tables = every_cta()
    first = tables.launches[:2]
    kept = tables.df["launch"].isin(first["launch"])
    Profile.of(replace(tables, df=tables.df[kept], launches=first)).save(tmp_path / "t.json")
    assert profscope.load(tmp_path / "t.json").ctas["launch"].tolist() == [0, 1]


DAMAGES: list[tuple[Callable[[], Tables], Callable[[Any], object], str]] = [
    (every_cta, lambda ours: ours["ctas"].update(rows=ours["ctas"]["rows"] + 1), "not have 97 values"),
    (
        every_cta,
        lambda ours: ours.update(launches={name: each[:-1] for name, each in ours["launches"].items()}),
        "the launch is missing",
    ),
    (with_samples, lambda ours: ours["samples"].update(rows=ours["samples"]["rows"] + 1), "does not have"),
    (with_samples, lambda ours: ours["samples"].update(rows=10**12), "in a file that can hold"),
    (with_samples, lambda ours: ours["samples"].update(rows="many"), "is damaged"),
    (with_samples, lambda ours: ours["samples"]["columns"].pop("stall"), "has no 'stall'"),
    (with_samples, lambda ours: ours["samples"]["columns"]["stall"]["values"].pop(), "numbers of no text"),
    (with_samples, lambda ours: ours["samples"]["columns"]["stall"].update(values=[3] * 99), "no text"),
    (
        with_samples,
        lambda ours: ours["samples"]["columns"].update(
            line=ours["samples"]["columns"]["samples"] | {"data": "x"}
        ),
        "is d",
    ),
]


@pytest.mark.parametrize(("make", "damage", "said"), DAMAGES)
def test_damaged_tables_are_refused(
    make: Callable[[], Tables], damage: Callable[[Any], object], said: str, tmp_path: Path
) -> None:
    Profile.of(make()).save(tmp_path / "t.json")
    (tmp_path / "t.json").write_bytes(changed(tmp_path / "t.json", damage))
    with pytest.raises(TraceError, match=said):
        profscope.load(tmp_path / "t.json")


# Spools.


def test_the_table_of_ctas_comes_back_from_a_spool(tmp_path: Path) -> None:
    assert len(every_cta().ctas) == 2 * (1 + 7 + 40)
    for at, options in enumerate(({}, {"ctas": 4})):
        spooled = recorded(spool=tmp_path / f"spool{at}", **options)
        pd.testing.assert_frame_equal(profscope.load(tmp_path / f"spool{at}").ctas, spooled.ctas)


def test_a_spool_keeps_what_was_stated_last_in_the_numbers_of_its_launches(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, {"backend": "gpu", "tool": "profscope"})
    for stated in (taken_of("another"), taken_of()):
        writer.evidence(stated)
    writer.close()
    loaded = profscope.load(writer.path)
    assert loaded.counts.equals(taken_of().counts)
    assert loaded.counters.equals(taken_of().counters)


def test_a_spool_keeps_the_samples_that_were_stated_last(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path, {"backend": "gpu", "tool": "profscope"})
    writer.evidence(replace(all_samples(), samples=None))
    writer.session({"backend": "gpu"}, ["a note"])
    loaded = profscope.load(writer.path)
    assert (len(loaded.samples), loaded.metadata.get("sampler")) == (0, None)
    writer.evidence(all_samples())
    writer.close()
    loaded, expected = profscope.load(writer.path), with_samples()
    assert loaded.samples.equals(expected.samples)
    assert (loaded.metadata["sampler"], loaded.metadata["notes"]) == (
        expected.metadata["sampler"],
        ["a note"],
    )


def test_a_spooler_writes_samples_when_they_are_new(tmp_path: Path) -> None:
    spooler = Spooler(tmp_path, {"backend": "gpu", "tool": "profscope"}, take=lambda size: None)
    sizes = []
    last = replace(all_samples())
    for sampled in (None, all_samples(), last):
        for _ in range(2):
            spooler.flush({"backend": "gpu"}, [], sampled)
            sizes.append(spooler.path.stat().st_size)
    steps = [after - before for before, after in pairwise(sizes)]
    assert steps[0] == steps[2] == steps[4]
    assert min(steps[1], steps[3]) > 1000
    spooler.flush({"backend": "gpu"}, [], last, ends=True)
    assert profscope.load(tmp_path).samples.equals(with_samples().samples)


# Of several ranks.


def test_ranks_keep_their_ctas() -> None:
    tables = every_cta()
    launches = tables.launches.assign(variant=np.array([1, 0, 1, 0, 1, 0], np.int32))
    other = replace(tables, launches=launches, ctas=tables.ctas.assign(start_ns=tables.ctas["start_ns"] + 5))
    together = merged([Part(tables, "a", 0), Part(other, "b", 1)])
    ctas, count_ = together.ctas, len(tables.ctas)
    assert len(ctas) == 2 * count_
    row = together.launches.set_index("launch").loc[ctas["launch"]].reset_index()
    assert row["rank"].tolist() == [0] * count_ + [1] * count_
    for name in ("kernel", "variant"):
        assert (ctas[name].astype(str).to_numpy() == row[name].astype(str).to_numpy()).all()
    assert (ctas["start_ns"] >= row["start_ns"]).all()
    assert (ctas["end_ns"] <= row["end_ns"]).all()
    assert ctas["start_cycle"].tolist() == tables.ctas["start_cycle"].tolist() * 2


def test_counts_of_ranks_add_up_and_counters_are_of_the_first() -> None:
    tables = with_counts()
    whole = Profile.of(merged([Part(replace(tables), f"rank{rank}.json", rank) for rank in (0, 1)]))
    assert validate(whole.tables) == []
    assert whole.counts["executed"].sum() == 2 * tables.counts["executed"].sum()
    assert set(whole.counts["launches"]) == {2}
    assert whole.counters.equals(tables.counters)
    assert whole.metadata["evidence"] == {**ENTRY, "kernels": {KERNEL: {"counts": 2, "counters": 24}}}


def test_of_a_configuration_the_experiments_of_the_first_rank_stand() -> None:
    """Rows of one run are compared with each other, so runs are not mixed."""
    own = experiment("load a", "off", (10.0, 9.0, 11.0), kernel=KERNEL, place=("m.py", 12))
    more = experiment("store", "off", kernel=KERNEL, place=("m.py", 21))
    other = experiment("load", "off", kernel="another")
    ranks = (of_experiments(own), with_experiments(), of_experiments(more, other))
    whole = Profile.of(merged([Part(each, f"rank{rank}.json", rank) for rank, each in enumerate(ranks)]))
    assert validate(whole.tables) == []
    assert whole.experiments.equals(pd.concat([own, other], ignore_index=True))


# Parts, and what views make of them.


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (TraceFilter(launch=2), list(range(7))),
        (TraceFilter(kernels="add", cta=3), [3, 3]),
        (TraceFilter(launch=2, warp=0), []),
    ],
)
def test_a_part_has_its_ctas(only: TraceFilter, expected: list[int]) -> None:
    assert selected(every_cta(), only).ctas["cta"].tolist() == expected


def test_a_part_of_a_trace_has_the_experiments_of_whole_launches() -> None:
    tables = with_experiments()
    assert selected(tables, TraceFilter(kernels=KERNEL)).experiments.equals(tables.experiments)
    assert len(selected(tables, TraceFilter(cta=0)).experiments) == 0


def test_the_page_has_a_table_of_experiments_that_were_timed() -> None:
    def page(tables: Tables) -> str:
        with worker_pool() as pool:
            return document(tables, pool)

    _, _, after = page(with_experiments()).partition("What each line costs</h2>")
    table, _, _ = after.partition("</table>")
    assert table.index("90.0 % (89.0 to 91.0)") < table.index("load a") < table.index("m.py:12")
    assert "other spills" in table
    assert "store" not in table
    untimed = of_experiments(experiment("<store>", "contiguous", None, kernel=KERNEL))
    assert "What each line costs" not in page(untimed)


def test_views_say_in_one_line_what_binds_a_kernel() -> None:
    profile = Profile.of(with_counts())
    top = [line.plain for line in render_top(shown(profile), 100)]
    assert any(f"{KERNEL} is bound by L2 (94 %)" in line for line in top)
    told = profile.report()["kernels"][0]["limits"]
    assert told["bound"] == "bound by L2 (94 %)"
    assert told["peak_pct"]["l2"] > 90
    assert SPANS.report()["kernels"][0]["limits"] is None


def test_diff_tells_counters_that_changed() -> None:
    tables = with_counts()
    profile, counters = Profile.of(tables), tables.counters
    more = counters["value"].where(counters["counter"] != "dram_read", counters["value"] * 1.4)
    hit = more.where(counters["counter"] != "l2_hit_rate", more - 30)
    table = profscope.diff(profile, Profile.of(replace(tables, counters=counters.assign(value=hit))))
    found = {row["counter"]: row["change"] for row in table.attrs["counters"]}
    assert found == {"dram_read": pytest.approx(40), "l2_hit_rate": pytest.approx(-30)}
    (note,) = [note for note in table.attrs["notes"] if "counters" in note]
    assert note.startswith(f"{KERNEL}: counters: dram_read +40 %, l2_hit_rate ")
    assert profscope.diff(profile, profile).attrs["counters"] == []
