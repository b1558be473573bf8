"""`--open`: a page in a browser. `--serve`: one trace in Perfetto's UI, for this machine's browser alone."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from urllib.request import urlopen

import pytest

import profscope
from profscope import __main__ as door
from profscope.errors import TraceError
from profscope.viewer.cli import main
from profscope.viewer.serve_view import ORIGIN, PORT, TraceServer
from tests.support.forks import ADD_PROGRAM, Forks
from tests.support.profiles import regular_profile


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that a browser was told to open; a trace is in the current folder."""
    files: list[Path] = []

    def browser(url: str) -> bool:
        files.append(Path(unquote(urlsplit(url).path)))
        return True

    monkeypatch.setattr(webbrowser, "open", browser)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    regular_profile(launches=1, ctas=1).save(tmp_path / "t.json")
    return files


def test_view_opens_a_page_that_stays(opened: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert door.main(["view", "t.json", "--open"]) == 0
    (page,) = opened
    assert "matmul_kernel" in page.read_text()
    assert capsys.readouterr() == ("", f"profscope: opened {page}\n")


def test_convert_opens_what_it_wrote(opened: list[Path], tmp_path: Path) -> None:
    assert door.main(["convert", "t.json", "a page.html", "--open"]) == 0
    assert opened == [tmp_path / "a page.html"]


@pytest.mark.usefixtures("opened")
def test_without_a_browser_the_page_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    assert door.main(["convert", "t.json", "page.html", "--open"]) == 0
    assert capsys.readouterr().err == "profscope: found no browser for page.html\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["convert", "t.json", "u.json", "--open"], "--open shows .html, not 'u.json'"),
        (["view", "t.json", "--open", "--format", "json"], "--open has one form only"),
        (["view", "t.json", "--open", "--source"], "--source and --open are two views"),
    ],
)
def test_what_is_no_page_is_refused(
    words: list[str], said: str, opened: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        door.main(words)
    assert said in capsys.readouterr().err
    assert not opened
    assert not Path("u.json").exists()


def test_a_launcher_of_processes_opens_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert door.main(["run", "--open", "-m", "torch.distributed.run", "train.py"]) == 2
    assert "starts several processes; profscope view --open shows them" in capsys.readouterr().err


_RUN = """
import os, sys, tempfile, webbrowser
sys.path.append(os.getcwd())  # the checkout, from which the program imports
os.chdir(sys.argv[1])
tempfile.tempdir = sys.argv[1]
webbrowser.open = lambda url: True
from profscope.__main__ import main
words = ["run", "--backend", "emulator", "--open", "-q", "-o", "t.json"]
sys.exit(main([*words, "-c", sys.argv[2]]))
"""


def test_a_run_opens_its_profile_at_the_end(tmp_path: Path, forks: Forks) -> None:
    done = forks.run(_RUN, tmp_path, ADD_PROGRAM)
    (page,) = tmp_path.glob("profscope-page-*/profile.html")
    assert (done.returncode, done.stderr) == (0, f"profscope: opened {page}\n")
    assert "add_kernel" in page.read_text()


# --serve: one trace, for this machine's browser alone, in Perfetto's own UI.

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("serving") / "t.pftrace.gz"
    regular_profile(launches=1, ctas=4, warps=2, iterations=3).save(path)
    return path


@contextmanager
def serving(server: TraceServer) -> Iterator[TraceServer]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def remote(trace: Path) -> Iterator[TraceServer]:
    """On any port, so that tests may run side by side."""
    with serving(TraceServer(trace, port=0)) as server:
        yield server


def asked(
    server: TraceServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(server.host, timeout=20)
    connection.request(method, path, headers=headers)
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    return reply.status, dict(reply.getheaders()), body


def test_the_trace_is_served_to_perfettos_page(remote: TraceServer, trace: Path) -> None:
    assert remote.url.startswith(f"{ORIGIN}/#!/?url=http://127.0.0.1:")
    route = parse_qs(urlsplit(remote.url).fragment.partition("?")[2])
    with urlopen(route["url"][0], timeout=20) as reply:
        assert reply.read() == trace.read_bytes()
        assert reply.headers["Access-Control-Allow-Origin"] == "https://ui.perfetto.dev"
    (command,) = json.loads(unquote(route["startupCommands"][0]))
    assert command["id"] == "dev.perfetto.ExpandTracksByRegex"


def test_nothing_else_is_served(remote: TraceServer) -> None:
    secret = remote.trace_path.split("/")[1]
    assert len(secret) >= 32
    inside = (f"/{secret}", f"/{secret}/", f"/{secret}/index.html", f"/{secret}/../{secret}/t.pftrace.gz")
    for path in ("/", "/trace.pftrace.gz", *inside, f"{remote.trace_path}/..", "//etc/passwd"):
        status, headers, _ = asked(remote, path)
        assert (path, status) == (path, 404)
        assert "Access-Control-Allow-Origin" not in headers
    assert asked(remote, remote.trace_path, "POST")[0] == 501


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9001", "localhost", "127.0.0.1"])
def test_no_other_name_reaches_it(host: str, remote: TraceServer) -> None:
    """A page whose name now leads to this machine (DNS rebinding) says that name."""
    assert asked(remote, remote.trace_path, Host=host)[0] == 403
    assert asked(remote, remote.trace_path, "OPTIONS", Host=host)[0] == 403


def test_a_browser_may_ask_first(remote: TraceServer) -> None:
    status, headers, _ = asked(remote, remote.trace_path, "OPTIONS", Origin=ORIGIN)
    assert (status, headers["Access-Control-Allow-Private-Network"]) == (204, "true")
    assert headers["Access-Control-Allow-Origin"] == ORIGIN
    assert asked(remote, "/", "OPTIONS", Origin=ORIGIN)[0] == 404


def test_a_taken_port_is_one_clear_error(trace: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(TraceError, match=rf"port {port} of 127\.0\.0\.1 is taken"):
            TraceServer(trace, port=port)


def test_ctrl_c_ends_the_command(tmp_path: Path) -> None:
    """And a trace of another format is written anew for Perfetto."""
    with socket.socket() as probe:
        if not probe.connect_ex(("127.0.0.1", PORT)):
            pytest.skip(f"port {PORT} is taken")
    regular_profile(launches=2, ctas=1).save(tmp_path / "t.json")
    command = [
        sys.executable,
        "-m",
        "profscope",
        "view",
        str(tmp_path / "t.json"),
        "--serve",
        "--launch",
        "1",
    ]
    environment = {name: value for name, value in os.environ.items() if "DISPLAY" not in name}
    environment["TMPDIR"] = str(tmp_path)
    started = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    url = started.stdout.readline().strip()
    route = parse_qs(urlsplit(url).fragment.partition("?")[2])
    with urlopen(route["url"][0], timeout=20) as reply:
        (tmp_path / "got.pftrace").write_bytes(reply.read())
    assert profscope.load(tmp_path / "got.pftrace").launches["launch"].tolist() == [1]
    started.send_signal(signal.SIGINT)
    assert started.communicate(timeout=20) == ("", "serving until Ctrl-C\n")
    assert started.returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"t.json", "got.pftrace"}


@pytest.mark.parametrize(
    ("content", "why"), [(b"", "is empty"), (b"import triton\n", "is not a trace that Perfetto reads")]
)
def test_what_perfetto_cannot_read_is_not_served(
    content: bytes, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.pftrace"
    path.write_bytes(content)
    assert main([str(path), "--serve"]) == 1
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"profscope view: {path} {why}\n")
