"""`profscope compile-diff`: what two Tritons make of one kernel, or one of two kernels, without running it.

    profscope compile-diff kernels.py:matmul_kernel --triton env-3.6 --triton env-3.9 --like trace.json

Each kernel is compiled in a process of the Python that is named; nothing is installed.
"""

from __future__ import annotations

import argparse
import ast
import base64
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from profscope.errors import DiffError, OptionError, exit_status, run_command
from profscope.version import __version__
from profscope.viewer.option_types import TRACE, add_width, check_there, count, pattern

if TYPE_CHECKING:
    from profscope.analysis.comparing.code_changes import Change
    from profscope.analysis.comparing.code_facts import CodeFacts, Instruction

__all__ = ["DIFFERS", "main", "make_parser"]

DIFFERS: Final = 3
"""The exit status if --fail-on matches what differs."""

_TYPE: Final = re.compile(r"(?P<kind>\*?k?[a-z]+\d*\w*|\*+[a-z]\w*)(?::(?P<known>16|1))?")
_OPTIONS: Final = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_EPILOG: Final = f"""\
examples:
  profscope compile-diff kernels.py:matmul --triton old-env --like run.pftrace.gz
  profscope compile-diff kernels.py:add --triton envs/3.6 --triton envs/3.9 \\
      --signature '*fp32:16, *fp32:16, i32, 1024'
  profscope compile-diff old/kernels.py:add kernels.py:add --like run.pftrace.gz

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
        usage="profscope compile-diff [options] KERNEL.py:NAME [KERNEL.py:NAME]",
        description="Compile a kernel with two Tritons, and show what differs in its code.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "kernels", nargs="+", type=_kernel, metavar="KERNEL.py:NAME",
        help="the kernel; or two, A and B, to compare",
    )  # fmt: skip
    parser.add_argument(
        "--triton", action="append", default=[], metavar="ENV",
        help="a Python, an environment, or a folder of pip install --target with Triton; twice for A and B, "
        "once for A (default: this Python)",
    )  # fmt: skip
    parser.add_argument(
        "--target",
        type=_target,
        default="cuda:90",
        metavar="ARCH",
        help="GPU to compile for (default: cuda:90)",
    )
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--like", metavar="TRACE", help=f"the configuration that it has: {TRACE}")
    chosen.add_argument(
        "--signature", type=_signature, metavar="TYPES",
        help="of all arguments in order, as triton.tools.compile: '*fp32:16, i32, 1024'",
    )  # fmt: skip
    parser.add_argument(
        "--variant", type=count, default=0, metavar="N", help="configuration of --like (default: 0)"
    )
    parser.add_argument("--num-warps", type=count, metavar="N", help="warps of a CTA")
    parser.add_argument("--num-stages", type=count, metavar="N", help="stages of pipelined loops")
    parser.add_argument(
        "--fail-on", type=pattern, metavar="REGEX", help=f"exit with {DIFFERS} if a fact that differs matches"
    )
    parser.add_argument(
        "--top", type=count, default=20, metavar="N", help="facts that are shown; 0: all (default: 20)"
    )
    add_width(parser)
    parser.add_argument("--format", choices=("table", "json"), default="table", help="default: table")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def _kernel(text: str) -> tuple[str, str]:
    file, colon, name = text.rpartition(":")
    if not (file.endswith(".py") and colon and name.isidentifier()):
        raise argparse.ArgumentTypeError(f"{text!r} is not KERNEL.py:NAME")
    return file, name


def _target(text: str) -> str:
    if not re.fullmatch(r"cuda:\d+|hip:gfx\w+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no target, such as cuda:90 or hip:gfx942")
    return text


def _signature(text: str) -> list[list[Any]]:
    """Of each argument no name, its kind, the value of a constexpr, and what is known of others."""
    arguments = []
    for part in map(str.strip, text.split(",")):
        match = _TYPE.fullmatch(part)
        if match is None or part in ("True", "False", "None"):
            try:
                arguments.append([None, "constexpr", ast.literal_eval(part), None])
            except (SyntaxError, ValueError):
                raise argparse.ArgumentTypeError(f"{part!r} is neither a type nor a constant") from None
        elif match["known"] == "1":
            arguments.append([None, "constexpr", 1, None])
        else:
            known = [["tt.divisibility", 16]] if match["known"] else None
            arguments.append([None, match["kind"], None, known])
    return arguments


@dataclass(frozen=True)
class _Side:
    """What was compiled: with which Triton, and its facts."""

    triton: str
    facts: CodeFacts
    sources: list[dict[str, Any]]


def _main(arguments: Sequence[str] | None) -> int:
    parser = make_parser()
    options = parser.parse_args(arguments)
    if len(options.kernels) > 2 or len(options.triton) > 2:
        parser.error("two are compared: name at most two kernels and two of --triton")
    if len(options.kernels) + len(options.triton) < 2:
        parser.error("name another kernel, or another Triton with --triton")
    check_there(*(file for file, _ in options.kernels))
    from profscope.analysis.comparing.code_changes import ranked_facts, row_text
    from profscope.progress import working

    kernels = [options.kernels[0], options.kernels[-1]]
    pythons = [*map(_python, options.triton), *[_python("")] * (2 - len(options.triton))]
    configuration = _configuration(options, [name for _, name in kernels])
    with working("compiling twice"):
        a, b = sides = [
            _compiled(kernel, python, configuration, options.target)
            for kernel, python in zip(kernels, pythons, strict=True)
        ]
    changes = ranked_facts(a.facts, b.facts, a.sources, b.sources)
    _print(options, sides, changes)
    is_found = options.fail_on is not None and any(re.search(options.fail_on, row_text(c)) for c in changes)
    return DIFFERS if is_found else 0


def _print(options: argparse.Namespace, sides: Sequence[_Side], changes: Sequence[Change]) -> None:
    from rich.text import Text

    from profscope.analysis.comparing.code_changes import row_text
    from profscope.viewer.outlet import print_json, print_lines, text_width

    names = list(dict.fromkeys(name for _, name in options.kernels))
    if options.format == "json":
        told = [
            {key: value for key, value in asdict(change).items() if key in ("file", "line", "fact", "a", "b")}
            for change in changes
        ]
        print_json(
            {"kernels": names, "target": options.target, "a": {"triton": sides[0].triton},
             "b": {"triton": sides[1].triton}, "changes": told}
        )  # fmt: skip
        return
    tritons = " and ".join(dict.fromkeys(side.triton for side in sides))
    facts = f"{len(changes)} facts differ" if changes else "the compiled code is the same"
    lines = [f"{' and '.join(names)}, {options.target}, Triton {tritons}: {facts}"]
    shown = changes[: options.top or None]
    lines += [f"  {row_text(change)}" for change in shown]
    if len(changes) > len(shown):
        lines.append(f"{len(changes) - len(shown)} more; --top 0 shows them")
    width = text_width(options.width)
    print_lines([Text(line) for line in lines], width)


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


def _configuration(options: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """arguments and options of the compilation. Raises DiffError if the trace has none of the kernel."""
    chosen: dict[str, Any] = {}
    arguments = options.signature
    if options.like is not None:
        from profscope.analysis.variants import variant_entry
        from profscope.profiles import load

        metadata = load(options.like).metadata
        found = (variant_entry(metadata, name, options.variant) for name in names)
        entry = next((each for each in found if each.get("signature")), None)
        if entry is None:
            known = ", ".join(metadata.get("variants") or {}) or "none"
            raise DiffError(
                f"{options.like} has no configuration {options.variant} of {names[0]}; its kernels: {known}"
            )
        arguments = _as_launched(entry)
        chosen = {name: entry[name] for name in _OPTIONS if entry.get(name) is not None}
    flags = {"num_warps": options.num_warps, "num_stages": options.num_stages}
    chosen |= {name: value for name, value in flags.items() if value is not None}
    return {"arguments": arguments, "options": chosen}


def _as_launched(entry: dict[str, Any]) -> list[list[Any]]:
    """A configuration as `_signature` has it, with names."""
    known, constants = entry.get("specialisation") or {}, entry.get("constexprs") or {}
    arguments = [
        [name, kind, None, known.get(name)]
        for name, kind in entry["signature"].items()
        if kind != "constexpr"
    ]
    inside = [[name, None, None, each] for name, each in known.items() if name not in entry["signature"]]
    return [*arguments, *inside, *([name, "constexpr", value, None] for name, value in constants.items())]


def _compiled(
    kernel: tuple[str, str], python: tuple[str, str], configuration: dict[str, Any], target: str
) -> _Side:
    """Raises DiffError if it cannot be compiled."""
    import profscope.compat

    program = Path(profscope.compat.__path__[0], "compile_alone.py").read_text()
    executable, folder = python
    path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH", "")]))
    with tempfile.TemporaryDirectory(prefix="profscope-") as into:
        answer = Path(into) / "answer.json"
        request = {"file": kernel[0], "name": kernel[1], "target": target, "answer": str(answer)}
        done = subprocess.run(
            [executable, "-c", program],
            input=json.dumps(request | configuration),
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        if not answer.exists():
            said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            raise DiffError(f"{executable} could not compile {kernel[1]}: {said}")
        result = json.loads(answer.read_text())
    if "error" in result:
        raise DiffError(f"{kernel[1]} with {folder or executable}: {result['error']}")
    return _side(result, configuration, target)


def _side(result: dict[str, Any], configuration: dict[str, Any], target: str) -> _Side:
    from profscope.analysis.comparing.code_facts import about_facts, facts_of, ptx_of
    from profscope.instrument_passes.analyses.occupancy import limits_of
    from profscope.instrument_passes.errors import ToolchainError
    from profscope.instrument_passes.toolchain import resources_of

    about, cubin = result["about"], base64.b64decode(result["cubin"])
    build: dict[str, Any] = {"shared_bytes": about.pop("shared")}
    instructions = list(ptx_of(result["ptx"]))
    if cubin:
        try:
            registers, local = resources_of(cubin)
            instructions = _sass(cubin, result["ptx"])
        except (ImportError, ToolchainError):
            pass  # this Python has no Triton, so the PTX tells
        else:
            build |= {"registers": registers, "spills": local // 4}
            limits = limits_of(target)
            if limits is not None:
                room = limits.fit(int(about["num_warps"]), registers, int(build["shared_bytes"]))
                build["ctas_per_sm"] = room
    facts = facts_of(result["ttgir"], instructions, about=about_facts(about, build))
    return _Side(result["triton"], facts, result["sources"])


def _sass(cubin: bytes, ptx: str) -> list[Instruction]:
    from profscope.analysis.comparing.code_facts import sass_of
    from profscope.binaries.rows import instructions_of

    rows = instructions_of(cubin, ptx).rows
    return list(sass_of((row.opcode, row.file, row.line) for row in rows))
