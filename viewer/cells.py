"""Text measured in terminal cells: a Chinese character takes two, an accent none."""

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size

from viewer.units import printable

__all__ = ["fit", "fit_end", "fit_middle", "pad", "words", "wrap"]


def fit(text: str, width: int) -> str:
    """Text cut to a width in terminal cells, with an ellipsis in place of what is missing."""
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)) + "…"


def fit_end(text: str, width: int) -> str:
    """Text cut at its start to a width in terminal cells: of a path the end says most."""
    while cell_len(text) > width:
        text = "…" + text.lstrip("…")[1:]
    return text


def fit_middle(text: str, width: int) -> str:
    """Text cut in its middle to a width in terminal cells: of names that are alike both ends tell."""
    if cell_len(text) <= width:
        return text
    head = set_cell_size(text, width // 2)
    return head + fit_end("…" + text[len(head.rstrip()) :], width - cell_len(head))


def pad(text: str, width: int, right: bool = False) -> str:
    """Text padded to a width in terminal cells."""
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def words(text: str) -> list[str]:
    """Those of a text, as `wrap` takes them; "62 %" is one."""
    return re.split(r" +(?!%)", printable(text).strip())


def wrap(parts: Sequence[str], width: int, separator: str = " ") -> list[str]:
    """Parts joined to lines of at most `width` cells; lines end between parts or inside a longer one."""
    mark = separator.rstrip()
    gap = separator[len(mark) :]
    if not parts:
        return []
    *before, last = parts
    lines = [""]
    for part in [*(text + mark for text in before), last]:
        joined = f"{lines[-1]}{gap}{part}" if lines[-1] else part
        if cell_len(joined) <= width:
            lines[-1] = joined
            continue
        pieces = list(_pieces(part, width))
        lines = [*lines, *pieces] if lines[-1] else pieces
    return lines


def _pieces(text: str, width: int) -> Iterator[str]:
    """A text cut into pieces of at most `width` cells; of one character at least."""
    begin = 0
    for end in range(1, len(text) + 1):
        if end == len(text) or (cell_len(text[begin : end + 1]) > width and end > begin):
            yield text[begin:end]
            begin = end
