"""What is saved is read back exactly, whatever the profile and however the file was reformatted."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings

import profscope
import profscope.profiles
from profscope.errors import OptionError, TraceError
from profscope.profiles import Profile
from profscope.store.chunks import MAGIC, VERSION
from profscope.traces import profscope_object
from profscope.traces.profscope_object import SCHEMA
from profscope.version import __version__
from tests.support.examples import examples
from tests.support.profiles import profile_metadata, profiles, regular_profile
from tests.support.quick import quick
from tests.support.round_trips import assert_same
from tests.support.sessions import launch_add, session


@pytest.mark.parametrize(
    "suffix", quick((".json", ".json.gz", ".pftrace", ".parquet"), (".json", ".pftrace", ".parquet"))
)
@pytest.mark.hypothesis
def test_round_trip_is_lossless(suffix: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("traces") / f"trace{suffix}"

    @given(profiles())
    def check(profile: Profile) -> None:
        profile.save(path)
        assert_same(profscope.profiles.load(path), profile)

    check()


@given(profiles(max_actions=5))
@settings(max_examples=examples(8))
def test_a_reformatted_file_still_loads(tmp_path_factory: pytest.TempPathFactory, profile: Profile) -> None:
    path = tmp_path_factory.mktemp("reformatted") / "trace.json"
    profile.save(path)
    document = json.loads(path.read_text())
    for text in (
        json.dumps(document, indent=2),
        json.dumps(document, separators=(",", ":")),
        json.dumps(document, sort_keys=True),
        json.dumps(document, ensure_ascii=False),
    ):
        path.write_text(text)
        assert_same(profscope.profiles.load(path), profile)


@pytest.mark.parametrize("suffix", [".json", ".pftrace"])
def test_recompressed_and_misnamed_files_still_load(suffix: str, tmp_path: Path) -> None:
    profile = regular_profile()
    profile.save(tmp_path / f"a{suffix}.gz")
    text = gzip.decompress((tmp_path / f"a{suffix}.gz").read_bytes())
    for name, content in {
        f"again{suffix}.gz": gzip.compress(text),
        f"members{suffix}.gz": gzip.compress(text[:5000]) + gzip.compress(text[5000:]),
        f"unpacked{suffix}": text,
        f"unpacked-but-named{suffix}.gz": text,
        f"packed-but-named{suffix}": gzip.compress(text),
        "misnamed.txt": text,
    }.items():
        (tmp_path / name).write_bytes(content)
        assert_same(profscope.profiles.load(tmp_path / name), profile)


def test_a_table_that_breaks_the_schema_is_not_saved(tmp_path: Path) -> None:
    profile = regular_profile()
    wrong = Profile(profile.df.astype({"line": "float64"}), profile.launches, profile.metadata)
    with pytest.raises(TraceError, match="column 'line' is float64, not int32"):
        wrong.save(tmp_path / "trace.json")
    assert list(tmp_path.iterdir()) == []


def odd_profiles() -> dict[str, Profile]:
    """An empty one; unused and ordered categories, and parents that pre-order does not imply; no parents."""
    profile = regular_profile()
    df = profile.df.copy()
    df["kind"] = df["kind"].cat.set_categories(["op", "loop", "kernel", "iteration", "unused"], ordered=True)
    df.loc[3, "parent"] = 0
    dots = profile.df[profile.df["scope"] == "dot"].tail(20).reset_index(drop=True)
    tables = {"filtered": df, "without parents": dots}
    return {"empty": Profile(metadata=profile_metadata())} | {
        name: Profile(table, profile.launches, profile.metadata) for name, table in tables.items()
    }


@pytest.mark.parametrize("name", odd_profiles())
@pytest.mark.parametrize("suffix", [".json", ".parquet"])
def test_odd_profiles_round_trip(suffix: str, name: str, tmp_path: Path) -> None:
    profile = odd_profiles()[name]
    profile.save(tmp_path / f"t{suffix}")
    assert_same(profscope.profiles.load(tmp_path / f"t{suffix}"), profile)


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("t.txt", OptionError, r"^cannot save '/.*/t\.txt': the suffix must be one of \.json, \.json\.gz"),
        ("nowhere/t.json", TraceError, r"cannot write .*nowhere.t\.json: there is no folder"),
        ("folder.json", TraceError, "it is a folder"),
    ],
)
def test_a_place_that_cannot_be_written_is_one_clear_error(
    name: str, error: type[Exception], said: str, tmp_path: Path
) -> None:
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(error, match=said):
        regular_profile().save(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.json"]


# Files of other versions: one error, which names both.


@pytest.mark.parametrize("schema", [SCHEMA - 1, SCHEMA + 1])
def test_a_trace_of_another_schema(schema: int, tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profscope_object, "SCHEMA", schema)
        regular_profile(launches=1, ctas=1, warps=1, iterations=1).save(path)
    with pytest.raises(TraceError) as caught:
        profscope.load(path)
    assert f"has trace schema {schema}, written by profscope {__version__}; " in str(caught.value)
    assert str(caught.value).endswith(f"this is profscope {__version__}, which reads schema {SCHEMA}")


def test_a_spool_of_another_version(tmp_path: Path) -> None:
    with session(spool=tmp_path) as prof:
        launch_add()
    assert prof.spool is not None
    content = prof.spool.read_bytes()
    version = VERSION - 1
    other = MAGIC[:-1] + str(version).encode()
    prof.spool.write_bytes(content.replace(MAGIC, other))
    with pytest.raises(TraceError) as caught:
        profscope.load(prof.spool)
    assert f"is a spool of version {version}; " in str(caught.value)
    assert str(caught.value).endswith(f"which reads version {VERSION}")
