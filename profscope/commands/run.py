"""`profscope run`: a whole program inside a session, unchanged."""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from profscope.around.job import JOB, rank, ranks
from profscope.commands.output import FORMATS, Output, claim, free_for_ranks, with_rank
from profscope.commands.program import OwnImports, Program, parse, program_parser
from profscope.commands.recorded_run import RecordedRun
from profscope.commands.run_variables import run_defaults
from profscope.compat.patches import after_import
from profscope.errors import OptionError, SessionError, run_command
from profscope.options import Options
from profscope.traces.formats import DEFAULT, rank_folders
from profscope.traces.own_files import check_replaceable
from profscope.viewer.flags import flag_of, in_flags

__all__ = [
    "add_flags",
    "main",
    "make_parser",
    "option_names",
    "ranks_recorded",
    "run_options",
]

_EPILOG: Final = """\
examples:
  profscope run train.py --epochs 1
  profscope run -o attention.json --kernels attention -m pytest tests
  profscope run --ctas 1 -c 'import model; model.step()'
  profscope run -o step.pftrace.gz torchrun --nproc-per-node 8 train.py

Flags have defaults in the environment: PROFSCOPE_RUN_CTAS=16 is --ctas 16.

exit status: the program's own; 1 if its recording could not be written; 2
wrong usage
"""


_COMMAND: Final = "import sys\nfrom profscope.__main__ import main\nsys.exit(main())\n"
_VARIABLE: Final = (
    "PYTHON_EXEC"  # what torch.distributed.run starts a rank's Python with: `$PYTHON_EXEC -u ...`
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; ends as the program does. Returns an exit code only where that does not start."""
    starts: list[Callable[[], None]] = []
    words = sys.argv[1:] if arguments is None else list(arguments)
    with contextlib.ExitStack() as stack:
        code = run_command(
            "profscope run", lambda: _prepare(words, starts, stack), prints=False, says=in_flags
        )
        for start in starts:
            start()
    return code


def _prepare(words: list[str], starts: list[Callable[[], None]], stack: contextlib.ExitStack) -> int:
    """All that can go wrong before the program starts. starts: gets what runs it; stack: what holds until it
    ends."""
    parser, actions = make_parser()
    parser.set_defaults(**run_defaults(actions, os.environ))
    given, chosen = parse(parser, words, actions)
    options = {name: value for name, value in vars(given).items() if name in option_names()}
    checked = run_options(options)
    if given.hang_exit and checked.hang_s is None:
        raise OptionError("--hang-exit: add --hang S, after how many seconds a launch hangs")
    if given.output == "":
        raise OptionError(f"-o '': it is empty; name a trace: {FORMATS}")
    if checked.backend == "gpu" and not _has_gpu():
        raise SessionError("--backend gpu: there is no GPU here; use --backend emulator")
    if chosen.is_launcher and given.open:
        raise OptionError(f"--open: {chosen.name} starts several processes; profscope view --open shows them")
    if chosen.is_launcher:
        output = os.path.abspath(given.output or free_for_ranks())
        starts.append(lambda: _run_ranks(chosen, [*given.flags, "-o", output], output))
        return 0
    emulated = checked.backend == "emulator" or (checked.backend == "auto" and not _has_gpu_driver())
    if emulated and "evidence" not in options:
        checked = replace(checked, evidence=False)  # the emulator counts all the same
    starts.append(_recorded(chosen, given, checked, emulated=emulated))
    if emulated:
        stack.enter_context(after_import("profscope.emulator.driver", _choose_emulator))
    return 0


def _recorded(
    chosen: Program, given: argparse.Namespace, options: Options, *, emulated: bool
) -> Callable[[], None]:
    number = rank(os.environ)
    asked = None if options.spool is None else Path(options.spool)
    spool = None if asked is None else _spool(asked)
    output = claim(given.output, number=number, of=ranks(os.environ), spool=asked)
    if output.kept and sys.stderr is not None:
        sys.stderr.write(
            f"profscope run: what an earlier run recorded until it was killed is now in {output.kept}\n"
        )
    options = replace(options, spool=spool or output.folder)
    report = None if given.quiet and not given.open else _said_by(number, quiet=given.quiet, opens=given.open)
    return RecordedRun(
        chosen, options, output, rank=number, report=report, emulated=emulated, hang_exit=given.hang_exit
    ).run


def _spool(given: Path) -> Path:
    """A folder for the spool: absolute, since the program may go to another one. Raises SessionError if it
    could not be made at the first launch."""
    folder = given.absolute()
    there = next(each for each in (folder, *folder.parents) if each.exists())
    try:
        tempfile.TemporaryFile(dir=there).close()  # permissions do not tell: /proc refuses files to root
    except OSError as error:
        raise SessionError(
            f"--spool {given}: cannot write a file in {there}: {error.strerror}; the program was not started"
        ) from error
    return folder


def _said_by(number: int | None, *, quiet: bool, opens: bool) -> Callable[[Any, Output], None]:
    """What shows the end of a run: of a job's ranks all but the first say only what they wrote."""

    def report(profile: Any, output: Output) -> None:
        if opens and not number:
            from profscope.viewer.open_view import show

            show(profile)
        if quiet or sys.stderr is None:
            return
        sys.stderr.flush()
        if not number:
            from profscope.viewer.screen import show_first_screen

            show_first_screen(profile, Path(output.name).name, sys.stderr)
        more = f"; profscope view {output.whole} shows all" if len(profile.launches) else ", without a launch"
        sys.stderr.write(f"profscope run: wrote {output.name}{more}\n")
        sys.stderr.flush()

    return report


def _run_ranks(chosen: Program, flags: list[str], output: str) -> None:
    os.environ.setdefault(JOB, secrets.token_hex(8))
    folder = with_rank(output, 0).parents[1]
    try:
        with ranks_recorded(flags):
            chosen.run(OwnImports())
    finally:
        if rank_folders(folder):
            _list_ranks(folder)


def _list_ranks(folder: Path) -> None:
    """Write which part each rank has, anew."""
    from profscope.traces.importers.ranks import job_folder
    from profscope.traces.jobs.manifest import NAME, write_manifest

    path = folder / NAME
    try:
        check_replaceable(path, f"cannot write '{path}'")
        path.unlink(missing_ok=True)
        job = job_folder(folder)
        write_manifest(folder, job.paths, job.spans)
    except (OptionError, OSError) as error:
        sys.stderr.write(f"profscope run: the ranks are not listed, but the trace is whole: {error}\n")


def _choose_emulator(module: ModuleType) -> None:
    """Triton chooses the emulator in this process, but not in those that it starts."""
    module.EmulatorDriver.is_active = staticmethod(lambda: True)


def _has_gpu() -> bool:
    """Whether there is a GPU. Another process asks the driver: that starts CUDA, after which a program cannot
    fork."""
    asks = "import ctypes, sys; sys.exit(ctypes.CDLL('libcuda.so.1').cuInit(0) != 0)"
    cuda = [sys.executable, "-c", asks]
    return Path("/dev/kfd").exists() or not subprocess.run(cuda, capture_output=True, check=False).returncode


def _has_gpu_driver() -> bool:
    import ctypes

    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Path("/dev/kfd").exists()  # AMD's
    return True


def make_parser() -> tuple[argparse.ArgumentParser, list[argparse.Action]]:
    """The parser of all before the program, and its flags."""
    parser = program_parser(
        "run", "Run a program, unchanged, and record the Triton kernels that it launches.", _EPILOG
    )
    of_run = parser.add_argument_group("the run")
    actions = [
        of_run.add_argument(
            "-o",
            "--output",
            metavar="FILE",
            help=f"trace to write: {FORMATS}; replaced if profscope wrote it. The processes of a job "
            f"write step.json to a folder, step (default: {DEFAULT}, then profscope-2.pftrace.gz, ...)",
        ),
        of_run.add_argument(
            "--hang-exit",
            action="store_true",
            help="with --hang: end the program with status 6 when a launch hangs; it waits on by default",
        ),
        of_run.add_argument("-q", "--quiet", action="store_true", help="print no summary at the end"),
        of_run.add_argument("--open", action="store_true", help="show the profile in a browser at the end"),
    ]
    return parser, actions + add_flags(parser.add_argument_group("what is recorded"))


@contextlib.contextmanager
def ranks_recorded(flags: Sequence[str]) -> Iterator[None]:
    """In the body of a with statement torchrun starts `profscope run` with these flags in place of Python."""
    given = os.environ.get(_VARIABLE)
    with tempfile.TemporaryDirectory(prefix="profscope-run-") as folder:
        command = Path(folder) / "profscope_command.py"  # -m would search the working folder first
        command.write_text(_COMMAND)
        words = shlex.join([given or sys.executable, "-u", str(command), "run", *flags])
        script = Path(folder) / "python"
        script.write_text(f'#!/bin/sh\n[ "$1" = -u ] && shift\nexec {words} "$@"\n')
        script.chmod(0o700)
        os.environ[_VARIABLE] = str(script)
        try:
            yield
        finally:
            del os.environ[_VARIABLE]
            if given is not None:
                os.environ[_VARIABLE] = given


# The options of a session that are flags of a command line; what they do is said where they are declared.
#
# --ctas 64   --ctas 0,17   --no-evidence   --instrument heavy


RUN_DEFAULTS: Final[Mapping[str, Any]] = {"ctas": 64, "overhead_pct": 1.0, "evidence": True}
"""What a whole program's session has by default where that is not what a session has."""


class _Value(NamedTuple):
    """The text behind a flag. metavar: in its help. reads: makes a value of it, which `Options` checks;
    raises ValueError. takes: what an error says that it accepts."""

    metavar: str
    reads: Callable[[str], Any]
    takes: str


def _numbers(text: str) -> int | list[int]:
    return [int(part) for part in text.split(",") if part.strip()] if "," in text else int(text)


def _passes(text: str) -> str | list[str]:
    """A level is one word; a pipeline has dashes, commas or braces."""
    return text if text.isidentifier() else [text]


def _evidence(text: str) -> bool | list[str]:
    words = [word.strip() for word in text.split(",")]
    return {"true": True, "false": False}.get(text.lower(), words)


_VALUES: Final[Mapping[str, _Value]] = {
    "kernels": _Value("REGEX", str, "a regular expression"),
    "instrument": _Value(
        "LEVEL|PASSES", _passes, "light, default, heavy, or passes, which `profscope opt --list` shows"
    ),
    "measure": _Value("issue|latency", str, "issue or latency"),
    "ctas": _Value("N,...", _numbers, "a number, 1 or more, or a list, such as 0,17"),
    "every": _Value("N", int, "a number, 1 or more"),
    "overhead_pct": _Value("PERCENT", float, "a percentage above 0, at most 100"),
    "evidence": _Value(
        "LIST",
        _evidence,
        "true, false, or a list of counts, samples, counters, counters:METRIC, records, experiments, "
        "seconds:S",
    ),
    "hang_s": _Value("SECONDS", float, "a number of seconds above 0"),
    "spool": _Value("FOLDER", str, "the path of a folder"),
    "backend": _Value("auto|gpu|emulator", str, "auto, gpu or emulator"),
}
"""By option that is not just on or off."""


def option_names() -> list[str]:
    """The names of the options that are flags."""
    return [option.name for option in _options()]


def run_options(given: Mapping[str, Any]) -> Options:
    """The options of a run. given: those that were. Raises OptionError."""
    return Options(**{**({} if "hang_s" in given else RUN_DEFAULTS), **given})


def add_flags(parser: argparse._ArgumentGroup) -> list[argparse.Action]:
    """Add the flags; returns their actions. Flags that are not given have no entry in the namespace."""
    return [action for option in _options() for action in _add(parser, option)]


def _options() -> list[Field[Any]]:
    return [option for option in fields(Options) if option.init and option.metadata["cli"] is not None]


def _add(parser: argparse._ArgumentGroup, option: Field[Any]) -> Iterator[argparse.Action]:
    name, says = option.name, option.metadata["cli"].replace("%", "%%")
    flag, nothing = flag_of(name), argparse.SUPPRESS
    if name not in _VALUES:
        yield parser.add_argument(f"--{flag}", dest=name, default=nothing, action="store_true", help=says)
        return
    value, default = _VALUES[name], RUN_DEFAULTS.get(name, option.default)
    shown = str(default).lower() if isinstance(default, bool) else default
    about = f"{says} (default: {shown})" if default not in (None, "", False) else says
    yield parser.add_argument(
        f"--{flag}", dest=name, default=nothing, type=_reader(name), metavar=value.metavar, help=about
    )
    if default is True:
        yield parser.add_argument(
            f"--no-{flag}", dest=name, default=nothing, action="store_false", help="no evidence"
        )


def _reader(name: str) -> Callable[[str], Any]:
    """What reads the text behind an option's flag."""

    def read(text: str) -> Any:
        wrong = f"{text!r} is not {_VALUES[name].takes}"
        try:
            value = _VALUES[name].reads(text)
            Options(**{name: value})
        except OptionError as error:
            why = f": {error.__cause__}" if error.__cause__ else ""
            raise argparse.ArgumentTypeError(f"{wrong}{why}") from None
        except ValueError:
            raise argparse.ArgumentTypeError(wrong) from None
        return value

    return read
