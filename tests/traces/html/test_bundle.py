"""The script that is checked in is what its sources give, and it asks nothing of any network."""

from __future__ import annotations

import re

from profscope.traces.html.document import WEB, built_from, script, style, written_down


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
