"""Pipelines of passes, written as mlir-opt does: `pass-a,pass-b{option=1 classes=x;y},own.py:pass-c`.

The name of a level stands for its passes: `heavy,lower-records,allocate-buffer`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from profscope.instrument_passes import LEVELS
from profscope.instrument_passes.errors import IRError, ManifestError, PassError, PipelineError
from profscope.instrument_passes.ir import Module, check_structure
from profscope.instrument_passes.manifest import ATTRIBUTE
from profscope.instrument_passes.passes import ALLOCATES, CHOOSES, Pass, PassContext, passes, signature

__all__ = ["GROUP", "load_file", "load_installed", "parse_pipeline", "run_pipeline"]

_ITEM: Final = re.compile(r"\s*(?:([^{},]+\.py):)?([A-Za-z][\w-]*)\s*(?:\{([^{}]*)\})?\s*(,|$)")


def parse_pipeline(text: str) -> list[Pass]:
    """The passes that `text` names, in order.

    Raises PipelineError that names a pass or option that is unknown, malformed, repeated or in the wrong
    order.
    """
    pipeline: list[Pass] = []
    at = 0
    while text[at:].strip():
        match = _ITEM.match(text, at)
        if match is None:
            raise PipelineError(
                f"cannot read the pipeline at {text[at:]!r}; expected pass-name or pass-name{{option=value}}"
            )
        pipeline += _item(match[1] or "", match[2], match[3] or "")
        at = match.end()
        if match[4] == "," and not text[at:].strip():
            raise PipelineError(f"the pipeline {text!r} ends with a comma")
    _check_order(pipeline)
    return pipeline


def run_pipeline(module: Module, pipeline: Sequence[Pass], context: PassContext) -> None:
    """Apply the passes in order, in place.

    Raises PassError naming the file and line, the pass and, if there is one, the op; IRError for a module in
    which an op has not the form that its name asks for.
    """
    if pipeline:
        check_structure(module)
    for step in pipeline:
        try:
            if step.rank < ALLOCATES and module.attr(ATTRIBUTE) is not None:
                raise PassError(
                    "the records are lowered already; run the pass on what they were lowered from"
                )
            step.apply(module, context)
        except IRError as error:
            raise PassError(
                f"pass {step.name}: {error.message}",
                error.file or module.filename,
                error.line or module.op.line,
            ) from error
        except ManifestError as error:
            raise PassError(f"pass {step.name}: {error}", module.filename, module.op.line) from error
        except Exception as error:  # a mistake in somebody's pass: its traceback, and which pass it was
            error.add_note(f"in pass {step.name} on {module.filename}")
            raise


def _item(file: str, name: str, options: str) -> list[Pass]:
    """The pass, or the passes of a level."""
    if file or name not in LEVELS:
        return [_make(file, name, options)]
    if options:
        raise PipelineError(f"{name} is a level and takes no options; write its passes out: {LEVELS[name]}")
    return parse_pipeline(LEVELS[name])


def _check_order(pipeline: Sequence[Pass]) -> None:
    for before, step in pairwise(pipeline):
        if step.rank < before.rank:
            raise PipelineError(f"{step.name} cannot come after {before.name}; put it before")
    for index, step in enumerate(pipeline):
        earlier = [other for other in pipeline[:index] if other.name == step.name]
        if step in earlier or (earlier and step.rank != CHOOSES):
            raise PipelineError(f"{step.name} is in the pipeline twice; leave one out")


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


# Passes that others wrote: installed packages with an entry point, and single files.
#
#     [project.entry-points."profscope.passes"]
#     dot-steps = "own_pass"
#
# A package names the module (or the class) that registers its passes; a pipeline names a file directly:
# `./own_pass.py:dot-steps{option=1}`. Either is imported when a pipeline first asks for it, once a process.

GROUP: Final = "profscope.passes"


def load_installed() -> None:
    """Import every installed package that offers passes. Raises PipelineError naming one that cannot be."""
    for entry in entry_points(group=GROUP):
        if entry.name in passes():
            continue
        try:
            entry.load()
        except (ImportError, AttributeError, SyntaxError) as error:
            package = entry.dist.name if entry.dist is not None else entry.value
            raise PipelineError(f"cannot load pass {entry.name!r} of package {package}: {error}") from error
        if entry.name not in passes():
            raise PipelineError(f"the entry point {entry.name!r} registers no pass of that name")


def load_file(path: str) -> None:
    """Import a file that registers passes. Raises PipelineError if it cannot be."""
    file = Path(path).resolve()
    name = f"profscope_pass_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise PipelineError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except (ImportError, OSError, SyntaxError) as error:
        del sys.modules[name]
        raise PipelineError(f"cannot load passes from {path}: {error}") from error
