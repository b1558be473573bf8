"""`profscope opt`: run passes on a file of printed TTGIR, as mlir-opt does on MLIR.

    profscope opt kernel.ttgir -p 'kernel-span,op-spans{classes=load;store},lower-records,allocate-buffer'

Needs no GPU, and no Triton except for --verify and --cost. `--help` has examples and the exit codes.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from profscope.errors import exit_status, run_command
from profscope.installed import version
from profscope.instrument_passes import LEVELS, __version__
from profscope.instrument_passes.cost import cost
from profscope.instrument_passes.cost import render as render_cost
from profscope.instrument_passes.errors import IRError
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.passes import TRITONS, Pass, PassContext, passes, signature, spelled, summary
from profscope.instrument_passes.pipeline import load_installed, parse_pipeline, run_pipeline
from profscope.instrument_passes.toolchain import verify
from profscope.traces.output import whole_file

__all__ = ["main", "make_parser"]

_TOOL: Final = "profscope opt"
_VERSION: Final = re.compile(r"(\d+)\.(\d+)(?=\.|$)")
_EPILOG: Final = f"""\
examples:
  profscope opt kernel.ttgir -p 'kernel-span,op-spans{{classes=load;store}}'
  profscope opt kernel.ttgir -p heavy,lower-records,allocate-buffer --verify
  profscope opt kernel.ttgir -p light --cost

TTGIR comes from kernel.asm["ttgir"] of a compiled kernel, or Triton's cache.

{exit_status("done", "an error in the module, or a file that cannot be read")}
"""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code, errors are one line each on stderr."""
    return run_command(_TOOL, lambda: _main(_arguments(argv)))


def _main(arguments: argparse.Namespace) -> int:
    if arguments.list:
        load_installed()
        return _emit(_listing(), arguments)
    return _transform(arguments, parse_pipeline(arguments.passes or ""))


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Exits with 2 at options of which one would have no effect, or that name two Tritons."""
    parser = make_parser()
    arguments = parser.parse_args(argv)
    if not arguments.output:
        parser.error("-o '': it is empty; name a file, or - for standard output")
    if arguments.list and (arguments.file != "-" or arguments.passes is not None):
        parser.error("--list is about all passes; leave the file and -p out")
    asked = {"--cost": arguments.cost, "--verify": arguments.verify}
    builds = next((option for option, is_set in asked.items() if is_set), "")
    installed = _installed_triton()
    if builds and installed is not None and arguments.triton not in (None, installed):
        version = ".".join(map(str, installed))
        parser.error(f"{builds} uses the installed Triton, which is {version}; leave --triton out")
    return arguments


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_TOOL,
        usage=f"{_TOOL} [options] [FILE.ttgir]",
        description="Run passes on a printed TTGIR module.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = PassContext()
    parser.add_argument(
        "file", nargs="?", metavar="FILE", default="-", help="the module; - (the default) is standard input"
    )
    parser.add_argument(
        "-p", "--passes", action=_Once, metavar="PASSES",
        help="passes, each with its options in braces, or a level (default: none)",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="OUT", default="-", help="file to write; - (the default) is standard output"
    )
    parser.add_argument(
        "--triton", type=_version, metavar="X.Y",
        help="version of Triton that compiles the module, 3.6 to 3.9 (default: the installed one, or "
        f"{'.'.join(map(str, default.triton))})",
    )  # fmt: skip
    parser.add_argument(
        "--verify", action="store_true", help="have the installed Triton parse and verify the result"
    )
    printed = parser.add_mutually_exclusive_group()
    printed.add_argument("--list", action="store_true", help="print all passes, their options and defaults")
    printed.add_argument(
        "--cost", action="store_true",
        help="build the module bare and with the passes (default: a session's) and compare",
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


class _Once(argparse.Action):
    """An option whose second value would silently take the place of the first."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"argument {option}: given twice; join the passes with commas")
        setattr(namespace, self.dest, values)


def _version(text: str) -> tuple[int, int]:
    match = _VERSION.match(text)
    version = (0, 0) if match is None else (int(match[1]), int(match[2]))
    if version not in TRITONS:
        known = ", ".join(f"{major}.{minor}" for major, minor in TRITONS)
        raise argparse.ArgumentTypeError(f"{text!r} is none of {known}")
    return version


def _installed_triton() -> tuple[int, int] | None:
    """Version of the Triton that is installed, read without importing it; None if there is none."""
    match = _VERSION.match(version("triton") or "")
    return None if match is None else (int(match[1]), int(match[2]))


def _listing() -> str:
    lines = []
    for name, cls in passes().items():
        does = "".join(summary(cls)[:1]).rstrip(".")
        lines.append(f"{name}: {does[:1].lower()}{does[1:]}" if does else name)
        lines += [f"    {option}={spelled(default)}" for option, (_, default) in signature(cls).items()]
    return "\n".join(lines) + "\n"


def _transform(arguments: argparse.Namespace, pipeline: list[Pass]) -> int:
    file = "<stdin>" if arguments.file == "-" else arguments.file
    try:
        text = _transformed(_read(arguments.file, file), file, arguments, pipeline)
    except IRError as error:
        _complain(error)
        return 1
    return _emit(text, arguments)


def _transformed(text: str, file: str, arguments: argparse.Namespace, pipeline: list[Pass]) -> str:
    """The module after the passes, or what was asked about it."""
    context = PassContext(arguments.triton or _installed_triton() or PassContext().triton)
    if arguments.cost:
        return render_cost(cost(text, file, pipeline or parse_pipeline(LEVELS["default"]), context))
    module = parse(text, file)
    run_pipeline(module, pipeline, context)
    if arguments.verify:
        verify(str(module), file)
    return str(module)


def _read(path: str, file: str) -> str:
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise IRError("not text, so not TTGIR", file, data.count(b"\n", 0, error.start) + 1) from error


def _emit(text: str, arguments: argparse.Namespace) -> int:
    path = "-" if arguments.list else arguments.output
    if path == "-":
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    else:
        try:
            _write(Path(path), text.encode())
        except OSError as error:
            _complain(f"cannot write -o {path}: {error.strerror or error}")
            return 1
    return 0


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all; also to a device or a pipe, such as /dev/null. Raises OSError."""
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_bytes(data)
        return
    with whole_file(path) as file:
        file.write(data)


def _complain(error: Exception | str) -> None:
    sys.stderr.write(f"{_TOOL}: {' '.join(str(error).split())}\n")
