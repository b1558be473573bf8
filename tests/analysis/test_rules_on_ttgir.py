"""What rules conclude from the TTGIR alone, on texts that Triton printed (`tests.support.ttgir_cases`)."""

from __future__ import annotations

import inspect

import pytest

from profscope.analysis.rules.exchange import early_reductions
from profscope.analysis.rules.kernel import divisions
from profscope.analysis.rules.launch import differs_by_program
from profscope.analysis.rules.memory import scattered_over
from profscope.analysis.rules.products import summed_products
from profscope.analysis.rules.unused import discarded_results, masked_loop
from tests.support.corpus_findings import kept_findings, shown_graph
from tests.support.ttgir_cases import CASES, TEXTS, graph


def lines_marked(case: str, mark: str) -> set[int]:
    source, first = inspect.getsourcelines(CASES[case][0].fn)
    return {first + at for at, text in enumerate(source) if mark in text}


@pytest.mark.parametrize("case", ["scores-earlier", "scores-from-earlier", "scores-later"])
def test_a_mask_throws_no_tiles_away_if_the_program_bounds_its_loop(case: str) -> None:
    assert masked_loop(graph(case)) is None


@pytest.mark.parametrize(
    ("how", "is_masked"),
    [
        ("sign", False),
        ("scale", False),
        ("diagonal", False),
        ("others", False),
        ("before", True),
        ("behind", True),
    ],
)
def test_a_mask_of_positions_throws_tiles_away_if_it_replaces_them(how: str, is_masked: bool) -> None:
    assert (masked_loop(graph(f"signs-{how}")) is not None) == is_masked


@pytest.mark.parametrize(
    ("case", "is_discarded"),
    [
        ("powers-data", True),
        ("powers-position", False),
        ("powers-result", False),
        ("powers-nothing", False),
        ("tiles-number", True),
        ("tiles-elements", False),
        ("tiles-counter", False),
        ("tiles-nothing", False),
    ],
)
def test_a_loop_or_a_product_is_thrown_away_by_what_was_loaded(case: str, is_discarded: bool) -> None:
    assert bool(list(discarded_results(graph(case)))) == is_discarded


def test_a_loaded_end_is_no_triangle_if_lanes_of_loads_tell() -> None:
    assert masked_loop(graph("lengths-True")) is None
    assert masked_loop(graph("lengths-False")) is not None


@pytest.mark.parametrize(
    ("of", "expected"), [("data", True), ("a-loaded-address", False), ("a-mask", False), ("an-index", False)]
)
def test_a_division_of_data_is_none_that_an_access_needs(of: str, expected: bool) -> None:
    assert list(divisions(graph(f"remainders-{of}")).values()) == [expected]


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


@pytest.mark.parametrize("case", ["row-sums", "centred-rows", "running-totals"])
def test_rows_one_after_the_other_need_their_reductions(case: str) -> None:
    assert graph(case).named(r"^tt\.reduce$", loop=True)
    assert early_reductions(graph(case)) == {}


def test_sums_that_a_loop_only_carries_on_could_come_behind_it() -> None:
    """The peak of the step before has a part in a sum."""
    early = lines_marked("chunked-softmax", "# early")
    assert early_reductions(graph("chunked-softmax")) == dict.fromkeys(early, False)


def test_a_sum_of_what_was_loaded_could_come_behind_its_loop() -> None:
    assert list(early_reductions(graph("total")).values()) == [True]


@pytest.mark.parametrize(
    ("of", "is_product"),
    [
        ("outer-products", True),
        ("squares-of-sums", False),
        ("one-axis", False),
    ],
)
def test_each_factor_of_a_product_lacks_an_axis_that_the_other_has(of: str, is_product: bool) -> None:
    assert bool(summed_products(graph(f"sums-{of}"))) == is_product


@pytest.mark.parametrize("text", sorted(path.name for path in TEXTS.glob("*.ttgir")))
def test_facts_of_texts_are_those_that_are_kept(text: str) -> None:
    assert shown_graph(graph(text.removesuffix(".ttgir"))) == kept_findings()[text]
