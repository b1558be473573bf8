"""Variants in every view; launches of which nothing was recorded."""

import io
import json
from contextlib import redirect_stdout
from typing import Any

import pytest
import torch
import triton

from profscope.profiles import Profile
from profscope.viewer.cli import main
from profscope.viewer.kernels import render_kernels
from tests.kernels.add import add_kernel
from tests.support.models import kernels
from tests.support.profiles import regular_profile
from tests.support.sessions import session


def run(*arguments: str) -> str:
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with redirect_stdout(out):
        assert main(arguments) == 0
    out.seek(0)
    return out.read()


def add(block: int) -> None:
    x = torch.zeros(1024)
    add_kernel[(triton.cdiv(1024, block),)](x, x, torch.empty_like(x), 1024, BLOCK=block)


@pytest.fixture(scope="module")
def two_variants(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("view") / "variants.json"
    with session() as prof:
        for block in (256, 512, 512):
            add(block)
    prof.save(path)
    return str(path)


def keys(rows: list[dict[str, Any]]) -> list[int]:
    return [row["variant"] for row in rows]


def test_each_variant_has_its_line_table_and_tree(two_variants: str) -> None:
    view = json.loads(run(two_variants, "--format", "json"))
    order = [1, 0]  # by the time of their launches: two and one
    for part in ("kernels", "tables", "trees"):
        assert keys(view[part]) == order, part
        assert [row["label"] for row in view[part]] == ["#1", "#0"]
        assert [row["differs"] for row in view[part]] == [{"BLOCK": 512}, {"BLOCK": 256}]
    assert [row["launches"] for row in view["kernels"]] == [2, 1]
    for key, table, tree in zip(order, view["tables"], view["trees"], strict=True):
        assert set(keys(table["rows"])) == {key}
        root = next(row for row in table["rows"] if row["kind"] == "kernel")
        assert [node["count"] for node in tree["nodes"] if node["depth"] == 0] == [root["count"]]
    assert view["timeline"]["launch"] in (1, 2)
    assert view["timeline"]["label"] == "#1"


def test_launches_without_a_time_are_counted() -> None:
    one = regular_profile(launches=1)
    launches = one.launches.assign(ctas=0, records=0, start_ns=0, end_ns=0)
    entries = kernels(Profile(one.df.iloc[:0], launches, one.metadata))
    lines = [line.plain for line in render_kernels(entries, "ns", 100, 0)]
    assert lines[2].split() == ["matmul_kernel", "1", "-", "0ns", *"----"]
    assert lines[-1] == "matmul_kernel: 1 launch without records or without an end: no time known."
