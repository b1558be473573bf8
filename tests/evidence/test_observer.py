"""Which launches are observed, by what, and that no program is ever harmed. The GPU and CUPTI are made up."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import pytest

from profscope.evidence import counts as counts_module
from profscope.evidence import observer as observer_module
from profscope.evidence.counters import Counters
from profscope.evidence.counts import Counts
from profscope.evidence.cupti import SamplerError
from profscope.evidence.observer import Observer, WaitBudget
from profscope.evidence.subject import Subject, Witness
from tests.support.fake_cupti import CRC, FakeCupti, FakeMachine

SUBJECT = Subject("kernel", "", (), "kernel", b"cubin", "")
OTHER = Subject("other", "", (), "other", b"cubin", "")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts_module, "CONFIGURED", {})
    monkeypatch.setattr(counts_module, "INITIALISED", set())
    monkeypatch.setattr(observer_module, "injected_tool", lambda: "")
    monkeypatch.setattr(observer_module, "other_profiler", lambda: "")


def cupti_of(*functions: str) -> FakeCupti:
    return FakeCupti([(CRC, each, 0, "executed", 1) for each in functions or ("kernel",)])


def observer_of(cupti: FakeCupti, machine: FakeMachine, seconds: float = math.inf) -> Observer:
    def opened(context: int, device: int) -> Sequence[Witness]:
        return [Counts(cupti, context, device), Counters(cupti, context, device)]  # type: ignore[arg-type]

    return Observer(machine, opened, WaitBudget(seconds), limit_s=0.01)


def observe_all(observer: Observer, subject: Subject = SUBJECT) -> int:
    """How many launches were tried; those that are not observed are not made."""
    launches = 0
    while observer.wants(subject):
        made: list[int] = []
        assert observer.observe(subject, 5, lambda made=made: made.append(1)) == bool(made)
        launches += 1
        assert launches < 100
    return launches


def test_one_launch_is_counted_and_then_one_for_each_pass() -> None:
    cupti, machine = cupti_of(), FakeMachine()
    observer = observer_of(cupti, machine)
    assert observe_all(observer) == 1 + cupti.passes
    assert [len(observer.counts()), len(observer.counters())] == [1, 1]
    assert observer.notes() == []
    observer.close()
    assert cupti.said[-2] == "RangeProfilerDisable"


def test_each_context_has_witnesses_of_its_own_and_all_are_closed() -> None:
    cupti, machine = cupti_of(), FakeMachine()
    observer = observer_of(cupti, machine)
    for machine.here in (1, 2, 1):  # type: ignore[misc]
        observe_all(observer)
    assert [len(observer.counts()), len(observer.counters())] == [2, 2]
    observer.close()
    assert cupti.said.count("RangeProfilerDisable") == 2


def run_in_turn(observer: Observer, took_s: dict[Subject, float], steps: int) -> list[Subject]:
    """Steps that launch each subject once, for so long; the subjects in the order of their last launches that
    were observed."""
    finished: dict[Subject, None] = {}
    for _ in range(steps):
        for subject, seconds in took_s.items():
            if observer.wants(subject) and not observer.puts_off(subject):
                assert observer.observe(subject, 5, lambda seconds=seconds: time.sleep(seconds))
                if not observer.wants(subject):
                    finished[subject] = None
    return list(finished)


def test_what_takes_most_of_the_time_has_its_counters_first() -> None:
    cupti = cupti_of("kernel", "other")
    observer = observer_of(cupti, FakeMachine())
    assert run_in_turn(observer, {SUBJECT: 0.0, OTHER: 0.02}, 40) == [OTHER, SUBJECT]
    assert cupti.said.count("RangeProfilerEnable") == 1


def test_passes_that_have_begun_are_completed_before_something_larger() -> None:
    cupti = cupti_of("kernel", "other")
    observer = observer_of(cupti, FakeMachine())
    run_in_turn(observer, {SUBJECT: 0.0}, 2)
    assert run_in_turn(observer, {SUBJECT: 0.0, OTHER: 0.02}, 40) == [SUBJECT, OTHER]
    assert cupti.said.count("RangeProfilerEnable") == 1


def test_one_that_does_not_come_by_any_more_is_not_waited_for() -> None:
    cupti = cupti_of("kernel", "other")
    observer = observer_of(cupti, FakeMachine())
    run_in_turn(observer, {SUBJECT: 0.0, OTHER: 0.02}, 1)
    assert run_in_turn(observer, {SUBJECT: 0.0}, 1 + cupti.passes) == [SUBJECT]


def test_the_launch_stands_between_before_and_after() -> None:
    cupti = cupti_of()
    observer = observer_of(cupti, FakeMachine())
    observer.observe(SUBJECT, 5, lambda: cupti.said.append("launch"))
    at = cupti.said.index("launch")
    assert cupti.said[at - 1] == "SassMetricsEnable"
    assert cupti.said[at + 1] == "SassMetricsGetDataProperties"
    assert cupti.said[-1] == "SassMetricsDisable"


def test_an_error_costs_the_evidence_and_not_the_launch() -> None:
    cupti = cupti_of("kernel", "other")
    cupti.fails["cuptiRangeProfilerStart"] = 999
    observer = observer_of(cupti, FakeMachine())
    assert observe_all(observer) == 2
    assert [len(observer.counts()), len(observer.counters())] == [1, 0]
    assert observe_all(observer, OTHER) == 2
    assert len(observer.counts()) == 2
    assert observer.notes() == [
        "kernel: no counters: cuptiRangeProfilerStart failed",
        "other: no counters: cuptiRangeProfilerStart failed",
    ]


@pytest.mark.parametrize("result", [23, 35, 40])
def test_what_no_later_launch_changes_is_tried_once_and_said_once(result: int) -> None:
    cupti = cupti_of("kernel", "other")
    cupti.fails["cuptiRangeProfilerStart"] = result
    observer = observer_of(cupti, FakeMachine())
    observe_all(observer)
    assert observe_all(observer, OTHER) == 1
    assert observer.notes() == ["no counters: cuptiRangeProfilerStart failed"]


def test_a_witness_that_cannot_be_opened_leaves_the_other_one() -> None:
    cupti = cupti_of()
    cupti.fails["cuptiSassMetricsSetConfig"] = 35
    observer = observer_of(cupti, FakeMachine())
    assert observe_all(observer) == cupti.passes
    assert observer.notes() == ["no counts: cuptiSassMetricsSetConfig failed"]


def test_a_library_that_is_missing_is_said_once() -> None:
    def opened(context: int, device: int) -> Sequence[Witness]:
        raise SamplerError("no CUPTI here")

    observer = Observer(FakeMachine(), opened, WaitBudget(math.inf))
    assert observe_all(observer) == 1
    (note,) = observer.notes()
    assert note.endswith(": no CUPTI here")


def test_a_users_error_is_raised_as_it_is() -> None:
    cupti = cupti_of()
    observer = observer_of(cupti, FakeMachine())

    def launch() -> Any:
        raise KeyError("user")

    with pytest.raises(KeyError, match="user"):
        observer.observe(SUBJECT, 5, launch)
    assert cupti.said[-1] == "SassMetricsDisable"
    assert observe_all(observer) == 1 + cupti.passes


def test_a_kernel_that_does_not_end_is_left_alone_and_cleaned_up_later() -> None:
    cupti, machine = cupti_of("kernel", "other"), FakeMachine()
    observer = observer_of(cupti, machine)

    def launch() -> None:
        machine.busy = True

    assert observer.observe(SUBJECT, 5, launch)
    assert not observer.wants(SUBJECT)
    assert cupti.said[-1] == "SassMetricsEnable"
    machine.busy = False
    observer.observe(OTHER, 5, lambda: None)
    assert cupti.said.count("SassMetricsDisable") == 2
    assert len(observer.counts()) == 1
    assert observer.notes()[0].startswith("kernel: ")
    assert "0.01 s" in observer.notes()[0]


def test_a_device_that_has_faulted_ends_it() -> None:
    machine = FakeMachine()
    observer = observer_of(cupti_of(), machine)
    machine.fault = "the device has faulted"
    assert not observer.observe(SUBJECT, 5, lambda: None)
    assert not observer.wants(SUBJECT)
    (note,) = observer.notes()
    assert note.endswith(": the device has faulted")


def test_the_time_is_bounded() -> None:
    observer = observer_of(cupti_of(), FakeMachine(), seconds=1e-9)
    assert observe_all(observer) == 1
    (note,) = observer.notes()
    assert "1e-09 s" in note


def test_captured_launches_run_bare() -> None:
    cupti, machine = cupti_of(), FakeMachine()
    machine.captured = True
    observer = observer_of(cupti, machine)
    assert not observer.observe(SUBJECT, 5, lambda: None)
    assert cupti.said == []
    (note,) = observer.notes()
    assert note.startswith("1 launch ")
    assert "CUDA graph" in note


def test_launches_that_others_profile_run_bare(monkeypatch: pytest.MonkeyPatch) -> None:
    cupti = cupti_of()
    observer = observer_of(cupti, FakeMachine())
    monkeypatch.setattr(observer_module, "other_profiler", lambda: "Proton")
    observer.observe(SUBJECT, 5, lambda: None)
    assert cupti.said == []
    (note,) = observer.notes()
    assert note.startswith("1 launch ")
    assert "Proton" in note
    monkeypatch.setattr(observer_module, "other_profiler", lambda: "")
    monkeypatch.setattr(observer_module, "injected_tool", lambda: "Nsight Compute")
    observer.observe(SUBJECT, 5, lambda: None)
    assert not observer.wants(SUBJECT)
    assert "Nsight Compute" in observer.notes()[0]


def test_a_launch_within_an_observed_one_runs_bare() -> None:
    cupti = cupti_of()
    observer = observer_of(cupti, FakeMachine())
    inner: list[bool] = []
    assert observer.observe(SUBJECT, 5, lambda: inner.append(observer.observe(OTHER, 5, lambda: None)))
    assert inner == [False]
    assert cupti.said.count("SassMetricsEnable") == 1


def test_changed_clocks_are_noted() -> None:
    machine = FakeMachine()
    machine.clocks = [1980, 1980, 1500, 1980]
    observer = observer_of(cupti_of(), machine)
    observe_all(observer)
    (note,) = observer.notes()
    assert "from 1500 to 1980 MHz" in note


def test_other_kernels_in_a_pass_cost_this_kernel_its_counters_alone() -> None:
    cupti = cupti_of("kernel", "other")
    observer = observer_of(cupti, FakeMachine())
    cupti.kernels = 2
    observe_all(observer)
    cupti.kernels = 1
    observe_all(observer, OTHER)
    assert [each.subject.kernel for each in observer.counters()] == ["other"]
    (note,) = observer.notes()
    assert note.startswith("kernel: no counters: 2 kernels ")
