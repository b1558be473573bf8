"""What rules conclude from the TTGIR alone, on texts that Triton printed (`tests.support.ttgir_cases`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.diagnose import RECORDINGS
from profscope.analysis.evidence_table import evidence_table
from profscope.analysis.rules.diagnose import RULES
from profscope.analysis.rules.kernel import Kernel
from profscope.analysis.rules.launch import differs_by_program
from profscope.analysis.rules.memory import scattered_over
from profscope.analysis.rules.rule import Where
from profscope.profiles import load
from profscope.schema import measured_frame
from tests.support.corpus_findings import kept_findings, shown_graph
from tests.support.counted import counted
from tests.support.kernel_of import kernel_in
from tests.support.ttgir_cases import TEXTS, graph


@pytest.mark.parametrize(
    ("of", "expected"), [("elements", {0}), ("rows", set()), ("steps", set()), ("one-number", set())]
)
def test_an_access_is_scattered_if_nothing_but_data_says_where(of: str, expected: set[int]) -> None:
    seen = graph(f"lookups-{of}")
    assert set().union(*(scattered_over(seen, node) for node in seen.named(r"^tt\.load$"))) == expected


@pytest.mark.parametrize(
    ("of", "differs"),
    [("its-own", False), ("an-argument", False), ("a-triangle", True), ("data", True), ("a-branch", True)],
)
def test_programs_do_alike_if_their_loops_have_as_many_steps(of: str, differs: bool) -> None:
    seen = graph(f"steps-{of}")
    assert any(differs_by_program(seen, node) for node in seen.nodes) is differs


@pytest.mark.parametrize("text", sorted(path.name for path in TEXTS.glob("*.ttgir")))
def test_facts_of_texts_are_those_that_are_kept(text: str) -> None:
    assert shown_graph(graph(text.removesuffix(".ttgir"))) == kept_findings()[text]


def kernel_of_text(text: str, shares: dict[int, float], op: str = "FFMA", **amounts: int) -> Kernel:
    """One that was observed, with another TTGIR. shares: the part of samples that waits at each line."""
    observed = kernel_in(load(RECORDINGS / "chain-of-rows.pftrace.gz").tables)
    counts = counted(*((op, line, 100) for line in shares), file=observed.place[0], **amounts)
    waits = np.array([[1000 * share] for share in shares.values()])
    plain = evidence_table(counts, measured_frame("samples"))
    table = replace(plain, at=waits, blamed=waits, stalls=("wait",))
    resources = replace(observed.resources, table=table, used={}, counters={})
    return replace(observed, graph=graph(text), table=table, resources=resources)


def wheres(kernel: Kernel, name: str) -> list[Where]:
    rules = [rule for rule in RULES if rule.name == name and not rule.is_silent(kernel)]
    return [where for rule in rules for where in rule.where(kernel)]


@pytest.mark.parametrize(
    ("text", "computing", "place"),
    [("tiles-asked", 110, 112), ("powers-data", 89, 89), ("tiles-number", 110, 114)],
)
@pytest.mark.parametrize("share", [0.14, 0.6])
def test_results_that_a_condition_replaces_cost_half_of_what_computes_them(
    text: str, computing: int, place: int, share: float
) -> None:
    found = wheres(kernel_of_text(text, {computing: share, 500: 1 - share}), "masked-work")
    told = [(where.place[1], where.edit.removed) for where in found if where.edit is not None]
    assert told == ([(place, pytest.approx(share / 2))] if share > 0.15 else [])


@pytest.mark.parametrize(("grid", "part"), [(1320, 0.5), (165, 0.2), (132, 0.0)])
def test_a_loop_that_ends_with_its_mask_saves_half_but_not_in_the_longest_program(
    grid: int, part: float
) -> None:
    kernel = replace(kernel_of_text("signs-behind", {72: 1.0}), grid=grid, sms=132)
    (found,) = wheres(kernel, "masked-work")
    assert found.edit is not None
    assert (found.place[1], found.edit.removed) == (72, pytest.approx(part))
    assert kernel.resources.kept(found.edit)["issue"] == pytest.approx(1 - part)


@pytest.mark.parametrize(("text", "line", "told"), [("elements", 164, []), ("rows", 156, [156])])
def test_lanes_that_go_where_their_data_says_need_their_sectors(
    text: str, line: int, told: list[int]
) -> None:
    kernel = kernel_of_text(f"lookups-{text}", {line: 1.0}, "LDG.E", sectors=3200, sectors_ideal=400)
    assert [where.place[1] for where in wheres(kernel, "uncoalesced-load")] == told
