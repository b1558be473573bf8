"""Split TTGIR text into tokens; nothing is dropped, so the tokens' texts joined are the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from profscope.instrument_passes.errors import IRError

__all__ = ["FreshNames", "Token", "quote", "significant", "tokenize", "unquote", "value_names"]

_NAME = r"(?:\d+|[A-Za-z$._](?:[\w$.]|-(?!>))*|-(?!>)(?:[\w$.]|-(?!>))*)"
_STRING = r'"(?:[^"\\\n]|\\[^\n])*"'
# White space and the token behind it; no token at the end, and where a string has none.
_TOKEN = re.compile(
    rf"""
    [ \t\r]*+(?:
      (?P<value>%{_NAME}(?:\#\d+)?)
    | (?P<word>[A-Za-z_][\w$.]*)
    | (?P<newline>\n)
    | (?P<comment>//[^\n]*)
    | (?P<string>{_STRING})
    | (?P<label>\^{_NAME})
    | (?P<symbol>@(?:{_STRING}|[A-Za-z_](?:[\w$.]|-(?!>))*))
    | (?P<hash>\#{_NAME})
    | (?P<bang>!{_NAME})
    | (?P<number>0x[0-9a-fA-F]+|\d+(?:\.\d*(?:[eE][+-]?\d+)?)?)
    | (?P<arrow>->)
    | (?P<compare>[<>=]=)
    | (?P<punctuation>[^"])
    | (?="|\Z)
    )
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"t": b"\t"}
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_HEX = "\\{:02X}"


class Token(NamedTuple):
    """`kind` is the name of the group in the grammar above; `start` and `end` are offsets in the text."""

    kind: str
    text: str
    start: int
    end: int


def tokenize(text: str, file: str = "") -> Iterator[Token]:
    """All tokens of `text`, line ends and comments too; white space is none. Raises IRError at a string
    without its end."""
    made = tuple.__new__  # half the time that Token() takes: reading modules is mostly this
    for match in _TOKEN.finditer(text):
        group = match.lastindex
        if group is None:
            if match.end() < len(text):
                line = text.count("\n", 0, match.end()) + 1
                raise IRError("expected the closing quote of a string", file, line)
            return
        start, end = match.span(group)
        yield made(Token, (match.lastgroup, match[group], start, end))


def significant(text: str, file: str = "") -> list[Token]:
    """The tokens of `text` without white space, line ends and comments."""
    return [token for token in tokenize(text, file) if token.kind not in ("newline", "comment")]


def unquote(text: str) -> str:
    """The value of a string literal, or `text` itself.

    MLIR escapes with one character, or with the two hex digits of a byte of UTF-8; bytes that are no UTF-8
    come back as in file names (surrogateescape).
    """
    if not text.startswith('"'):
        return text

    def value(match: re.Match[bytes]) -> bytes:
        escape = match.group(1)
        return bytes([int(escape, 16)]) if len(escape) == 2 else _ESCAPED.get(escape, escape)

    raw = text[1:-1].encode("utf-8", "surrogateescape")
    return _ESCAPE.sub(value, raw).decode("utf-8", "surrogateescape")


def quote(text: str) -> str:
    """A string literal that MLIR and `unquote` read back.

    Control characters become escapes, as MLIR demands, and so do the bytes of file names that are no UTF-8.
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _UNPRINTABLE.sub(lambda match: "".join(map(_HEX.format, _bytes(match[0]))), escaped) + '"'


def _bytes(character: str) -> bytes:
    """Of a surrogate: the byte that it stands for in a file name; of one that stands for none, its code's."""
    escapes = "\udc80" <= character <= "\udcff"
    return character.encode("utf-8", "surrogateescape" if escapes else "surrogatepass")


_VALUE = re.compile(r"%[\w$.-]+")


def value_names(text: str) -> Iterator[str]:
    """Everything in `text` that looks like a value name, strings and comments included."""
    return (match.group() for match in _VALUE.finditer(text))


class FreshNames:
    """Hands out names that are neither in `text` nor in texts given to `add`, each once."""

    def __init__(self, text: str) -> None:
        self._names = set(value_names(text))
        self._next_number: dict[str, int] = {}

    def add(self, text: str) -> None:
        self._names.update(value_names(text))

    def new(self, prefix: str) -> str:
        """Such as "%ps_3"."""
        number = self._next_number.get(prefix, 0)
        while f"%{prefix}_{number}" in self._names:
            number += 1
        self._next_number[prefix] = number + 1
        return f"%{prefix}_{number}"
