"""The scope tree: what runs inside what, in program order, with source lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.text import Text

from profscope.analysis.span_rows import launch_groups, row_scales, sites
from profscope.profiles import Profile
from viewer.grid import Column, grid
from viewer.groups import Group
from viewer.paths import told_apart
from viewer.source import SourceLines
from viewer.units import count_text, duration_text, printable, share_text, source_text

__all__ = ["Node", "ScopeTree", "make_trees", "render_tree"]


@dataclass(frozen=True)
class Node:
    """A scope in its place; share is of the tree's warp time, None if in flight; text the source line."""

    scope: str
    kind: str
    file: str
    line: int
    call_path: str
    text: str
    depth: int
    count: int
    total: int
    mean: float
    share: float | None


@dataclass(frozen=True, kw_only=True)
class ScopeTree(Group):
    """The scopes of a group of launches in pre-order."""

    unit: str
    nodes: list[Node]
    omitted: int


def make_trees(
    profile: Profile, groups: Sequence[Group], unit: str, limit: int, lines: SourceLines
) -> list[ScopeTree]:
    """The trees of some groups, each of `limit` nodes at most (0: all), with their source lines."""
    df = profile.df
    if df.empty:
        return []
    site, table = sites(df)
    number, launched = launch_groups(profile)
    node, parent, first_row = _paths(df, site, number)
    node_site, node_group = site[first_row], number[first_row]
    duration = df[f"duration_{unit}"].to_numpy()
    scale = row_scales(profile)
    count = np.bincount(node)
    total = np.zeros(len(count), np.int64)
    np.add.at(total, node, duration)
    if scale is not None:  # estimates for the whole grid, as in the summary
        count = np.rint(np.bincount(node, scale)).astype(np.int64)
        total = np.rint(np.bincount(node, duration * scale)).astype(np.int64)
    roots = np.flatnonzero(parent < 0)
    kernel = table["kernel"].astype(str).to_numpy()[node_site]
    variant = launched["variant"].to_numpy()[node_group]
    trial = launched["trial"].to_numpy()[node_group]
    children = _children(parent)
    trees = []
    for group in groups:
        alike = roots[(variant[roots] == group.variant) & (trial[roots] == group.trial)]
        # Not as arrays: numpy drops a NUL at the end of a text it compares with.
        own = [root for root in alike.tolist() if kernel[root] == group.kernel]
        warp_time = int(total[own].sum())
        nodes = []
        for at, depth in _preorder(own, children):
            place = table.iloc[node_site[at]]
            share = None if place["kind"] == "async" or not warp_time else float(total[at] / warp_time)
            figures: dict[str, Any] = {
                "count": int(count[at]),
                "total": int(total[at]),
                "mean": float(total[at] / count[at]),
            }
            source: dict[str, Any] = {name: str(place[name]) for name in ("scope", "kind", "file")}
            source |= {"line": int(place["line"]), "text": lines(source["file"], int(place["line"]))}
            source |= {"call_path": str(place["call_path"])}
            nodes.append(Node(**source, depth=depth, **figures, share=share))
        trees.append(
            ScopeTree(
                **group.identity,
                unit=unit,
                nodes=nodes[: limit or None],
                omitted=max(len(nodes) - limit, 0) if limit else 0,
            )
        )
    return trees


def _paths(
    df: pd.DataFrame, site: NDArray[np.int64], group: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Number the distinct paths of sites from the root in each group, in order of first appearance.

    Returns each row's path, and each path's parent (-1 at the root) and first row.
    """
    depth, above = df["depth"].to_numpy(), df["parent"].to_numpy()
    node = np.full(len(df), -1, np.int64)
    first_row, parents = [], []
    known = 0
    for level in range(int(depth.max()) + 1):
        rows = np.flatnonzero(depth == level)
        outer = node[above[rows]] if level else group[rows]
        codes, distinct = pd.factorize((outer + 1) * (int(site.max()) + 1) + site[rows])
        node[rows] = codes + known
        first = rows[pd.Series(codes).drop_duplicates().index]
        known += len(distinct)
        first_row.append(first)
        parents.append(node[above[first]] if level else np.full(len(first), -1))
    first_rows = np.concatenate(first_row)
    order = np.argsort(first_rows, kind="stable")
    rank = np.empty(known, np.int64)
    rank[order] = np.arange(known)
    parent = np.concatenate(parents)[order]
    return rank[node], np.where(parent >= 0, rank[parent], -1), first_rows[order]


def _children(parent: NDArray[np.int64]) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for node, above in enumerate(parent.tolist()):
        children.setdefault(above, []).append(node)
    return children


def _preorder(roots: list[int], children: dict[int, list[int]]) -> list[tuple[int, int]]:
    order = []
    stack = [(root, 0) for root in reversed(roots)]
    while stack:
        node, depth = stack.pop()
        order.append((node, depth))
        stack += [(child, depth + 1) for child in reversed(children.get(node, ()))]
    return order


def render_tree(tree: ScopeTree, width: int) -> list[Text]:
    """The tree's lines: scope, source, count, total, share of warp time, mean, source text."""
    rows = []
    apart = told_apart([((node.scope, node.file, node.line), node.call_path) for node in tree.nodes])
    for at, node in enumerate(tree.nodes):
        source = source_text(node.file, node.line)
        label = "" if node.depth else tree.label
        name = f"{_branch(tree.nodes, at)}{printable(node.scope + apart[at])}{label}"
        figures = [
            duration_text(node.total, tree.unit),
            share_text(node.share),
            duration_text(node.mean, tree.unit),
        ]
        rows.append([name, source, count_text(node.count), *figures, printable(node.text)])
    styles = ["bold" if node.depth == 0 else "dim" if (node.share or 0) < 0.01 else "" for node in tree.nodes]
    columns = [Column("scope", "name"), Column("source", "path", spare=1), Column("count"), Column("total")]
    columns += [Column("share"), Column("mean", spare=2), Column("", "name", spare=3)]
    lines = grid(columns, rows, styles, width)
    if tree.omitted:
        lines.append(Text(f"{tree.omitted} more scopes; --top 0 shows them", style="dim"))
    return lines


def _branch(nodes: list[Node], at: int) -> str:
    depth = nodes[at].depth
    if depth == 0:
        return ""
    marks = ["└ " if _is_last(nodes, at) else "├ "]
    for level in range(depth - 1, 0, -1):
        above = next(index for index in range(at, -1, -1) if nodes[index].depth == level)
        marks.append("  " if _is_last(nodes, above) else "│ ")
    return "".join(reversed(marks))


def _is_last(nodes: list[Node], at: int) -> bool:
    for node in nodes[at + 1 :]:
        if node.depth <= nodes[at].depth:
            return node.depth < nodes[at].depth
    return True
