"""Pipelines of passes, written as mlir-opt does: `pass-a,pass-b{option=1 classes=x;y},own.py:pass-c`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from instrument_passes.errors import IRError, PassError, PipelineError
from instrument_passes.ir import Module
from instrument_passes.passes.base import Pass, PassContext, passes, signature
from instrument_passes.plugins import load_file, load_installed

__all__ = ["LEVELS", "LOWERING", "parse_pipeline", "run_pipeline"]

# What each level of a session records. "default" answers "where does the time go": the ops that a warp spends
# its time in or waits at, without a record per iteration. Scopes that a kernel names are wanted at each.
LEVELS: Final[dict[str, str]] = {
    "light": "kernel-span,scope-spans,loop-spans",
    "default": "kernel-span,scope-spans,loop-spans,op-spans{classes=load;store;atomic;wait;mma;call}",
    "heavy": "kernel-span,scope-spans,loop-spans,iteration-spans,op-spans",
}
# What every pipeline ends with that is to be compiled.
LOWERING: Final = "lower-records,allocate-buffer"
_ITEM: Final = re.compile(r"\s*(?:([^{},]+\.py):)?([A-Za-z][\w-]*)\s*(?:\{([^{}]*)\})?\s*(,|$)")


def parse_pipeline(text: str) -> list[Pass]:
    """The passes that `text` names, in order. Raises PipelineError naming what is unknown or malformed."""
    passes: list[Pass] = []
    at = 0
    while text[at:].strip():
        match = _ITEM.match(text, at)
        if match is None:
            raise PipelineError(
                f"cannot read the pipeline at {text[at:]!r}; expected pass-name or pass-name{{option=value}}"
            )
        passes.append(_make(match[1] or "", match[2], match[3] or ""))
        at = match.end()
        if match[4] == "," and not text[at:].strip():
            raise PipelineError(f"the pipeline {text!r} ends with a comma")
    return passes


def run_pipeline(
    module: Module,
    pipeline: Sequence[Pass],
    context: PassContext,
    between: Callable[[Pass, Module], None] | None = None,
) -> None:
    """Apply the passes in order, in place; `between` is called after each.

    Raises PassError naming the file and line, the pass and, where there is one, the op.
    """
    for step in pipeline:
        try:
            step.apply(module, context)
        except IRError as error:
            raise PassError(
                f"pass {step.name}: {error.message}",
                error.file or module.filename,
                error.line or module.op.line,
            ) from error
        except Exception as error:  # a mistake in somebody's pass: its traceback, and which pass it was
            error.add_note(f"in pass {step.name} on {module.filename}")
            raise
        if between is not None:
            between(step, module)


def _make(file: str, name: str, options: str) -> Pass:
    known = passes()
    if file:
        load_file(file)
        known = passes()
    elif name not in known:
        load_installed()
        known = passes()
    if name not in known:
        raise PipelineError(f"unknown pass {name!r}; known passes: {', '.join(known)}")
    cls = known[name]
    allowed = signature(cls)
    values: dict[str, Any] = {}
    for item in options.split():
        key, equals, value = item.partition("=")
        if key not in allowed:
            raise PipelineError(
                f"pass {name} has no option {key!r}; it takes: {', '.join(allowed) or 'none'}"
            )
        if not equals:
            raise PipelineError(f"option {key!r} of pass {name} has no value; write {key}=...")
        values[key.replace("-", "_")] = _convert(name, key, value, allowed[key][0])
    try:
        return cls(**values)
    except ValueError as error:
        raise PipelineError(f"pass {name}: {error}") from error


def _convert(name: str, key: str, value: str, kind: Any) -> Any:
    if kind is bool and value in ("true", "false", "1", "0"):
        return value in ("true", "1")
    if kind is int and re.fullmatch(r"-?\d+", value):
        return int(value)
    if kind is str:
        return value
    if kind == tuple[str, ...]:
        return tuple(part for part in value.split(";") if part)
    raise PipelineError(f"option {key} of pass {name} takes {getattr(kind, '__name__', kind)}, not {value!r}")
