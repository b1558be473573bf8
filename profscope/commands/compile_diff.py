"""`profscope compile-diff`: compares the code that two Tritons make of one kernel, or one of two kernels,
without running it.

    profscope compile-diff kernels.py:matmul_kernel --triton env-3.6 --triton env-3.9 --like trace.json

Each kernel is compiled in a process of the Python that is named; nothing is installed.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from profscope.errors import DiffError, OptionError, exit_status, run_command
from profscope.version import __version__
from profscope.viewer.option_types import add_width, check_there, count, pattern

if TYPE_CHECKING:
    from profscope.analysis.comparing.code_changes import Change
    from profscope.analysis.comparing.code_facts import CodeFacts

__all__ = ["DIFFERS", "main", "make_parser"]

DIFFERS: Final = 3
"""The exit status if --fail-on matches what differs."""

_TOLD: Final = ("file", "line", "fact", "a", "b")
_SPILL_BYTES: Final = 4
_EPILOG: Final = f"""\
examples:
  profscope compile-diff kernels.py:matmul --triton old-env --like trace.json
  profscope compile-diff old/kernels.py:add kernels.py:add --like trace.json

Needs no GPU. docs/diff.md has an example of git bisect run.

{
    exit_status(
        "shown",
        "a kernel cannot be compiled, or a trace has no configuration of it",
        f"{DIFFERS} what differs matches --fail-on",
    )
}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    return run_command("profscope compile-diff", lambda: _main(arguments))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="profscope compile-diff",
        usage="profscope compile-diff --like TRACE [options] FILE.py:NAME...",
        description="Compile a kernel with two Tritons, and show what differs in its code.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "kernels", nargs="+", type=_kernel, metavar="FILE.py:NAME",
        help="the kernel; or two, A and B, to compare",
    )  # fmt: skip
    parser.add_argument(
        "--triton", action="append", default=[], metavar="ENV",
        help="a Python, an environment, or a folder of pip install --target with Triton; twice for A and B, "
        "once for A (default: this Python)",
    )  # fmt: skip
    parser.add_argument(
        "--target", default="cuda:90", metavar="GPU", help="what to compile for (default: cuda:90)"
    )
    parser.add_argument(
        "--like", required=True, metavar="TRACE", help="a trace that has the configuration to compile"
    )
    parser.add_argument(
        "--variant", type=count, default=0, metavar="N", help="number of the configuration (default: 0)"
    )
    parser.add_argument(
        "--fail-on", type=pattern, metavar="REGEX", help=f"exit with {DIFFERS} if a row that differs matches"
    )
    add_width(parser)
    parser.add_argument("--format", choices=("table", "json"), default="table", help="default: table")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def _kernel(text: str) -> tuple[str, str]:
    file, colon, name = text.rpartition(":")
    if not (file.endswith(".py") and colon and name.isidentifier()):
        raise argparse.ArgumentTypeError(f"{text!r} is not FILE.py:NAME")
    return file, name


def _main(arguments: Sequence[str] | None) -> int:
    parser = make_parser()
    options = parser.parse_args(arguments)
    if len(options.kernels) > 2 or len(options.triton) > 2:
        parser.error("two are compared: name at most two kernels and two of --triton")
    if len(options.kernels) + len(options.triton) < 2:
        parser.error("name another kernel, or another Triton with --triton")
    check_there(options.like, *(file for file, _ in options.kernels))
    from profscope.analysis.comparing.code_changes import ranked_facts, row_text
    from profscope.analysis.comparing.code_facts import is_same_ptx
    from profscope.progress import working

    like = _configuration(options)
    pythons = [*map(_python, options.triton), *[_python("")] * (2 - len(options.triton))]
    kernels = options.kernels[0], options.kernels[-1]
    with working("compiling twice"):
        a, b = (
            _compiled(kernel, python, like, options.target)
            for kernel, python in zip(kernels, pythons, strict=True)
        )
    changes = ranked_facts(_facts(a, options.target), _facts(b, options.target), a["sources"], b["sources"])
    is_same = not changes and is_same_ptx(a["ptx"], b["ptx"])
    _print(options, (a, b), changes, is_same=is_same)
    is_found = options.fail_on is not None and any(
        re.search(options.fail_on, row_text(each)) for each in changes
    )
    return DIFFERS if is_found else 0


def _configuration(options: argparse.Namespace) -> dict[str, Any]:
    """Raises DiffError if the trace has none of either kernel."""
    from profscope.analysis.variants import variant_entry
    from profscope.profiles import load

    metadata = load(options.like).metadata
    names = [name for _, name in options.kernels]
    found = (variant_entry(metadata, name, options.variant) for name in names)
    entry = next((each for each in found if each.get("signature")), None)
    if entry is None:
        known = ", ".join(metadata.get("variants") or {}) or "none"
        missing = f"no configuration {options.variant} of {names[0]}; its kernels: {known}"
        raise DiffError(f"{options.like} has {missing}")
    return entry


def _python(named: str) -> tuple[str, str]:
    """The Python to run, and the folder to look in first, "" if none. Raises OptionError if it is neither."""
    path = Path(named)
    if not named:
        return sys.executable, ""
    for python in (path, path / "bin" / "python", path / "Scripts" / "python.exe"):
        if python.is_file():
            return str(python), ""
    if (path / "triton").is_dir():
        return sys.executable, str(path.resolve())
    raise OptionError(f"--triton {named}: no Python, no environment, and no folder with Triton in it")


def _compiled(
    kernel: tuple[str, str], python: tuple[str, str], like: dict[str, Any], target: str
) -> dict[str, Any]:
    """What `compat/compile_alone.py` answers. Raises DiffError if that Python cannot compile the kernel."""
    import profscope.compat

    program = Path(profscope.compat.__path__[0], "compile_alone.py").read_text()
    executable, folder = python
    path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH", "")]))
    with tempfile.TemporaryDirectory(prefix="profscope-") as into:
        answer = Path(into) / "answer.json"
        file, name = kernel
        request = {"file": file, "name": name, "like": like, "target": target, "answer": str(answer)}
        done = subprocess.run(
            [executable, "-c", program],
            input=json.dumps(request),
            # In a cache of its own: Triton keeps a kernel with the file that it was first compiled from.
            env={**os.environ, "PYTHONPATH": path, "TRITON_CACHE_DIR": into},
            capture_output=True,
            text=True,
            check=False,
        )
        said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        result: dict[str, Any] = json.loads(answer.read_text()) if answer.exists() else {"error": said}
    if "error" in result:
        raise DiffError(f"{file}: {folder or executable} cannot compile {name}: {result['error']}")
    return result


def _facts(result: dict[str, Any], target: str) -> CodeFacts:
    from profscope.analysis.comparing.code_facts import about_facts, facts_of, ptx_of, sass_of
    from profscope.binaries.rows import instructions_of
    from profscope.instrument_passes.analyses.occupancy import limits_of
    from profscope.instrument_passes.errors import ToolchainError
    from profscope.instrument_passes.toolchain import resources_of

    cubin, ptx = base64.b64decode(result["cubin"]), result["ptx"]
    instructions = list(ptx_of(ptx))
    build: dict[str, Any] = {"shared_bytes": result["shared_bytes"]}
    if cubin:
        try:
            registers, local = resources_of(cubin)
            rows = instructions_of(cubin, ptx).rows
        except (ImportError, ToolchainError):
            pass  # this Python has no Triton, so the PTX tells
        else:
            instructions = list(sass_of((row.opcode, row.file, row.line) for row in rows))
            build |= {"registers": registers, "spills": local // _SPILL_BYTES}
            limits = limits_of(target)
            warps, shared = int(result["about"]["num_warps"]), int(result["shared_bytes"])
            build["ctas_per_sm"] = None if limits is None else limits.fit(warps, registers, shared)
    return facts_of(result["ttgir"], instructions, about=about_facts(result["about"], build))


def _print(
    options: argparse.Namespace,
    compiled: tuple[dict[str, Any], dict[str, Any]],
    changes: Sequence[Change],
    *,
    is_same: bool,
) -> None:
    from rich.text import Text

    from profscope.analysis.comparing.code_changes import by_line, row_text, same_text
    from profscope.analysis.texts import count_text
    from profscope.viewer.outlet import print_json, print_lines, text_width

    names = list(dict.fromkeys(name for _, name in options.kernels))
    tritons = [each["triton"] for each in compiled]
    kinds = {name: kind for each in compiled for name, kind in each["taken_as_types"].items()}
    notes = [
        f"constexpr {name} is taken as {kind}: a profile has types and texts alike"
        for name, kind in kinds.items()
    ]
    if options.format == "json":
        told = [{name: value for name, value in asdict(each).items() if name in _TOLD} for each in changes]
        about = {"kernels": names, "target": options.target, "triton_a": tritons[0], "triton_b": tritons[1]}
        print_json({**about, "is_same": is_same, "notes": notes, "changes": told})
        return
    facts = f"{count_text(len(changes), 'fact')} {'differs' if len(changes) == 1 else 'differ'}"
    facts = facts if changes else same_text(is_same=is_same)
    versions = " and ".join(dict.fromkeys(tritons))
    lines = [f"{' and '.join(names)}, {options.target}, Triton {versions}: {facts}"]
    lines += [f"  {row_text(*own)}" for own in by_line(changes)]
    lines += [f"note: {each}" for each in notes]
    print_lines([Text(line) for line in lines], text_width(options.width))
