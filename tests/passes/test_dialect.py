"""Records as text: what a pass says of a span is what the lowering reads and the manifest keeps."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profscope.instrument_passes.dialect import attributes_of, begin, record_id
from profscope.instrument_passes.errors import IRError, PassError
from profscope.instrument_passes.ir import Op, parse
from profscope.instrument_passes.manifest import Manifest, Section, Span, SpanAttributes
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.pipeline import parse_pipeline, run_pipeline

integers = st.integers(-(1 << 31), (1 << 31) - 1)
attributes = st.builds(
    SpanAttributes,
    **{f.name: st.text(max_size=20) if f.type == "str" else integers for f in fields(SpanAttributes)},
)
places = st.fixed_dictionaries(
    dict.fromkeys(("id", "parent", "frame", "line", "begin", "ran"), integers)
    | {"file": st.text(max_size=20)}
    | dict.fromkeys(("ends", "payloads"), st.lists(integers, max_size=3).map(tuple))
)


def values(of: SpanAttributes) -> dict[str, object]:
    return {f.name: getattr(of, f.name) for f in fields(SpanAttributes)}


def record(text: str) -> Op:
    (op,) = parse(f"module {{\n  {text}\n}}\n", "k.ttgir").body.ops
    return op


@given(span=st.integers(0, 1 << 20), said=attributes, predicate=st.sampled_from(["", "%on"]))
def test_what_a_record_says_is_read_back(span: int, said: SpanAttributes, predicate: str) -> None:
    op = record(begin(span, predicate=predicate, **values(said)))  # type: ignore[arg-type]
    assert attributes_of(op) == said
    assert record_id(op) == span
    assert op.operands == ([predicate] if predicate else [])


@given(said=attributes, place=places)
def test_what_the_manifest_keeps_is_read_back(said: SpanAttributes, place: dict[str, object]) -> None:
    span = Span(**values(said), **place)  # type: ignore[arg-type]
    manifest = Manifest("k", "cuda:90", 1, 0, 0, (Section("kernel", 1, (), (span,)),))
    assert Manifest.from_json(manifest.to_json()) == manifest
    (stored,) = json.loads(manifest.to_json())["sections"][0]["spans"]
    defaults = {f.name: f.default for f in fields(Span) if f.default is not MISSING}
    assert set(stored) == {f.name for f in fields(Span)} - {
        name for name, default in defaults.items() if getattr(span, name) == default
    }


def test_attributes_with_their_default_value_are_not_printed() -> None:
    text = begin(3, "op", "load x", "tt.load", bytes=64, channel=0)
    assert text == (
        '"profscope.begin"() {id = 3 : i32, kind = "op", name = "load x", op = "tt.load", bytes = 64 : i64}'
        " : () -> ()"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('id = 0 : i32, kind = "op", op = "o"', "a begin record needs the attribute 'name'"),
        ('id = 0 : i32, kind = "op", name = 3 : i32, op = "o"', "expected a string for attribute 'name'"),
        (
            'id = 0 : i32, kind = "op", name = "n", op = "o", loop = "x"',
            "expected an integer for attribute 'loop'",
        ),
        ('kind = "op", name = "n", op = "o"', "expected an integer for attribute 'id'"),
    ],
)
def test_malformed_records_are_named(text: str, problem: str) -> None:
    module = parse(
        'module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {\n'
        f'tt.func public @k() {{\n"profscope.begin"() {{{text}}} : () -> ()\ntt.return\n}}\n}}\n',
        "k.ttgir",
    )
    with pytest.raises(PassError, match=rf"^k.ttgir:3: pass lower-records: {problem}"):
        run_pipeline(module, parse_pipeline("lower-records"), PassContext())


def test_an_attribute_that_spans_do_not_have() -> None:
    with pytest.raises(TypeError, match="colour"):
        begin(0, "op", "n", "o", colour="red")
    with pytest.raises(IRError, match="needs the attribute 'kind'"):
        attributes_of(record('"profscope.begin"() {id = 0 : i32, colour = "red"} : () -> ()'))
