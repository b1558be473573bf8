"""profscope-opt: run passes on a file of printed TTGIR, as mlir-opt does on MLIR.

    profscope-opt kernel.ttgir -p 'kernel-span,op-spans{classes=load;store},lower-records,allocate-buffer'

Needs no GPU, and no Triton except for --verify and --cost. Exit codes: 0 done, 1 failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from instrument_passes.analyses.coverage import coverage, render
from instrument_passes.command import run
from instrument_passes.cost import cost
from instrument_passes.cost import render as render_cost
from instrument_passes.diagnostics import expected_errors, mismatches
from instrument_passes.errors import IRError
from instrument_passes.ir import Module, parse
from instrument_passes.passes import Pass, PassContext, passes, signature, spelled, summary
from instrument_passes.pipeline import LEVELS, parse_pipeline, run_pipeline
from instrument_passes.plugins import load_installed
from instrument_passes.toolchain import verify

__all__ = ["main"]

_SPLIT: Final = re.compile(r"^(// -----[ \t]*\r?\n)", re.MULTILINE)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code, errors are one line each on stderr."""
    return run("profscope-opt", lambda: _main(_parser().parse_args(argv)))


def _main(arguments: argparse.Namespace) -> int:
    if arguments.list:
        load_installed()
        return _emit(_listing(), "-")
    return _transform(arguments, parse_pipeline(arguments.passes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="profscope-opt", description="Run passes on a printed TTGIR module."
    )
    default = PassContext()
    parser.add_argument(
        "file", nargs="?", default="-", help="the .ttgir file; - (the default) is standard input"
    )
    parser.add_argument(
        "-p", "--passes", default="", help="'pass-a,pass-b{option=1 other=x;y}'; '' changes nothing"
    )
    parser.add_argument(
        "-o", "--output", default="-", help="file to write; - (the default) is standard output"
    )
    parser.add_argument("--list", action="store_true", help="print all passes, their options and defaults")
    parser.add_argument(
        "--triton", type=_version, default=_installed_triton(default.triton), metavar="X.Y",
        help="Triton version that will compile the module (default: the installed one, or %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--buffer", type=_positive, default=default.buffer, metavar="N",
        help="records that one warp's rings hold (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--verify", action="store_true", help="have the installed Triton parse and verify the result"
    )
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="print the class of every op, and what the table does not know",
    )
    parser.add_argument(
        "--cost", action="store_true",
        help="build the module bare and with the passes (default: a session's) and compare",
    )  # fmt: skip
    parser.add_argument(
        "--print-between-passes", action="store_true", help="print the module to stderr after every pass"
    )
    parser.add_argument(
        "--split-input-file",
        action="store_true",
        help="the file is several modules, split by lines '// -----'",
    )
    parser.add_argument(
        "--verify-diagnostics",
        action="store_true",
        help="succeed if just the errors come that '// expected-error @+1 {{text}}' comments announce",
    )
    return parser


def _version(text: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)(\.|$)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a version such as 3.7")
    return int(match[1]), int(match[2])


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of records, 1 or more")
    return int(text)


def _installed_triton(default: tuple[int, int]) -> str:
    """Version of the Triton that is installed, read without importing it."""
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return ".".join(map(str, default))


def _listing() -> str:
    lines = []
    for name, cls in passes().items():
        does = "".join(summary(cls)[:1]).rstrip(".")
        lines.append(f"{name}: {does[:1].lower()}{does[1:]}" if does else name)
        lines += [f"    {option}={spelled(default)}" for option, (_, default) in signature(cls).items()]
    return "\n".join(lines) + "\n"


def _transform(arguments: argparse.Namespace, pipeline: list[Pass]) -> int:
    file = "<stdin>" if arguments.file == "-" else arguments.file
    text = _read(arguments.file, file)
    pieces = _SPLIT.split(text) if arguments.split_input_file else [text]
    raised: list[IRError] = []
    line = 0
    for index, piece in enumerate(pieces):
        if index % 2 == 0:  # the rest are separators
            try:
                pieces[index] = _one_module(piece, line, file, arguments, pipeline)
            except IRError as error:
                raised.append(error)
                pieces[index] = ""
        line += piece.count("\n")
    if arguments.verify_diagnostics:
        raised = mismatches(expected_errors(text, file), raised, file)
    for problem in raised:
        _complain(problem)
    return 1 if raised else _emit("".join(pieces), arguments.output)


def _one_module(text: str, line: int, file: str, arguments: argparse.Namespace, pipeline: list[Pass]) -> str:
    """The module after the passes, or what was asked about it; it starts behind line `line` of the file."""

    def between(step: Pass, module: Module) -> None:
        if arguments.print_between_passes:
            sys.stderr.write(f"// -----// after {step.name} //----- //\n{str(module)[line:].rstrip()}\n")

    context = PassContext(arguments.triton, arguments.buffer)
    if arguments.cost:
        return render_cost(
            cost("\n" * line + text, file, pipeline or parse_pipeline(LEVELS["default"]), context)
        )
    module = parse("\n" * line + text, file)
    run_pipeline(module, pipeline, context, between)
    if arguments.verify:
        verify(str(module), file)
    return render(coverage(module)) if arguments.coverage else str(module)[line:]


def _read(path: str, file: str) -> str:
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise IRError("not text, so not TTGIR", file, data.count(b"\n", 0, error.start) + 1) from error


def _emit(text: str, path: str) -> int:
    if path == "-":
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    else:
        Path(path).write_bytes(text.encode())
    return 0


def _complain(error: Exception) -> None:
    sys.stderr.write(f"profscope-opt: {' '.join(str(error).split())}\n")


if __name__ == "__main__":
    sys.exit(main())
