"""What is tried on kernels of the corpus computes the same."""

from __future__ import annotations

import pytest

from bench.corpus.case import agree
from bench.diagnose import RECORDINGS, cases, judge
from bench.kernels import surroundings
from bench.second_look import NAMES, OTHER_CAUSES, tries
from profscope.profiles import load
from tests.support.quick import quick


@pytest.mark.parametrize("name", quick([*NAMES, *OTHER_CAUSES], [*NAMES[:3], OTHER_CAUSES[0]]))
def test_what_is_tried_has_the_same_results(name: str) -> None:
    with surroundings():
        (_, case), *others = tries(name, small=True)
        case()
        expected = case.outputs()
        assert others
        for label, other in others:
            other()
            assert agree(expected, other.outputs()), label


@pytest.mark.exhaustive
def test_all_faultless_kernels_with_a_finding_are_tried() -> None:
    faultless = [case for case in cases() if not case["causes"]]
    assert {case["name"] for case in faultless if judge(case, load(RECORDINGS / case["file"])).false} == {
        *NAMES
    }


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", OTHER_CAUSES)
def test_another_cause_than_the_fault_is_found_first(name: str) -> None:
    (case,) = (case for case in cases() if case["name"] == name)
    found = judge(case, load(RECORDINGS / case["file"])).found
    assert found[0][0] == "serial-reduction"
    assert any(finding in case["causes"] for finding, _, _ in found)
