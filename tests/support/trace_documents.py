"""The "profscope" object of a trace, changed by hand, with the digest that docs/records.md asks for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def signed(document: dict[str, Any]) -> bytes:
    """A trace's JSON whose digest is that of the object in it."""
    text = json.dumps(document["profscope"], sort_keys=True, separators=(",", ":"))
    return json.dumps(document | {"profscopeDigest": hashlib.sha256(text.encode()).hexdigest()}).encode()


def changed(trace: Path, change: Callable[[dict[str, Any]], object]) -> bytes:
    """A `.json` trace after a change of its object, with a digest that fits."""
    document = json.loads(trace.read_text())
    change(document["profscope"])
    return signed(document)
