"""PTX text to tokens, each with its line."""

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from profscope.emulator.ptx.syntax import Immediate
from profscope.errors import EmulatorError

__all__ = ["Token", "immediate", "tokens"]


class Token(NamedTuple):
    kind: str
    text: str
    line: int


_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r]+|//[^\n]*|/\*.*?\*/)
    |(?P<newline>\n)
    |(?P<number>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?
        |\d+\.\d+(?:[eE][-+]?\d+)?|\d+U?)
    |(?P<word>[%$.A-Za-z_](?:[\w$.%]|::(?=[\w]))*)
    |(?P<string>"[^"]*")
    |(?P<punctuation>[-+{}()\[\],;:@!|<>=])""",
    re.VERBOSE | re.DOTALL,
)


def tokens(text: str) -> Iterator[Token]:
    line = 1
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise EmulatorError(f"PTX line {line}: cannot read {text[position : position + 30]!r}")
        kind = str(match.lastgroup)
        if kind == "newline":
            yield Token(kind, "\n", line)
            line += 1
        elif kind == "skip":
            line += match.group().count("\n")
        else:
            yield Token(kind, match.group(), line)
        position = match.end()


def immediate(token: Token) -> Immediate:
    """The number a token stands for. Raises EmulatorError if it is none."""
    text = token.text.rstrip("U")
    if text[:2] in ("0f", "0F"):
        return Immediate(int(text[2:], 16), 32)
    if text[:2] in ("0d", "0D"):
        return Immediate(int(text[2:], 16), 64)
    if "." in text and token.kind == "number":
        return Immediate(struct.unpack("<I", struct.pack("<f", float(text)))[0], 32)
    if token.kind != "number":
        raise EmulatorError(f"PTX line {token.line}: number expected, found {token.text!r}")
    return Immediate(int(text, 16 if text[:2] in ("0x", "0X") else 10), 0)
