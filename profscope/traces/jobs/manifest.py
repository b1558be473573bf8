"""`_ranks.json` in a job's folder: where the part of each rank is, and how many spans it has.

    {"schema": "profscope-ranks/1", "parts": {"0": {"path": "rank=0/trace.parquet", "spans": 199936}}}

`profscope run` writes it when a launcher ends; any program may. It saves a reader the look into each folder,
which takes long on a store of objects, and is needed where folders cannot be listed, as by HTTP. Parts that
it does not name are found by their folders. Spark passes over files whose names begin with an underscore.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from profscope.errors import TraceError
from profscope.traces.output import whole_file

__all__ = ["MANIFEST_START", "NAME", "StatedPart", "read_manifest", "write_manifest"]

NAME: Final = "_ranks.json"
_SCHEMA: Final = "profscope-ranks/1"
MANIFEST_START: Final = f'{{"schema": "{_SCHEMA}"'.encode()

StatedPart = tuple[Path, int | None]
"""Where a part is, and how many spans it has, None if not known."""


def read_manifest(folder: Path) -> dict[int, StatedPart]:
    """By rank; empty without a manifest. Raises TraceError for one that is damaged or names other folders."""
    path = folder / NAME
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        document = json.loads(content)
        if document["schema"] != _SCHEMA:
            raise ValueError(f"its schema is {document['schema']!r}")
        stated = {_rank(rank): _stated(folder, part) for rank, part in document["parts"].items()}
        if len({part for part, _ in stated.values()}) < len(stated):
            raise ValueError("it names one part for several ranks")
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise TraceError(f"{path} is no list of ranks: {why}"[:300]) from error
    return stated


def _rank(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text!r} is no rank")
    return int(text)


def _stated(folder: Path, part: Mapping[str, Any]) -> StatedPart:
    relative = PurePosixPath(part["path"])
    if relative.is_absolute() or ".." in relative.parts or "://" in part["path"]:
        raise ValueError(f"{part['path']!r} is outside of the folder")
    if relative.name in ("", NAME):
        raise ValueError(f"{part['path']!r} is no part of a rank")
    spans = part.get("spans")
    if spans is not None and (type(spans) is not int or spans < 0):
        raise ValueError(f"{spans!r} spans")
    return folder / part["path"], spans


def write_manifest(folder: Path, paths: Mapping[int, Path], spans: Mapping[int, int]) -> None:
    """Write the manifest of these parts, by rank, whole or not at all. spans: of those where it is known.

    Raises OSError.
    """
    parts = {
        str(rank): {"path": path.relative_to(folder).as_posix(), "spans": spans.get(rank)}
        for rank, path in sorted(paths.items())
    }
    with whole_file(folder / NAME) as file:
        file.write(json.dumps({"schema": _SCHEMA, "parts": parts}).encode() + b"\n")
