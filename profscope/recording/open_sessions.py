"""What is open in this process, for calls that name no session."""

from __future__ import annotations

from typing import Final, Protocol

__all__ = ["OPEN", "Switchable"]


class Switchable(Protocol):
    """What records, and can be told not to for a while."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


OPEN: Final[list[Switchable]] = []
"""The newest last; all others are paused. What opens adds itself, and takes itself out when it ends."""
