"""What rules conclude from the TTGIR alone, on texts that Triton printed (`tests.support.ttgir_cases`)."""

from __future__ import annotations

import pytest

from profscope.analysis.rules.launch import differs_by_program
from profscope.analysis.rules.memory import scattered_over
from tests.support.corpus_findings import kept_findings, shown_graph
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
