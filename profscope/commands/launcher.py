"""A run around torchrun or accelerate: each process that they start for a rank is a run of its own."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

__all__ = ["ranks_recorded"]

_VARIABLE: Final = (
    "PYTHON_EXEC"  # what torch.distributed.run starts a rank's Python with: `$PYTHON_EXEC -u ...`
)


@contextlib.contextmanager
def ranks_recorded(flags: Sequence[str]) -> Iterator[None]:
    """In the body of a with statement torchrun starts `profscope run` with these flags in place of Python."""
    given = os.environ.get(_VARIABLE)
    command = shlex.join([given or sys.executable, "-u", "-m", "profscope", "run", *flags])
    with tempfile.TemporaryDirectory(prefix="profscope-run-") as folder:
        script = Path(folder) / "python"
        script.write_text(f'#!/bin/sh\n[ "$1" = -u ] && shift\nexec {command} "$@"\n')
        script.chmod(0o700)
        os.environ[_VARIABLE] = str(script)
        try:
            yield
        finally:
            del os.environ[_VARIABLE]
            if given is not None:
                os.environ[_VARIABLE] = given
