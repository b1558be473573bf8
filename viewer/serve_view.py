"""`profscope view TRACE --serve`: the trace in Perfetto's UI, served from this machine until Ctrl-C."""

from __future__ import annotations

import os
import sys
import webbrowser
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import Final

from profscope.errors import TraceError
from profscope.profiles import Profile
from viewer.own_process import temporary_folder
from viewer.trace_server import TraceServer, installed_ui

__all__ = ["serve_file", "show"]

_BEGINS: Final = (b"\n", b"\x1f", b"{", b"[")
"""First bytes: of a packet of protobuf, of gzip, of JSON."""


def show(profile: Profile, options: Namespace, unit: str) -> None:
    """Serve a profile, which is written for it into a folder that goes with the server.

    Raises TraceError where Perfetto's port is taken.
    """
    with temporary_folder("profscope-serve-") as folder:
        path = folder / "trace.pftrace"
        profile.save(path)
        serve_file(path)


def serve_file(path: Path) -> None:
    """Serve a file that Perfetto reads, until Ctrl-C. Raises TraceError where it is none, or Perfetto's port
    is taken."""
    _check(path)
    with TraceServer(path, installed_ui()) as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        if _has_display():
            webbrowser.open(server.url)
        sys.stderr.write("serving until Ctrl-C\n")
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def _check(path: Path) -> None:
    """Of the file's first byte: Perfetto would say no more than that it cannot read it."""
    try:
        with path.open("rb") as file:
            first = file.read(1)
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}") from error
    if not first:
        raise TraceError(f"{path} is empty")
    if first not in _BEGINS:
        raise TraceError(f"{path} is no trace that Perfetto reads")


def _has_display() -> bool:
    """Without one `webbrowser` would start a browser of text in this terminal."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
