"""The sampler's captures of an H200 as a table: nothing lost, and charged to what a kernel waited for."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profscope.errors import ToolchainError
from profscope.evidence import sample_tables as module
from profscope.evidence.sample_tables import numbering, sample_tables
from profscope.evidence.tables import evidence, with_evidence
from profscope.profiles import Profile
from profscope.schema import samples_frame
from tests.support.captures import CAPTURES, captured
from tests.support.examples import examples
from tests.support.profiles import launch_table
from tests.support.validation import validate


@cache
def sampled(name: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Two launches of a configuration, and one of another."""
    return sample_tables([captured(name), captured(name), captured(name, key="other")])


@pytest.mark.parametrize("name", CAPTURES)
def test_every_sample_is_in_the_table_once(name: str) -> None:
    table, about = sampled(name)
    launch = captured(name)
    given = pd.Series(launch.rows["samples"].astype(np.int64))
    by_stall = given.groupby([launch.reasons[reason] for reason in launch.rows["reason"]]).sum()
    by_stall = by_stall[by_stall > 0]
    for variant, times in ((0, 2), (1, 1)):
        of_launch = table[table["variant"] == variant]
        assert (of_launch.groupby("stall")["samples"].sum() == times * by_stall).all()
        by_pc = of_launch.groupby("pc")["samples"].sum()
        assert (by_pc == times * given.groupby(launch.rows["pc"].astype(np.int64)).sum()).all()
    assert about["samples"] == 3 * launch.taken == table["samples"].sum()
    assert launch.rows["not_issued"].sum() > 0, "which are not added"
    assert validate(Profile(launches=launch_table([3], [launch.subject.kernel]), samples=table).tables) == []


@pytest.mark.parametrize("name", CAPTURES)
def test_what_is_known_of_samples(name: str) -> None:
    _, about = sampled(name)
    launch = captured(name)
    entries = about["binaries"]
    assert [(each["binary"], each["variant"], each["launches"]) for each in entries] == [
        ("bare", 0, 2),
        ("bare", 1, 1),
    ]
    assert entries[1]["apart"] is None
    seen, expected = entries[0]["apart"]
    assert seen < expected < 0.02, "twice the same launch"
    assert about["period_cycles"] == entries[0]["period_cycles"] == [1 << launch.period_log2]
    assert (about["launches"], about["dropped"], about["notes"]) == (3, 0, [])
    assert json.loads(json.dumps(about)) == about
    classes: dict[str, int] = {}
    for _, _, _, counts in entries[0]["instructions"]:
        for cls, count in counts.items():
            classes[cls] = classes.get(cls, 0) + count
    assert classes["global load"] > 0


def share(table: pd.DataFrame, chosen: pd.Series[bool]) -> float:
    return float(table.loc[chosen, "samples"].sum() / table["samples"].sum())


def test_a_pointer_chase_waits_for_its_load() -> None:
    table, _ = sampled("chase")
    waits = (table["stall"] == "long_scoreboard") & (table["blamed_class"] == "global load")
    assert share(table, waits & (table["blamed_line"] == 53)) >= 0.94
    assert (table.loc[waits, "blamed_file"].str.endswith("bench/cold.py")).all()


def test_a_layer_norm_waits_for_its_row() -> None:
    table, _ = sampled("layer_norm")
    waits = (table["stall"] == "long_scoreboard") & (table["blamed_line"] == 24)
    assert share(table, waits) == pytest.approx(0.363, abs=0.001)
    assert set(table.loc[waits, "blamed_class"]) == {"global load"}
    reduction = (table["line"] == 25) & table["call_path"].str.contains("> standard.py:293")
    barrier = table["stall"] == "barrier"
    assert share(table, barrier & reduction) > 0.05
    assert not (table.loc[barrier, "blamed_class"] == "barrier").all(), "those who are late are elsewhere"


def test_an_attention_waits_for_its_matrix_unit() -> None:
    table, _ = sampled("attention")
    arrive = table["stall"] == "warpgroup_arrive"
    assert set(table.loc[arrive, "line"]) <= {23, 29, 30}
    assert table["call_path"].str.startswith("attention_kernel attention.py:54 > ").any()


def known() -> dict[str, list[dict[str, str]]]:
    return {"chase_kernel": [{"key": "first"}, {"key": "second"}]}


def test_configurations_are_numbered_as_the_profile_has_them() -> None:
    launches = [captured("chase", key=key) for key in ("new", "second", "newer", "first")]
    table, about = sample_tables(launches, numbering(known()))
    assert sorted(table["variant"].unique()) == [0, 1, 2, 3]
    keys = {each["key"]: each["variant"] for each in about["binaries"]}
    assert keys == {"first": 0, "second": 1, "new": 2, "newer": 3}
    other = Profile(metadata={"variants": {"chase_kernel": [{"key": "newer"}]}})
    again = with_evidence(other, replace(evidence([], [], []), samples=(table, about)))
    assert again.metadata["sampler"]["binaries"][3] == {**about["binaries"][3], "variant": 0}
    assert again.samples["samples"][again.samples["variant"] == 0].sum() == captured("chase").taken
    assert set(again.samples["variant"]) == {0, 1, 2, 3}


def test_tables_get_samples_and_what_is_said_of_them() -> None:
    metadata = {
        "notes": ["first"],
        "variants": known(),
        "sampler": {"kernels": {"chase_kernel": {"bare": 1}}},
    }
    table, about = sample_tables([replace(captured("chase", key="second"), in_callees=2)])
    assert set(table["variant"]) == {0}
    tables = with_evidence(Profile(metadata=metadata), replace(evidence([], [], []), samples=(table, about)))
    assert set(tables.samples["variant"]) == {1}
    first, note = tables.metadata["notes"]
    assert (first, note.startswith("chase_kernel: 2 samples ")) == ("first", True)
    assert tables.metadata["sampler"]["kernels"] == {"chase_kernel": {"bare": 1}}
    assert tables.metadata["sampler"]["samples"] == captured("chase").taken


def test_a_binary_that_cannot_be_read_has_samples_without_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    table, about = sample_tables([captured("chase", ptx="// another"), captured("chase", key="other")])
    bare = table[table["variant"] == 0]
    assert set(bare["line"]) == {0}
    assert (bare["pc"] == bare["blamed_pc"]).all()
    assert bare["samples"].sum() == captured("chase").taken
    (note,) = about["notes"]
    assert note.startswith("chase_kernel: samples have no lines: ")
    assert "PTX" in note
    assert (table.loc[table["variant"] == 1, "line"] > 0).any()

    (note,) = sample_tables([captured("chase", cubin=b"")])[1]["notes"]
    assert note.startswith("chase_kernel: samples have no lines: ")
    assert "ELF" in note

    def nothing(*_: object) -> None:
        raise ToolchainError("no nvdisasm")

    monkeypatch.setattr(module, "instructions", nothing)
    (note,) = sample_tables([captured("chase")])[1]["notes"]
    assert note.endswith(": no nvdisasm")


def test_samples_beside_the_binary_are_counted() -> None:
    launch = captured("chase")
    rows = launch.rows.copy()
    rows["pc"][0] = 1 << 20
    table, about = sample_tables([replace(launch, rows=rows)])
    assert table["samples"].sum() == launch.taken
    assert about["notes"][0].endswith("at no instruction of the binary, such as those of other functions")


def test_samples_of_noinline_functions_are_left_out_by_name() -> None:
    _, about = sample_tables(
        [replace(captured("chase"), in_callees=3), replace(captured("chase"), in_callees=4)]
    )
    (note,) = about["notes"]
    assert note.startswith("chase_kernel: 7 samples ")


def test_nothing_sampled() -> None:
    table, about = sample_tables([])
    pd.testing.assert_frame_equal(table, samples_frame())
    assert (about["samples"], about["binaries"]) == (0, [])


ROWS = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 18), st.integers(0, 40)), max_size=12)


@settings(max_examples=examples(15), deadline=None)
@given(st.lists(st.tuples(ROWS, st.sampled_from(range(3))), max_size=4))
def test_whatever_is_sampled_is_in_the_table_once(
    launches: list[tuple[list[tuple[int, int, int]], int]],
) -> None:
    """Also pcs that the binary has not, reasons that are not charged, and rows that name one thing twice."""
    chase, counts = captured("chase"), Counter[tuple[int, int, str]]()
    sampled_launches = []
    for rows, number in launches:
        array = np.zeros(len(rows), chase.rows.dtype)
        for at, (instruction, reason, samples) in enumerate(rows):
            array[at]["pc"], array[at]["reason"], array[at]["samples"] = 16 * instruction, reason, samples
            array[at]["not_issued"] = samples // 2
            counts[number, 16 * instruction, chase.reasons[reason]] += samples
        sampled_launches.append(replace(captured("chase", key=str(number)), rows=array))
    table, about = sample_tables(sampled_launches, lambda _, key: int(key))
    seen = table.groupby(["variant", "pc", "stall"])["samples"].sum()
    assert seen.to_dict() == {key: samples for key, samples in counts.items() if samples}
    assert about["samples"] == sum(counts.values())
    listed = launch_table([3, 4], ["chase_kernel"] * 2)
    assert validate(Profile(launches=listed, samples=table, metadata={"sampler": about}).tables) == []


SHARES = st.lists(st.integers(1, 50), min_size=1, max_size=6)


@given(st.lists(st.tuples(st.integers(0, 1000), SHARES), min_size=1, max_size=5), st.floats(0, 100))
def test_samples_are_divided_whole(groups: list[tuple[int, list[int]]], offset: float) -> None:
    stalls = pd.DataFrame({"pc": range(len(groups)), "stall": "wait", "samples": [n for n, _ in groups]})
    rows = [(pc, "wait", cause, part / sum(parts)) for pc, (_, parts) in enumerate(groups)
            for cause, part in enumerate(parts)]  # fmt: skip
    shares = pd.DataFrame(rows, columns=["pc", "stall", "blamed_pc", "share"])
    divided = module.divided_by_cause(stalls, shares, offset)
    given = dict(enumerate(n for n, _ in groups))
    assert divided.groupby("pc")["samples"].sum().to_dict() == {pc: n for pc, n in given.items() if n}
    wanted = {(pc, cause): given[pc] * share for pc, _, cause, share in rows}
    for row in divided.itertuples():
        assert abs(row.samples - wanted[row.pc, row.blamed_pc]) < 1 + 1e-6


def test_over_many_launches_each_cause_gets_its_share() -> None:
    stalls = pd.DataFrame({"pc": [16], "stall": "barrier", "samples": [3]})
    shares = pd.DataFrame({"pc": 16, "stall": "barrier", "blamed_pc": range(10), "share": 0.1})
    parts = [module.divided_by_cause(stalls, shares, at * module.GOLDEN) for at in range(100)]
    by_cause = pd.concat(parts).groupby("blamed_pc")["samples"].sum()
    assert by_cause.tolist() == pytest.approx([30] * 10, abs=2)
