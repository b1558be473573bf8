"""The script and the style of the page: built from `web/` by esbuild, and checked in."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

__all__ = ["WEB", "built_from", "script", "style", "written_down"]

WEB = Path(__file__).parent / "web"
_SOURCES = ("src/*.js", "src/*.css", "package.json", "package-lock.json", "build.mjs")
_BUNDLE = ("report.css", "report.js")


@cache
def script() -> tuple[str, str]:
    """The text of the script, and its hash as a Content-Security-Policy has it."""
    text = (WEB / "report.js").read_text()
    return text, "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def style() -> str:
    """The text of the style."""
    return (WEB / "report.css").read_text()


def built_from(folder: Path = WEB) -> dict[str, str]:
    """A digest of what the bundle is built from, and one of the bundle: of names and texts, by name."""
    sources = {path for pattern in _SOURCES for path in folder.glob(pattern)}
    return {"sources": _digest(folder, sources), "bundle": _digest(folder, map(folder.joinpath, _BUNDLE))}


def written_down(folder: Path = WEB) -> dict[str, str]:
    """The same digests, as the build wrote them down."""
    return dict(line.split() for line in (folder / "report.sha256").read_text().splitlines())


def _digest(folder: Path, paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    named = {path.relative_to(folder).as_posix(): path for path in paths}
    for name, path in sorted(named.items()):
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
