"""Traces of other tools, and files that are none.

samples/ holds what torch.profiler (torch 2.11) wrote on an H200: three launches of an add kernel, a matrix
product and a sum.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from pandas.testing import assert_frame_equal

import profscope.profiles
from profscope.errors import TraceError
from tests.support.profiles import regular_profile
from tests.support.trace_documents import signed
from tests.support.validation import validate

SAMPLES = Path(__file__).with_name("samples")


def load(name: str) -> profscope.profiles.Profile:
    profile = profscope.profiles.load(SAMPLES / name)
    assert validate(profile.tables) == []
    return profile


def test_kineto_kernels_become_launches() -> None:
    profile = load("kineto.json")
    launches = profile.launches
    assert launches["kernel"].tolist()[:3] == ["add", "add", "add"]
    assert "reduce_kernel" in launches["kernel"].iloc[4]
    assert launches.loc[0, ["grid_x", "grid_y", "grid_z", "num_warps", "stream"]].tolist() == [8, 1, 1, 4, 7]
    assert (launches["end_ns"] - launches["start_ns"]).tolist() == [928, 895, 1088, 3424, 2367]
    assert launches["start_ns"].iloc[0] == 1790857026000000000 + 4348702112270915
    assert profile.df["sm"].tolist() == profile.df["cta"].tolist() == profile.df["warp"].tolist() == [-1] * 5
    assert profile.metadata["tool"] == "torch.profiler"
    assert profile.metadata["device"] == {"name": "NVIDIA H200", "arch": "sm_90", "sm_count": 132}


def test_a_kineto_trace_without_kernels_is_empty_and_says_so(tmp_path: Path) -> None:
    document = json.loads((SAMPLES / "kineto.json").read_text())
    document["traceEvents"] = [event for event in document["traceEvents"] if event.get("cat") != "kernel"]
    (tmp_path / "cpu.json").write_text(json.dumps(document))
    profile = profscope.profiles.load(tmp_path / "cpu.json")
    assert len(profile.launches) == len(profile.df) == 0
    assert "no GPU kernels" in profile.metadata["notes"][1]


KINETO_ODDITIES: dict[str, tuple[dict[str, Any], str]] = {
    "negative": ({"dur": -5}, "1 kernel left out: a negative duration (1)"),
    "null": ({"dur": None}, "1 kernel left out: no time (1)"),
    "far begin": ({"ts": 1e30}, "1 kernel left out: no time (1)"),
    "next year": ({"ts": 3e13}, "1 kernel left out: a time more than a week from the others' (1)"),
    "null grid": ({"args": {"grid": None, "block": [128, 1, 1], "stream": 7}}, "unknown: the grid of 1"),
    "two entries": ({"args": {"grid": [8, 4], "block": [128, 1, 1], "stream": 7}}, ""),
    "stream as text": ({"args": {"grid": [8, 1, 1], "stream": "stream 7"}}, ""),
    "no stream": ({"args": {"grid": [8, 1, 1], "stream": {}}}, "unknown: the stream of 1"),
    "surrogate": ({"name": "add\ud800"}, ""),
}


@pytest.mark.parametrize("oddity", KINETO_ODDITIES)
def test_one_odd_kernel_does_not_refuse_a_kineto_trace(oddity: str, tmp_path: Path) -> None:
    changed, said = KINETO_ODDITIES[oddity]
    document = json.loads((SAMPLES / "kineto.json").read_text())
    kernels = [event for event in document["traceEvents"] if event.get("cat") == "kernel"]
    kernels[1].update(changed)
    (tmp_path / "odd.json").write_text(json.dumps(document))
    profile = profscope.profiles.load(tmp_path / "odd.json")
    assert validate(profile.tables) == []
    notes = [note for note in profile.metadata["notes"] if note.startswith("What cannot be read: ")]
    assert notes == [f"What cannot be read: {said}."] * bool(said)
    launches = profile.launches
    assert len(launches) == (4 if "left out" in said else 5)
    assert (launches["end_ns"] - launches["start_ns"]).max() == 3424
    odd = launches.iloc[1]
    if oddity == "two entries":
        assert odd[["grid_x", "grid_y", "grid_z", "num_warps"]].tolist() == [8, 4, 1, 4]
    if oddity in ("two entries", "null grid", "stream as text"):
        assert odd["stream"] == 7
    if oddity == "surrogate":
        assert odd["kernel"] == "add?"
    profile.save(tmp_path / "again.pftrace.gz")
    assert_frame_equal(profscope.profiles.load(tmp_path / "again.pftrace.gz").launches, launches)


def damaged(change: Any) -> bytes:
    """Our own trace with its "profscope" object changed, and a digest that fits."""
    document = json.loads(OURS)
    change(document["profscope"])
    return signed(document)


def ours(suffix: str) -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        regular_profile(launches=1, ctas=2).save(Path(folder) / f"t{suffix}")
        return (Path(folder) / f"t{suffix}").read_bytes()


OURS = ours(".json")
PACKETS = ours(".pftrace")
PACKED = gzip.compress(OURS)


BAD_FILES: list[tuple[str, bytes, str]] = [
    ("empty", b"", "is empty"),
    ("cut", OURS[: len(OURS) // 2], "is cut off: its events end in the middle"),
    ("cut-in-first-line", OURS[:300], "is cut off: its JSON ends in the middle, after 300 bytes"),
    ("cut-gzip", PACKED[:-100], "is cut off: its gzip data ends in the middle"),
    ("bad-gzip", PACKED[:50] + b"\xff" * 40 + PACKED[90:], "is damaged gzip data"),
    ("gzip-and-more", PACKED + b"junk", "is damaged: 4 or more bytes follow its gzip data"),
    ("parquet", b"PAR1" + bytes(20), "is damaged: parquet: Parquet magic bytes not found in footer"),
    (
        "perfetto",
        b"\x0a\x10\x52\x0e" + bytes(12),
        "is a protobuf, perhaps a Perfetto trace of another tool",
    ),
    ("perfetto-cut-in-data", PACKETS[:2000], "is cut off: its data end in the middle"),
    ("perfetto-cut", PACKETS[:-3], "is cut off: its events end in the middle"),
    ("perfetto-and-more", PACKETS + PACKETS[-200:-50], "is cut off: its events end in the middle"),
    (
        "perfetto-damaged",
        PACKETS.replace(b'"schema":4', b'"schema";4'),
        "is damaged: its profscope object: Expecting ':' delimiter",
    ),
    ("zip", b"PK\x03\x04xxxx", "is an archive to be unpacked"),
    ("sqlite", b"SQLite format 3\0", "is an SQLite database"),
    ("text", b"hello world\n", "is text, not JSON"),
    ("page", b"<!doctype html>\n<html>", "is HTML, as reports are"),
    ("train.py", b"import torch\n", "is a program, not a trace; profscope run records one"),
    ("binary", bytes(range(200, 256)) + bytes(9), "is no trace"),
    ("not-json", b'{"traceEvents": [{]}', "is not valid JSON: .* at line 1, column 19"),
    ("number", b"[1, 2]", "is JSON but no trace"),
    ("object", b'{"a": 1, "b": 2}', "is JSON but no trace"),
    ("deep", b"[" * 100_000, "nested too deeply"),
    ("chrome", b'[{"ph": "X", "name": "a", "ts": 1, "dur": 1}]', "is a Chrome trace without GPU kernels"),
    ("no-schema", damaged(lambda o: o.pop("schema")), "no schema number"),
    (
        "kineto-broken",
        b'{"deviceProperties": [], "traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": "soon"}]}',
        "is a damaged trace of another tool",
    ),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES, ids=[name for name, _, _ in BAD_FILES])
def test_each_bad_file_is_named_in_one_line(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TraceError, match=message) as caught:
        profscope.profiles.load(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)


@pytest.mark.parametrize("suffix", [".json.gz", ".pftrace"])
def test_our_file_cut_anywhere_is_noticed(suffix: str, tmp_path: Path) -> None:
    regular_profile(launches=1, ctas=40).save(tmp_path / f"t{suffix}")
    content = (tmp_path / f"t{suffix}").read_bytes()
    # Of a few bytes of protobuf nobody can tell whose they are.
    for size in (
        10 if suffix.endswith(".gz") else 60,
        200,
        len(content) // 2,
        len(content) - 20,
        len(content) - 1,
    ):
        (tmp_path / f"cut{suffix}").write_bytes(content[:size])
        with pytest.raises(TraceError, match="is cut off"):
            profscope.profiles.load(tmp_path / f"cut{suffix}")
