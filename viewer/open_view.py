"""`--open`: a page for a browser, opened in it."""

from __future__ import annotations

import sys
import tempfile
import webbrowser
from argparse import Namespace
from pathlib import Path
from typing import Any

__all__ = ["open_page", "open_profile", "show"]


def show(profile: Any, _: Namespace) -> None:
    """As a view of `profscope view`."""
    open_profile(profile)


def open_profile(profile: Any) -> None:
    """Write a profile's page, and open it. The file stays: a browser reads it later, too."""
    path = Path(tempfile.mkdtemp(prefix="profscope-page-")) / "profile.html"
    profile.save(path)
    open_page(path)


def open_page(path: Path) -> None:
    """Open a file in a browser; where there is none, stderr says where it is, as it does anyway."""
    is_open = webbrowser.open(path.absolute().as_uri())
    sys.stderr.write(f"profscope: {'opened' if is_open else 'found no browser for'} {path}\n")
