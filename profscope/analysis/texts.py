"""Numbers, names and notes as a reader wants them, whoever shows them, and HTML that holds them safely.

In HTML no text can become markup: whatever is not `Markup` is escaped where it goes in. Nothing heavy is
imported.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from profscope.errors import OptionError

__all__ = [
    "NO_TIME",
    "STEPS",
    "UNSEEN",
    "Child",
    "Markup",
    "before_number",
    "clipped",
    "count_text",
    "joined",
    "kernel_of_note",
    "percentage",
    "plain",
    "printable",
    "ranges_of",
    "source_text",
    "tag",
    "three_digits",
]

STEPS: Final = {
    "ns": (("ns", 1), ("us", 10**3), ("ms", 10**6), ("s", 10**9)),
    "cycles": (("", 1), ("k", 10**3), ("M", 10**6), ("G", 10**9)),
}
"""By unit of the tables, the units that a duration is shown in, and what each is of it."""

_NUMBER_AT_END: Final = re.compile(r"(?<![\w.])[+-]?\d[\d.,]*$")

NO_TIME: Final = "A time of 0: no longer than what recording it costs."
"""What is left of such a span, once the cost is taken off."""


def three_digits(value: float, unit: str) -> tuple[str, str]:
    """A duration's number, three significant digits at most, and its unit: ("1.86", "us"), ("3.69", "k")."""
    steps = STEPS[unit]
    # 999.5 rounds to 1000, which the next unit says shorter.
    name, scale = next((step for step in steps if abs(value) / step[1] < 999.5), steps[-1])
    scaled = value / scale
    decimals = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
    is_whole = scale == 1 and scaled == int(scaled)
    return f"{scaled:.{0 if is_whole else decimals}f}", name


def count_text(value: int, one: str = "", many: str = "") -> str:
    """A whole number with commas, and a noun: "1 launch", "1,024 launches"."""
    word = (one if value == 1 else many or f"{one}s") if one else ""
    return f"{value:,} {word}".rstrip()


def percentage(value: float | str) -> float:
    """5 of 5, "5" and "5%". Raises OptionError for anything else."""
    try:
        number = float(value.removesuffix("%") if isinstance(value, str) else value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number < 1e9:
        raise OptionError(f"not a percentage, such as 5%: {value!r}")
    return number


def clipped(text: str, characters: int) -> str:
    """A text, cut if it is longer, but for a number at its end."""
    return text if len(text) <= characters else before_number(text[: characters - 3]).rstrip() + "..."


def before_number(text: str) -> str:
    """A cut text without the number at its end, which may be cut, too: "16 % of peak,". Digits of a name
    stay, and so does a text that is only a number."""
    kept = _NUMBER_AT_END.sub("", text)
    return text if kept == text else kept.rstrip() or text


def printable(text: str, keep: str = "") -> str:
    r"""Text with each character that would not be seen written as Python does, ESC as `\x1b`.

    Such are control characters, which could steer a terminal or which HTML cannot hold, and those that change
    the direction in which text is read, as U+202E does. keep: those that stay, as line breaks of a source.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def ranges_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Distinct numbers as ranges, first and last: [0, 1, 2, 5] as [(0, 2), (5, 5)]."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        first, last = ranges.pop() if ranges and number == ranges[-1][1] + 1 else (number, number)
        ranges.append((first, max(last, number)))
    return ranges


def source_text(file: str, line: int) -> str:
    """ "matmul.py:26", or "" if the source is unknown."""
    name = printable(file.replace("\\", "/").rsplit("/", 1)[-1])
    return f"{name}:{line}" if file and line else name or (f":{line}" if line else "")


class Markup(str):
    """HTML that was made here."""

    __slots__ = ()


Child: TypeAlias = "Markup | str | int | None"

_VOID = frozenset(("br", "hr", "input", "meta"))


def tag(name: str, /, *children: Child, **attributes: str | int | bool | None) -> Markup:
    """An element. An attribute that is None or False is left out; `class_` is "class", `data_x` "data-x"."""
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        spelled = key.rstrip("_").replace("_", "-")
        parts.append(spelled if value is True else f'{spelled}="{_escaped(str(value))}"')
    opening = f"<{' '.join(parts)}>"
    return Markup(opening if name in _VOID else f"{opening}{joined(children)}</{name}>")


def joined(children: Iterable[Child]) -> Markup:
    """Children one behind the other; None is nothing."""
    return Markup(
        "".join(
            child if isinstance(child, Markup) else _escaped(str(child))
            for child in children
            if child is not None
        )
    )


def plain(text: str) -> str:
    """`printable` text that may have lines."""
    return printable(text, "\n\t")


def _escaped(text: str) -> str:
    return html.escape(plain(text), quote=True)


UNSEEN: Final = "no launch of a Triton kernel was seen"
"""A session's note that says no more than that."""

_RANKS: Final = re.compile(r"(?:rank [\d, ]+|each of \d+ ranks): ")


def kernel_of_note(note: str) -> str:
    """The kernel's name in a note: the text before the colon, without a variant's number and without
    ranks."""
    return _RANKS.sub("", note, count=1).partition(":")[0].partition(" #")[0]
