"""Memory that this process may still allocate."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["free_bytes"]

_CGROUPS: Final = (
    ("memory.max", "memory.current", "memory.stat"),  # v2
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),  # v1
)


def free_bytes(system: Path = Path("/")) -> int | None:
    """Bytes before the machine or its container runs out; None if unknown.

    system: the root of the file system, where /proc/meminfo and the cgroup's limits are looked up.
    """
    machine = _fields(system / "proc/meminfo").get("MemAvailable:")
    limits = [] if machine is None else [machine << 10]
    for files in _CGROUPS:
        limit, usage, statistics = (system / "sys/fs/cgroup" / name for name in files)
        most, used = _number(limit), _number(usage)
        if most is not None and used is not None:
            limits.append(
                max(0, most - used + _fields(statistics).get("inactive_file", 0))
            )  # a cache gives way
    return min(limits, default=None)


def _number(path: Path) -> int | None:
    """A file's number; None if there is no such file, or no limit in it."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def _fields(path: Path) -> dict[str, int]:
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {line[0]: int(line[1]) for line in lines if len(line) > 1 and line[1].isdecimal()}
