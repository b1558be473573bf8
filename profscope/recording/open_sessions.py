"""The open sessions of this process, for calls that name no session."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["OPEN"]

OPEN: Final[list[Any]] = []
"""The newest last; all others are paused. What opens adds itself, and takes itself out when it ends."""
