"""Which options are tried against which findings."""

from __future__ import annotations

import pytest

from profscope.tuning.remedies import ALSO_TRIED, OF_THE_GRID, REMEDIES, Chosen, Steps, steps_for

USUAL = Chosen(num_warps=4, num_stages=3, maxnreg=None, registers=100)


@pytest.mark.parametrize(
    ("finding", "chosen", "steps"),
    [
        ("few-stages", USUAL, [("num_stages", (4, 5))]),
        ("few-stages", Chosen(4, 1, None, 0),
         [("num_stages", (3, 4, 5))]),
        ("few-stages", Chosen(4, 5, None, 0), []),
        ("too-many-warps", Chosen(32, 3, None, 0), [("num_warps", (16, 8, 4, 2, 1))]),
        ("too-many-warps", Chosen(1, 3, None, 0), []),
        ("low-occupancy", USUAL, [("maxnreg", (96, 80, 64, 48)), ("num_warps", (8, 16, 32))]),
        ("low-occupancy", Chosen(32, 3, None, 0), []),
        ("register-spills", Chosen(4, 3, 64, 64), [("maxnreg", (None,)), ("num_warps", (8, 16, 32))]),
        ("no-tensor-cores", USUAL, []),
        ("small-mma", USUAL, [("num_warps", (8,))]),
        ("small-mma", Chosen(16, 3, None, 0), [("num_warps", (8, 4))]),
    ],
)  # fmt: skip
def test_a_finding_names_its_options(finding: str, chosen: Chosen, steps: list[object]) -> None:
    assert [(each.option, each.values) for each in steps_for([finding], chosen, {})] == steps


def test_what_two_findings_suggest_is_tried_once() -> None:
    found = steps_for(["few-stages", "exposed-latency"], USUAL, {"BLOCK": [64]})
    assert found == [
        Steps("num_stages", (4, 5), climbs=True, findings=("few-stages", "exposed-latency")),
        Steps("BLOCK", (64,), climbs=False, findings=("few-stages", "exposed-latency")),
        Steps("num_warps", (8, 16, 32), climbs=True, findings=("exposed-latency",)),
    ]


def test_what_the_caller_varies_is_tried_without_a_finding_too() -> None:
    assert steps_for([], USUAL, {"A": [1, 2]}) == [Steps("A", (1, 2), climbs=False)]
    last = steps_for(["too-many-warps"], USUAL, {"A": [1]})[-1]
    assert (last.option, last.findings) == ("A", ())


@pytest.mark.parametrize("finding", ALSO_TRIED)
def test_an_option_that_the_advice_does_not_name_is_no_test_of_the_finding(finding: str) -> None:
    found = steps_for([finding], USUAL, {})
    assert found
    assert all(each.findings == () for each in found)


def test_an_option_is_credited_to_the_finding_whose_advice_it_is() -> None:
    (steps,) = steps_for(["redundant-load", "too-many-warps", "serial-reduction"], USUAL, {})
    assert (steps.option, steps.findings) == ("num_warps", ("too-many-warps",))


def test_findings_of_the_grid_have_remedies() -> None:
    assert set(OF_THE_GRID) <= REMEDIES.keys()
