"""A GPU with all its witnesses, for sessions on the emulator: CUPTI is made up, the binaries are real."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from profscope.dispatch import observing, running
from profscope.evidence import counts as counts_module
from profscope.evidence import observer as observer_module
from profscope.evidence.counters import Counters
from profscope.evidence.counts import Counts
from profscope.evidence.observer import Open
from profscope.evidence.samples import Samples
from profscope.evidence.subject import Subject, Witness
from tests.support.fake_cupti import CRC, FakeCupti, FakeMachine
from tests.support.fake_sampler import FakeProbe


class FakeHardware(FakeMachine):
    """cupti, probe: what the witnesses ask."""

    def __init__(self, functions: Sequence[str]) -> None:
        super().__init__()
        self.cupti = FakeCupti(
            [(CRC, each, 16 * at, "executed", 10) for each in functions for at in range(3)]
        )
        self.probe = FakeProbe((*functions, "callee"))

    def installed(self, monkeypatch: pytest.MonkeyPatch) -> FakeHardware:
        """In place of the GPU that there is not. Its kernels cannot count by themselves."""

        def open_witnesses(
            which: Sequence[str], added: Sequence[str], reload: Callable[[Subject], str]
        ) -> Open:
            def opened(context: int, device: int) -> Sequence[Witness]:
                cupti, probe = self.cupti, self.probe
                witnesses: list[Witness] = [
                    Counts(cupti, context, device),  # type: ignore[arg-type]
                    Samples(reload, probe.opened),
                    Counters(cupti, context, device, added),  # type: ignore[arg-type]
                ]
                return [each for each in witnesses if each.name in which]

            return opened

        monkeypatch.setattr(running, "gpu_here", lambda machine, options: self)
        monkeypatch.setattr(observing, "OwnCounts", lambda driver, budget: None)
        monkeypatch.setattr(observing, "open_witnesses", open_witnesses)
        monkeypatch.setattr(counts_module, "CONFIGURED", {})
        monkeypatch.setattr(counts_module, "INITIALISED", set())
        monkeypatch.setattr(observer_module, "injected_tool", lambda: "")
        monkeypatch.setattr(observer_module, "other_profiler", lambda: "")
        return self
