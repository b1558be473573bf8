"""Memory of the host that records are copied to."""

from __future__ import annotations

import torch

from profscope.device.arena_memory import pin


def test_it_is_the_hosts_whatever_torchs_default_device_is() -> None:
    with torch.device("meta"):
        pieces = pin(5 << 20)
    assert {piece.device.type for piece in pieces} == {"cpu"}
    assert sum(map(len, pieces)) == 5 << 20
