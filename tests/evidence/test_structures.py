"""CUPTI's structures are as NVIDIA's headers lay them out (tests/support/cupti_layouts.py)."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import pytest

from profscope.evidence.structures import STRUCTURES
from tests.support.cupti_layouts import PLAIN

LAYOUTS = json.loads((Path(__file__).parents[1] / "data/evidence/cupti_structures.json").read_text())


def layout(cls: type[ctypes.Structure]) -> dict[str, list[int]]:
    return {
        name: [getattr(cls, name).offset, getattr(cls, name).size]
        for name in (field[0] for field in cls._fields_)
    }


@pytest.mark.parametrize("version", LAYOUTS)
def test_fields_stand_where_the_headers_say(version: str) -> None:
    known = {cls.__name__: cls for cls in STRUCTURES.values()} | PLAIN
    headers = {
        name: {field: at for field, at in fields.items() if field}
        for name, fields in LAYOUTS[version].items()
    }
    assert headers == {name: layout(cls) for name, cls in known.items()}


@pytest.mark.parametrize("version", LAYOUTS)
def test_sizes_are_those_of_the_oldest_version(version: str) -> None:
    """A later version reads a smaller size as an older caller's."""
    for cls in STRUCTURES.values():
        last = getattr(cls, cls.LAST)
        oldest, here = (LAYOUTS[each][cls.__name__][""][1] for each in ("24", version))
        assert last.offset + last.size == oldest <= here
