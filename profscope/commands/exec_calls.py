"""Tells when another program is about to replace the one that runs, by os.exec*."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Callable, Sequence
from typing import Any, Final

__all__ = ["before_exec"]

_CALLS: Final = ("execv", "execve")  # which all others call
_SHOWN: Final = 80  # characters of the command


def before_exec(then: Callable[[str, str], None]) -> None:
    """From now on `then` is called first, in this process and in no fork of it: with the name of the function
    and with the command that replaces the program."""
    own_pid = os.getpid()

    def execute(
        name: str, call: Callable[..., Any], path: Any, argv: Sequence[Any], *more: Any, **named: Any
    ) -> Any:
        if os.getpid() == own_pid and _is_executable(path):
            command = shlex.join(os.fsdecode(word) for word in argv)
            then(f"os.{name}()", command if len(command) <= _SHOWN else f"{command[:_SHOWN]}...")
        return call(path, argv, *more, **named)

    for name in _CALLS:
        setattr(os, name, functools.partial(execute, name, getattr(os, name)))


def _is_executable(path: Any) -> bool:
    """os.execvp tries each folder of PATH."""
    return os.path.isfile(path) and (isinstance(path, int) or os.access(path, os.X_OK))
