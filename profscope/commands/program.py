"""A user's program run as Python itself runs it: `script.py`, `-m module`, `-c code`, a folder, a zip file.

It is `__main__`, with the `sys.argv` and the `sys.path[0]` that it would have, and it stays so until the
interpreter's end: what it registers with atexit, its threads and the processes that it spawns find it there.
`before_exec` tells when another program is about to replace it.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import functools
import io
import os
import pkgutil
import runpy
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from profscope.errors import EmulatorError, OptionError
from profscope.version import __version__

__all__ = ["OwnImports", "Program", "before_exec", "parse", "program", "program_parser", "without_ours"]

LAUNCHERS: Final = (
    "torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate",
    "accelerate.commands.launch",
)  # fmt: skip
"""Programs that start others, a process for each rank, and launch no kernel themselves."""

_TRACES: Final = (".pftrace", ".pftrace.gz", ".json", ".json.gz", ".parquet")
_RUN_MODULE: Final[Callable[..., None]] = vars(runpy)["_run_module_as_main"]  # what `python -m` calls
_SHARED: Final = frozenset(("torch", "triton"))
"""Packages that the program and profscope must have in common."""
_OPTIONAL: Final = frozenset(("bottleneck", "numexpr"))
"""What pandas uses if there is such a module."""
_OURS: Final = f"{Path(__file__).parents[1]}{os.sep}"


class OwnImports:
    """Modules that the program's folder has and profscope imports, too, such as a `secrets.py`: each of the
    two gets its own, from `begin()` on.

    In a block of `apart()` imports are profscope's, in all threads: otherwise the program's. Without such
    modules nothing is done.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._path: list[str] = []  # without the program's folder
        self._others: dict[str, ModuleType] = {}  # profscope's modules, in a block the program's
        self._blocks = 0
        self._lock = threading.RLock()  # a signal's handler may begin a block

    def begin(self, folder: str, path: list[str]) -> None:
        """The program is about to begin, with `folder` before this path."""
        sys.path[:] = [folder, *path]
        theirs = {each.name for each in pkgutil.iter_modules([os.path.abspath(folder)])}
        if theirs & _SHARED:
            return  # an environment, of which we need all
        self._path = [os.path.abspath(each) for each in path]
        known = _OPTIONAL | {name for name in theirs if PathFinder.find_spec(name, self._path) is not None}
        self._names = theirs & known
        if self._names:
            self._names -= _loaded_at_start()
            self._others = _take(self._names)

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """In the body of a with statement imports are profscope's own."""
        self._enter(1)
        try:
            yield
        finally:
            self._enter(-1)

    def _enter(self, blocks: int) -> None:
        """Begin a block, or end one: what is outside of all goes back to where it was."""
        with self._lock:
            was_inside, self._blocks = bool(self._blocks), self._blocks + blocks
            if self._names and was_inside != bool(self._blocks):
                others, self._others = self._others, _take(self._names)
                sys.modules.update(others)
                sys.path[:], self._path = self._path, sys.path[:]


def _take(packages: set[str]) -> dict[str, ModuleType]:
    """Remove modules, and those in them, from the loaded ones."""
    names = [name for name in list(sys.modules) if name.partition(".")[0] in packages]
    return {name: sys.modules.pop(name) for name in names}


def _loaded_at_start() -> set[str]:
    """The modules that Python has loaded when a program begins."""
    flags = vars(subprocess)["_args_from_interpreter_flags"]()
    python = [sys.executable, *flags, "-c", "import runpy, sys; print(*sys.modules)"]
    return set(subprocess.run(python, capture_output=True, text=True, check=True).stdout.split())


@dataclass(frozen=True)
class Program:
    """how: "" for a script, "-m" or "-c". name: the script's path, the module, or the code."""

    how: str
    name: str
    arguments: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """The program as a command line has it."""
        return [*([self.how] if self.how else []), self.name, *self.arguments]

    @property
    def is_launcher(self) -> bool:
        return self.how != "-c" and (self.name if self.how else Path(self.name).name) in LAUNCHERS

    def run(self, imports: OwnImports) -> None:
        """Run it; raises what it raises. imports: keeps its imports apart from profscope's."""
        main = ModuleType("__main__")
        main.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = main
        if self.how == "-m":
            self._begin(imports, "-m", str(Path.cwd()))
            _RUN_MODULE(self.name)
        elif self.how == "-c":
            self._begin(imports, "-c", "")
            exec(compile(self.name, "<string>", "exec"), main.__dict__)
        elif Path(self.name).is_file() and not _is_archive(self.name):
            self._begin(imports, self.name, str(Path(self.name).resolve().parent))
            main.__file__ = str(Path(self.name).absolute())
            main.__dict__["__cached__"] = None
            exec(_code(self.name), main.__dict__)
        else:
            self._begin(imports, self.name, self.name)
            _RUN_MODULE("__main__", alter_argv=False)

    def _begin(self, imports: OwnImports, first: str, folder: str) -> None:
        sys.argv[:] = [first, *self.arguments]
        if not sys.flags.safe_path:
            imports.begin(folder, sys.path[1:])


def program(how: str, words: list[str]) -> Program:
    """The program that a command line names. Raises OptionError if there is no such script.

    A name that is no file here but a command written in Python, as torchrun is, is that command.
    """
    name, arguments = words[0], tuple(words[1:])
    if how or Path(name).exists():
        if not how and Path(name).is_file() and not os.access(name, os.R_OK):
            raise OptionError(f"cannot read {name!r}")
        if not how and name.lower().endswith(_TRACES) and Path(name).is_file():
            raise OptionError(f"{name!r} is a trace: profscope view shows it")
        return Program(how, name, arguments)
    command = None if os.sep in name else shutil.which(name)
    if command is None:
        raise OptionError(f"there is no script {name!r}; -m runs a module, -c code")
    with Path(command).open("rb") as file:
        if b"python" not in file.readline(256):
            raise OptionError(f"{name!r} is {command}, not a Python program")
    return Program(how, command, arguments)


def without_ours(error: BaseException) -> BaseException:
    """The error, whose traceback begins with the program's first frame. One that the emulator raises is of a
    launch: what profscope did in it is left out, too."""
    trace = error.__traceback__
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    first = trace
    while isinstance(error, EmulatorError) and trace is not None:
        if (after := trace.tb_next) is not None and _is_ours(after.tb_frame.f_code.co_filename):
            trace.tb_next = None
        trace = trace.tb_next
    return error.with_traceback(first)


def _is_ours(file: str) -> bool:
    return file.startswith(_OURS) or file == "<frozen runpy>" or file == runpy.__file__


def _code(script: str) -> CodeType:
    """The code of a script, source or compiled; in tracebacks it has its whole path, as in Python's."""
    path = str(Path(script).absolute())
    with io.open_code(path) as file:
        compiled: CodeType | None = pkgutil.read_code(file)
    if compiled is not None:
        return compiled
    with io.open_code(path) as file:
        return compile(file.read(), path, "exec")


def _is_archive(script: str) -> bool:
    """Whether Python looks for `__main__` inside it, as in a zip file."""
    return pkgutil.get_importer(script) is not None


# What the commands that run a program have alike: `profscope COMMAND [options] PROGRAM [arguments]`.
#
# profscope run --ctas 1 train.py --epochs 1     flags end where the program begins
# profscope run -m pytest tests
# profscope run -c 'import model; model.step()'


def program_parser(command: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """A parser of the flags before a program, which a command adds its own to."""
    parser = argparse.ArgumentParser(
        prog=f"profscope {command}",
        usage=f"profscope {command} [options] (SCRIPT | -m MODULE | -c CODE) [arguments]",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("-m", metavar="MODULE", help="run a module, as python -m does")
    parser.add_argument("-c", metavar="CODE", help="run code, as python -c does")
    return parser


def parse(
    parser: argparse.ArgumentParser, words: list[str], actions: Sequence[argparse.Action]
) -> tuple[argparse.Namespace, Program]:
    """A command's flags, with their words as `flags`, and the program. actions: of the flags that the command
    added.

    Ends the process at wrong usage; raises OptionError where there is no such script.
    """
    valued = {text for action in actions if action.nargs != 0 for text in action.option_strings}
    flags, how, rest = _split(words, valued)
    given = parser.parse_args(flags)
    given.flags = flags
    if not rest or (not how and not rest[0]):
        parser.error("name a program: a script, -m module or -c code")
    return given, program(how, rest)


def _split(words: list[str], valued: set[str]) -> tuple[list[str], str, list[str]]:
    """The command's own flags; "", "-m" or "-c"; the program and its arguments, untouched.

    valued: flags that take the next word.
    """
    at = 0
    while at < len(words):
        word = words[at]
        if word[:2] in ("-m", "-c"):
            joined = [word[2:]] if len(word) > 2 else []
            return words[:at], word[:2], [*joined, *words[at + 1 :]]
        if word == "--":
            return words[:at], "", words[at + 1 :]
        if not word.startswith("-") or word == "-":
            return words[:at], "", words[at:]
        at += 2 if word in valued else 1
    return words, "", []


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
