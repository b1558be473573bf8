"""`profscope view TRACE --serve`: the trace in Perfetto's UI, served from this machine until Ctrl-C."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import signal
import sys
import tempfile
import webbrowser
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, Final
from urllib.parse import quote, urlsplit

from profscope.errors import TraceError
from profscope.profiles import Profile

__all__ = ["TraceServer", "serve_file", "show"]

_BEGINS: Final = (b"\n", b"\x1f", b"{", b"[")
"""First bytes: of a packet of protobuf, of gzip, of JSON."""


ORIGIN: Final = "https://ui.perfetto.dev"

PORT: Final = 9001
"""The only one that the UI at `ORIGIN` may read from (its Content-Security-Policy)."""

_HOST: Final = "127.0.0.1"


_EXPANDED: Final = r"^(GPU|rank) +\d+( \(emulated\))?$"

_COMMANDS: Final = [{"id": "dev.perfetto.ExpandTracksByRegex", "args": [_EXPANDED]}]


def show(profile: Profile, options: Namespace) -> None:
    """Serve a profile, which is written for it into a folder that goes with the server.

    Raises TraceError if Perfetto's port is taken.
    """
    with temporary_folder("profscope-serve-") as folder:
        path = folder / "trace.pftrace"
        profile.save(path)
        serve_file(path)


def serve_file(path: Path) -> None:
    """Serve a file that Perfetto reads, until Ctrl-C. Raises TraceError if it is none, or Perfetto's port
    is taken."""
    _check(path)
    with TraceServer(path) as server:
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
        raise TraceError(f"{path} is not a trace that Perfetto reads")


def _has_display() -> bool:
    """Without one `webbrowser` would start a browser of text in this terminal."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


class TraceServer(ThreadingHTTPServer):
    """Serves from when `serve_forever` is called; a context manager that closes its port.

    url: what to open in a browser.
    """

    daemon_threads = True

    def __init__(self, trace: Path, port: int = PORT) -> None:
        """trace: a file that Perfetto reads. port: 0 for any that is free. Raises TraceError if it is
        taken."""
        try:
            super().__init__((_HOST, port), _Handler)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise TraceError(
                f"port {port} of {_HOST} is taken, and Perfetto's UI reads from no other; end what listens"
            ) from None
        self.host = f"{_HOST}:{self.server_address[1]}"
        secret = secrets.token_urlsafe(24)
        self.trace = trace
        self.trace_path = f"/{secret}/trace.pftrace" + ".gz" * (trace.suffix == ".gz")
        commands = quote(json.dumps(_COMMANDS, separators=(",", ":")))
        self.url = f"{ORIGIN}/#!/?url=http://{self.host}{self.trace_path}&startupCommands={commands}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that leaves early is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: TraceServer
    server_version, sys_version = "profscope", ""

    def do_GET(self) -> None:
        if not self._may_answer():
            return
        with self.server.trace.open("rb") as content:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(self.server.trace.stat().st_size))
            self._end_headers()
            shutil.copyfileobj(content, self.wfile, 1 << 20)

    def do_OPTIONS(self) -> None:
        """A browser asks whether a page from the internet may read from this machine."""
        if not self._may_answer():
            return
        self.send_response(HTTPStatus.NO_CONTENT)
        self.send_header("Access-Control-Allow-Methods", "GET")
        self.send_header("Access-Control-Allow-Private-Network", "true")
        self._end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""

    def _may_answer(self) -> bool:
        """Whether this request is for the trace; any other has been answered then."""
        if self.headers.get_all("Host") != [self.server.host]:
            self.send_error(HTTPStatus.FORBIDDEN)
            return False
        if urlsplit(self.path).path != self.server.trace_path:
            self.send_error(HTTPStatus.NOT_FOUND)
            return False
        return True

    def _end_headers(self) -> None:
        for name, value in (
            ("Access-Control-Allow-Origin", ORIGIN),
            ("Vary", "Origin"),
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
        ):
            self.send_header(name, value)
        self.end_headers()


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """A folder that goes with the body, also where SIGTERM or SIGHUP ends the process in it."""
    before = _raise_at_signals() if current_thread() is main_thread() else {}
    try:
        with tempfile.TemporaryDirectory(prefix=prefix) as folder:
            yield Path(folder)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise_at_signals() -> dict[int, signal.Handlers]:
    """Have signals that end the process end it through its `finally`; returns what they did before."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.SIG_DFL for number in numbers if signal.getsignal(number) == signal.SIG_DFL}
    for number in before:
        signal.signal(number, _end)
    return before


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)  # as a shell says it
