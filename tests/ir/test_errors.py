"""Text that is no TTGIR gives one error: file, line, and what was expected."""

from __future__ import annotations

import pytest

from profscope.instrument_passes.errors import InstrumentError, IRError
from profscope.instrument_passes.ir import parse
from tests.support.corpus import printed

HEAD = "module {\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "k.ttgir:1: expected one module, found 0 top-level ops"),
        ("hello world\n", "k.ttgir:1: expected one module, found 'hello'"),
        ("module {\n}\nmodule {\n}\n", "k.ttgir:3: expected one module, found 2 top-level ops"),
        ("module { a.b }\n", "k.ttgir:1: expected the module's body: '{' at the end of its line"),
        (HEAD + "  a.b\n", "k.ttgir:3: expected '}' to close a region, found the end of the text"),
        (
            HEAD + "  a.b(%0\n  a.c\n",
            "k.ttgir:4: expected ')' to close line 2's '(', found the end of the text",
        ),
        (HEAD + "  a.b(%0]\n}\n", "k.ttgir:2: expected ')', found ']'"),
        (HEAD + "  a.b %0)\n}\n", "k.ttgir:2: expected the end of the op, found ')'"),
        (HEAD + '  a.b "open\n}\n', "k.ttgir:2: expected the closing quote of a string"),
        (HEAD + "  %0 = \n}\n", "k.ttgir:2: expected the name of an op in '%0 ='"),
        (HEAD + "  = a.b\n}\n", "k.ttgir:2: expected an op, found '='"),
        (HEAD + "  a.b\n} }\n", "k.ttgir:3: expected the end of the op, found '}'"),
        (
            HEAD + "^bb1(%a: i32)\n}\n",
            "k.ttgir:2: expected ':' after block label ^bb1, found the end of the line",
        ),
        (HEAD + "a.b {\n" * 120, "k.ttgir:101: expected at most 100 regions in one another"),
        ("{-# x\n" + HEAD + "}\n", "k.ttgir:4: expected '#-}' to close '{-#', found the end of the text"),
    ],
)
def test_names_file_line_and_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(IRError) as caught:
        parse(text, "k.ttgir")
    assert str(caught.value).startswith(message)
    assert caught.value.file == "k.ttgir"
    assert isinstance(caught.value, InstrumentError)


def test_inserted_text_says_where_it_was_to_go() -> None:
    module = parse(printed("add", "cuda:80"), "add.ttgir")
    store = next(op for op in module.walk() if op.name == "tt.store")
    before = str(module)
    with pytest.raises(IRError, match=rf"^add.ttgir:{store.line}: in text to insert: expected '\)'"):
        store.insert_before("%x = a.b (%0")
    assert str(module) == before


def test_truncated_file_names_its_last_line() -> None:
    text = printed("softmax", "cuda:80")
    cut = text[: text.index("scf.yield")] if "scf.yield" in text else text[: len(text) // 2]
    with pytest.raises(IRError, match=rf"^s.ttgir:{cut.count(chr(10)) + 1}: expected"):
        parse(cut, "s.ttgir")
