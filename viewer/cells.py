"""Text measured in terminal cells: a Chinese character takes two, an accent none."""

from rich.cells import cell_len, set_cell_size

__all__ = ["fit", "fit_end", "pad"]


def fit(text: str, width: int) -> str:
    """Text cut to a width in terminal cells, with an ellipsis in place of what is missing."""
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)) + "…"


def fit_end(text: str, width: int) -> str:
    """Text cut at its start to a width in terminal cells: of a path the end says most."""
    while cell_len(text) > width:
        text = "…" + text.lstrip("…")[1:]
    return text


def pad(text: str, width: int, right: bool = False) -> str:
    """Text padded to a width in terminal cells."""
    space = " " * (width - cell_len(text))
    return space + text if right else text + space
