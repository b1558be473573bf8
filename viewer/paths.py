"""What tells scopes apart that would read the same: the calls that led to them."""

from collections.abc import Hashable, Sequence

from instrument_passes.manifest import PATH_SEPARATOR

__all__ = ["told_apart"]


def told_apart(rows: Sequence[tuple[Hashable, str]]) -> list[str]:
    """For each (what a row reads as, its call path) what to add to its name; "" where nothing need.

    That is " via " and the path without the steps at either end that all rows share which read the same.
    """
    paths: dict[Hashable, set[tuple[str, ...]]] = {}
    for reads, path in rows:
        paths.setdefault(reads, set()).add(tuple(path.split(PATH_SEPARATOR)))
    return [_own_part(tuple(path.split(PATH_SEPARATOR)), list(paths[reads])) for reads, path in rows]


def _own_part(path: tuple[str, ...], alike: list[tuple[str, ...]]) -> str:
    if len(alike) < 2:
        return ""
    shortest = min(map(len, alike))
    first = next((i for i in range(shortest) if len({p[i] for p in alike}) > 1), shortest)
    room = shortest - first
    last = next((i for i in range(room) if len({p[-1 - i] for p in alike}) > 1), room)
    own = PATH_SEPARATOR.join(path[first : len(path) - last])
    return f" via {own}" if own else ""
