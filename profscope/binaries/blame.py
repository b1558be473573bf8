"""Charges stalls to the instructions that cause them, not to those that wait.

The rules are GPA's (Zhou et al., "GPA: A GPU Performance Advisor Based on Instruction Sampling", CGO 2021;
HPCToolkit, `GPUAdvisor-Blame.cpp`). A stall on a scoreboard or on a latency is charged to the producers of
the instruction's operands, if they can cause the reason: shared memory makes no long scoreboard. It is
divided in proportion to the issue samples of a producer, and in inverse proportion to the instructions
between it and the use: a longer way hides more latency.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from profscope.binaries.listing import CLASSES, Listing, flow_of, split

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BARRIER", "CHARGED", "blame"]

BARRIER: Final = "barrier"
ISSUED: Final = "selected"
_MEMORY: Final = frozenset({"global load", "global store", "local load", "local store"})
_ASYNCHRONOUS: Final = frozenset({"async copy", "tma", "tensor memory", "mma"})
_ARRIVING: Final = _ASYNCHRONOUS | {"barrier"}
_LONG: Final = _MEMORY | _ASYNCHRONOUS | {"atomic", "barrier"}
_SHORT: Final = frozenset({*CLASSES, "other"}) - _MEMORY
_MMA: Final = frozenset({"mma"})
_FIXED: Final = frozenset({"float", "integer", "move", "predicate", "uniform", "conversion", "mma"})

CHARGED: Final[Mapping[str, frozenset[str]]] = {
    "long_scoreboard": _LONG,
    "short_scoreboard": _SHORT,
    "wait": _FIXED,
    "gmma": _MMA,
}
"""The reasons that are charged to producers, and the classes of those that can cause them.

NVIDIA, Nsight Compute, Kernel Profiling Guide, "Warp Stall Reasons": a long scoreboard is that of L1TEX
(global, local and texture memory), a short one that of any other unit of variable latency, `wait` a fixed
latency. `barrier` has a rule of its own, see `blame`. All other reasons stay where they are, for they are
about the instruction itself, its unit, or the other warps: `math_pipe_throttle`, `mio_throttle`,
`lg_throttle`, `tex_throttle`, `no_instructions`, `imc_miss`, `branch_resolving`, `dispatch_stall`, `drain`,
`membar`, `sleeping`, `selected`, `not_selected`, `misc`.
"""


def blame(instructions: pd.DataFrame, stalls: pd.DataFrame) -> pd.DataFrame:
    """Charge the stalls of a kernel's instructions to those that cause them.

    instructions: a table of `profscope.instructions`. stalls: `pc`, `stall` (a reason, as "long_scoreboard"),
    `samples`; samples of pcs that are not in the first table stay where they are.

    Returns one row per pc, reason and blamed pc: `pc` int64, `stall` category, `samples` float64, `blamed_pc`
    int64. The samples of each pc and reason add up to the given ones.

    - Reasons in CHARGED: to the producers, see above. A producer that is itself a wait for asynchronous work
      or for other warps, as a test of an mbarrier, stands for that work, or their arrival. Without a producer
      that can cause the reason they stay.
    - `long_scoreboard` right behind a wait for copies (`DEPBAR`), where a waiting warp is seen: to these
      copies, if none of the instruction's own operands can cause it.
    - `barrier` at a wait for wgmma (`WARPGROUP.DEPBAR`), which has no reason of its own on Hopper: to these
      MMAs. A kernel that does nothing else, its operands in place, stands there for half of its samples.
    - `barrier` anywhere else: other warps are late. So it is charged to the instructions between the last
      barrier and this one, in proportion to the samples there (blame shifting: Tallent, Mellor-Crummey and
      Porterfield, "Analyzing Lock Contention in Multithreaded Applications", PPoPP 2010). Without samples it
      stays.
    """
    import pandas as pd

    kernel = _Kernel(instructions, stalls)
    rows: list[tuple[int, str, float, int]] = []
    given = stalls.groupby(["pc", "stall"], observed=True, sort=True)["samples"].sum()
    keys = zip(given.index.get_level_values("pc"), given.index.get_level_values("stall"), given, strict=True)
    for pc, stall, samples in keys:
        if samples:
            shares = kernel.shares(int(pc), str(stall))
            rows += [(int(pc), str(stall), float(samples) * share, each) for each, share in shares.items()]
    blamed = pd.DataFrame(rows, columns=["pc", "stall", "samples", "blamed_pc"])
    dtypes = {"pc": "int64", "samples": "float64", "blamed_pc": "int64"}
    return blamed.astype({**dtypes, "stall": "str"}).astype({"stall": "category"})


def _samples(stalls: pd.DataFrame) -> dict[int, float]:
    """By pc."""
    sums = stalls.groupby("pc")["samples"].sum()
    return dict(zip(sums.index.tolist(), sums.tolist(), strict=True))


class _Kernel:
    """Instructions by number, with who leads to whom."""

    def __init__(self, instructions: pd.DataFrame, stalls: pd.DataFrame) -> None:
        self._pcs: list[int] = instructions["pc"].tolist()
        self._number = {pc: at for at, pc in enumerate(self._pcs)}
        self._classes: list[str] = instructions["class"].astype(str).tolist()
        self._waits: list[list[int]] = instructions["waits_for"].tolist()
        self._listing = Listing(
            tuple(split(pc, sass) for pc, sass in zip(self._pcs, instructions["sass"], strict=True))
        )
        flow, _ = flow_of(self._listing)
        self._before: list[list[int]] = [[] for _ in flow]
        for at, following in enumerate(flow):
            for each in following:
                self._before[each].append(at)
        self._issued = _samples(stalls[stalls["stall"] == ISSUED])
        at_mmas = [self._pcs[at] for at in range(len(self._pcs)) if self._is_for_mmas(at)]
        self._working = _samples(stalls[(stalls["stall"] != BARRIER) | stalls["pc"].isin(at_mmas)])

    def shares(self, pc: int, stall: str) -> dict[int, float]:
        """By blamed pc, its share of the stalls of a reason at `pc`; they add up to 1."""
        at = self._number.get(pc)
        weights: dict[int, float] = {}
        if at is not None and stall == BARRIER:
            weights = self._producers(at, _MMA) if self._is_for_mmas(at) else self._on_the_way(at)
        elif at is not None and stall in CHARGED:
            weights = self._producers(at, CHARGED[stall])
            if not weights and stall == "long_scoreboard" and self._is_behind_copies(at):
                weights = self._producers(at - 1, CHARGED[stall])
        total = sum(weights.values())
        return {each: weight / total for each, weight in weights.items()} if total else {pc: 1.0}

    def _is_for_mmas(self, at: int) -> bool:
        return self._listing.instructions[at].opcode.startswith("WARPGROUP.DEPBAR")

    def _is_behind_copies(self, at: int) -> bool:
        return self._before[at] == [at - 1] and self._listing.instructions[at - 1].name == "DEPBAR"

    def _is_barrier(self, at: int) -> bool:
        return self._listing.instructions[at].name == "BAR"

    def _producers(self, at: int, classes: frozenset[str]) -> dict[int, float]:
        candidates = [pc for pc in self._through_waits(at) if self._classes[self._number[pc]] in classes]
        distances = self._distances(at) if len(candidates) > 1 else {}
        return {
            pc: max(self._issued.get(pc, 0.0), 1.0) / distances.get(self._number[pc], len(self._pcs))
            for pc in candidates
        }

    def _through_waits(self, at: int) -> list[int]:
        """The pcs that an instruction waits for, with those of a wait in the place of the wait."""
        direct = [pc for pc in self._waits[at] if pc in self._number]
        through: dict[int, None] = {}
        for pc in direct:
            number = self._number[pc]
            behind = [each for each in self._waits[number] if self._arrives(each)]
            through |= dict.fromkeys(behind if behind and self._classes[number] == "barrier" else [pc])
        return list(through)

    def _arrives(self, pc: int) -> bool:
        """Whether it is asynchronous work, or another warp that arrives at a barrier."""
        return pc in self._number and self._classes[self._number[pc]] in _ARRIVING

    def _distances(self, at: int) -> Mapping[int, int]:
        """By instruction, the fewest instructions on a way to `at`, 1 for the one before; itself, round a
        loop."""
        distances: dict[int, int] = {}
        waiting = deque((each, 1) for each in self._before[at])
        while waiting:
            here, distance = waiting.popleft()
            if here not in distances:
                distances[here] = distance
                waiting.extend((each, distance + 1) for each in self._before[here])
        return distances

    def _on_the_way(self, at: int) -> dict[int, float]:
        """By pc, the samples of the instructions that lead to a barrier without another one between.

        A warp that has arrived is seen at the instruction behind the barrier.
        """
        seen: set[int] = set()
        before = self._before[at]
        waiting: Sequence[int] = [
            each for here in before for each in (self._before[here] if self._is_barrier(here) else [here])
        ]
        while waiting:
            further = []
            for here in waiting:
                if here not in seen and not self._is_barrier(here):
                    seen.add(here)
                    further += self._before[here]
            waiting = further
        samples = {self._pcs[each]: self._working.get(self._pcs[each], 0.0) for each in sorted(seen)}
        return {pc: count for pc, count in samples.items() if count}
