"""Loads in the text of a kernel: what each reads through, the loop around it, and what changes in between."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from profscope.analysis.sources import parsed

__all__ = ["Loop", "SourceLoad", "loads_of", "unchanged"]


@dataclass(frozen=True)
class Loop:
    """A loop of the text. line: of its header. header: `range(0, n, B)`, or the condition of a while.

    assigned: by name, the statements in it that assign to it, as texts; the loop's own variable, too.
    """

    line: int
    header: str
    assigned: Mapping[str, tuple[str, ...]] = field(repr=False)


@dataclass(frozen=True)
class SourceLoad:
    """A call of `load`. line: where it begins. pointer: its first argument. names: those in its arguments.

    loop: the innermost around it, None outside of loops.
    """

    line: int
    pointer: str
    names: frozenset[str]
    loop: Loop | None

    @property
    def invariant(self) -> bool:
        """Whether nothing that it reads through changes in its loop: each step reads the same."""
        return self.loop is not None and not any(name in self.loop.assigned for name in self.names)


def loads_of(lines: Mapping[int, str]) -> tuple[SourceLoad, ...]:
    """The loads of the functions in lines of source, by line; none where these do not parse."""
    loads: list[SourceLoad] = []
    for first, text in _blocks(lines):
        tree = parsed(text)
        if tree is None:
            continue
        ast.increment_lineno(tree, first - 1)
        loads += _walk(tree, None)
    return tuple(sorted(loads, key=lambda load: load.line))


def unchanged(lines: Mapping[int, str], earlier: SourceLoad, later: SourceLoad) -> bool:
    """Whether between two loads nothing is assigned to the names of the later one that was not assigned in
    the same words before."""
    if earlier.line == later.line:  # a function that is inlined twice: its arguments may differ
        return False
    before: set[str] = set()
    between: set[str] = set()
    for first, text in _blocks(lines):
        tree = parsed(text)
        if tree is None:
            continue
        ast.increment_lineno(tree, first - 1)
        for node in ast.walk(tree):
            for name, words in _assignments(node):
                if name not in later.names:
                    continue
                line = getattr(node, "lineno", 0)
                if line < earlier.line:
                    before.add(words)
                elif line < later.line:
                    between.add(words)
    return between <= before


def _blocks(lines: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    """Runs of lines without a gap: the number of the first, and the text."""
    run: list[str] = []
    last = None
    for line in sorted(lines):
        if last is not None and line != last + 1:
            yield last - len(run) + 1, "\n".join(run)
            run = []
        run.append(lines[line])
        last = line
    if last is not None:
        yield last - len(run) + 1, "\n".join(run)


def _walk(node: ast.AST, loop: Loop | None) -> Iterator[SourceLoad]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "load":
        parts = [each for part in (*node.args, *node.keywords) for each in ast.walk(part)]
        names = frozenset(each.id for each in parts if isinstance(each, ast.Name))
        pointer = ast.unparse(node.args[0]).replace(" ", "") if node.args else ""
        if pointer:
            yield SourceLoad(node.lineno, pointer, names, loop)
    inside = _loop(node) if isinstance(node, ast.For | ast.While) else loop
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, inside)


def _loop(node: ast.For | ast.While) -> Loop:
    header = ast.unparse(node.iter if isinstance(node, ast.For) else node.test)
    assigned: dict[str, tuple[str, ...]] = {}
    for each in ast.walk(node):
        for name, words in _assignments(each):
            assigned[name] = (*assigned.get(name, ()), words)
    return Loop(node.lineno, header, assigned)


def _assignments(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Names that a statement assigns to, and its words."""
    if isinstance(node, ast.Assign):
        targets: list[ast.expr] = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.NamedExpr):
        targets = [node.target]
    else:
        return
    words = f"for {ast.unparse(node.target)}" if isinstance(node, ast.For) else ast.unparse(node)
    for target in targets:
        for each in ast.walk(target):
            if isinstance(each, ast.Name):
                yield each.id, words
