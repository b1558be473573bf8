"""Files whose digest is right and whose metadata are odd: one clear error that names the file and what is
wrong, or a profile that answers."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

import profscope
from profscope.profiles import Profile
from profscope.traces.saving import save
from tests.kernels.add import add_kernel
from tests.support.sessions import session
from tests.support.trace_documents import changed

NAMES = ["t.json", "job/"]
_TIMED = {"key": "k", "bare_ns": [1.0], "instrumented_ns": [2.0]}


@pytest.fixture(scope="module")
def real() -> Profile:
    x = torch.ones(2048)
    with session() as prof:
        for _ in range(4):
            add_kernel[(4,)](x, x, x.clone(), 2048, BLOCK=512)
    more = {"baseline": {"every": 2, "kernels": {"add_kernel": [_TIMED]}}, "job": {"rank": 0, "clock": []}}
    return Profile.of(replace(prof.profile.tables, metadata=prof.profile.metadata | more))


def written(profile: Profile, metadata: dict[str, Any], folder: Path, name: str) -> Path:
    """A file with this metadata, and a digest that is right."""
    path = folder / name
    if ".json" in name:
        profile.save(folder / "t.json")
        content = changed(folder / "t.json", lambda ours: ours.update(metadata=metadata))
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path
    odd = replace(profile.tables, metadata=metadata)
    with mock.patch("profscope.traces.saving.misfit", return_value=None):
        if name == "job/":
            save(odd, path / "rank=0" / "t.parquet")
        else:
            save(odd, path)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_text_that_utf8_cannot_hold_is_shown_all_the_same(real: Profile, tmp_path: Path, name: str) -> None:
    """The line of a load, with a lone surrogate in it."""
    metadata = json.loads(json.dumps(real.metadata))
    source = metadata["sources"][0]
    source["text"] = source["text"].replace("tl.load", "\ud800")
    prof = profscope.load(written(real, metadata, tmp_path, name))
    assert any("x = ?(x_ptr" in text for text in prof.lines()["source"])
