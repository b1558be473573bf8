"""Data for a page's script."""

from __future__ import annotations

import json
from typing import Any

from profscope.analysis.markup import Markup, plain

__all__ = ["json_block"]


def json_block(identity: str, value: Any) -> Markup:
    """Data for the page's script, as an element that no browser executes.

    What would not be seen of a name is spelled out, as everywhere on the page. json.dumps writes ASCII; `<`,
    `>` and `&` are escaped besides, so that nothing in it can end the element.
    """
    text = json.dumps(_shown(value), separators=(",", ":"), allow_nan=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(f'<script type="application/json" id="{identity}">{text}</script>')


def _shown(value: Any) -> Any:
    """The same with `plain` texts."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {plain(key): _shown(each) for key, each in value.items()}
    return [_shown(each) for each in value] if isinstance(value, list | tuple) else value
