"""Whether spans fit into memory, asked before they are read: else the kernel would end the process."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from profscope.errors import TraceError

__all__ = ["check_room", "free_bytes"]

PEAK_BYTES_A_SPAN: Final = 240
"""While Parquet is read, of spans without payloads: a table of 81 bytes a span, up to three times. Measured
were 143 for a file and 236 for a folder."""
PAYLOAD_BYTES: Final = 27  # three times a number and whether it is missing

_MEMINFO: Final = Path("/proc/meminfo")
_CGROUP: Final = Path("/sys/fs/cgroup")


def check_room(name: str, spans: int, payloads: int = 0) -> None:
    """Raises TraceError where so many spans do not fit into the memory that is free; where that is not known,
    it lets them pass. name: of the trace."""
    free, need = free_bytes(), spans * (PEAK_BYTES_A_SPAN + payloads * PAYLOAD_BYTES)
    if free is not None and need > free:
        raise TraceError(
            f"{name} has {spans:,} spans: to read them takes up to {need / 1e9:.1f} GB of memory, and "
            f"{free / 1e9:.1f} GB are free; `profscope view {name} --launch N` reads one launch, and DuckDB "
            "works through all of them (docs/views.md)"
        )


def free_bytes() -> int | None:
    """How much memory this process may still take: the machine's, or what its control group leaves it."""
    return min((free for free in (_machine(), _control_group()) if free is not None), default=None)


def _machine() -> int | None:
    return _fields(_MEMINFO).get("MemAvailable:", 0) << 10 or None


def _control_group() -> int | None:
    """Of version 2, as a container sees its own."""
    most, used = (_number(_CGROUP / f"memory.{name}") for name in ("max", "current"))
    if most is None or used is None:
        return None
    return max(0, most - used + _fields(_CGROUP / "memory.stat").get("inactive_file", 0))  # a cache gives way


def _number(path: Path) -> int | None:
    """None where there is no such file, or no limit in it."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _fields(path: Path) -> dict[str, int]:
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {line[0]: int(line[1]) for line in lines if len(line) > 1 and line[1].isdigit()}
