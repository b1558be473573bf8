"""`--open`: a page for a browser, opened in it."""

import argparse
import sys
import tempfile
import webbrowser
from pathlib import Path

from profscope.profiles import Profile

__all__ = ["open_page", "show"]


def show(profile: Profile, _: argparse.Namespace | None = None) -> None:
    """Write a profile's page, and open it. The file stays: a browser reads it later, too."""
    path = Path(tempfile.mkdtemp(prefix="profscope-page-")) / "profile.html"
    profile.save(path)
    open_page(path)


def open_page(path: Path) -> None:
    is_open = webbrowser.open(path.absolute().as_uri())
    sys.stderr.write(f"profscope: {'opened' if is_open else 'found no browser for'} {path}\n")
