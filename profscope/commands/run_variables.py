"""Defaults of `profscope run` from the environment: a variable for each flag.

PROFSCOPE_RUN_CTAS=16             --ctas 16, unless the command line says another number
PROFSCOPE_RUN_EVIDENCE=counts
PROFSCOPE_RUN_EVENTS=true         a flag without a value: true or false
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, Final

from profscope.errors import OptionError

__all__ = ["PREFIX", "run_defaults"]

PREFIX: Final = "PROFSCOPE_RUN_"
_SWITCHED: Final = {"true": True, "false": False}


def run_defaults(actions: Sequence[argparse.Action], environ: Mapping[str, str]) -> dict[str, Any]:
    """By option, the values that variables give. An empty variable gives none. actions: of the flags.

    Raises OptionError that names the variable.
    """
    flags = {
        PREFIX + flag.removeprefix("--").replace("-", "_").upper(): action
        for action in actions
        if not (flag := action.option_strings[-1]).startswith("--no-")
    }
    found = {}
    for variable, text in environ.items():
        if variable.startswith(PREFIX) and text:
            if variable not in flags:
                raise OptionError(f"{variable}: there are only {', '.join(flags)}")
            found[flags[variable].dest] = _value(variable, flags[variable], text)
    return found


def _value(variable: str, action: argparse.Action, text: str) -> Any:
    if action.nargs == 0:
        if text not in _SWITCHED:
            raise OptionError(f"{variable}: {text!r} is not true or false")
        return _SWITCHED[text]
    try:
        return action.type(text) if callable(action.type) else text
    except argparse.ArgumentTypeError as error:
        raise OptionError(f"{variable}: {error}") from None
