"""What the values of command-line options may be."""

import argparse
import re

__all__ = ["count", "pattern", "width"]


def pattern(text: str) -> str:
    """A regular expression."""
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"not a regular expression: {error}") from None
    return text


def count(text: str) -> int:
    """A whole number, 0 and above."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"not a count: {text!r}")
    return int(text)


def width(text: str) -> int:
    """Columns of a terminal."""
    if not text.isdecimal() or int(text) < 40:
        raise argparse.ArgumentTypeError(f"must be 40 or more: {text!r}")
    return int(text)
