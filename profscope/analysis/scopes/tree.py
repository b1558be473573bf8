"""The scope tree: nested scopes in program order, with source lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from profscope.analysis.model.labels import Group
from profscope.analysis.scopes.table import RowFilter
from profscope.analysis.sources import SourceLines
from profscope.analysis.spans.pieces import Numbers, numbers_by
from profscope.analysis.spans.rows import SITE_COLUMNS, Ints, group_keys, scales
from profscope.analysis.spans.summing import SummedSpans, summed_spans, sums_by
from profscope.schema import Tables

__all__ = ["Node", "ScopeTree", "make_trees"]


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
    tables: Tables,
    groups: Sequence[Group],
    unit: str,
    limit: int,
    lines: SourceLines,
    chosen: RowFilter | None = None,
    spans: SummedSpans | None = None,
) -> list[ScopeTree]:
    """The trees of some groups, the `limit` heaviest nodes of each (0: all), with their source lines.

    chosen: the nodes that are shown, with those around them. spans: what the summary adds up, if
    known.
    """
    chosen = chosen or RowFilter()
    drawn = _of_spans(tables, unit, spans)
    children: dict[int, list[int]] = {}
    for at, scope in enumerate(drawn):
        children.setdefault(scope.parent, []).append(at)
    trees = []
    for group in groups:
        key = group.kernel, group.variant
        own = [root for root in children.get(-1, ()) if drawn[root].group == key]
        warp_time = sum(drawn[root].total for root in own)
        nodes = []
        for at, depth in _preorder(own, children):
            scope = drawn[at]
            name, kind, file, line, call_path = scope.place
            figures: dict[str, Any] = {"count": scope.count, "total": scope.total}
            share = None if kind == "async" or not warp_time else scope.total / warp_time
            figures |= {"mean": scope.total / scope.count, "share": share}
            text = lines(file, line)
            nodes.append(Node(name, kind, file, line, call_path, text, depth, **figures))
        nodes = _leading_to(nodes, chosen)
        shown = _heaviest(nodes, limit) if limit else nodes
        trees.append(
            ScopeTree(
                **group.identity,
                unit=unit,
                nodes=shown,
                omitted=len(nodes) - len(shown),
            )
        )
    return trees


def _heaviest(nodes: list[Node], most: int) -> list[Node]:
    """Those with the greatest share, what is in flight last, and none without what is around it. In order."""
    around: list[int] = []  # of the node that is looked at, itself last
    ways = []
    for at, node in enumerate(nodes):
        around = [*around[: node.depth], at]
        ways.append(around)
    kept: set[int] = set()
    for at in sorted(range(len(nodes)), key=lambda at: (-(nodes[at].share or 0.0), at)):
        if len(kept | {*ways[at]}) <= most:
            kept |= {*ways[at]}
    return [nodes[at] for at in sorted(kept)]


def _leading_to(nodes: list[Node], chosen: RowFilter) -> list[Node]:
    """The nodes that are chosen, and those on the way to them."""
    if chosen.are_all:
        return nodes
    wanted = {id(node) for node in chosen.chosen(nodes)}
    kept: list[Node] = []
    level = 0  # of the node that is yet to be reached
    for node in reversed(nodes):
        if id(node) in wanted or node.depth < level:
            kept.append(node)
            level = node.depth
    return kept[::-1]


@dataclass
class _Scope:
    """A path of scopes from a root. group: kernel and variant; parent: the place of the path less its
    last step among all, -1 at a root; place: scope, kind, file, line, call path."""

    group: tuple[str, int]
    parent: int
    place: tuple[str, str, str, int, str]
    count: int
    total: int


def _of_spans(tables: Tables, unit: str, spans: SummedSpans | None) -> list[_Scope]:
    """In order of first appearance."""
    if tables.df.empty:
        return []
    spans = summed_spans(tables) if spans is None else spans
    node, parent, first_row = _paths(spans)
    duration, launch = spans.durations._asdict()[unit], spans.df["launch"].to_numpy()
    scale = scales(tables)  # estimates for the whole grid, as in the summary

    def values(part: slice) -> dict[str, Any]:
        weight = np.ones(part.stop - part.start, np.int64) if scale is None else scale.of(launch[part])
        return {"count": weight, "total": duration[part].astype(np.int64) * weight}

    sums = sums_by(node, len(parent), spans.parts, values)
    places, groups = _places(spans.rows), group_keys(spans.rows)
    return [
        _Scope(groups[at], above, places[at], times, took)
        for at, above, times, took in zip(
            spans.row[first_row].tolist(),
            parent.tolist(),
            sums["count"].tolist(),
            sums["total"].tolist(),
            strict=True,
        )
    ]


def _places(table: pd.DataFrame) -> list[tuple[str, str, str, int, str]]:
    columns = (table[name].astype("int64" if name == "line" else "str").tolist() for name in SITE_COLUMNS[1:])
    return list(zip(*columns, strict=True))


def _paths(spans: SummedSpans) -> tuple[Numbers, Ints, Ints]:
    """Number the distinct paths of the summary's rows from the root, in order of first appearance.

    Returns each span's path, and each path's parent (-1 at the root) and first span.
    """
    above, size = spans.df["parent"].to_numpy(), len(spans.rows)
    node, count = spans.row, size
    while True:  # a path is a row inside of a path: once a round finds no more, all steps are told apart

        def key_of(part: slice, node: Numbers = node) -> Ints:
            inside = above[part] >= 0
            outer = node[part][np.where(inside, above[part] - part.start, 0)].astype(np.int64) + 1
            return outer * inside * size + spans.row[part]

        numbered = numbers_by(key_of, spans.parts, (count + 1) * size)
        if len(numbered.first) == count:
            return node, numbered.key // size - 1, numbered.first
        node, count = numbered.number, len(numbered.first)


def _preorder(roots: list[int], children: dict[int, list[int]]) -> list[tuple[int, int]]:
    order = []
    stack = [(root, 0) for root in reversed(roots)]
    while stack:
        node, depth = stack.pop()
        order.append((node, depth))
        stack += [(child, depth + 1) for child in reversed(children.get(node, ()))]
    return order
