"""How much memory of the host a session may fill with what it records."""

from __future__ import annotations

from pathlib import Path

__all__ = ["available_bytes"]

_CGROUPS = (
    ("memory.max", "memory.current"),  # v2
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),  # v1
)


def available_bytes(system: Path = Path("/")) -> int | None:
    """Bytes that this process can take before the system or its container runs out; None if nobody says.

    system: the root of the file system, where /proc/meminfo and the cgroup's limits are looked up.
    """
    found = [_meminfo(system / "proc/meminfo")]
    for limit, usage in _CGROUPS:
        folder = system / "sys/fs/cgroup"
        most, used = (_number(folder / name) for name in (limit, usage))
        if most is not None and used is not None:
            found.append(max(0, most - used))
    return min((each for each in found if each is not None), default=None)


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
