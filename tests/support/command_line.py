"""profscope view and diff in the tests' own process."""

from __future__ import annotations

import io
import subprocess
from contextlib import redirect_stderr, redirect_stdout

import pytest

from profscope.viewer.cli import main


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run in this process, piped."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.delenv("COLUMNS", raising=False)
        try:
            status = main(arguments)
        except SystemExit as left:  # as argparse leaves where words are wrong
            status = int(left.code or 0)
        out.seek(0)
        return subprocess.CompletedProcess(arguments, status, out.read(), err.getvalue())
