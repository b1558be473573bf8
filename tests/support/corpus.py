"""The corpus as TTGIR, compiled once a session, and Triton's own verdict on a module's text."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from triton._C.libtriton import ir

from tests.kernels import aot, corpus
from tests.kernels.spec import CUDA80, CUDA90, TARGETS, Spec

_SPECS: dict[str, Spec] = {spec.name: spec for spec in corpus.specs()}
MODULES = [
    (name, target) for name, spec in _SPECS.items() for target in TARGETS if target not in spec.unsupported
]


@cache
def printed(name: str, target: str) -> str:
    """The TTGIR that the installed Triton prints for a corpus kernel."""
    return aot.ttgir(_SPECS[name], target)


def modules(large: Collection[str] = (), third: int | None = None, on_one_target: bool = False) -> Any:
    """Every kernel and target for parametrize; those that cannot be compiled are reported with the reason.

    One target of a kernel is enough for a quick run. large: kernels that it leaves out; third: 0, 1 or 2, the
    third of the kernels that it tries. on_one_target: the exhaustive tests, too.
    """
    found = []
    for number, (name, spec) in enumerate(_SPECS.items()):
        is_left_out = name in large or third not in (None, number % 3)
        quick = CUDA90 if CUDA90 not in spec.unsupported else CUDA80
        for target in (quick,) if on_one_target else TARGETS:
            reason = spec.unsupported.get(target)
            marks = [pytest.mark.skip(reason=f"{name} on {target}: {reason}")] if reason else []
            marks += [pytest.mark.exhaustive] if target != quick or is_left_out else []
            found.append(pytest.param(name, target, id=f"{name}-{target}", marks=marks))
    return pytest.mark.parametrize(("name", "target"), found)


# A test takes `name` and `target`, or the fixtures `text` and `module` made of them.
each_module = modules()


def third_of_modules(number: int) -> Any:
    """For tests of one kind that write ops in several ways: each kernel is written to in some of them, and in
    all by the exhaustive tests; on one target, since others have other ops alone. number: 0, 1 or 2."""
    return modules(third=number, on_one_target=True)


def triton_module(text: str, target: str) -> Any:
    """Parse and verify `text` with Triton itself; RuntimeError if it refuses, its reasons are on stderr."""
    context = aot.context_for(target)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.ttgir"
        path.write_text(text)
        module = ir.parse_mlir_module(str(path), context)
    module.context = context
    return module
