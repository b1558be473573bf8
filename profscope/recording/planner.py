"""What a launch records: how long its rings are and which CTAs, from its program, its grid and the memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from instrument_passes.manifest import Manifest
from instrument_passes.records import MAX_CTAS, MIN_RING_LOG2, LaunchBits
from profscope.decoding.areas import has_records
from profscope.options import Options
from profscope.recording.backend import Backend
from profscope.recording.launch_log import LaunchLog, Plan
from profscope.recording.sizing import (
    must_be_zero,
    needed_bytes,
    plan,
)
from profscope.recording.trimming import needed_ring_log2

__all__ = ["Planner"]

# Of programs that share a tag, the allocator cannot tell which is launched. For so many launches each gets
# what one that has not run yet may need; after that, what those need that have.
_GENEROUS: Final = 4
_Rings = Sequence[tuple[Manifest, int | None]]  # programs with the lengths of their rings, where known


class Planner:
    """Decides anew until the rings' lengths are known, then remembers.

    log: the launches so far, from which lengths are learned. skip: told why a launch cannot be recorded.
    """

    def __init__(
        self,
        options: Options,
        backend: Backend,
        log: LaunchLog,
        skip: Callable[[str], None],
    ) -> None:
        self._options = options
        # Two arenas share a GPU's memory.
        self._limit_bytes = options.memory << (19 if backend.device_type == "cuda" else 20)
        self._log = log
        self._skip = skip
        self._settled: dict[tuple[int, int], Plan] = {}  # by tag and size asked for
        self._unsettled: Counter[tuple[int, int]] = Counter()  # launches planned without knowing all rings

    def is_settled(self, tag: int, size: int) -> bool:
        """Whether every such launch will get the same plan."""
        return (tag, size) in self._settled

    def forget(self) -> None:
        """Decide anew: what was planned for a tag is not enough for all of its programs."""
        self._settled.clear()
        self._unsettled.clear()

    def plan(self, programs: Sequence[Manifest], tag: int, size: int) -> Plan | None:
        """The plan of a launch, which may wait for an earlier one; None if it cannot be recorded."""
        made = self._settled.get((tag, size))
        if made is not None:
            return made
        ctas = size // tag
        if not ctas:
            self._skip(f"the grid of {' or '.join(manifest.kernel for manifest in programs)} was empty")
            return None
        rings = [(manifest, self.learn(manifest, ctas)) for manifest in programs]
        known = [pair for pair in rings if pair[1] is not None]
        if len(known) < len(rings):
            self._unsettled[tag, size] += 1
            late = self._unsettled[tag, size] > _GENEROUS
            return self._fit(known if known and late else rings, rings, ctas, self._limit_bytes)
        made = self._fit(rings, rings, ctas, self._limit_bytes)
        if made is not None:
            self._settled[tag, size] = made
        return made

    def plan_captured(self, programs: Sequence[Manifest], ctas: int, free_bytes: int) -> Plan | None:
        """As `plan`, for a launch that is captured into a CUDA graph, without waiting for anything."""
        rings = [(manifest, self._known_rings(manifest, ctas)) for manifest in programs]
        known = [pair for pair in rings if pair[1] is not None]
        limit = free_bytes if len(known) == len(rings) else free_bytes // 4
        return self._fit(known or rings, rings, ctas, limit)

    def learn(self, manifest: Manifest, ctas: int) -> int | None:
        """The length of a program's rings, learned from its first launch, which this waits for."""
        known = self._known_rings(manifest, ctas)
        if known is not None:
            return known
        key = manifest.digest, ctas
        for first in self._log.launches_of(*key):
            buffer = self._log.fetch(first)
            if has_records(buffer):  # it ran
                self._log.ring_log2[key] = needed_ring_log2(buffer, manifest)
                return self._log.ring_log2[key]
        return None

    def _known_rings(self, manifest: Manifest, ctas: int) -> int | None:
        """The length of a program's rings: as learned, or unknown yet.

        A grid of another size is another problem, with trip counts of its own, so it learns for itself.
        """
        if not manifest.ring_bytes:
            return MIN_RING_LOG2
        return self._log.ring_log2.get((manifest.digest, ctas))

    def _fit(self, likely: _Rings, rings: _Rings, ctas: int, limit: int) -> Plan | None:
        """What a launch records in `limit` bytes, with room for the `likely` programs' rings.

        Whichever of all the programs in `rings` it is, it writes no further than the plan says.
        """
        if ctas > MAX_CTAS:
            self._skip(f"a grid of more than {MAX_CTAS} CTAs, which cannot be told apart in 32 bits")
            return None
        chosen, needed = LaunchBits(), 0
        # Nearly always there is one program; which one it is of several that share a tag, the hook will tell.
        for manifest, ring_log2 in likely:
            planned = plan(manifest, ctas, limit, ring_log2, self._wanted_log2(manifest, ctas))
            if planned is None:
                self._skip(f"what {manifest.kernel} writes at least is more than memory= allows")
                return None
            if not needed_bytes(manifest, ctas, planned):
                self._skip(f"ctas= names none of the {ctas} CTAs of {manifest.kernel}")
                return None
            if needed_bytes(manifest, ctas, planned) >= needed:
                chosen, needed = planned, needed_bytes(manifest, ctas, planned)
        shortest = max((ring_log2 for _, ring_log2 in likely if ring_log2 is not None), default=MIN_RING_LOG2)
        while True:  # rings that one program has room for may be too long for another
            needed = max(needed_bytes(manifest, ctas, chosen) for manifest, _ in rings)
            if needed <= limit or chosen.ring_log2 <= shortest:
                break
            chosen = LaunchBits(chosen.stride_log2, chosen.ring_log2 - 1)
        if needed > limit:
            self._skip("programs that share a tag need more than memory= allows")
            return None
        zero = None
        if [ring_log2 for _, ring_log2 in rings] == [None]:  # one program, of which nothing is known yet
            zero = must_be_zero(rings[0][0], ctas, chosen)
        guessed = any(ring_log2 is None for _, ring_log2 in likely)
        return Plan(needed, chosen.encode(), chosen, ctas, zero, guessed)

    def _wanted_log2(self, manifest: Manifest, ctas: int) -> int:
        """LaunchBits.stride_log2 of a launch for which there is memory enough."""
        return self._options.stride_log2
