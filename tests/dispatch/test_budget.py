"""`overhead_pct=`: what recording may add to a program, and which launches are recorded for it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import profscope
from profscope.analysis.overhead import budget_line
from profscope.dispatch import running
from profscope.dispatch.budget import Budget
from profscope.dispatch.configurations import Configuration, Configurations
from profscope.dispatch.policy import Policy, Role
from profscope.errors import OptionError
from tests.support.sessions import launch, session

PAIRS = 2


class Program:
    """Launches, whose times a clock of its own has. A recorded launch takes extra_ns longer on the host."""

    def __init__(self, overhead_pct: float, extra_ns: int, extra_gpu_ns: int = 0, every: int = 1) -> None:
        self.now_ns = 0
        self.extra_ns = extra_ns
        self.extra_gpu_ns = extra_gpu_ns
        self.budget = Budget(overhead_pct, lambda: self.now_ns)
        self.policy = Policy(every=every, pairs=PAIRS)
        self.configurations = Configurations(
            self.policy,
            lambda name: True,
            lambda configuration: self.budget.open(lambda: float(extra_gpu_ns)),
        )
        self.recorded: Counter[str] = Counter()

    def launch(self, configuration: Configuration, gap_ns: int) -> None:
        """As the dispatcher does, and the program goes on for gap_ns."""
        if configuration.turns.draw() is None and (number := configuration.take()) is not None:
            is_bare = self.policy.role(number) is Role.BARE
            assert configuration.account is not None
            self.recorded[configuration.name] += not is_bare
            configuration.account.charge(lambda: self._run(is_bare=is_bare), is_bare=is_bare)
        else:
            self._run(is_bare=True)
        self.now_ns += gap_ns

    def _run(self, *, is_bare: bool) -> None:
        self.now_ns += 5_000 + (0 if is_bare else self.extra_ns)


@given(
    st.floats(0.1, 20),
    st.integers(0, 50_000),
    st.integers(0, 50_000),
    st.integers(1, 4),
    st.integers(1, 5),
    st.lists(st.integers(0, 200_000), min_size=1, max_size=8),
)
def test_recording_adds_no_more_than_its_budget(
    percent: float, extra_ns: int, extra_gpu_ns: int, kernels: int, every: int, gaps_ns: list[int]
) -> None:
    program = Program(percent, extra_ns, extra_gpu_ns, every)
    configurations = [program.configurations.add(f"kernel{at}") for at in range(kernels)]
    with program.budget.installed():
        for at in range(400):
            for configuration in configurations:
                program.launch(configuration, gaps_ns[at % len(gaps_ns)])
        said = program.budget.describe()
        added = said["host_ns"] + said["gpu_ns"]
        # Whatever the budget, a first launch and two pairs are recorded; the first recorded launches are
        # charged in full, since nothing is known of bare ones. One launch more may end above the line.
        fixed = kernels * ((2 * PAIRS + 1) * (5_000 + extra_ns + extra_gpu_ns))
        assert added <= percent / 100 * program.now_ns + fixed


def test_all_is_recorded_while_that_costs_nothing() -> None:
    program = Program(1.0, extra_ns=0)
    configuration = program.configurations.add("kernel")
    with program.budget.installed():
        for _ in range(1000):
            program.launch(configuration, 1_000_000)
    # A launch of each pair is bare, and one is put off: the first recorded one is charged in full.
    assert program.recorded["kernel"] == 1000 - 2 * PAIRS - 1


def test_about_as_much_is_recorded_as_may_be() -> None:
    """1 % of 20,000 launches of 100 us is 20 ms, at 10 us a launch."""
    program = Program(1.0, extra_ns=8_000, extra_gpu_ns=2_000)
    configuration = program.configurations.add("kernel")
    with program.budget.installed():
        for _ in range(20_000):
            program.launch(configuration, 95_000)
    assert 1900 < program.recorded["kernel"] < 2050
    assert budget_line({"budget": program.budget.describe()}).startswith("recording added at most ")


@pytest.mark.parametrize("percent", [5e-324, 1e-308, 1e-12])
def test_next_to_nothing_is_a_budget(percent: float) -> None:
    program = Program(percent, extra_ns=1_000)
    configuration = program.configurations.add("kernel")
    with program.budget.installed():
        for _ in range(100):
            program.launch(configuration, 1_000)
    assert program.recorded["kernel"] == 1 + 2 * PAIRS


def test_a_pause_earns_nothing() -> None:
    program = Program(10.0, extra_ns=1)
    with program.budget.installed():
        program.now_ns += 100
    program.now_ns += 1_000_000
    with program.budget.installed():
        program.now_ns += 100
    assert program.budget.elapsed_ns == 200


def test_every_launch_that_is_put_off_stays_on_the_grid_of_every() -> None:
    program = Program(1.0, extra_ns=100_000, every=3)
    configuration = program.configurations.add("kernel")
    numbers = []
    with program.budget.installed():
        for at in range(5000):
            before = program.recorded["kernel"]
            program.launch(configuration, 50_000)
            if program.recorded["kernel"] > before and not program.policy.is_of_pair(at):
                numbers.append(at)
    assert numbers[1:]
    assert all(number % 3 == 0 for number in numbers)
    assert configuration.turns.launches == 5000


def on_a_gpu(options: Any, machine: Any) -> Budget | None:
    """The emulator in place of a GPU."""
    return None if options.overhead_pct is None else Budget(options.overhead_pct)


def test_a_session_records_its_first_launches_whatever_they_cost(
    monkeypatch: pytest.MonkeyPatch, ran: list[str]
) -> None:
    monkeypatch.setattr(running, "budget_here", on_a_gpu)
    with session(overhead_pct=1e-6) as prof:
        for _ in range(60):
            launch()
    pair = ["bare", "bare", "recorded", "recorded"]
    assert ran == ["recorded", *pair, *pair, *["bare"] * 51]
    assert prof.metadata["sampling"]["kernels"] == {"add_kernel": {"launches": 60, "recorded": 5}}
    budget = prof.metadata["budget"]
    assert budget["overhead_pct"] == 1e-6
    assert budget["host_ns"] > 0
    assert budget["gpu_ns"] == 0  # the emulator's time is not the program's
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
