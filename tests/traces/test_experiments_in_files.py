"""Experiments in traces, in parts of a trace, of several ranks, and in what is written to be read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd

import profscope
from profscope.profiles import Profile
from profscope.schema import Tables
from profscope.threads import worker_pool
from profscope.traces.html.document import document
from profscope.traces.merging import Part, merged
from profscope.traces.selecting import selected
from profscope.traces.trace_filter import TraceFilter
from tests.support.experiments import experiment
from tests.support.profiles import regular_profile
from tests.support.round_trips import assert_same
from tests.support.validation import validate

KERNEL = "matmul_kernel"
SPANS = regular_profile(launches=2, ctas=2, warps=2, iterations=2)


def with_rows(*rows: pd.DataFrame) -> Tables:
    return replace(SPANS.tables, experiments=pd.concat(rows, ignore_index=True))


TABLES = with_rows(
    experiment("load a", "off", (40.0, 39.5, 40.5), kernel=KERNEL, place=("m.py", 12)),
    experiment("<store>", "contiguous", None, kernel=KERNEL, place=("m.py", 20)),
    experiment("all global memory", "off", (90.0, 89.0, 91.0), kernel=KERNEL, place=("", 0)),
    experiment("dot", "off", (70.0, 69.0, 71.0), kernel=KERNEL, place=("m.py", 14), valid=False),
)
PROFILE = Profile.of(TABLES)


def test_they_come_back(tmp_path: Path) -> None:
    PROFILE.save(tmp_path / "t.json")
    assert_same(profscope.load(tmp_path / "t.json"), PROFILE)


def test_of_a_configuration_the_first_ranks_stand() -> None:
    """Rows of one run are compared with each other, so runs are not mixed."""
    own = experiment("load a", "off", (10.0, 9.0, 11.0), kernel=KERNEL, place=("m.py", 12))
    more = experiment("store", "off", kernel=KERNEL, place=("m.py", 21))
    other = experiment("load", "off", kernel="another")
    parts = [Part(tables, f"rank{rank}.json", rank) for rank, tables in enumerate((with_rows(own), TABLES))]
    parts.append(Part(with_rows(more, other), "rank2.json", 2))
    whole = Profile.of(merged(parts))
    assert validate(whole.tables) == []
    assert whole.experiments.equals(pd.concat([own, other], ignore_index=True))


def test_a_part_of_a_trace_has_those_of_whole_launches() -> None:
    assert selected(TABLES, TraceFilter(kernels=KERNEL)).experiments.equals(TABLES.experiments)
    assert len(selected(TABLES, TraceFilter(cta=0)).experiments) == 0


def test_the_page_has_a_table_of_those_that_were_timed() -> None:
    def page(tables: Tables) -> str:
        with worker_pool() as pool:
            return document(tables, pool)

    _, _, after = page(TABLES).partition("What each line costs</h2>")
    table, _, _ = after.partition("</table>")
    assert table.index("90.0 % (89.0 to 91.0)") < table.index("load a") < table.index("m.py:12")
    assert "other spills" in table
    assert "store" not in table
    untimed = with_rows(experiment("<store>", "contiguous", None, kernel=KERNEL))
    assert "What each line costs" not in page(untimed)
