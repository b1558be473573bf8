"""The rows of all dialects in one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from instrument_passes.ops import amd, core, instrumentation, nvidia, upstream
from instrument_passes.ops.info import OpInfo

__all__ = ["OPS"]

OPS: Final[Mapping[str, OpInfo]] = {
    **upstream.ROWS, **core.ROWS, **nvidia.ROWS, **amd.ROWS, **instrumentation.ROWS
}  # fmt: skip
