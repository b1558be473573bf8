"""Source locations as MLIR prints them: loc("a"("k.py":3:4)), loc(callsite(#loc1 at #loc2)), fused[...]."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from profscope.instrument_passes.errors import IRError
from profscope.instrument_passes.ir.tokens import Token, significant, unquote

__all__ = ["SCOPE_PREFIX", "UNKNOWN", "Caller", "Location", "resolve_location"]

SCOPE_PREFIX: Final = (
    "profscope:"  # in the metadata of a fused location, before a scope's number; see `scopes.py`
)


class Caller(NamedTuple):
    """A call that was inlined: where it stands, and what its value was bound to."""

    file: str
    line: int
    column: int = 0
    name: str = ""


@dataclass(frozen=True)
class Location:
    """The source location of an op.

    `name` is the source name the value was bound to, "" if there is none. `callers` are the calls that
    inlined the op, innermost first. `scopes` are the numbers of the users' scopes that the op
    is in, at most one for each function, that of the outermost caller first. An unknown location has file ""
    and line 0.
    """

    file: str = ""
    line: int = 0
    column: int = 0
    name: str = ""
    callers: tuple[Caller, ...] = ()
    scopes: tuple[int, ...] = ()


UNKNOWN = Location()
_INTEGER: Final = re.compile(r"[0-9]{1,18}")


def resolve_location(text: str, aliases: Mapping[str, str]) -> Location:
    """The location that `text` ("loc(...)", or an alias such as "#loc3") stands for; "" is unknown.

    Raises IRError for text that is not a location, and for an alias that is not defined or leads to itself.
    """
    if not text:
        return UNKNOWN
    try:
        return _Reader(text, aliases, ()).read()
    except RecursionError:
        raise IRError("a location is nested too deeply") from None


class _Reader:
    def __init__(self, text: str, aliases: Mapping[str, str], above: tuple[str, ...]) -> None:
        self._text = text
        self._aliases = aliases
        self._above = above
        self._tokens = significant(text)
        self._next = 0

    def read(self) -> Location:
        location = self._location()
        if self._next != len(self._tokens):
            raise self._error("nothing more")
        return location

    def _error(self, expected: str) -> IRError:
        actual = repr(self._tokens[self._next].text) if self._next < len(self._tokens) else "the end"
        return IRError(f"location {self._text!r}: expected {expected}, found {actual}")

    def _peek(self) -> str:
        return self._tokens[self._next].text if self._next < len(self._tokens) else ""

    def _take(self, text: str) -> None:
        if self._peek() != text:
            raise self._error(repr(text))
        self._next += 1

    def _token(self, kind: str, expected: str) -> Token:
        if self._next >= len(self._tokens) or self._tokens[self._next].kind != kind:
            raise self._error(expected)
        self._next += 1
        return self._tokens[self._next - 1]

    def _integer(self, expected: str) -> int:
        if not _INTEGER.fullmatch(self._peek()):
            raise self._error(expected)
        self._next += 1
        return int(self._tokens[self._next - 1].text)

    def _location(self) -> Location:
        if self._next >= len(self._tokens):
            raise self._error("a location")
        token = self._tokens[self._next]
        if token.kind == "hash":
            self._next += 1
            return self._alias(token.text)
        if token.kind == "string":
            self._next += 1
            return self._file_or_name(unquote(token.text))
        if token.text == "loc":
            self._next += 1
            return self._parenthesised()
        if token.text == "unknown":
            self._next += 1
            return UNKNOWN
        if token.text == "callsite":
            self._next += 1
            return self._callsite()
        if token.text == "fused":
            self._next += 1
            return self._fused()
        raise self._error("a location")

    def _parenthesised(self) -> Location:
        self._take("(")
        location = self._location()
        self._take(")")
        return location

    def _alias(self, alias: str) -> Location:
        if alias not in self._aliases:
            raise IRError(f"location alias {alias} is not defined")
        if alias in self._above:
            raise IRError(f"location alias {alias} leads to itself")
        return _Reader(self._aliases[alias], self._aliases, (*self._above, alias)).read()

    def _file_or_name(self, text: str) -> Location:
        if self._peek() == "(":
            inner = self._parenthesised()
            return Location(inner.file, inner.line, inner.column, text, inner.callers, inner.scopes)
        if self._peek() != ":":
            return Location(name=text)
        self._take(":")
        line = self._integer("a line number")
        self._take(":")
        column = self._integer("a column number")
        self._skip_range_end()
        return Location(text, line, column)

    def _skip_range_end(self) -> None:
        """A range is printed `"k.py":3:4 to 5:6`, or `to :6` on one line; its start is what we keep."""
        if self._peek() != "to":
            return
        self._next += 1
        if self._peek() != ":":
            self._token("number", "a line number")
        self._take(":")
        self._token("number", "a column number")

    def _callsite(self) -> Location:
        self._take("(")
        callee = self._location()
        self._take("at")
        caller = self._location()
        self._take(")")
        call = Caller(caller.file, caller.line, caller.column, caller.name)
        callers = (*callee.callers, call, *caller.callers)
        scopes = (*caller.scopes, *callee.scopes)
        return Location(callee.file, callee.line, callee.column, callee.name, callers, scopes)

    def _fused(self) -> Location:
        scopes: tuple[int, ...] = ()
        if self._peek() == "<":
            scopes = self._metadata()
        self._take("[")
        parts = [self._location()]
        while self._peek() == ",":
            self._next += 1
            parts.append(self._location())
        self._take("]")
        main = next((part for part in parts if part.line), parts[0])
        return replace(main, scopes=(*main.scopes, *scopes))

    def _metadata(self) -> tuple[int, ...]:
        """The scope that `<"profscope:3">` names; any other metadata is skipped."""
        start, depth = self._next, 0
        while self._next < len(self._tokens):
            depth += {"<": 1, ">": -1}.get(self._peek(), 0)
            self._next += 1
            if depth == 0:
                text = unquote(self._tokens[start + 1].text)
                number = text.removeprefix(SCOPE_PREFIX)
                return (int(number),) if number != text and number.isdecimal() else ()
        raise self._error("'>'")
