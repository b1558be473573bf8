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
from profscope.analysis.questions import GROUPS, find_question, question_names
from profscope.options import Options
from profscope.plotting.plots import Plots
from profscope.schema import (
    CTA_DTYPES,
    EVENT_DTYPES,
    HOST_DTYPES,
    LAUNCH_DTYPES,
    MEASURED_DTYPES,
    SPAN_DTYPES,
    Tables,
)

__all__ = ["PAGES"]

_NAME: Final = r"[a-z_]\w*"
_FIELD: Final = re.compile(rf"{_NAME}(?:, {_NAME})*: ")
_ANNOTATION: Final = re.compile(r"(: |-> )'([^']*)'")
_OF_BOTH: Final = ("save", "show", "verdict", "plot")
"""What a profile and a session have besides questions."""
_DTYPES: Final = {
    "df": SPAN_DTYPES,
    "launches": LAUNCH_DTYPES,
    "ctas": CTA_DTYPES,
    **MEASURED_DTYPES,
    "host": HOST_DTYPES,
    "events": EVENT_DTYPES,
}
_FOR_SESSIONS: Final = ("begin",)  # what sessions call of a scope
_OPENED: Final = ("Session", "start", "stop", "pause", "resume", "profile", "scope")
_OTHER_WAYS: Final = ("explain", "instructions")


def recording() -> str:
    """Sessions, their options, and the other ways to record."""
    parts = ["# Recording", "What begins a recording and what ends it, with all options of a session."]
    parts += ["## profscope.session", "    with profscope.session(**options) as prof:\n        ..."]
    before, _, after = (inspect.getdoc(profscope.session) or "").partition(Options.document())
    parts += [prose(before), prose(after), "### Options", *_options()]
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
    parts += ["## Tables", prose(inspect.getdoc(Tables) or ""), *_dtypes()]
    parts += ["## Kept, shown and judged", "A profile and a session have these."]
    for name in _OF_BOTH:
        parts += _entry(f"prof.{name}", getattr(profiles.Questions, name), level=3, hide=("self",))
    for name, method in _methods(Plots):
        parts += _entry(f"prof.plot.{name}", method, level=3, hide=("self",))
    parts += ["## Questions", "Each is a method of a profile and of a session: `prof.summary()`."]
    for group in ("", *(each.name for each in GROUPS)):
        for name in sorted(question_names(group) - {"verdict"}):
            title = f"prof.{group}.{name}" if group else f"prof.{name}"
            parts += _entry(title, find_question(name, group), level=3, hide=("tables",))
    return _page(parts)


def in_kernels() -> str:
    """profscope.language."""
    parts = ["# In kernels", prose(inspect.getdoc(language) or "")]
    for name in language.__all__:
        parts += _entry(f"profscope.language.{name}", getattr(language, name), hide=("_semantic",))
    return _page(parts)


def errors() -> str:
    """All that profscope raises and warns of."""
    parts = ["# Errors"]
    for name in profscope.errors.__all__:
        parts += [f"## {name}", prose(inspect.getdoc(getattr(profscope.errors, name)) or "")]
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


def _dtypes() -> Iterator[str]:
    """The columns of each table that all profiles have, with their dtypes."""
    yield "### Dtypes"
    for table, dtypes in _DTYPES.items():
        columns = ", ".join(f"`{name}` {dtype}" for name, dtype in dtypes.items())
        yield f"**`prof.{table}`**: {columns}."


def _entry(title: str, item: Any, level: int = 2, hide: Sequence[str] = ()) -> list[str]:
    """A heading, the signature, the docstring, and the public methods of a class."""
    parts = [f"{'#' * level} {title}"]
    if signature := _signature(item, hide):
        parts.append(f"```python\n{title}{signature}\n```")
    parts.append(prose(inspect.getdoc(item) or ""))
    if isinstance(item, type):
        for name, method in _methods(item):
            parts += _entry(f"{title.rpartition('.')[2]}.{name}", method, level + 1, hide=("self",))
    return parts


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    """What a class defines for its users, in the order of the source; properties included."""
    for name, member in vars(kind).items():
        if name.startswith("_") or name in _FOR_SESSIONS:
            continue
        if callable(member) or isinstance(member, property | staticmethod):
            yield name, getattr(kind, name) if isinstance(member, staticmethod) else member


def _signature(item: Any, hide: Sequence[str]) -> str:
    if isinstance(item, property):
        return ""
    try:
        signature = inspect.signature(item)
    except (TypeError, ValueError):
        return ""
    if item in (profscope.session, profscope.start):
        return "(**options) -> Session"
    kept = [each for name, each in signature.parameters.items() if name not in hide]
    return _ANNOTATION.sub(r"\1\2", str(signature.replace(parameters=kept))).replace("<factory>", "...")


def prose(text: str) -> str:
    """A docstring as Markdown: indented blocks are code, lines such as "name: what it is" a list."""
    blocks = []
    for block in re.split(r"\n\s*\n", text):
        lines = block.splitlines()
        if all(line.startswith("    ") or not line for line in lines):
            blocks.append(block)
        elif all(line.startswith("|") for line in lines):
            blocks.append(_escaped(block, "<"))
        else:
            blocks.append("\n".join(_escaped(line) for line in _lines(lines)))
    return "\n\n".join(blocks)


def _lines(lines: Sequence[str]) -> Iterator[str]:
    """The lines of a paragraph, those that begin a list's item or a sentence on errors told apart."""
    in_list, before = False, "."
    for line in lines:
        if _FIELD.match(line) and before.endswith((".", ";")):  # else it is a sentence that goes on
            if not in_list:
                yield ""
            in_list = True
            names, _, says = line.partition(": ")
            yield f"- **{names}**: {says}"
        elif line.startswith("Raises ") and before.endswith("."):
            in_list = False
            yield ""
            yield line
        else:
            yield f"  {line}" if in_list else line
        before = line


def _escaped(text: str, marks: str = "<|") -> str:
    """Text in which none of the marks is markup but in code in backticks."""
    escapes = str.maketrans({mark: {"<": "&lt;", "|": "\\|"}[mark] for mark in marks})
    parts = text.split("`")
    return "`".join(part if at % 2 else part.translate(escapes) for at, part in enumerate(parts))


def _page(parts: Sequence[str]) -> str:
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"
