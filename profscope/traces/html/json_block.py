"""Data for a page's script."""

from __future__ import annotations

import json
from typing import Any

from profscope.analysis.markup import Markup

__all__ = ["json_block"]


def json_block(identity: str, value: Any) -> Markup:
    """Data for the page's script, as an element that no browser executes.

    json.dumps writes ASCII; `<`, `>` and `&` are escaped besides, so that nothing in it can end the element.
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(f'<script type="application/json" id="{identity}">{text}</script>')
