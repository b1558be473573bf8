"""How much memory of the host a session may fill with what it records."""

from __future__ import annotations

from pathlib import Path

from profscope.recording.diagnostics import Diagnostics

__all__ = ["HeldRecords", "available_bytes"]

_CGROUPS = (
    ("memory.max", "memory.current"),  # v2
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),  # v1
)


def available_bytes(system: Path = Path("/")) -> int | None:
    """Bytes that this process can take before the system or its container runs out; None if nobody says.

    system: the root of the file system, where /proc/meminfo and the cgroup's limits are looked up.
    """
    limits = [_meminfo(system / "proc/meminfo")]
    for limit, usage in _CGROUPS:
        folder = system / "sys/fs/cgroup"
        most, used = (_number(folder / name) for name in (limit, usage))
        if most is not None and used is not None:
            limits.append(max(0, most - used))
    return min((each for each in limits if each is not None), default=None)


def _meminfo(path: Path) -> int | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), None)


def _number(path: Path) -> int | None:
    """A file's number; None where there is no file or it says "max"."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


class HeldRecords:
    """Stops the recording of a session without a spool before its records fill the host."""

    def __init__(self, journal: Diagnostics) -> None:
        self._journal = journal
        self._bytes = 0
        available = available_bytes()
        self._limit_bytes = None if available is None else available // 2

    def add(self, drained_bytes: int) -> None:
        """An arena with so many bytes is on its way to the host."""
        self._bytes += drained_bytes
        if self._limit_bytes is not None and self._bytes > self._limit_bytes:
            self._journal.stop(
                f"half of the host's free memory was full of records ({self._bytes >> 20} MiB); spool= "
                "writes them to disk"
            )
