"""Damage to printed TTGIR, as tools and slips of the hand leave it; a seed always does the same."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Final

_TOKEN: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|[%#@^!]?[\w.$:]+(?:#\d+)?|->|\s+|.', re.DOTALL)
_NUMBER: Final = re.compile(r"(?<![\w%#.])-?\d+(?![\w.])")
_ATTRIBUTE: Final = re.compile(r'(?:"[\w.-]+"|[\w.]+) = [^,{}()\n]+')
_OPERAND: Final = re.compile(r"%[\w#]+(?:, )?")
_NUMBERS: Final = ("0", "-1", "1", "7", "99999999999999999999", "1.5", "0x7F", "true")
_BRACKETS: Final = "{}()[]<>"
_ENDS: Final = (r" : .*?(?= loc|$| \{)", r" loc\(.*", r"->.*?(?= loc|$| \{)")


def mutated(text: str, seed: int) -> str:
    """The text with one to three changes."""
    chosen = random.Random(seed)
    for _ in range(chosen.choice((1, 1, 1, 2, 3))):
        text = chosen.choice(_WAYS)(text, chosen) if text.strip() else text
    return text


def _any_token(text: str, chosen: random.Random) -> str:
    """Delete, double, swap, or replace one by another."""
    tokens = _TOKEN.findall(text)
    places = [place for place, token in enumerate(tokens) if not token.isspace()]
    return "".join(_shuffled(tokens, chosen.choice(places), chosen.choice(places), chosen))


def _line(text: str, chosen: random.Random) -> str:
    """The same with lines."""
    lines = text.split("\n")
    return "\n".join(_shuffled(lines, chosen.randrange(len(lines)), chosen.randrange(len(lines)), chosen))


def _shuffled(items: list[str], one: int, other: int, chosen: random.Random) -> list[str]:
    way = chosen.randrange(5)
    if way == 0:
        del items[one]
    elif way == 1:
        items.insert(one, items[one])
    elif way == 2:
        items[one], items[other] = items[other], items[one]
    elif way == 3:
        items.insert(other, items.pop(one))
    else:
        items[one] = items[other]
    return items


def _same_kind(text: str, chosen: random.Random) -> str:
    """One value, alias, symbol, string or op's name for another, so that the text still reads well."""
    tokens = _TOKEN.findall(text)
    kinds: dict[str, list[int]] = {}
    for place, token in enumerate(tokens):
        kind = token[0] if token[0] in '%#@^!"' else "op" if re.match(r"[a-z_]+\.", token) else ""
        kinds.setdefault(kind, []).append(place)
    places = kinds[chosen.choice(sorted(kinds))]
    tokens[chosen.choice(places)] = tokens[chosen.choice(places)]
    return "".join(tokens)


def _number(text: str, chosen: random.Random) -> str:
    return _replaced(text, _NUMBER, lambda match: chosen.choice(_NUMBERS), chosen)


def _attribute(text: str, chosen: random.Random) -> str:
    """Drop it, its value, or give it another one's."""
    values = [match[0].partition(" = ")[2] for match in _ATTRIBUTE.finditer(text)]

    def other(match: re.Match[str]) -> str:
        name = match[0].partition(" = ")[0]
        return chosen.choice(("", name, f"{name} = {chosen.choice(values)}"))

    return _replaced(text, _ATTRIBUTE, other, chosen)


def _operand(text: str, chosen: random.Random) -> str:
    """One fewer, or one twice."""
    return _replaced(text, _OPERAND, lambda m: chosen.choice(("", f"{m[0].rstrip(', ')}, {m[0]}")), chosen)


def _bracket(text: str, chosen: random.Random) -> str:
    return _replaced(
        text, re.compile(r"[][{}()<>]"), lambda match: chosen.choice(("", match[0] * 2, *_BRACKETS)), chosen
    )


def _character(text: str, chosen: random.Random) -> str:
    at, kept = chosen.randrange(len(text)), chosen.randrange(2)
    return text[:at] + chosen.choice(("", *_BRACKETS, *'"%#^@,:=- \n\\x0')) + text[at + kept :]


def _line_end(text: str, chosen: random.Random) -> str:
    """A line without its types, results or location."""
    lines = text.split("\n")
    at = chosen.randrange(len(lines))
    lines[at] = re.sub(chosen.choice(_ENDS), "", lines[at])
    return "\n".join(lines)


def _replaced(
    text: str, pattern: re.Pattern[str], new: Callable[[re.Match[str]], str], chosen: random.Random
) -> str:
    """One match of the pattern replaced; the text itself if there is none."""
    matches = list(pattern.finditer(text))
    if not matches:
        return text
    match = chosen.choice(matches)
    return text[: match.start()] + new(match) + text[match.end() :]


_WAYS: Final = (
    _any_token, _line, _line, _same_kind, _same_kind, _number, _attribute, _operand, _operand, _bracket,
    _character, _line_end,
)  # fmt: skip
