"""The examples of docs/parquet.md, run on a few spans in little memory."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from tests.support.profiles import regular_profile

PAGE = (Path(__file__).parents[2] / "docs/parquet.md").read_text()


def test_the_queries_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    profile = regular_profile(launches=3, ctas=4)
    profile.save("trace/")
    shown: list[duckdb.DuckDBPyRelation] = []
    names = {"print": shown.append}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    for block in blocks:
        exec(block, names)
    duckdb.sql("reset memory_limit")
    by_scope, slowest, waiting = (each.df() for each in shown)
    ops = profile.df[profile.df["kind"] == "op"].groupby("scope", observed=True)["duration_ns"].sum()
    assert by_scope.set_index("scope")["total_ns"].to_dict() == ops.to_dict()
    assert len(slowest) == 10
    assert slowest["ns"].is_monotonic_decreasing
    assert waiting["launch"].tolist() == [0, 1, 2]
    assert waiting["waiting"].between(0.01, 1).all()
