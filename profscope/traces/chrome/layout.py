"""How a Chrome trace of profscope's begins and ends, by which a reader knows it and sees it is whole."""

__all__ = ["END", "FIRST_LINE_END", "FIRST_LINE_START"]

FIRST_LINE_START = b'{"profscope":'
FIRST_LINE_END = b",\n"
"""Around the data, which have the first line to themselves."""

END = b"\n]}\n"
"""How every trace ends; a reader that stops after the first line checks for it."""
