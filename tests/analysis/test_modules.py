"""Kernels of torch.compile by module and line of the model, in tables and in files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from profscope.analysis.variants import MODEL
from profscope.profiles import Profile
from tests.support.profiles import regular_profile
from tests.support.validation import validate

UP = {
    "module": "blocks.*.up",
    "model_file": "/me/model.py",
    "model_line": 8,
    "ops": ["aten.gelu"],
    "places": [],
}


def with_models(models: dict[str, dict[str, Any]]) -> Profile:
    """A profile with launches of kernels; models: of those that torch.compile has made."""
    profile = regular_profile()
    kernels = list(dict.fromkeys(profile.launches["kernel"]))
    variants = {
        kernel: [
            {"variant": 0, "key": "", "builds": [], **({"model": models[kernel]} if kernel in models else {})}
        ]
        for kernel in kernels
    }
    tables = replace(profile.tables, metadata={**profile.metadata, "variants": variants})
    return Profile.of(tables)


@pytest.fixture(scope="module")
def kernel() -> str:
    return str(regular_profile().launches["kernel"].iloc[0])


def test_spans_and_summary_name_module_and_line(kernel: str) -> None:
    profile = with_models({kernel: UP})
    for table in (profile.df, profile.summary()):
        own = table["kernel"] == kernel
        assert own.any()
        assert set(table.loc[own, "module"]) == {"blocks.*.up"}
        assert set(table.loc[own, "model_file"]) == {"/me/model.py"}
        assert set(table.loc[own, "model_line"]) == {8}
        assert set(table.loc[~own, "module"]) <= {""}
    assert str(profile.df["module"].dtype) == "category"
    assert validate(profile.tables) == []


def test_time_is_summed_by_module(kernel: str) -> None:
    modules = with_models({kernel: UP}).program.modules()
    summary = with_models({kernel: UP}).summary()
    roots = summary[summary["kind"] == "kernel"]
    assert modules["share"].sum() == pytest.approx(1)
    own = modules[modules["module"] == "blocks.*.up"].iloc[0]
    assert own["total_ns"] == roots.loc[roots["kernel"] == kernel, "total_ns"].sum()
    assert own["kernels"] == 1


def test_profiles_without_such_kernels_name_no_module() -> None:
    profile = with_models({})
    assert not {*MODEL} & {*profile.df.columns}
    summary = profile.summary()
    assert set(summary["module"]) | set(summary["model_file"]) == {""}
    assert summary["model_line"].isna().all()
    assert "model" not in repr(summary)
    assert profile.program.modules().empty
