"""`profscope export`: a kernel compiled with its records, for a launcher without Python."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from profscope.commands.own_imports import OwnImports
from profscope.errors import OptionError, exit_status, run_command
from profscope.installed import require
from profscope.version import __version__
from profscope.viewer.flags import in_flags

__all__ = ["main", "make_parser"]

_CONFIGURATION: Final = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_FLAGS: Final = {"path": "-o ", "target": "--target "}
_ARGUMENT: Final = re.compile(r"(?<!\w)(path|target)=(?=['\"])")
_EPILOG: Final = f"""\
examples:
  profscope export kernels.py:softmax_kernel -o build/softmax \\
      --signature '*fp32:16, *fp32:16, i32, i32, 1024' --target cuda:90

This writes build/softmax.cubin, .json and .h. --signature lists the arguments
in order, as Triton's compiler expects them: a type, with :16 if the value is a
multiple of 16, or a constant.

{exit_status("written", "a kernel that cannot be compiled, or a file that cannot be written")}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    return run_command("profscope export", lambda: _export(words), says=_in_flags)


def _in_flags(text: str) -> str:
    """An error with flags in place of the function's arguments."""
    return in_flags(_ARGUMENT.sub(lambda match: _FLAGS[match[1]], text))


def _export(words: list[str]) -> int:
    given = make_parser().parse_args(words)
    require("triton", "profscope export")
    from profscope.aot.exporting import export

    imports = OwnImports()
    kernel = _kernel(given.kernel, imports)
    names = _names(kernel)
    values = [_value(part.strip()) for part in given.signature.split(",")]
    if len(values) != len(names):
        raise OptionError(
            f"--signature has {len(values)} arguments; {given.kernel} has {len(names)}: {', '.join(names)}"
        )
    options = {"instrument": given.instrument, "measure": given.measure, "sources": given.sources}
    configuration = {name: getattr(given, name) for name in _CONFIGURATION}
    signature = dict(zip(names, values, strict=True))
    with imports.apart():
        export(kernel, signature, given.output, target=given.target, **configuration, **options)
    return 0


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="profscope export",
        usage="profscope export [options] FILE:KERNEL --signature TYPES -o PATH",
        description="Compile a kernel with its records, for a launcher without Python.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kernel", metavar="FILE:KERNEL", help="a Python file, and the kernel's name in it")
    parser.add_argument(
        "--signature", required=True, metavar="TYPES", help="types and values of all arguments, in order"
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="PATH", help="files to write, without their suffixes"
    )
    parser.add_argument("--target", metavar="cuda:CC", help="GPU (default: the one of this machine)")
    parser.add_argument("--num-warps", type=int, metavar="N", default=4, help="warps of a CTA (default: 4)")
    parser.add_argument(
        "--num-stages", type=int, metavar="N", default=3, help="pipeline stages of loops (default: 3)"
    )
    parser.add_argument(
        "--num-ctas", type=int, metavar="N", default=1, help="number of CTAs in a cluster (default: 1)"
    )
    parser.add_argument("--maxnreg", type=int, metavar="N", help="most registers of a thread")
    parser.add_argument(
        "--instrument",
        type=lambda text: text if text.isidentifier() else [text],
        default="default",
        metavar="LEVEL|PASSES",
        help="as in profscope run (default: default)",
    )
    parser.add_argument(
        "--measure",
        choices=("issue", "latency"),
        default="issue",
        help="where spans on loads end: at their issue, or when the data arrive (default: issue)",
    )
    parser.add_argument(
        "--no-sources", dest="sources", action="store_false", help="leave the kernel's source text out"
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def _kernel(named: str, imports: OwnImports) -> Any:
    """The kernel that FILE:KERNEL names. Raises OptionError where there is none."""
    file, colon, name = named.rpartition(":")
    path = Path(file)
    if not colon or not path.is_file():
        raise OptionError(f"{named!r}: no file {file!r}; write it like kernels.py:softmax_kernel")
    imports.begin(str(path.resolve().parent), sys.path[:])
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise OptionError(f"{named!r}: {file!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        raise OptionError(f"{named!r}: {file} has no {name!r}")
    return getattr(module, name)


def _names(kernel: Any) -> list[str]:
    """The arguments of a kernel, under autotuners and heuristics, too."""
    while not hasattr(kernel, "arg_names") and hasattr(kernel, "fn"):
        kernel = kernel.fn
    if not hasattr(kernel, "arg_names"):
        raise OptionError(f"export: {kernel!r} is not a @triton.jit or @gluon.jit function")
    return list(kernel.arg_names)


def _value(text: str) -> Any:
    """A value that is compiled in, or the text of a type."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text
