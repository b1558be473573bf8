"""The functions that a kernel is made of. Once they are inlined, only the lines of their ops are left.

So they are listed while the module still holds them, and passes are told by `PassContext.functions`.
"""

from __future__ import annotations

import ast
import linecache
import re
from dataclasses import dataclass, replace
from typing import Final

from profscope.instrument_passes.ir.tokens import unquote

__all__ = ["Function", "checked", "function_name", "functions_in"]

# Triton names an instance of a function "module.function__types", 3.6 "module.function__types__constants".
# `expand_calls` adds a number to a copy's.
_CONSTANTS: Final = re.compile(r"__([(\d].*)?$")
_COPY: Final = re.compile(r"__ps\d+$")
_STRING: Final = r'"(?:[^"\\\n]|\\.)*"'
# A function's first and last line, as Triton prints modules, and a location's alias.
_PARTS: Final = re.compile(
    rf"^  tt\.func [^@\n]*@(?P<symbol>{_STRING}|[^\s(]+)"
    r"|^  \} loc\((?P<end>#loc\d*)\)"
    rf"|^(?P<alias>#loc\d*) = loc\((?P<file>{_STRING}):(?P<line>\d+):\d+\)",
    re.MULTILINE,
)
_DEF: Final = re.compile(r"\s*(async\s+)?def\s")


@dataclass(frozen=True)
class Function:
    """file, line: where its `def` stands, as Triton has it.

    bodies: None if that is so. Otherwise the function's text was generated, and of the file's lines those can
    be believed that are in a body: (first, last) of each.
    """

    file: str
    line: int
    name: str
    bodies: tuple[tuple[int, int], ...] | None = None


def functions_in(text: str) -> tuple[Function, ...]:
    """The functions of a printed module, those without a location left out; by file and line."""
    ends: list[tuple[str, str]] = []  # name, alias of its location
    places: dict[str, tuple[str, int]] = {}
    name = ""
    for part in _PARTS.finditer(text):
        if part["symbol"]:
            symbol = unquote(part["symbol"])
            name = symbol if " public " in part[0] else function_name(symbol)
        elif part["end"]:
            ends.append((name, part["end"]))
        else:
            places[part["alias"]] = unquote(part["file"]), int(part["line"])
    functions = {Function(*places[alias], name) for name, alias in ends if alias in places}
    return tuple(sorted(functions, key=lambda function: (function.file, function.line, function.name)))


def function_name(symbol: str) -> str:
    """The source name of a device function: "helper" for "kernels.helper__Pfp32_i32"."""
    instance = _CONSTANTS.sub("", _COPY.sub("", symbol))
    return (instance.rpartition("__")[0] or instance).rpartition(".")[2]


def checked(functions: tuple[Function, ...]) -> tuple[Function, ...]:
    """The same, with `bodies` where the source has no `def` at the line.

    Then the function's text was generated from another one's, and lines of its signature lead anywhere.
    Sources that cannot be read are not checked.
    """
    return tuple(
        function if _is_def(function) else replace(function, bodies=_bodies(function.file))
        for function in functions
    )


def _is_def(function: Function) -> bool:
    lines = _lines(function.file)
    if not lines:
        return True
    return 0 < function.line <= len(lines) and _DEF.match(lines[function.line - 1]) is not None


def _bodies(file: str) -> tuple[tuple[int, int], ...]:
    """First and last line of the body of every function that Triton may compile."""
    try:
        tree = ast.parse("".join(_lines(file)))
    except SyntaxError:
        return ()
    return tuple(
        (node.body[0].lineno, node.end_lineno or node.body[-1].lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(d) for d in node.decorator_list)
    )


def _lines(file: str) -> list[str]:
    linecache.checkcache(file)
    return linecache.getlines(file)
