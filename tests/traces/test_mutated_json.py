"""Files that were changed: each loads as it was saved, answers, or is refused by a TraceError."""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import profscope
from profscope.errors import TraceError
from profscope.profiles import Profile
from profscope.store.chunks import Chunk, chunk_parts, chunks
from profscope.store.file_checks import EACH, NUMBER, Needs, Row, misfits
from profscope.traces.saving import save
from tests.kernels.add import add_kernel
from tests.support.around import program
from tests.support.examples import examples
from tests.support.profiles import payloads, regular_profile
from tests.support.quick import quick
from tests.support.round_trips import SUFFIXES, assert_same
from tests.support.sessions import count, launch_add, session
from tests.support.trace_documents import changed, signed

ROOT = Path(__file__).parents[2]
ODD = [
    None, True, -1, 0, 1 << 31, 1 << 70, 1.5, float("nan"), float("inf"), "x", "", [], {}, [1], [[]], ["x"],
    {"x": 1}, [None],
]  # fmt: skip
_OF_BYTES = ("launch", "end")
_OF_LAUNCHES = ("index", "program", "device", "stream", "ctas", "graph", "replay", "cold")
_INSIDE = 40  # entries of a list or object, at most, that are changed


@pytest.fixture(scope="module")
def spool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with (
        session(spool=tmp_path_factory.mktemp("spool"), baseline=3) as prof,
        profscope.scope("step", tokens=4.0),
    ):
        for n in (3, 3, 4):
            count(n, ctas=2)
            launch_add()
    assert prof.spool is not None
    return prof.spool


@pytest.fixture(scope="module")
def traces(spool: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The documents of a session's trace, of one with samples and counters, and of one with events."""
    folder = tmp_path_factory.mktemp("traces")
    sampled = profscope.load(ROOT / "tests/data/compiled_model.pftrace.gz")
    measured = {"kernel": "k", "variant": 0, "launches": 1, "metrics": {"sm__throughput": [1.0, "%"]}}
    told = {"ncu": {"kernels": [measured]}, "job": {"rank": 0, "world_size": 2, "clock": []}}
    recorded = profscope.load(spool)
    profiles = (
        Profile.of(replace(recorded.tables, metadata=recorded.metadata | told)),
        profscope.load(ROOT / "tests/data/findings/bank-conflict.json.gz"),
        sampled,
        program(),
    )
    documents = []
    for profile in profiles:
        profile.save(folder / "t.json")
        documents.append(json.loads((folder / "t.json").read_text()))
    return documents


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(inside)[:_INSIDE]:
        yield from places(inner, (*at, key))


def mutate(value: Any, choose: random.Random) -> None:
    """Change or delete something in JSON; places of one kind count as one, so that long lists do not win."""
    kinds: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for at in places(value):
        kinds.setdefault(tuple("#" if isinstance(key, int) else key for key in at), []).append(at)
    *around, last = choose.choice(choose.choice(list(kinds.values())))
    for key in around:
        value = value[key]
    if choose.random() < 0.75:
        value[last] = choose.choice(ODD)
    else:
        del value[last]


def answer(path: Path) -> None:
    """Load and report; a file that is refused is named."""
    said = path.name
    try:
        profscope.load(path).report()
    except TraceError as error:
        said = str(error)
    assert path.name in said
    assert said.isprintable()


@settings(max_examples=examples(12))
@given(choose=st.randoms(use_true_random=False))
def test_a_spool_with_changed_json_answers_or_is_refused(spool: Path, choose: random.Random) -> None:
    stated = list(chunks(np.fromfile(spool, np.uint8)))
    at = choose.choice([place for place, chunk in enumerate(stated) if chunk.kind not in _OF_BYTES])
    kind, document = stated[at].kind, json.loads(stated[at].data.tobytes())
    if kind == "program" and choose.random() < 0.7:  # its manifest is a text of JSON
        manifest = json.loads(document["manifest"])
        mutate(manifest, choose)
        document["manifest"] = json.dumps(manifest)
    else:
        mutate(document, choose)
    stated[at] = stated[at]._replace(data=np.frombuffer(json.dumps(document).encode(), np.uint8))
    path = rewritten(spool.with_name("changed.spool"), stated)
    answer(path)


def rewritten(path: Path, stated: list[Chunk]) -> Path:
    """A spool of these chunks, with checksums that are right."""
    with path.open("wb") as file:
        for chunk in stated:
            fields = {name: chunk.header[name] for name in _OF_LAUNCHES}
            file.write(b"".join(chunk_parts(chunk.kind, chunk.data.data, **fields)))
    return path


@settings(max_examples=examples(12))
@given(choose=st.randoms(use_true_random=False))
def test_a_trace_with_changed_metadata_answers_or_is_refused(
    traces: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory, choose: random.Random
) -> None:
    document = copy.deepcopy(choose.choice(traces))
    mutate(document["profscope"]["metadata"], choose)
    path = tmp_path_factory.mktemp("changed") / "t.json"
    path.write_bytes(signed(document))
    answer(path)


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (("kernels", "*", "work", 0, "scopes", 0, "measures"), None, "without measures"),
        (("variants", "*", 0, "builds", 0, "build"), None, "without build"),
        (("code", 0, "ttgir"), None, "metadata['code'][0] without ttgir"),
        (("options", "baseline"), float("nan"), "metadata['options']['baseline'] that is nan"),
        (("job", "clock"), [{"unix_ns": 1}], "metadata['job']['clock'][0] without error_ns, offset_ns"),
        (("baseline", "kernels", "*", 0, "key"), None, "without key"),
        (("baseline", "kernels", "*", 0), {"key": "k"}, "without bare_ns, instrumented_ns"),
        (("sampling",), {"kernels": {"k": {"launches": 2}}}, "metadata['sampling']['kernels']['k'] without"),
        (
            ("host_clock",),
            {"devices": {"0": [{"timer_ns": 1}]}},
            "without error_ns, perf_counter_ns, unix_ns",
        ),
        (("kernels",), {"k": None}, "metadata['kernels']['k'] that is no object"),
        (("notes",), 5, "is no trace that can be read: it has metadata['notes'] that is no list"),
        (("sources", 0, "line"), "x", "that is 'x'"),
        (("evidence",), {"added_s": "long"}, "metadata['evidence']['added_s'] that is 'long'"),
        (("evidence",), {"tensors": [{"kernel": "k", "key": ""}]}, "without bytes"),
        (("evidence",), {"tensors": [{"kernel": "k", "key": "", "bytes": {"a": -1}}]}, "that is -1"),
    ],
)
def test_what_is_wrong_is_named(
    at: tuple[Any, ...], value: Any, said: str, traces: list[dict[str, Any]], tmp_path: Path
) -> None:
    document = copy.deepcopy(traces[0])
    inner = document["profscope"]["metadata"]
    for key in at[:-1]:
        inner = inner[next(iter(inner)) if key == "*" else key]
    inner[at[-1]] = value
    (tmp_path / "t.json").write_bytes(signed(document))
    with pytest.raises(TraceError) as caught:
        profscope.load(tmp_path / "t.json")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [("index", -1), ("program", -1), ("ctas", -8), ("device", -1), ("graph", -2), ("cold", 2)],
)
def test_a_launch_with_impossible_numbers_costs_that_launch(field: str, value: int, spool: Path) -> None:
    stated = list(chunks(np.fromfile(spool, np.uint8)))
    at = next(place for place, chunk in enumerate(stated) if chunk.kind == "launch")
    header = stated[at].header.copy()
    header[field] = value
    stated[at] = stated[at]._replace(header=header)
    profile = profscope.load(rewritten(spool.with_name("mark.spool"), stated))
    assert len(profile.launches) == len(profscope.load(spool).launches) - 1
    assert any(f"a launch with a {field} of {value}" in note for note in profile.metadata["notes"])


def test_forms() -> None:
    form = Needs({"n": range(4)}, {"pairs": [Row((str, NUMBER))], "by": {EACH: bool}})
    assert not list(misfits({"n": 3, "pairs": [["a", 1.5]], "by": {"x": True}, "else": None}, form, "it"))
    wrong = {"n": 4, "pairs": [["a"], ["a", float("inf")]], "by": {"x": 1, "y": None}}
    assert list(misfits(wrong, form, "it")) == [
        "it['n'] that is 4",
        "it['pairs'][0] that has 1 entries, not 2",
        "it['pairs'][1][1] that is inf",
        "it['by']['x'] that is 1",
        "it['by']['y'] that is None",
    ]
    assert list(misfits({}, form, "it")) == ["it without n"]
    assert list(misfits([], form, "it")) == ["it that is no object"]


# Text that UTF-8 cannot hold.

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


# By the digest of its data, a trace loads as it was saved, or not at all.


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
