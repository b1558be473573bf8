"""`profscope mcp`: questions to profiles as tools for agents, over the Model Context Protocol.

Each tool is a call of a command in a process of its own, so that a trace that breaks it, and whatever a
program prints, stay away from the protocol on standard output. The server has no state.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from profscope.errors import OptionError, exit_status, run_command
from profscope.installed import require
from profscope.version import __version__

__all__ = ["main", "make_parser"]

MOST_CHARACTERS: Final = 20_000
"""Of an answer; of a longer one the first lines."""

_MOST_BYTES: Final = 90_000_000
"""Of a trace that is read whole: 15 M spans in .pftrace.gz, which take ten seconds."""
_COMMAND: Final = """\
import sys
sys.path[0] = sys.prefix  # not the folder: its modules are not those that profscope imports
from profscope.__main__ import main
sys.exit(main())
"""
_WIDTH: Final = "--width=160"
_EPILOG: Final = f"""\
examples:
  profscope mcp                         tools for the traces below this folder
  profscope mcp --allow-run runs        and `explain` for the programs below it

A client's entry: {{"command": "profscope", "args": ["mcp", "traces"]}}

Tools: doctor, brief, findings, source_lines, diff; with --allow-run, explain.

{exit_status("the client left", "failed")}
"""
_INSTRUCTIONS: Final = """\
profscope says where the time of Triton GPU kernels goes. Begin with `brief` of a trace, then `findings`,
then `source_lines` at the line that a finding names. After a change, record again and `diff` the two traces.
A gain is a range; "modelled" is not measured. Times of an emulated trace are cycles of a cost model."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    return run_command("profscope mcp", lambda: _serve(words))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="profscope mcp",
        description="Serve traces to an agent: the Model Context Protocol on stdin and stdout.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "folder", nargs="?", default=".", metavar="FOLDER", help="all traces are below this (default: .)"
    )
    parser.add_argument(
        "--allow-run", action="store_true", help="add the tool `explain`, which runs programs below FOLDER"
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def _serve(words: Sequence[str]) -> int:
    given = make_parser().parse_args(words)
    folder = Path(given.folder).resolve()
    if not folder.is_dir():
        raise OptionError(f"{given.folder!r} is no folder")
    require("mcp", "profscope mcp", OptionError)
    _server(folder, allow_run=given.allow_run).run("stdio")
    return 0


def _server(folder: Path, *, allow_run: bool) -> Any:
    from mcp.server.mcpserver import MCPServer
    from mcp_types import ToolAnnotations

    server: Any = MCPServer("profscope", instructions=_INSTRUCTIONS, version=__version__, log_level="WARNING")
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    tools = _Tools(folder)
    for tool in (tools.doctor, tools.brief, tools.findings, tools.source_lines, tools.diff):
        server.add_tool(tool, annotations=reads, structured_output=False)
    if allow_run:
        runs = ToolAnnotations(read_only_hint=False, open_world_hint=True)
        server.add_tool(tools.explain, annotations=runs, structured_output=False)
    return server


class _Tools:
    """The docstrings and arguments are what an agent reads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def doctor(self) -> str:
        """What this machine can record and measure, and what to do if evidence is missing."""
        return await self._answer("doctor")

    async def brief(self, trace: str, kernels: str = "", launch: int | None = None) -> str:
        """A profile in 4 KB: every kernel's time, verdict, account and findings, and the next command.

        trace: its path below the server's folder. kernels: a regular expression for names; "" for all.
        launch: this one alone, of a trace that is too large to be read whole.
        """
        return await self._answer("view", "--format=brief", *_chosen(kernels, launch), self._trace(trace))

    async def findings(self, trace: str, kernels: str = "", launch: int | None = None) -> str:
        """What holds the kernels back: cause, line, evidence, what fixing it saves, what to try.

        kernels, launch: as of `brief`.
        """
        words = ("--show=findings", _WIDTH, *_chosen(kernels, launch))
        return await self._answer("view", *words, self._trace(trace))

    async def source_lines(
        self, trace: str, where: str = "", kernels: str = "", launch: int | None = None
    ) -> str:
        """The source with each line's share of the time, what it waits for and its stalls.

        where: a file, or FILE:LINE for one line with its instructions; "" for all functions.
        kernels, launch: as of `brief`.
        """
        words = (f"--source={where}", _WIDTH, *_chosen(kernels, launch))
        return await self._answer("view", *words, self._trace(trace))

    async def diff(self, before: str, after: str, kernels: str = "") -> str:
        """What changed between two traces, by kernel and line, and which changes are noise."""
        return await self._answer("diff", _WIDTH, *_chosen(kernels), self._trace(before), self._trace(after))

    async def explain(
        self, program: list[str], kernels: str = "", vary: list[str] | None = None, limit_s: float = 60
    ) -> str:
        """Run a Python program, then diagnose its slowest kernel, and time it with lines left out and with
        other options (num_warps, num_stages, ...), whose results are compared.

        program: a script below the server's folder, and its arguments. vary: values of constexprs to try,
        each "BLOCK=64,128". limit_s: seconds after which nothing more is tried.
        """
        if not program:
            raise _refused("program names no script")
        words = [f"--limit-s={limit_s}", *_chosen(kernels), *(f"--vary={each}" for each in vary or ())]
        return await self._answer("explain", *words, "--", self._below(program[0]), *program[1:])

    def _trace(self, path: str) -> str:
        """As `_below`. Refuses what takes long to read; of a Parquet file a launch is read alone."""
        found = self._below(path)
        file = self._folder / found
        nbytes = file.stat().st_size if file.is_file() and file.suffix != ".parquet" else 0
        if nbytes > _MOST_BYTES:
            parquet = Path(path).with_name(f"{file.name.partition('.')[0]}.parquet")
            raise _refused(
                f"{path!r} has {nbytes / 1e6:,.0f} MB, which would take {nbytes / 1e7:,.0f} s to read: "
                f"`profscope convert {path} {parquet}` once, then ask for a `launch` of that"
            )
        return found

    def _below(self, path: str) -> str:
        """The path from the folder on, links followed. Refuses what lies outside of it, and a folder in
        which a link leads there."""
        try:
            found = (self._folder / path).resolve()
            inside = [found, *found.rglob("*")] if found.is_dir() else [found]
            is_below = all(each.resolve().is_relative_to(self._folder) for each in inside)
        except (OSError, ValueError, RuntimeError) as error:  # a name with a zero, a circle of links
            raise _refused(f"{path!r}: {error}") from None
        if not is_below:
            raise _refused(f"{path!r} is not below {str(self._folder)!r}, the folder of this server")
        return os.path.join(".", found.relative_to(self._folder))

    async def _answer(self, command: str, *words: str) -> str:
        """What a command prints. An error is its own."""
        from anyio import run_process

        done = await run_process(
            [sys.executable, "-c", _COMMAND, command, *words],
            stdin=subprocess.DEVNULL,
            cwd=self._folder,
            check=False,
        )
        told, said = (text.decode(errors="replace").strip() for text in (done.stdout, done.stderr))
        if done.returncode:
            raise _refused(_first_lines("\n".join(filter(None, (told, said)))))
        return _first_lines(told)


def _chosen(kernels: str, launch: int | None = None) -> list[str]:
    return [
        *([f"--kernels={kernels}"] if kernels else []),
        *([] if launch is None else [f"--launch={launch}"]),
    ]


def _first_lines(text: str) -> str:
    if len(text) <= MOST_CHARACTERS:
        return text
    whole = text[:MOST_CHARACTERS].rpartition("\n")[0]
    left = text.count("\n") - whole.count("\n")
    return f"{whole}\n{left:,} more lines: ask for one kernel or line"


def _refused(message: str) -> Exception:
    from mcp.server.mcpserver.exceptions import ToolError

    return ToolError(message)
