"""Traces that come through standard input and pipes."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from profscope.errors import TraceError
from profscope.profiles import load
from profscope.viewer import input as viewer_input
from profscope.viewer.cli import main
from profscope.viewer.input import Trace, read
from tests.support.profiles import regular_profile

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("input")
    for name in ("t.json", "t.pftrace.gz"):
        regular_profile(ctas=2).save(folder / name)
    (folder / "hello").write_text("hello\n")
    return folder


@contextmanager
def writing(data: bytes, end: int | Path) -> Iterator[None]:
    """Something that writes into a pipe while the body reads from it."""

    def write() -> None:
        with open(end, "wb") as pipe:
            pipe.write(data)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def through_standard_input(data: bytes, monkeypatch: pytest.MonkeyPatch) -> Trace:
    read_end, write_end = os.pipe()
    with writing(data, write_end), open(read_end) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        return read("-")


@pytest.mark.parametrize("name", ["t.json", "t.pftrace.gz"])
def test_standard_input_is_read_as_the_file_is(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = (folder / name).read_bytes()
    for piped in (data, gzip.decompress(data)) if name.endswith(".gz") else (data,):
        trace = through_standard_input(piped, monkeypatch)
        assert trace.profile.df.equals(load(folder / name).df)
        assert (trace.name, trace.written_s) == ("standard input", 0.0)


def test_a_redirected_file_tells_when_it_was_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "t.json"
    with file.open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert read("-").written_s == file.stat().st_mtime == read(str(file)).written_s


def test_what_is_no_trace_is_named_as_the_command_line_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TraceError, match=r"^standard input is text, not JSON$"):
        through_standard_input(b"hello", monkeypatch)
    with pytest.raises(TraceError, match=r"hello is text, not JSON$"):
        read(str(folder / "hello"))
    with pytest.raises(TraceError, match=r"no-such-file"):
        read("no-such-file")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(TraceError, match=r"^standard input is closed$"):
        read("-")


def test_a_trace_whose_digest_is_wrong_is_shown_where_asked_for(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    edited = (folder / "t.json").read_bytes().replace(b"NVIDIA H200", b"NVIDIA H100")
    (tmp_path / "t.json").write_bytes(edited)
    assert main([str(tmp_path / "t.json")]) == 1
    assert "profscope view --no-verify" in capsys.readouterr().err
    assert main([str(tmp_path / "t.json"), "--no-verify"]) == 0
    assert "NVIDIA H100" in capsys.readouterr().out
    read_end, write_end = os.pipe()
    with writing(edited, write_end), open(read_end) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert read("-", verify=False).profile.metadata["device"]["name"] == "NVIDIA H100"


@pytest.mark.parametrize(("start", "said"), [(b"y\n", "text, not JSON"), (b"[ ", "longer than 0.0 GB")])
def test_an_endless_stream_is_not_copied_without_end(
    start: bytes, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewer_input, "most_bytes", lambda folder: 3 << 20)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    written = 0

    def write() -> None:
        nonlocal written
        with suppress(BrokenPipeError), open(fifo, "wb", buffering=0) as pipe:
            while written < 64 << 20:
                written += pipe.write(start * (1 << 16))

    thread = threading.Thread(target=write)
    thread.start()
    with pytest.raises(TraceError, match=said):
        read(str(fifo))
    thread.join()
    assert written < 16 << 20


def test_a_signal_leaves_no_copy(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "profscope.viewer", "-"],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(b"[" + b" " * (2 << 20))
    process.stdin.flush()
    while not list(tmp_path.glob("profscope-view-*/trace")):
        assert process.poll() is None
        time.sleep(0.01)
    process.terminate()
    assert process.wait(timeout=60) == 128 + signal.SIGTERM
    process.stdin.close()
    assert list(tmp_path.glob("profscope-view-*")) == []
