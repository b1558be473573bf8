"""What rules conclude from the TTGIR alone, on texts that Triton printed (`tests.support.ttgir_cases`)."""

from __future__ import annotations

import inspect

import pytest

from profscope.analysis.rules.exchange import conversion_lines, early_reductions
from profscope.analysis.rules.kernel import divisions
from profscope.analysis.rules.launch import differs_by_program
from profscope.analysis.rules.memory import scattered_over
from profscope.analysis.rules.products import summed_products
from profscope.analysis.rules.unused import discarded_loops, discarded_products, masked_loop
from tests.support.ttgir_cases import CASES, graph


def lines_marked(case: str, mark: str) -> set[int]:
    source, first = inspect.getsourcelines(CASES[case][0].fn)
    return {first + at for at, text in enumerate(source) if mark in text}


@pytest.mark.parametrize(
    ("case", "is_masked"),
    [
        ("scores-earlier", True),
        ("scores-from-earlier", False),
        ("scores-later", False),
        ("scores-later-inverted", False),
    ],
)
def test_a_mask_throws_tiles_away_if_the_end_that_it_cuts_off_is_not_the_loops(
    case: str, is_masked: bool
) -> None:
    assert bool(masked_loop(graph(case))) == is_masked


@pytest.mark.parametrize("how", ["sign", "scale", "diagonal", "others"])
def test_a_mask_of_positions_may_keep_all(how: str) -> None:
    assert masked_loop(graph(f"signs-{how}")) is None


@pytest.mark.parametrize("how", ["before", "behind", "factor", "kept", "own"])
def test_a_mask_of_positions_may_throw_something_away(how: str) -> None:
    found = masked_loop(graph(f"signs-{how}"))
    assert found is not None
    assert found[1] is False, "not by data"


@pytest.mark.parametrize(
    ("by", "is_discarded"), [("data", True), ("position", False), ("result", False), ("nothing", False)]
)
def test_a_loops_result_is_thrown_away_by_what_was_loaded_before(by: str, is_discarded: bool) -> None:
    assert bool(list(discarded_loops(graph(f"powers-{by}")))) == is_discarded


@pytest.mark.parametrize(
    ("by", "is_discarded"),
    [("number", True), ("asked", False), ("elements", False), ("counter", False), ("nothing", False)],
)
def test_a_product_is_thrown_away_by_a_number_that_was_loaded(by: str, is_discarded: bool) -> None:
    assert bool(list(discarded_products(graph(f"tiles-{by}")))) == is_discarded


def test_a_loaded_end_is_no_triangle_if_lanes_of_loads_tell() -> None:
    assert masked_loop(graph("lengths-True")) is None
    found = masked_loop(graph("lengths-False"))
    assert found is not None
    assert found[1], "by data"


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


@pytest.mark.parametrize("keeps", [False, True])
def test_what_a_step_loads_one_way_and_stores_another_has_to_be_converted(keeps: bool) -> None:
    seen = graph(f"planes-{keeps}")
    assert seen.named(r"^ttg\.convert_layout$", loop=True)
    assert bool(conversion_lines(seen)) == keeps


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


def test_a_sum_of_what_no_earlier_step_has_a_part_in_is_told_apart() -> None:
    assert list(early_reductions(graph("total")).values()) == [True]


@pytest.mark.parametrize(
    ("of", "is_product"),
    [
        ("outer-products", True),
        ("distances", True),
        ("transposed", True),
        ("squares-of-sums", False),
        ("one-axis", False),
    ],
)
def test_each_factor_of_a_product_lacks_an_axis_that_the_other_has(of: str, is_product: bool) -> None:
    assert bool(summed_products(graph(f"sums-{of}")).sums) == is_product
