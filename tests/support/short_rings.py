"""Sessions whose rings are as short as a ring can be, as where memory is short."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from profscope.instrument_passes.manifest import Manifest
from profscope.instrument_passes.records import MIN_RING_LOG2
from profscope.recording.routes import Planner


@contextlib.contextmanager
def short_rings() -> Iterator[None]:
    """In the body of the with statement rings have 16 rows, whatever a kernel needs."""

    def shortest(planner: Planner, manifest: Manifest, ctas: Any) -> int:
        return MIN_RING_LOG2

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Planner, "known_rings", shortest)
        yield
