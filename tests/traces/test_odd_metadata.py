"""Files whose digest is right and whose metadata are odd: one clear error that names the file and what is
wrong, or a profile that answers."""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import profscope
from profscope.errors import ProfscopeError, TraceError
from profscope.profiles import Profile
from profscope.traces.saving import save
from tests.kernels.add import add_kernel
from tests.support.examples import examples
from tests.support.quick import quick
from tests.support.sessions import session
from tests.support.trace_documents import changed

NAMES = ["t.json", "t.json.gz", "t.pftrace", "t.parquet", "job/"]
ODD = [None, True, -1, 1 << 70, 1.5, "x", "", [], {}, [1], [[]], ["x"], {"x": 1}, [{}], [None], {"x": {}}]
_TIMED = {"key": "k", "bare_ns": [1.0], "instrumented_ns": [2.0]}


@pytest.fixture(scope="module")
def real() -> Profile:
    x = torch.ones(2048)
    with session() as prof:
        for _ in range(4):
            add_kernel[(4,)](x, x, x.clone(), 2048, BLOCK=512)
    more = {"baseline": {"every": 2, "kernels": {"add_kernel": [_TIMED]}}, "job": {"rank": 0, "clock": []}}
    return Profile.of(replace(prof.profile.tables, metadata=prof.profile.metadata | more))


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield from [at] * bool(at)
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield from places(inner, (*at, key))


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


def loaded(path: Path) -> tuple[Profile | None, str]:
    """The profile, or what the error says."""
    try:
        return profscope.load(path), ""
    except TraceError as error:
        return None, str(error)


@settings(max_examples=examples(40))
@given(data=st.data())
def test_a_file_with_odd_metadata_is_refused_in_a_line_or_answers(
    real: Profile, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    metadata = copy.deepcopy(json.loads(json.dumps(real.metadata)))
    *around, last = data.draw(st.sampled_from(list(places(metadata))))
    inner: Any = metadata
    for key in around:
        inner = inner[key]
    if data.draw(st.booleans()):
        inner[last] = data.draw(st.sampled_from(ODD))
    else:
        del inner[last]
    name = data.draw(st.sampled_from(NAMES))
    folder = tmp_path_factory.mktemp("odd")
    try:
        path = written(real, metadata, folder, name)
    except Exception:  # noqa: BLE001  what is drawn in a trace for Perfetto cannot be drawn of it
        assume(False)
    profile, said = loaded(path)
    if profile is None:
        assert str(path) in said
        assert "metadata" in said
        assert said.isprintable()
        return
    for question in ("summary", "findings"):
        with contextlib.suppress(ProfscopeError):
            getattr(profile, question)()


@pytest.mark.parametrize("name", NAMES)
def test_each_format_says_what_is_odd(real: Profile, tmp_path: Path, name: str) -> None:
    known = real.metadata["kernels"]["add_kernel"]
    (work,) = known["work"]
    odd = {name: value for name, value in work.items() if name != "scopes"}
    metadata = json.loads(json.dumps(real.metadata | {"kernels": {"other": known | {"work": [odd]}}}))
    path = written(real, metadata, tmp_path, name)
    for verify in (True, False):
        with pytest.raises(TraceError) as caught:
            profscope.load(path, verify=verify)
        assert str(path) in str(caught.value)
        assert "metadata['kernels']['other']['work'][0] without scopes" in str(caught.value)


def test_it_is_saved_all_the_same(real: Profile, tmp_path: Path) -> None:
    """What was collected must not be lost for it."""
    odd = Profile.of(replace(real.tables, metadata=real.metadata | {"variants": {"add_kernel": [{}]}}))
    odd.save(tmp_path / "t.json")
    with pytest.raises(TraceError, match=r"it has metadata\['variants'\].* without variant"):
        profscope.load(tmp_path / "t.json")


@pytest.mark.parametrize("name", quick(NAMES, ["t.json", "t.pftrace", "job/"]))
def test_text_that_utf8_cannot_hold_is_shown_all_the_same(real: Profile, tmp_path: Path, name: str) -> None:
    """The line of a load, with a lone surrogate in it."""
    metadata = json.loads(json.dumps(real.metadata))
    source = metadata["sources"][0]
    source["text"] = source["text"].replace("tl.load", "\ud800")
    prof = profscope.load(written(real, metadata, tmp_path, name))
    assert any("x = ?(x_ptr" in text for text in prof.lines()["source"])
