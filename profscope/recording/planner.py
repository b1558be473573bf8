"""What a launch records: how long its rings are and which CTAs, from its program, its grid and the memory."""

from __future__ import annotations

from collections.abc import Callable

from instrument_passes.manifest import Manifest
from instrument_passes.records import MAX_CTAS, MIN_RING_LOG2
from profscope.decoding.areas import has_records
from profscope.device.backend import Backend
from profscope.device.sizing import must_be_zero, needed_bytes, plan
from profscope.options import Options
from profscope.recording.launch_log import LaunchLog, Plan
from profscope.recording.trimming import needed_ring_log2

__all__ = ["Planner"]

# Of the memory that is left for CUDA graphs, a launch whose rings are not known yet takes so much at most.
_UNKNOWN_PART = 4


class Planner:
    """log: the launches so far, from which the rings' lengths are learned. skip: told why a launch cannot be
    recorded."""

    def __init__(
        self, options: Options, backend: Backend, log: LaunchLog, skip: Callable[[str], None]
    ) -> None:
        self._stride_log2 = options.stride_log2
        # Two arenas share a GPU's memory.
        self._limit_bytes = options.memory << (19 if backend.device_type == "cuda" else 20)
        self._log = log
        self._skip = skip

    def plan(self, manifest: Manifest, ctas: int) -> Plan | None:
        """The plan of a launch, which may wait for an earlier one; None if it cannot be recorded."""
        if not ctas:
            self._skip(f"the grid of {manifest.kernel} was empty")
            return None
        return self._fit(manifest, self.learn(manifest, ctas), ctas, self._limit_bytes)

    def plan_captured(self, manifest: Manifest, ctas: int, free_bytes: int) -> Plan | None:
        """As `plan`, for a launch that is captured into a CUDA graph, without waiting for anything."""
        ring_log2 = self._known_rings(manifest, ctas)
        limit = free_bytes if ring_log2 is not None else free_bytes // _UNKNOWN_PART
        return self._fit(manifest, ring_log2, ctas, limit)

    def learn(self, manifest: Manifest, ctas: int) -> int | None:
        """The length of a program's rings, learned from its first launch, which this waits for."""
        known = self._known_rings(manifest, ctas)
        if known is not None:
            return known
        key = manifest.digest, ctas
        for first in self._log.launches_of(*key):
            buffer = first.records(self._log.fetch(first))
            if has_records(buffer):  # it ran
                self._log.ring_log2[key] = needed_ring_log2(buffer, manifest)
                return self._log.ring_log2[key]
        return None

    def _known_rings(self, manifest: Manifest, ctas: int) -> int | None:
        """The length of a program's rings; None if not known yet.

        A grid of another size is another problem, with trip counts of its own, so it learns for itself.
        """
        return self._log.ring_log2.get((manifest.digest, ctas)) if manifest.ring_bytes else MIN_RING_LOG2

    def _fit(self, manifest: Manifest, ring_log2: int | None, ctas: int, limit: int) -> Plan | None:
        """What a launch records in `limit` bytes."""
        if ctas > MAX_CTAS:
            self._skip(f"a grid of more than {MAX_CTAS} CTAs, which cannot be told apart in 32 bits")
            return None
        bits = plan(manifest, ctas, limit, ring_log2, self._stride_log2)
        if bits is None:
            self._skip(f"what {manifest.kernel} writes at least is more than memory= allows")
            return None
        needed = needed_bytes(manifest, ctas, bits)
        if not needed:
            self._skip(f"ctas= names none of the {ctas} CTAs of {manifest.kernel}")
            return None
        guessed = ring_log2 is None
        zero = must_be_zero(manifest, ctas, bits) if guessed else None
        return Plan(needed, bits.encode(), bits, ctas, zero, guessed)
