"""Files that were made to do harm, or might as well have been: one clear error each, in little memory."""

from __future__ import annotations

import base64
import gzip
import json
import os
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import profscope
from profscope.errors import OptionError, TraceError
from profscope.store.packed_table import pack
from profscope.traces.perfetto.protobuf import DATA_FIELD, END, LENGTH_DELIMITED, field, read_varint, varint
from tests.support.profiles import regular_profile
from tests.support.trace_documents import changed

MEGABYTE = 1 << 20


def refused(path: Path | str, *, most_bytes: int = 100 * MEGABYTE, **options: Any) -> str:
    """The error that loading a file raises, in a line that can be printed, within so much memory."""
    tracemalloc.start()
    try:
        with pytest.raises(TraceError) as caught:
            profscope.load(path, **options)
        assert tracemalloc.get_traced_memory()[1] < most_bytes
    finally:
        tracemalloc.stop()
    message = str(caught.value)
    assert message.isprintable(), "one line of Unicode"
    assert message.encode()
    return message


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "t.json"
    regular_profile(launches=2, ctas=2).save(path)
    return path


# Files that expand.


def endless(content: bytes, block: bytes, blocks: int, wbits: int = 31) -> bytes:
    """Content and then a block again and again, compressed; each block takes a thousandth of its length."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, wbits)
    start = deflate.compress(content) + deflate.flush(zlib.Z_FULL_FLUSH)
    first = deflate.compress(block) + deflate.flush(zlib.Z_FULL_FLUSH)
    return start + first + (deflate.compress(block) + deflate.flush(zlib.Z_FULL_FLUSH)) * (blocks - 1)


@pytest.mark.parametrize(
    "content",
    [
        b'{"profscope":',
        b'[{"ph":"X","name":"',
        varint(1 << 3 | LENGTH_DELIMITED) + varint(1 << 40) + varint(DATA_FIELD << 3 | LENGTH_DELIMITED)
        + varint((1 << 40) - 20) + b'{"profscope":',
    ],
    ids=["our JSON", "another tool's", "our packets"],
)  # fmt: skip
def test_gzip_that_expands_without_end(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(endless(content, b" " * MEGABYTE, 48))
    assert path.stat().st_size < 60_000
    message = refused(path)
    assert message.endswith("bytes of gzip expand to more than 16777216 bytes")


def test_kilobytes_of_gzip_around_gigabytes_of_zeros(trace: Path, tmp_path: Path) -> None:
    """47 KB of gzip, 11 MB of base64, 8 GB of a column."""
    zeros = base64.b64encode(endless(b"", bytes(MEGABYTE), 8192, wbits=15)).decode()

    def change(ours: dict[str, Any]) -> None:
        ours["spans"]["pieces"][0]["streams"]["depth"]["data"] = zeros

    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(changed(trace, change)))
    assert path.stat().st_size < 60_000
    assert "a column does not have its 528 values" in refused(path)


def test_rows_that_the_file_cannot_hold(trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_bytes(changed(trace, lambda ours: ours["spans"].update(rows=10**12)))
    assert "is damaged: the columns do not have 1000000000000 rows" in refused(path)

    def change(ours: dict[str, Any]) -> None:
        (piece,) = ours["spans"]["pieces"]
        ours["spans"]["rows"] = piece["streams"]["site"]["count"] = 10**12

    path.write_bytes(changed(trace, change))
    assert "1000000000000 rows of 18 columns, in a file that can hold" in refused(path)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 11])
def test_no_varint(data: bytes) -> None:
    with pytest.raises(ValueError, match="no varint at byte 0"):
        read_varint(data, 0)


# JSON that is nested, long or lopsided.


@pytest.mark.parametrize(
    "content",
    [
        b'{"profscope":' + b"[" * 200_000 + b",\n",
        b'{"profscope":{"metadata":' + b'{"a":' * 200_000,
        b'[{"ph":"X","name":"k","ts":1,"args":' + b'{"a":' * 200_000,
        field(1, field(DATA_FIELD, b'{"profscope":' + b"[" * 200_000)) + END,
    ],
)
def test_deep_nesting(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "deep").write_bytes(content)
    assert "nested too deeply" in refused(tmp_path / "deep")


def test_a_number_of_thousands_of_digits(tmp_path: Path) -> None:
    (tmp_path / "long.json").write_text(f'{{"traceEvents":[{"1" * 5000}]}}')
    assert "is no trace: Exceeds the limit" in refused(tmp_path / "long.json")


def remove_kernel(ours: dict[str, Any]) -> None:
    ours["launches"]["kernel"].pop()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (remove_kernel, "its launches do not all have a value in kernel"),
        (lambda ours: ours.update(metadata=[]), "is damaged"),
        (lambda ours: ours.update(spans={"rows": 0}), "its profscope object has no 'pieces'"),
        (lambda ours: ours["spans"].update(payloads={"start_ns": {}}), "a payload named start_ns"),
        (lambda ours: ours["spans"].update(payloads={"x": {"dtype": "int64"}}), "a payload column of dtype"),
        (lambda ours: ours["spans"]["sites"].pop(), "is damaged"),
        (lambda ours: ours["spans"]["categories"]["kind"].update(dtype=[]), "is damaged"),
        (lambda ours: ours["launches"].update(launch=[0, 2**40]), "is damaged"),
        (lambda ours: ours["launches"].update(grid_x=["x", "y"]), "have a grid_x that is no int32"),
    ],
)
def test_tables_that_do_not_fit_together(
    change: Callable[[dict[str, Any]], object], message: str, trace: Path, tmp_path: Path
) -> None:
    (tmp_path / "t.json").write_bytes(changed(trace, change))
    assert message in refused(tmp_path / "t.json")


def payload(rows: list[int], bits: list[int]) -> dict[str, Any]:
    differences = np.diff(rows, prepend=0).astype(np.int64)
    return {"dtype": "Int32", "rows": pack(differences), "bits": pack(np.array(bits, np.int64))}


# Data that can be read, and that no analysis can work with.


# Times and texts that tables cannot hold.


def kineto(*events: dict[str, Any]) -> str:
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1}
    return json.dumps({"deviceProperties": [], "traceEvents": [kernel | event for event in events]})


@pytest.mark.parametrize(
    "events",
    [
        [{"ts": -9.2e15}, {"ts": 9.2e15}],
        [{"ts": 1, "dur": -5}],
        [{"ts": 1e300}],
        [{"ts": float("inf")}],
    ],
)
def test_times_that_int64_cannot_hold(events: list[dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(kineto(*events))
    message = refused(tmp_path / "t.json")
    assert (
        "is a damaged trace of another tool" in message or "is no trace that can be read: it has" in message
    )


def test_our_own_times_that_int64_cannot_hold(trace: Path, tmp_path: Path) -> None:
    def change(ours: dict[str, Any]) -> None:
        streams = ours["spans"]["pieces"][0]["streams"]
        ends = np.array([-(2**63), 2**63 - 1], np.int64)
        streams["clock_ns"] = pack(
            np.diff(np.resize(ends, streams["clock_ns"]["count"]), prepend=np.int64(0))
        )

    (tmp_path / "t.json").write_bytes(changed(trace, change))
    message = refused(tmp_path / "t.json")
    assert "is no trace that can be read: it has times from -9223372036854775808 to" in message


def test_lone_surrogates(trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(kineto({"name": "\ud800"}))
    assert profscope.load(path).launches["kernel"].tolist() == ["?"]  # another tool's: nothing else is lost
    path.write_bytes(changed(trace, lambda ours: ours["launches"].update(backend=["gpu", "\udfff"])))
    assert "surrogate" in refused(path)  # so it does here
    scopes = [*"abcdefghijk", "\ud800"]
    path.write_bytes(changed(trace, lambda ours: ours["spans"]["categories"]["scope"].update(values=scopes)))
    assert "surrogate" in refused(path)


# Paths.


@pytest.mark.parametrize("path", [None, 5, b"t.json"])
def test_what_is_no_path(path: Any) -> None:
    with pytest.raises(OptionError, match=r"a trace is loaded by its path, such as .*, not "):
        profscope.load(path)


def test_paths_that_no_file_can_have(tmp_path: Path) -> None:
    assert refused("a\0b.json") == r"cannot read a\x00b.json: embedded null byte"
    assert refused("\ud800.json").startswith(r"cannot read \ud800.json: ")
    assert refused("") == "no such file: ''"  # and not the current folder
    assert refused("a" * 5000).endswith(": File name too long")
    (tmp_path / "file").write_text("")
    assert refused(tmp_path / "file" / "t.json").startswith("no such file: ")
    assert "two lines.json" in refused(tmp_path / "two\nlines.json")


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "x.spool")
    return tmp_path / "x.spool"


def test_pipes_and_devices_are_not_read(pipe: Path) -> None:
    assert refused(pipe) == f"{pipe} is a pipe, not a file: save what comes from it, and load that"
    assert refused("/dev/zero").startswith("/dev/zero is a device, not a file")
    assert refused(pipe.parent).startswith(f"{pipe.parent} is a folder with no profile in it")
