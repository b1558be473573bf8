"""`overhead_pct=`: what recording may add to a program, and which launches are recorded for it."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import profscope
from profscope.analysis.overhead import budget_line
from profscope.dispatch import running
from profscope.dispatch.budget import WINDOW_NS, Budget, Doors
from profscope.dispatch.configurations import Configuration, Configurations
from profscope.dispatch.policy import Policy
from profscope.errors import OptionError
from tests.support.sessions import launch, launch_collatz, session

PAIRS = 2
LOOK_NS = 3_000  # what a launch is charged that comes by an open door
RECORDED_NS = 90_000  # what a recorded launch is charged beyond what its launcher takes longer


class Program:
    """Launches, whose times a clock of its own has. A recorded launch takes extra_ns longer on the host."""

    def __init__(self, overhead_pct: float, extra_ns: int, extra_gpu_ns: int = 0, every: int = 1) -> None:
        self.now_ns = 0
        self.extra_ns = extra_ns
        self.budget = Budget(overhead_pct, lambda: self.now_ns)
        self.policy = Policy(every=every, pairs=PAIRS)
        self.configurations = Configurations(
            self.policy,
            lambda name: True,
            lambda configuration: self.budget.account(lambda: float(extra_gpu_ns)),
        )
        self.is_shut = self.is_held = False
        self.budget.doors = Doors(self.shut, self.looks, lambda: self.is_held)
        self.recorded: Counter[str] = Counter()
        self.numbers: list[int] = []

    def shut(self, is_shut: bool) -> None:
        self.is_shut = is_shut

    def looks(self) -> int:
        return self.configurations.launches().total()

    def run(self, seconds: float, kernels: int, gap_ns: int) -> None:
        """Launch kernels in turn for so long; the budget's thread comes when it said it would."""
        configurations = [self.configurations.add(f"kernel{at}") for at in range(kernels)]
        if self.budget.resumed_ns is None:
            self.budget.resumed_ns = self.now_ns
        due = self.now_ns
        until = self.now_ns + seconds * 1e9
        while self.now_ns < until:
            for configuration in configurations:
                if self.now_ns >= due:
                    due = self.now_ns + self.budget.step()
                self.launch(configuration, gap_ns)

    def launch(self, configuration: Configuration, gap_ns: int) -> None:
        """As the dispatcher does, and the program goes on for gap_ns."""
        numbers = configuration.numbers
        drawn = None if self.is_shut else numbers.draw()
        if self.is_shut or drawn:
            self._run(is_bare=True)
        else:
            number = numbers.take() if drawn is None else numbers.launches - 1
            is_bare = self.policy.is_bare(number)
            assert configuration.account is not None
            self.recorded[configuration.name] += not is_bare
            if not is_bare and not self.policy.is_of_pair(number):
                self.numbers.append(number)
            configuration.account.charge(lambda: self._run(is_bare=is_bare), is_bare=is_bare)
        self.now_ns += gap_ns

    def _run(self, *, is_bare: bool) -> None:
        self.now_ns += 5_000 + (0 if is_bare else self.extra_ns)


@given(
    st.floats(0.3, 20),
    st.integers(0, 50_000),
    st.integers(0, 50_000),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(20_000, 500_000),
)
def test_recording_adds_no_more_than_its_budget(
    percent: float, extra_ns: int, extra_gpu_ns: int, kernels: int, every: int, gap_ns: int
) -> None:
    program = Program(percent, extra_ns, extra_gpu_ns, every)
    program.run(3.0, kernels, gap_ns)
    said = program.budget.describe()
    # The first window, in which nothing is known yet, is recorded whatever it costs; one window more may end
    # above the line. A window of this program costs at most each launch's charge.
    charge_ns = LOOK_NS + RECORDED_NS + extra_ns + extra_gpu_ns
    longest = 2 * WINDOW_NS  # until the thread comes by
    window_ns = charge_ns / (gap_ns + 5_000) * longest + 5_000 * kernels
    slack_ns = 2 * window_ns + charge_ns / (gap_ns + 5_000) * longest
    assert said["host_ns"] + said["gpu_ns"] <= percent / 100 * program.now_ns + slack_ns
    assert 0 < said["open_ns"] <= said["elapsed_ns"]


def test_doors_stay_open_while_recording_costs_next_to_nothing() -> None:
    program = Program(10.0, extra_ns=0)
    program.run(2.0, kernels=1, gap_ns=1_000_000)
    launches = round(2e9 / 1_005_000) + 1
    assert program.recorded["kernel0"] == pytest.approx(launches - 2 * PAIRS, abs=1)
    assert program.budget.describe()["open_ns"] == pytest.approx(2e9, rel=0.01)


def test_about_as_much_is_recorded_as_may_be() -> None:
    """1 % of 60 s is 0.6 s, at 100 us a recorded launch."""
    program = Program(1.0, extra_ns=5_000, extra_gpu_ns=2_000)
    program.run(60.0, kernels=1, gap_ns=95_000)
    assert program.recorded["kernel0"] == pytest.approx(0.6e9 / 100_000, rel=0.1)
    said = program.budget.describe()
    assert said["host_ns"] + said["gpu_ns"] == pytest.approx(0.6e9, rel=0.1)
    assert budget_line({"budget": said}).startswith("recording added about 1 % ")


@pytest.mark.parametrize("percent", [5e-324, 1e-308, 1e-12])
def test_next_to_nothing_is_a_budget(percent: float) -> None:
    program = Program(percent, extra_ns=1_000)
    program.run(2.0, kernels=1, gap_ns=100_000)
    assert program.is_shut
    assert program.budget.describe()["open_ns"] < 2.1 * WINDOW_NS


def test_time_without_launches_earns_no_more_than_a_window() -> None:
    program = Program(1.0, extra_ns=50_000)
    program.run(1.0, kernels=1, gap_ns=50_000)
    program.now_ns += 3600 * 10**9
    program.budget.step()
    before = program.budget.describe()
    program.run(1.0, kernels=1, gap_ns=50_000)
    after = program.budget.describe()
    # The time between the thread's visits, all of whose launches may be charged more than they take.
    assert after["host_ns"] - before["host_ns"] < 6 * WINDOW_NS


def test_a_pause_earns_nothing() -> None:
    program = Program(10.0, extra_ns=1)
    with program.budget.installed():
        program.now_ns += 100
    program.now_ns += 1_000_000
    with program.budget.installed():
        program.now_ns += 100
    assert program.budget.elapsed_ns == 200


def test_doors_that_are_held_stay_open() -> None:
    program = Program(0.1, extra_ns=100_000)
    program.is_held = True
    program.run(1.0, kernels=1, gap_ns=50_000)
    assert not program.is_shut
    program.is_held = False
    program.run(1.0, kernels=1, gap_ns=50_000)
    assert program.is_shut
    program.budget.open()
    assert not program.is_shut


def test_a_capture_begins_a_window_of_its_own() -> None:
    """Between its beginning and the moment when the session knows of it, doors must not be shut."""
    program = Program(0.1, extra_ns=100_000)
    program.run(0.04, kernels=1, gap_ns=50_000)
    program.now_ns += WINDOW_NS
    before = program.budget.describe()
    program.budget.open()
    assert program.budget.describe() == before
    program.budget.step()
    assert not program.is_shut
    program.now_ns += WINDOW_NS
    program.budget.step()
    assert program.is_shut


def test_launches_in_windows_stay_on_the_grid_of_every() -> None:
    program = Program(1.0, extra_ns=100_000, every=3)
    program.run(5.0, kernels=1, gap_ns=50_000)
    assert program.numbers[1:]
    assert all(number % 3 == 0 for number in program.numbers)


def test_a_session_whose_doors_are_shut_runs_launches_bare(
    monkeypatch: pytest.MonkeyPatch, ran: list[str]
) -> None:
    budget = Budget(1e-6)
    monkeypatch.setattr(running, "budget_here", lambda options, machine: budget)  # the emulator has none
    with session(overhead_pct=1e-6) as prof:
        deadline = time.monotonic() + 60
        while budget.describe()["open_ns"] == 0 or ran[-9:] != ["bare"] * 9:
            launch()
            assert time.monotonic() < deadline
        launched = len(ran)
        launch_collatz()  # a kernel that was not launched before
        launch_collatz()
    assert ran[:3] == ["recorded", "bare", "bare"]
    assert ran[launched:] == ["recorded", "bare"]
    counted = prof.metadata["sampling"]["kernels"]["add_kernel"]
    assert counted["recorded"] == ran[:launched].count("recorded")
    assert counted["launches"] < launched
    budget = prof.metadata["budget"]
    assert budget["overhead_pct"] == 1e-6
    assert budget["host_ns"] > 0
    assert budget["gpu_ns"] == 0  # the emulator's time is not the program's
    assert 0 < budget["open_ns"] < budget["elapsed_ns"]
    assert "overhead_pct=1e-06" in prof.overhead().attrs["budget"]


def test_on_the_emulator_all_is_recorded() -> None:
    with session(overhead_pct=0.001) as prof:
        for _ in range(20):
            launch()
    assert len(prof.launches) == 20
    assert "budget" not in prof.metadata
    assert prof.overhead().attrs["budget"] == ""


@pytest.mark.parametrize("odd", [0, -1, 101, True, "1", float("nan")])
def test_a_budget_is_a_percentage(odd: Any) -> None:
    with pytest.raises(
        OptionError, match=r"overhead_pct=.* must be a percentage, more than 0 and at most 100"
    ):
        profscope.session(overhead_pct=odd)
