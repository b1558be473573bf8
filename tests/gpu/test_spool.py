"""The spool on a real device: arenas go to the disk while launches go on, and a process is killed."""

from __future__ import annotations

from pathlib import Path

import torch

import profscope
from tests.support.on_gpu import expected, launch_add
from tests.support.validation import validate


def test_arenas_go_to_the_disk_in_turn(tmp_path: Path) -> None:
    with profscope.session(instrument="heavy", memory=1, backend="gpu", spool=tmp_path) as prof:
        outputs = [launch_add() for _ in range(500)]
        assert len(profscope.load(tmp_path).launches) > 50  # have left memory
        prof.flush()
        assert len(profscope.load(tmp_path).launches) == 500
        outputs += [launch_add() for _ in range(100)]
    assert all(torch.equal(out, expected()) for out in outputs)
    assert prof.launches["launch"].tolist() == list(range(600))
    assert (prof.launches["dropped"] == 0).all()
    assert prof.metadata["notes"] == []
    assert validate(prof.profile.tables) == []


def test_a_session_left_with_launches_in_flight() -> None:
    with profscope.session(backend="gpu") as prof:
        torch.cuda._sleep(50_000_000)
        outputs = [launch_add() for _ in range(20)]
    assert all(torch.equal(out, expected()) for out in outputs)
    assert len(prof.launches) == 20
    assert validate(prof.profile.tables) == []
