"""What the command line takes for a trace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from profscope.errors import TraceError
from profscope.viewer.input import read


def test_what_is_no_trace_is_named_as_the_command_line_does(tmp_path: Path) -> None:
    (tmp_path / "hello").write_text("hello\n")
    with pytest.raises(TraceError, match=r"hello is text, not JSON$"):
        read(str(tmp_path / "hello"))
    with pytest.raises(TraceError, match=r"no-such-file"):
        read("no-such-file")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(TraceError, match=r"fifo is a pipe, not a file: save what comes from it"):
        read(str(tmp_path / "fifo"))
