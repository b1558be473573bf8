"""The table of counts and samples that rules read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from profscope.analysis.evidence_table import EvidenceTable, evidence_table
from profscope.schema import measured_frame, samples_frame
from tests.support.counted import counted

COUNTS = counted(("LDG.E.128", 2, 100), ("LDG.E.128", 2, 50), ("FFMA", 3, 300), sectors=800, launches=2)


def samples(*rows: tuple[int, int, str, int]) -> pd.DataFrame:
    """rows: pc, the pc that it waits for, stall and how many; of line 10 plus the pc if nobody counted it."""
    found = []
    lines = dict(zip(COUNTS["pc"], COUNTS["line"], strict=True))
    for pc, blamed, stall, count in rows:
        place = {"pc": pc, "line": lines.get(pc, 10 + pc), "blamed_pc": blamed}
        place |= {"blamed_line": lines.get(blamed, 10 + blamed), "stall": stall, "samples": count}
        found.append(place | {"class": "branch", "blamed_class": "branch"})
    alike = {"kernel": "k", "variant": 0, "launch": -1, "binary": "bare", "call_path": ""}
    files = {"file": "k.py", "blamed_file": "k.py"}
    return samples_frame(pd.DataFrame(found).assign(**alike, **files).to_dict("list"))


@pytest.fixture
def table() -> EvidenceTable:
    stalled = samples(
        (0, 0, "wait", 5), (32, 16, "long_scoreboard", 20), (32, 480, "barrier", 4), (480, 480, "barrier", 1)
    )  # fmt: skip
    return evidence_table(COUNTS, stalled)


def test_amounts_are_of_one_launch(table: EvidenceTable) -> None:
    loads = table.of("LDG")
    assert (table.total("executed", loads), table.total("sectors", loads)) == (75.0, 800.0)
    assert table.total("most_executed", loads) == 50.0, "of the instruction that ran most often"
    assert (table.total("instructions", loads), table.amount("bytes")[loads].tolist()) == (2.0, [16.0])
    assert table.share("executed", loads) == pytest.approx(75 / 225)


def test_samples_are_at_instructions_and_wait_for_others(table: EvidenceTable) -> None:
    loads, math = table.of("LDG"), table.of("FFMA")
    assert (table.waits(loads), table.samples_at(loads)) == (25 / 30, 5 / 30)
    assert (table.waits(loads, "long_scoreboard"), table.samples_at(math)) == (20 / 30, 24 / 30)
    assert table.stalled("barrier") == table.stalled("barrier", by=("branch",)) == 5 / 30
    assert table.stalled("long_scoreboard", by=("branch",)) == 0.0


def test_what_was_sampled_and_not_counted_has_a_row(table: EvidenceTable) -> None:
    alone = table.of_class("branch")
    assert (len(table), table.line[alone].tolist(), table.amount("executed")[alone].tolist()) == (
        3,
        [490],
        [0.0],
    )
    assert table.place_waited_for(table.all, "barrier") == ("k.py", 490)
    without_counts = evidence_table(measured_frame("counts"), samples((0, 16, "wait", 3)))
    assert without_counts.by_place(without_counts.blamed.sum(axis=1)) == {("k.py", 2): 3.0}


def test_the_place_of_most(table: EvidenceTable) -> None:
    assert table.place_executed(table.all) == ("k.py", 3)
    assert table.place_sampled(table.of("LDG")) == ("k.py", 2)
    assert table.place_sampled(table.of("LDG"), "barrier") is None


def test_idealised_rows_move_no_more_than_their_bytes_need() -> None:
    counts = counted(("LDG.E", 2, 1), ("STG.E", 3, 1)).assign(sectors=[8, 8], sectors_ideal=[2, 16])
    table = evidence_table(counts, measured_frame("samples"))
    assert table.idealised("sectors", table.all).tolist() == [2.0, 8.0]
    assert np.array_equal(table.idealised("sectors", ~table.all), table.amount("sectors"))
