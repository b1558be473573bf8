"""Hints and errors for a command line; analyses name options as in Python.

session(instrument="heavy")    `profscope run --instrument heavy`
ctas=64                        --ctas 64
"""

import ast
import re
import shlex
from dataclasses import fields
from typing import Any, Final

from profscope.options import Options

__all__ = ["flag_of", "in_flags"]

_SWITCHES: Final = {each.name for each in fields(Options) if each.init and each.type == "bool"}
_OF_OTHERS: Final = ("vary", "limit_s", "pair")
_FLAGS: Final = {
    each.name: each.metadata["flag"]
    for each in fields(Options)
    if each.init and each.metadata["cli"] is not None
}
_NAME: Final = rf"({'|'.join([*_FLAGS, *_OF_OTHERS])})"
_VALUE: Final = r"""("[^"]*"|'[^']*'|\[[^\]]*\]|\w[\w.]*\w|\w)?"""
_WRITTEN: Final = re.compile(rf"session\({_NAME}={_VALUE}\)|(?<![\w.=-]){_NAME}={_VALUE}")


def in_flags(text: str) -> str:
    """The text with flags in place of options; those that have no flag stay."""
    return _WRITTEN.sub(_replaced, text)


def flag_of(name: str) -> str:
    """The flag of an option, without its dashes."""
    return _FLAGS.get(name) or name.replace("_", "-")


def _replaced(match: re.Match[str]) -> str:
    if match[1] is not None:
        return f"`profscope run {_flag(match[1], match[2])}`"
    return _flag(match[3], match[4])


def _flag(name: str, value: str | None) -> str:
    flag = f"--{flag_of(name)}"
    if value is None:
        return flag
    try:
        given: Any = ast.literal_eval(value)
    except (SyntaxError, ValueError):  # a word, such as every=n
        given = value
    if given is True and name in _SWITCHES:
        return flag
    if isinstance(given, bool):
        given = str(given).lower()
    return f"{flag} {shlex.quote(','.join(map(str, given)) if isinstance(given, list) else str(given))}"
