"""What the command line takes for a trace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from profscope.errors import TraceError
from profscope.viewer.cli import main
from profscope.viewer.input import read
from tests.support.profiles import regular_profile


def test_what_is_no_trace_is_named_as_the_command_line_does(tmp_path: Path) -> None:
    (tmp_path / "hello").write_text("hello\n")
    with pytest.raises(TraceError, match=r"hello is text, not JSON$"):
        read(str(tmp_path / "hello"))
    with pytest.raises(TraceError, match=r"no-such-file"):
        read("no-such-file")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(TraceError, match=r"fifo is a pipe, not a file: save what comes from it"):
        read(str(tmp_path / "fifo"))


def test_a_trace_whose_digest_is_wrong_is_shown_where_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t.json"
    regular_profile(ctas=2).save(file)
    file.write_bytes(file.read_bytes().replace(b"NVIDIA H200", b"NVIDIA H100"))
    assert main([str(file)]) == 1
    assert "profscope view --no-verify" in capsys.readouterr().err
    assert main([str(file), "--no-verify"]) == 0
    assert "NVIDIA H100" in capsys.readouterr().out
