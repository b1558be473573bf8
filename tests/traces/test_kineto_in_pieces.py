"""A trace of torch.profiler read in pieces is the one that `json` reads whole, and nothing more is read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

import profscope
from bench.foreign import kineto_events
from profscope.errors import TraceError
from profscope.schema import Tables
from profscope.traces.chrome.reading import ChromeTrace, Kernel, is_kernel, read_pieces, trace_of_document
from profscope.traces.chrome.text import json_document
from profscope.traces.importers import kineto
from profscope.traces.trace_file import TraceFile
from tests.support.examples import examples
from tests.support.profiles import regular_profile
from tests.support.validation import validate

SAMPLE = Path(__file__).with_name("samples") / "kineto.json"
PIECE = 2048


def document() -> dict[str, Any]:
    """Its events, and fields before and behind them."""
    sample: dict[str, Any] = json.loads(SAMPLE.read_text())
    sample["traceEvents"] = [*islice(kineto_events(), 210), *sample["traceEvents"]]
    return sample | {"traceName": sample.pop("traceName")}


def kernels_of(trace: ChromeTrace) -> list[dict[str, Any]]:
    """As far as all forms of them tell."""
    return [told(event) for piece in trace.kernels for event in piece]


def told(event: Kernel | dict[str, Any]) -> dict[str, Any]:
    if isinstance(event, Kernel):
        return {name: getattr(event, name) for name in ("ph", "name", "ts", "dur")}
    return {name: event.get(name) for name in ("ph", "name", "ts", "dur")}


def in_pieces(text: bytes, size: int = PIECE) -> ChromeTrace | None:
    return read_pieces((text[at : at + 700] for at in range(0, len(text), 700)), size)


def tables(trace: ChromeTrace, path: Path) -> Tables:
    file = TraceFile(path)
    file.__dict__["chrome"] = trace
    assert kineto.recognises(file)
    return kineto.read(file)


def check_same(text: bytes, path: Path) -> ChromeTrace:
    """The trace in pieces, if it is what the document has."""
    path.write_bytes(text)
    whole = trace_of_document(json_document(text.decode("utf-8-sig", errors="replace").strip()))
    trace = in_pieces(text)
    assert trace is not None
    assert trace.fields == whole.fields
    assert kernels_of(trace) == kernels_of(whole)
    if whole.kernels[0]:
        read, wanted = tables(trace, path), tables(whole, path)
        assert_frame_equal(read.launches, wanted.launches)
        assert_frame_equal(read.df, wanted.df)
        assert read.metadata == wanted.metadata
        assert validate(read) == []
    return trace


FORMS: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "compact": lambda told: json.dumps(told, separators=(",", ":")).encode(),
    "lines": lambda told: json.dumps(told, indent=2).encode(),
    "spaces": lambda told: json.dumps(told).encode(),
    "mark": lambda told: b"\xef\xbb\xbf\n" + json.dumps(told).encode(),
    "array": lambda told: json.dumps(told["traceEvents"]).encode(),
    "open array": lambda told: json.dumps(told["traceEvents"]).encode()[:-1] + b",\n",
    "array without devices": lambda told: b" [" + json.dumps(told["traceEvents"], indent=1).encode()[1:],
}


@pytest.mark.parametrize("form", FORMS)
def test_pieces_hold_what_the_document_has(form: str, tmp_path: Path) -> None:
    trace = check_same(FORMS[form](document()), tmp_path / "t.json")
    assert len(trace.kernels) > 10
    assert len(kernels_of(trace)) == 35


ODD: dict[str, dict[str, Any]] = {
    "not a number": {"dur": float("nan")},
    "infinite": {"args": {"memory bandwidth (GB/s)": float("inf"), "grid": [8, 1, 1]}},
    "surrogate": {"name": "add\ud800"},
    "escaped": {"name": "caf\u00e9 <4>"},
    "brackets in a name": {"name": 'f<{"a": [1]}, {"ph": 1}>'},
    "nested events": {"args": {"inner": [{"ph": "X"}, {"ph": "X", "cat": "kernel", "name": "n", "ts": 1}]}},
    "no args": {"args": None},
    "no duration": {"dur": 0},
    "short grid": {"args": {"grid": [8, 4], "block": [128, 1, 1], "stream": 7, "device": 0}},
    "large block": {"args": {"grid": [8, 4, 1], "block": [4096, 1, 1], "stream": 7, "device": 0}},
    "stream as text": {"args": {"grid": [8, 4, 1], "block": [4096, 1, 1], "stream": "stream 7"}},
    "whole numbers": {"ts": 4348702112568, "dur": 3, "args": {"device": 0.0, "correlation": 5}},
    "half a ns": {"ts": 4348702112568.0005, "dur": 0.0025},
    "negative": {"dur": -0.5},
    "long ago": {"ts": -1e14},
    "category of another": {"cat": "kernel2"},
    "no category": {"cat": None},
}


@pytest.mark.parametrize("oddity", ODD)
@pytest.mark.parametrize("every", [1, 2])
def test_an_odd_event_is_read_alike(oddity: str, every: int, tmp_path: Path) -> None:
    told = document()
    kernels = [event for event in told["traceEvents"] if is_kernel(event)]
    for event in kernels[3:20:every]:
        event.update(ODD[oddity])
    text = json.dumps(told).encode()
    if oddity == "nested events":  # a piece may end in them: then the whole is read
        assert in_pieces(text) is None or check_same(text, tmp_path / "t.json")
        return
    check_same(text, tmp_path / "t.json")


def test_an_event_without_a_category_is_no_kernel(tmp_path: Path) -> None:
    """Nor where no other event tells a reader that there are categories."""
    told = document()
    kernels = [event for event in told["traceEvents"] if is_kernel(event)]
    told["traceEvents"] = kernels
    for event in kernels[1:]:
        del event["cat"]
    assert len(kernels_of(check_same(json.dumps(told).encode(), tmp_path / "t.json"))) == 1


def test_spellings_that_only_escapes_tell(tmp_path: Path) -> None:
    text = json.dumps(document()).encode()
    for word, spelled in ((b'"kernel"', rb'"k\u0065rnel"'), (b'"cat"', rb'"c\u0061t"'), (b"add", b"a\xffd")):
        text = text.replace(word, spelled, 30)
    assert len(kernels_of(check_same(text, tmp_path / "t.json"))) == 35


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda text: text[: len(text) // 2],
    "cut off at the end": lambda text: text[:-1],
    "a comma too many": lambda text: text.replace(b'}, {"ph": "s"', b'},, {"ph": "s"', 1),
    "a bracket too many": lambda text: text.replace(b'}, {"ph": "s"', b'}], {"ph": "s"', 1),
    "a quote too few": lambda text: text.replace(b'"aten::mm"', b'"aten::mm', 1),
    "control character": lambda text: text.replace(b"aten::mm", b"aten\n:mm", 1),
    "more behind it": lambda text: text + b"{}",
}


@pytest.mark.parametrize("harm", BROKEN)
def test_nothing_broken_is_read(harm: str, tmp_path: Path) -> None:
    text = BROKEN[harm](json.dumps(document()).encode())
    assert in_pieces(text) is None
    (tmp_path / "t.json").write_bytes(text)
    with pytest.raises(TraceError, match=r"is cut off|is not valid JSON"):
        profscope.load(tmp_path / "t.json")


@settings(max_examples=examples(60))
@given(
    at=st.integers(0, 1 << 20),
    what=st.sampled_from([b"", b'"', b"}", b"]", b",", b"{", b"\\", b"1", b"\xff"]),
)
def test_one_changed_byte_is_never_read_otherwise(at: int, what: bytes) -> None:
    text = json.dumps(document()).encode()
    at %= len(text)
    text = text[:at] + what + text[at + 1 :]
    trace = in_pieces(text)
    if trace is not None:
        whole = trace_of_document(json_document(text.decode(errors="replace").strip()))
        assert trace.fields == whole.fields
        assert kernels_of(trace) == kernels_of(whole)


def test_events_in_two_places_are_read_whole(tmp_path: Path) -> None:
    told = json.dumps(document())
    text = (told[:-1] + ', "traceEvents": []}').encode()
    assert in_pieces(text) is None
    (tmp_path / "t.json").write_bytes(text)
    assert len(profscope.load(tmp_path / "t.json").launches) == 0
    assert in_pieces(b'{"deviceProperties": [], "inner": {"traceEvents": []}}') is None


def test_a_compressed_trace_is_the_same_and_ours_is_ours(tmp_path: Path) -> None:
    text = json.dumps(document()).encode()
    (tmp_path / "t.json").write_bytes(text)
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(text))
    one, other = (profscope.load(tmp_path / name) for name in ("t.json", "t.json.gz"))
    assert_frame_equal(one.launches, other.launches)
    ours = regular_profile(launches=1, ctas=2)
    ours.save(tmp_path / "ours.json")
    told = json.loads((tmp_path / "ours.json").read_text())
    (tmp_path / "ours.json").write_text(json.dumps(dict(reversed(told.items())), indent=1))
    assert_frame_equal(profscope.load(tmp_path / "ours.json").launches, ours.launches)
