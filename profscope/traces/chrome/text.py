"""JSON text of a Chrome trace: read as far as other tools write it, and written so that Perfetto takes it.

Perfetto (v52) loses its way, and the whole trace, at a string that ends in a backslash, and it shows the
escapes of other characters as they stand.
"""

import json
import re
from typing import Any

__all__ = ["END", "FIRST_LINE_END", "FIRST_LINE_START", "json_document", "json_text", "string_text"]

LAST_BACKSLASH = re.compile(r'(?<!\\)((?:\\\\)*)\\\\"')
"""An escaped backslash before a closing quote: an even run of backslashes, then the quote."""


def json_document(text: str) -> Any:
    """A JSON document; an array of events may lack its closing bracket, as the Chrome trace format allows.

    Raises ValueError, RecursionError.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        if text.startswith("["):
            try:
                return json.loads(text.rstrip(", \t\r\n") + "]")
            except json.JSONDecodeError:
                pass  # the error met first says more
        raise


def json_text(value: Any) -> str:
    """Compact JSON in ASCII."""
    return _spell_last_backslash(json.dumps(value, separators=(",", ":")))


def string_text(text: str) -> str:
    """A JSON string with as few escapes as it can do with."""
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which UTF-8 cannot hold
        return _spell_last_backslash(json.dumps(text))
    return _spell_last_backslash(json.dumps(text, ensure_ascii=False))


def _spell_last_backslash(text: str) -> str:
    return LAST_BACKSLASH.sub(r'\1\\u005c"', text) if '\\\\"' in text else text


# How a trace of profscope's begins and ends, by which a reader knows it and sees it is whole.

FIRST_LINE_START = b'{"profscope":'
FIRST_LINE_END = b",\n"
"""Around the data, which have the first line to themselves."""

END = b"\n]}\n"
"""How every trace ends; a reader that stops after the first line checks for it."""
