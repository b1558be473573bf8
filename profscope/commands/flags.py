"""The options of a session that are flags of a command line, made from their one declaration.

--ctas 64   --ctas 0,17   --no-hardware   --instrument heavy
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, fields
from typing import Any, Final

from profscope.options import Options

__all__ = ["RUN_DEFAULTS", "add_flags", "example", "option_names", "run_options", "spelled"]

RUN_DEFAULTS: Final[Mapping[str, Any]] = {"ctas": 64, "overhead_pct": 1.0, "hardware": True}
"""What a whole program's session has by default where that is not what a session has."""

_METAVARS: Final[Mapping[str, str]] = {
    "kernels": "REGEX", "instrument": "LEVEL|PASSES", "backend": "auto|gpu|emulator",
    "hardware": "EVIDENCE,...", "overhead_pct": "PERCENT",
}  # fmt: skip


def option_names() -> list[str]:
    """The names of the options that are flags."""
    return [option.name for option in _options()]


def run_options(given: Mapping[str, Any]) -> Options:
    """The options of a run. given: those that were. Raises OptionError."""
    return Options(**{**RUN_DEFAULTS, **given})


def add_flags(parser: argparse._ArgumentGroup) -> list[argparse.Action]:
    """Add the flags; returns their actions. What is not given has no entry in the namespace."""
    return [action for option in _options() for action in _add(parser, option)]


def example(name: str) -> Any:
    """The value in an option's own example."""
    option = next(each for each in _options() if each.name == name)
    return eval(option.metadata["example"].partition("=")[2])


def spelled(options: Mapping[str, Any]) -> list[str]:
    """Flags that give these options."""
    return [word for option in _options() if option.name in options for word in _spell(option, options)]


def _options() -> list[Field[Any]]:
    return [option for option in fields(Options) if option.init and option.metadata["cli"] is not None]


def _kinds(option: Field[Any]) -> frozenset[str]:
    """The parts of an option's type, as its declaration spells them."""
    return frozenset(str(option.type).split(" | "))


def _flag(option: Field[Any]) -> str:
    return "--" + option.name.replace("_", "-")


def _add(parser: argparse._ArgumentGroup, option: Field[Any]) -> Iterator[argparse.Action]:
    kinds = _kinds(option)
    default = RUN_DEFAULTS.get(option.name, option.default)
    says = option.metadata["cli"].replace("%", "%%")
    flag, nothing = _flag(option), argparse.SUPPRESS
    if kinds == {"bool"}:
        yield parser.add_argument(flag, dest=option.name, default=nothing, action="store_true", help=says)
        return
    shown = str(default).lower() if isinstance(default, bool) else default
    about = f"{says} (default: {shown})" if default not in (None, "", False) else says
    yield parser.add_argument(
        flag,
        dest=option.name,
        default=nothing,
        type=_reader(kinds),
        metavar=_metavar(kinds, option.name),
        help=about,
    )
    if default is True:
        yield parser.add_argument(
            f"--no-{flag[2:]}", dest=option.name, default=nothing, action="store_false", help="none of it"
        )


def _metavar(kinds: frozenset[str], name: str) -> str:
    if name in _METAVARS:
        return _METAVARS[name]
    if "Sequence[int]" in kinds:
        return "N,..."
    if "int" in kinds:
        return "N"
    if "float" in kinds:
        return "SECONDS" if name.endswith("_s") else "X"
    return "FOLDER" if "Path" in kinds else "PASSES" if "Sequence[str]" in kinds else name.upper()


def _reader(kinds: frozenset[str]) -> Callable[[str], Any]:
    """What reads the text behind a flag; `Options` checks what comes out of it."""

    def read(text: str) -> Any:
        for kind, reads in _READERS:
            if kind in kinds and (value := reads(text)) is not None:
                return value
        raise argparse.ArgumentTypeError(f"not a number: {text!r}")

    return read


def _numbers(text: str) -> list[int] | None:
    parts = [part.strip() for part in text.split(",")]
    return [int(part) for part in parts if part] if "," in text and _are_numbers(parts) else None


def _are_numbers(parts: list[str]) -> bool:
    return any(parts) and all(part.lstrip("-").isdecimal() for part in parts if part)


def _int(text: str) -> int | None:
    return int(text) if _are_numbers([text.strip()]) else None


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _bool(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def _passes(text: str) -> list[str] | None:
    """A level is one word; a pipeline has dashes, commas or braces."""
    return None if text.isidentifier() else [text]


# By part of a type, the first that fits: text comes last, since all text is text.
_READERS: Final[tuple[tuple[str, Callable[[str], Any]], ...]] = (
    ("Sequence[int]", _numbers),
    ("int", _int),
    ("float", _float),
    ("bool", _bool),
    ("Mapping[str, float]", _words),
    ("Sequence[str]", _passes),
    ("str", str),
)


def _spell(option: Field[Any], options: Mapping[str, Any]) -> list[str]:
    value = options[option.name]
    if _kinds(option) == {"bool"}:
        return [] if value is option.default else [_flag(option)]
    if value is None:
        return []
    if isinstance(value, bool):
        return [f"{_flag(option)}={str(value).lower()}"]
    if isinstance(value, list | tuple):
        text = ",".join(str(each) for each in value)
        return [f"{_flag(option)}={text}{',' * (len(value) == 1 and isinstance(value[0], int))}"]
    return [f"{_flag(option)}={value}"]
