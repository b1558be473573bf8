"""The script and the style of the page: built from `web/` by esbuild, and checked in."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

__all__ = ["WEB", "script", "sources_digest", "style", "written_digest"]

WEB = Path(__file__).parent / "web"
_SOURCES = ("src/*.js", "src/*.css", "package.json", "package-lock.json", "build.mjs")


@cache
def script() -> tuple[str, str]:
    """The text of the script, and its hash as a Content-Security-Policy has it."""
    text = (WEB / "report.js").read_text()
    return text, "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def style() -> str:
    """The text of the style."""
    return (WEB / "report.css").read_text()


def sources_digest(folder: Path = WEB) -> str:
    """A digest of what the bundle is built from: names and texts, by name."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in _SOURCES for path in folder.glob(pattern)}):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def written_digest(folder: Path = WEB) -> str:
    """The digest of the sources that the bundle was built from, and of the bundle, as the build wrote them."""
    return (folder / "report.sha256").read_text()
