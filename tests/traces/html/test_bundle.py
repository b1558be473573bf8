"""The script that is checked in is what its sources give, and it asks nothing of any network."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from profscope.traces.html.document import WEB, script, style

_SOURCES = ("src/*.js", "src/*.css", "package.json", "package-lock.json", "build.mjs")
_BUNDLE = ("report.css", "report.js")


def built_from() -> dict[str, str]:
    """A digest of what the bundle is built from, and one of the bundle: of names and texts, by name."""
    sources = {path for pattern in _SOURCES for path in WEB.glob(pattern)}
    return {"sources": _digest(sources), "bundle": _digest(map(WEB.joinpath, _BUNDLE))}


def written_down() -> dict[str, str]:
    """The same digests, as the build wrote them down."""
    return dict(line.split() for line in (WEB / "report.sha256").read_text().splitlines())


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    named = {path.relative_to(WEB).as_posix(): path for path in paths}
    for name, path in sorted(named.items()):
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def test_the_bundle_is_of_these_sources() -> None:
    assert built_from() == written_down(), f"build it anew: cd {WEB}; npm ci --ignore-scripts; node build.mjs"


def test_it_can_stand_in_a_page() -> None:
    code, _ = script()
    for text in (code, style()):
        assert text.isascii()
        assert not re.search(r"</(script|style)|<!--", text, re.IGNORECASE)


def test_it_names_no_address() -> None:
    for text in (script()[0], style()):
        assert not re.search(r"\w+://|url\(|@import|\bfetch\(|XMLHttpRequest|WebSocket|sendBeacon", text)


def test_licences_are_named() -> None:
    assert "uPlot, MIT, Copyright (c) 2022 Leon Sorokin" in script()[0][:200]
    assert "Permission is hereby granted" in (WEB / "LICENSE-uPlot.txt").read_text()
