"""How long another process is waited for: as long as it does something.

It may take its time, on a machine that has much to do. But where it was stopped (SIGSTOP, a debugger), it
neither answers nor ends, and who waits for it would wait for ever.
"""

from __future__ import annotations

import os
import select
import subprocess
from pathlib import Path
from typing import Any, Final

__all__ = ["PATIENCE_S", "Patience"]

_LOOK_S: Final = 0.5
_LOOKS: Final = 10
PATIENCE_S: Final = _LOOK_S * _LOOKS
_CPU_TIMES: Final = slice(11, 15)  # utime, stime, cutime and cstime, behind the name in parentheses


class Patience:
    """With a process that is written to and answers; neither of its pipes blocks once they are here."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)

    def for_room(self) -> None:
        """Wait until it can be written to, or is gone. Raises TimeoutError once it has done nothing for
        PATIENCE_S."""
        self._wait(self._process.stdin, select.POLLOUT)

    def for_answer(self) -> None:
        """Wait until it has said something, or is gone. Raises as `for_room`."""
        self._wait(self._process.stdout, select.POLLIN)

    def _wait(self, pipe: Any, event: int) -> None:
        poll = select.poll()
        poll.register(pipe, event)
        if poll.poll(0):
            return
        # Looks are counted, and not the time: where this process was stopped, too, much time is one look.
        looks, used = 0, _cpu_times(self._process.pid)
        while not poll.poll(_LOOK_S * 1e3):
            before, used = used, _cpu_times(self._process.pid)
            looks = looks + 1 if used == before else 0
            if looks >= _LOOKS:
                raise TimeoutError(f"did nothing for {PATIENCE_S:g} s")


def _cpu_times(pid: int) -> list[str]:
    """Of a process, in ticks of the system's; [] where nobody says."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return told.rpartition(")")[2].split()[_CPU_TIMES]
