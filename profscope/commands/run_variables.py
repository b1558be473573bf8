"""Defaults of `profscope run` from the environment: a variable for each flag.

PROFSCOPE_RUN_CTAS=16             --ctas 16, unless the command line says another number
PROFSCOPE_RUN_EVIDENCE=counts
PROFSCOPE_RUN_EVENTS=true         a flag without a value: true or false
"""

from __future__ import annotations

import argparse
import difflib
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
    flags = {_variable(action): action for action in actions if "--no-" not in action.option_strings[-1]}
    found = {}
    for variable, text in environ.items():
        if variable.startswith(PREFIX) and text:
            if variable not in flags:
                near = difflib.get_close_matches(variable, flags, n=1)
                known = f"did you mean {near[0]}?" if near else f"there are {', '.join(flags)}"
                raise OptionError(f"{variable}: profscope run has no such flag; {known}")
            found[flags[variable].dest] = _value(variable, flags[variable], text)
    return found


def _variable(action: argparse.Action) -> str:
    return PREFIX + action.option_strings[-1].removeprefix("--").replace("-", "_").upper()


def _value(variable: str, action: argparse.Action, text: str) -> Any:
    if action.nargs == 0:
        if text not in _SWITCHED:
            raise OptionError(f"{variable}: {text!r} is not true or false")
        return _SWITCHED[text]
    try:
        return action.type(text) if callable(action.type) else text
    except argparse.ArgumentTypeError as error:
        raise OptionError(f"{variable}: {error}") from None
