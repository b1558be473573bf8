"""What a trace loads is what was saved, or nothing is: by the digest of its data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import profscope
from profscope.errors import TraceError
from profscope.profiles import Profile
from tests.support.examples import examples
from tests.support.profiles import payloads, regular_profile
from tests.support.quick import quick
from tests.support.round_trips import SUFFIXES, assert_same


def tricky_profile() -> Profile:
    """Its events have what Kineto's have; a trace of it must never be taken for theirs."""
    profile = regular_profile(launches=1, ctas=1, warps=2, iterations=2)
    df = profile.df.copy()
    small, large = payloads(df, [0, 3, 7], [1, -2, 3], [0.5, float("inf"), -0.0])
    df["correlation"], df["call_stack"] = small, large
    df["stage"] = pd.Categorical(["load" if row % 5 else None for row in range(len(df))])
    return Profile(df, profile.launches, profile.metadata)


PROFILE = tricky_profile()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digest")
    for suffix in SUFFIXES:
        PROFILE.save(folder / f"t{suffix}")
    return folder


@pytest.mark.hypothesis
@pytest.mark.parametrize("suffix", quick(SUFFIXES, (".json.gz", ".pftrace.gz", ".parquet")))
def test_a_mutated_byte_never_loads_as_other_data(suffix: str, folder: Path) -> None:
    content = (folder / f"t{suffix}").read_bytes()
    data_end = content.find(b"traceEvents") if suffix == ".json" else len(content)

    @given(st.data())
    @settings(max_examples=examples(150))
    def check(data: st.DataObject) -> None:
        last = data.draw(
            st.sampled_from([40, data_end, len(content)])
        )  # the head of a file tells whose it is
        at = data.draw(st.integers(0, last - 1))
        new = data.draw(st.binary(max_size=1) | st.just(content[at : at + 1] * 2))
        (folder / "mutated").write_bytes(content[:at] + new + content[at + 1 :])
        try:
            loaded = profscope.load(folder / "mutated")
        except TraceError:
            return
        assert_same(loaded, PROFILE)

    check()


@pytest.mark.parametrize("key", ["profscope", "profscopeDigest"])
def test_a_damaged_key_does_not_make_it_another_tools(key: str, folder: Path) -> None:
    text = (folder / "t.json").read_text()
    damaged = text.replace(f'"{key}":', f'"{key[:-1]}X":', 1)
    assert damaged != text
    (folder / "damaged.json").write_text(damaged)
    with pytest.raises(TraceError, match=r"is damaged: its (profscope object|digest) is missing"):
        profscope.load(folder / "damaged.json")


def without(document: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in keys}


def test_a_file_of_this_schema_needs_a_digest(folder: Path, tmp_path: Path) -> None:
    document = json.loads((folder / "t.json").read_text())
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(without(document, "profscopeDigest")))
    with pytest.raises(TraceError, match=r"is damaged: its digest is missing$"):
        profscope.load(path)
    path.write_text(json.dumps(without(document, "profscope")))
    with pytest.raises(TraceError, match="is damaged: its profscope object is missing"):
        profscope.load(path)


def test_metadata_is_what_json_makes_of_it(folder: Path) -> None:
    odd = {10: "ten", 9: (1, 2), None: float("nan")}
    Profile(PROFILE.df, PROFILE.launches, PROFILE.metadata | {"odd": odd}).save(folder / "odd.json")
    loaded = profscope.load(folder / "odd.json").metadata["odd"]
    assert list(loaded) == ["10", "9", "null"]
    assert loaded["9"] == [1, 2]
