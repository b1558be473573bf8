"""Rows of functions that are inlined: each call has its own, through tables, files and views."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from profscope.analysis.model.labels import Group
from profscope.analysis.scopes.table import make_tables
from profscope.analysis.scopes.tree import make_trees
from profscope.profiles import Profile
from profscope.viewer.scopes import render_table, render_tree
from tests.support.sessions import session
from tests.support.validation import validate

# ruff: noqa: N803

HERE = Path(__file__).name
BLOCK = 64


def line_of(text: str) -> int:
    """The first line of this file that has the text."""
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@triton.jit
def first_of(x_ptr, at):
    return tl.load(x_ptr + at)


@triton.jit(noinline=True)
def sum_from(x_ptr, at):
    row = tl.load(x_ptr + at + tl.arange(0, 64))
    return tl.sum(row, axis=0)


@triton.jit
def normed_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    moments = tl.sum(x, axis=0) / n
    moments += tl.sum(x * x, axis=0) / n
    edges = first_of(x_ptr, 1)
    edges += first_of(x_ptr, 2)
    both = first_of(x_ptr, 3) + first_of(x_ptr, 4)
    calls = sum_from(x_ptr, 5) + sum_from(x_ptr, 6)
    tl.store(out_ptr + tl.arange(0, BLOCK), x + moments + edges + both + calls)


@pytest.fixture(scope="module")
def prof() -> Profile:
    x, out = torch.randn(2 * BLOCK), torch.zeros(BLOCK)
    with session(instrument="heavy") as recorded:
        normed_kernel[(2,)](x, out, BLOCK, BLOCK=BLOCK, num_warps=1)
    assert recorded.metadata["notes"] == []
    assert validate(recorded.profile.tables) == []
    return recorded.profile


def rows(prof: Profile, text: str, op: str) -> Any:
    """The summary's rows of an op on the first line of this file with the text."""
    summary = prof.summary()
    is_op = summary["scope"].str.startswith(f"{op} ") | (summary["scope"] == op)
    return summary[is_op & (summary["line"] == line_of(text)) & (summary["kind"] == "op")]


def columns_in(paths: set[str], text: str, function: str) -> list[int]:
    """The columns that paths give of the line's two calls, after checking which call each is in: Triton 3.6
    and 3.7 give that of the call's last argument."""
    line = line_of(text)
    source = Path(__file__).read_text().splitlines()[line - 1]
    columns = sorted(int(path.split(f":{line}:")[1].split(" ")[0]) for path in paths if f":{line}:" in path)
    first, second = columns
    assert source.index(function) <= first < source.rindex(function) <= second
    return columns


def test_sums_on_two_lines_are_two_rows_on_the_users_lines(prof: Profile) -> None:
    for text in ("moments = tl.sum(", "moments += tl.sum("):
        (row,) = rows(prof, text, "reduce").to_dict("records")
        assert Path(row["file"]).name == HERE
        assert row["call_path"].startswith(f"normed_kernel {HERE}:{line_of(text)} > sum standard.py:")
        assert row["count"] == 2


def test_calls_of_a_helper_on_one_line_are_told_apart_by_their_columns(prof: Profile) -> None:
    inner = line_of("return tl.load(x_ptr + at)")
    paths = set(rows(prof, "return tl.load(x_ptr + at)", "load")["call_path"])
    columns = columns_in(paths, "both = first_of", "first_of")
    assert {f"normed_kernel {HERE}:{line_of('both = first_of')}:{column}" for column in columns} == {
        path.removesuffix(f" > first_of {HERE}:{inner}")
        for path in paths
        if f":{line_of('both = first_of')}:" in path
    }


def test_clones_for_calls_on_one_line_are_told_apart(prof: Profile) -> None:
    found = rows(prof, "return tl.sum(row, axis=0)", "reduce")
    assert found["count"].tolist() == [2, 2]
    columns_in(set(found["call_path"]), "calls = sum_from(", "sum_from")
    assert set(found["call_path"].str.split(" > ").str[1]) == {
        f"sum_from {HERE}:{line_of('return tl.sum(row, axis=0)')}"
    }


def test_work_is_that_of_the_call(prof: Profile) -> None:
    """Four calls load four bytes each in each of two CTAs."""
    found = rows(prof, "return tl.load(x_ptr + at)", "load")
    assert found["bytes_at_most"].tolist() == [2 * 4] * 4
    scopes = prof.metadata["kernels"]["normed_kernel"]["work"][0]["scopes"]
    assert len(
        {tuple(row[name] for name in ("scope", "file", "line", "call_path")) for row in scopes}
    ) == len(scopes)


def test_ops_of_the_kernel_itself_have_no_path(prof: Profile) -> None:
    df = prof.df
    assert set(df["call_path"][df["line"] == line_of("x = tl.load(x_ptr + tl.arange")]) == {""}
    assert set(df["call_path"][df["kind"] == "kernel"]) == {""}


def test_table_and_tree_show_the_path_where_rows_would_read_the_same(prof: Profile) -> None:
    line = line_of("both = first_of")
    columns = columns_in(set(prof.df["call_path"]), "both = first_of", "first_of")
    (table,) = make_tables(prof.tables, "cycles", 0, [Group("normed_kernel")])
    (tree,) = make_trees(prof.tables, [Group("normed_kernel")], "cycles", 0, lambda file, line: "")
    for lines in (render_table(table, 200), render_tree(tree, 200)):
        text = [line.plain for line in lines]
        for column in columns:
            row = f"load both via normed_kernel {HERE}:{line}:{column} "
            assert sum(row in each for each in text) == 1
        assert not any("via" in each for each in text if "reduce moments" in each)


@triton.jit
def sum_of(x_ptr, n):
    total = 0.0
    for i in range(n):
        total += tl.load(x_ptr + i)
    return total


@triton.jit
def two_sums_kernel(x_ptr, y_ptr, out_ptr, n):
    tl.store(out_ptr, sum_of(x_ptr, n) + sum_of(y_ptr, n))
    total = tl.sum(tl.load(x_ptr + tl.arange(0, 64)), axis=0)
    tl.store(out_ptr + 1, total)


def test_lines_fold_calls_that_share_a_line_and_functions_of_triton() -> None:
    """In prof.lines() as in the report; columns tell the calls apart in the summary alone."""
    with session(instrument="heavy") as prof:
        two_sums_kernel[(1,)](torch.randn(64), torch.randn(64), torch.zeros(2), 8, num_warps=1)
    call, header, body = (
        line_of(text)
        for text in ("out_ptr, sum_of(", "    for i in range(n):", "total += tl.load(x_ptr + i)")
    )
    summary = prof.summary()
    for scope in ("loop ", "load total"):
        paths = summary["call_path"][
            summary["scope"].str.startswith(scope) & summary["line"].isin([header, body])
        ]
        assert len(set(paths)) == 2
        assert all(f"{HERE}:{call}:" in path for path in paths)
    lines = prof.lines()
    lines = lines[lines["line"] > 0]  # the report names known lines alone
    found = {(line, path) for line, path in zip(lines["line"], lines["call_path"], strict=True)}
    way = f"two_sums_kernel {HERE}:{call} > sum_of {HERE}"
    assert {each for each in found if each[1]} == {(header, f"{way}:{header}"), (body, f"{way}:{body}")}
    assert (line_of("total = tl.sum(tl.load("), "") in found
    report = prof.report()["kernels"][0]
    assert report["left_out"]["lines"] == 0
    shares = {line["line"]: line["self_share"] for line in report["lines"]["rows"] if line["line"]}
    own = lines.groupby("line")["self_share"].sum()
    assert shares == {line: pytest.approx(share, rel=1e-3) for line, share in own.items()}
