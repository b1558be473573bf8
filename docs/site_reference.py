"""The pages of the reference, made from the docstrings whenever the site is built.

`PAGES` has a function for each, which returns Markdown.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import profscope
from profscope import language, profiles
from profscope.options import Options

__all__ = ["PAGES"]

_FIELD: Final = re.compile(r"[a-z_][\w, *]*: ")
_OPENED: Final = ("Session", "start", "stop", "pause", "resume", "profile", "scope")
_OTHER_WAYS: Final = ("explain", "export", "decode", "instructions")


def recording() -> str:
    """Sessions, their options, and the other ways to record."""
    parts = ["# Recording", "What begins a recording and what ends it, with all options of a session."]
    parts += ["## profscope.session", "    with profscope.session(**options) as prof:\n        ..."]
    before, _, after = (inspect.getdoc(profscope.session) or "").partition(Options.document())
    parts += [_prose(before), _prose(after), "### Options", *_options()]
    for name in (*_OPENED, *_OTHER_WAYS):
        parts += _entry(f"profscope.{name}", getattr(profscope, name))
    return _page(parts)


def profile() -> str:
    """Profiles: how they are read, kept, compared and asked."""
    parts = [
        "# Profiles",
        "What sessions and loaded files can do. [tables.md](../tables.md) has the columns.",
    ]
    for name in ("load", "diff", "Profile"):
        parts += _entry(f"profscope.{name}", getattr(profscope, name))
    parts += ["## Questions", "Each is a method of a profile and of a session: `prof.summary()`."]
    for name in sorted(profiles._questions() - {"verdict"}):
        parts += _entry(f"prof.{name}", profiles._question(name), level=3, hide=("tables",))
    return _page(parts)


def in_kernels() -> str:
    """profscope.language."""
    parts = ["# In kernels", _prose(inspect.getdoc(language) or "")]
    for name in language.__all__:
        parts += _entry(f"profscope.language.{name}", getattr(language, name))
    return _page(parts)


def errors() -> str:
    """All that profscope raises and warns of."""
    parts = ["# Errors"]
    for name in profscope.__all__:
        item = getattr(profscope, name)
        if isinstance(item, type) and issubclass(item, Exception):
            parts += [f"## {name}", _prose(inspect.getdoc(item) or "")]
    return _page(parts)


PAGES: Final[dict[str, Callable[[], str]]] = {
    "reference/recording.md": recording,
    "reference/profile.md": profile,
    "reference/language.md": in_kernels,
    "reference/errors.md": errors,
}


def _options() -> Iterator[str]:
    for each in dataclasses.fields(Options):
        if each.init:
            yield f"**`{each.name}`** (`{each.type}`, by default `{each.default!r}`)"
            yield f"{_escaped(each.metadata['says'])}. Example: `{each.metadata['example']}`"


def _entry(title: str, item: Any, level: int = 2, hide: Sequence[str] = ()) -> list[str]:
    """A heading, the signature, the docstring, and the public methods of a class."""
    parts = [f"{'#' * level} {title}"]
    if signature := _signature(item, hide):
        parts.append(f"```python\n{title}{signature}\n```")
    parts.append(_prose(inspect.getdoc(item) or ""))
    if isinstance(item, type):
        for name, method in _methods(item):
            parts += _entry(f"{title.rpartition('.')[2]}.{name}", method, level + 1, hide=("self",))
    return parts


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    """What a class defines for its users, in the order of the source; properties included."""
    for name, member in vars(kind).items():
        if not name.startswith("_") and (callable(member) or isinstance(member, property | staticmethod)):
            yield name, getattr(kind, name) if isinstance(member, staticmethod) else member


def _signature(item: Any, hide: Sequence[str]) -> str:
    if isinstance(item, property):
        return ""
    try:
        signature = inspect.signature(item)
    except (TypeError, ValueError):
        return ""
    if item is profscope.session or signature.return_annotation == "Session":
        return "(**options) -> Session"
    kept = [each for name, each in signature.parameters.items() if name not in hide]
    return str(signature.replace(parameters=kept)).replace("'", "").replace("<factory>", "...")


def _prose(text: str) -> str:
    """A docstring as Markdown: indented blocks are code, lines such as "name: what it is" a list."""
    blocks = []
    for block in re.split(r"\n\s*\n", text):
        if all(line.startswith("    ") or not line for line in block.splitlines()):
            blocks.append(block)
            continue
        blocks.append("\n".join(_escaped(line) for line in _lines(block)))
    return "\n\n".join(blocks)


def _lines(block: str) -> Iterator[str]:
    in_list = False
    for line in block.splitlines():
        if _FIELD.match(line):
            if not in_list:
                yield ""
            in_list = True
            names, _, says = line.partition(": ")
            yield f"- **{names}**: {says}"
        elif line.startswith("Raises "):
            in_list = False
            yield ""
            yield line
        else:
            yield f"  {line}" if in_list else line


def _escaped(text: str) -> str:
    """Text in which nothing but code in backticks could be markup."""
    return "`".join(
        part if at % 2 else part.replace("<", "&lt;").replace("|", "\\|")
        for at, part in enumerate(text.split("`"))
    )


def _page(parts: Sequence[str]) -> str:
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"
