"""Any text: it is read and printed back, or refused with an IRError."""

from __future__ import annotations

import contextlib
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from profscope.instrument_passes.errors import IRError
from profscope.instrument_passes.ir import Location, Module, Op, flow, parse
from profscope.instrument_passes.ir.tokens import quote, tokenize, unquote
from tests.kernels.spec import CUDA90
from tests.support.corpus import printed, triton_module
from tests.support.examples import examples

TRICKY = [
    "{", "}", "{\n", "\n}", "(", ")", "[", "]", "<", ">", "->", '"', "\\", "//", "\n", "%5", "%5#1", "^bb1",
    ":", "=", ",", "loc(", "#loc1", "@f", "scf.yield", "default {\n", "partition0() {\n", "\x00", "é",
    "{-#", "#-}",
]  # fmt: skip


@given(st.text() | st.lists(st.sampled_from(TRICKY) | st.text(max_size=3)).map("".join))
@example("a \t")
@example(" ")
def test_tokens_and_the_space_between_them_are_the_text(text: str) -> None:
    try:
        tokens = list(tokenize(text))
    except IRError:
        text = text.replace('"', "")  # the only thing that can be wrong
        tokens = list(tokenize(text))
    assert all(text[token.start : token.end] == token.text for token in tokens)
    assert all(token.text.strip(" \t\r") for token in tokens)
    ends, starts = [0, *(token.end for token in tokens)], [*(token.start for token in tokens), len(text)]
    assert not "".join(text[end:start] for end, start in zip(ends, starts, strict=True)).strip(" \t\r")


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("%5#1", ["value"]),
        ("%c-1_i32", ["value"]),
        ("%5->%6", ["value", "arrow", "value"]),
        ("%a-b->c", ["value", "arrow", "word"]),
        ('@"a\\22b"', ["symbol"]),
        ("@a.b$c<", ["symbol", "punctuation"]),
        ("#ttg.blocked<", ["hash", "punctuation"]),
        ("!tt.ptr", ["bang"]),
        ("-1.5e-07", ["punctuation", "number"]),
        ("0x7F80", ["number"]),
        ("64x1xf32", ["number", "word"]),
        ('"a\\"b" "\\\\"', ["string", "string"]),
        ("a>=b", ["word", "compare", "word"]),
    ],
)
def test_kinds_of_tokens(text: str, kinds: list[str]) -> None:
    assert [token.kind for token in tokenize(text)] == kinds


def quoted(text: str) -> str:
    """As MLIR prints a string: what is not printable ASCII as two hex digits a byte."""
    plain = (c if c.isascii() and c.isprintable() and c not in '"\\' else None for c in text)
    return '"' + "".join(
        p or "".join(f"\\{byte:02X}" for byte in c.encode()) for c, p in zip(text, plain, strict=True)
    ) + '"'  # fmt: skip


@given(st.text())
def test_strings_as_printed(text: str) -> None:
    (token,) = tokenize(quoted(text))
    assert token.kind == "string"
    assert unquote(token.text) == text


# File names too, whose bytes need not be UTF-8: Python has a surrogate for each that is not.
file_names = st.binary(max_size=20).map(lambda name: name.decode("utf-8", "surrogateescape"))


@settings(max_examples=examples(40))
@given(st.lists(st.text(max_size=10) | file_names, min_size=1, max_size=8))
def test_mlir_reads_what_is_quoted_and_prints_what_is_read(texts: list[str]) -> None:
    listed = ", ".join(map(quote, texts))
    accepted = str(triton_module(f"module attributes {{ttg.texts = [{listed}]}} {{\n}}\n", CUDA90))
    attribute = parse(accepted).attr("ttg.texts") or ""
    strings = [token.text for token in tokenize(attribute) if token.kind == "string"]
    assert [unquote(string) for string in strings] == texts


def _parsed(text: str) -> Module | IRError:
    try:
        return parse(text, "damaged.ttgir")
    except IRError as error:
        return error


def _check(text: str) -> None:
    """Damaged text is refused with the line, or read as it stands."""
    module = _parsed(text)
    if isinstance(module, IRError):
        assert module.file == "damaged.ttgir"
        assert 1 <= module.line <= text.count("\n") + 1
        return
    assert str(module) == text
    _read_everything(module)
    assert str(module) == text


def _read_everything(module: Module) -> None:
    """Ask each op all there is to ask; damaged text may be refused, but with an IRError."""
    for op in module.walk():
        assert op.name
        for region in op.regions:
            for block in region.blocks:
                assert block.label is None or block.label.startswith("^")
                assert [value.owner for value in block.args] == [block] * len(block.args)
        assert len(op.results) == len(op.header.result_names)
        assert len(op.operand_types) == len(op.operands)
        assert all(label.startswith("^") for label, _ in op.successors)
        assert all(key and value for key, value in op.attributes.items())
        for read in (_location, flow.read_for, flow.partitions):
            with contextlib.suppress(IRError):
                read(op)


def _location(op: Op) -> Location:
    return op.loc


@cache
def _snippets() -> list[str]:
    """Modules with every form of region, without the aliases, to be damaged."""
    found = []
    for name, target in [
        ("early_return", "cuda:90"), ("while", "cuda:90"), ("gluon_ws", "cuda:90"), ("argmax", "hip:gfx942"),
        ("branch_in_loop", "cuda:80"), ("noinline", "cuda:90"),
    ]:  # fmt: skip
        lines = printed(name, target).splitlines(keepends=True)
        start = next(i for i, line in enumerate(lines) if line.startswith("module"))
        end = next(i for i, line in enumerate(lines) if line.startswith("}"))
        found.append("".join(lines[start : end + 1]))
    return found


@settings(deadline=None, max_examples=examples(150))
@given(data=st.data())
def test_damaged_modules(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(_snippets()))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 3) | st.integers(0, 400))
        text = (
            text[:start]
            + data.draw(st.sampled_from(["", *TRICKY]) | st.text(max_size=3))
            + text[start + length :]
        )
    _check(text)
