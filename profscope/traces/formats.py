"""The formats that have a file in a folder: adding the file is all that makes a format known."""

import pkgutil
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from profscope.errors import OptionError
from profscope.installed import EXTRAS, require
from profscope.traces import exporters
from profscope.traces.exporters import PACKED
from profscope.traces.parquet_names import is_folder_name

__all__ = ["GZIP", "exporter_named", "format_names", "own_suffix"]

GZIP = ".gz"


def format_names(folder: ModuleType, own: Sequence[str]) -> list[str]:
    """The names of a folder's files: `own`, profscope's own formats, first, then the others by name.

    Nothing is imported. A file whose name begins with an underscore is no format.
    """
    names = {file.name for file in pkgutil.iter_modules(folder.__path__) if not file.name.startswith("_")}
    return [*own, *sorted(names.difference(own))]


def own_suffix(file_name: str, given: str) -> tuple[str, str]:
    """The suffix of a file to write, without `.gz`, and the exporter of that name.

    given: the path, as an error names it. Raises OptionError for a suffix that no exporter has, and for a
    format whose extra is not installed.
    """
    names = {f".{name.replace('_', '.')}": name for name in format_names(exporters, exporters.OWN)}
    fitting = [suffix for suffix, name in names.items() if _fits(file_name, suffix, name)]
    if not fitting:
        known = ", ".join(
            suffix + f", {suffix}{GZIP}" * (name not in PACKED) for suffix, name in names.items()
        )
        raise OptionError(
            f"cannot save {given!r}: the suffix must be one of {known}, or the path end in / for a folder"
        )
    suffix = max(fitting, key=len)
    if names[suffix] in EXTRAS:
        require(names[suffix], f"cannot save {given!r}: {suffix}", OptionError)
    return suffix, names[suffix]


def exporter_named(path: str | Path, name: str | None = None) -> str:
    """The exporter for a path to save to: of that name, or that of its suffix; "parquet" for a folder.

    Raises OptionError where there is none, or its extra is not installed.
    """
    given = str(path)
    if name is not None and name not in format_names(exporters, exporters.OWN):
        known = ", ".join(format_names(exporters, exporters.OWN))
        raise OptionError(f"there is no format {name!r}; there are: {known}")
    if is_folder_name(path):
        if name not in (None, "parquet"):
            raise OptionError(f"cannot save {given!r}: only Parquet is written as a folder")
        name = "parquet"
    chosen = name or own_suffix(Path(path).name, given)[1]
    if chosen in EXTRAS:
        require(chosen, f"cannot save {given!r}: {chosen}", OptionError)
    return chosen


def _fits(file_name: str, suffix: str, name: str) -> bool:
    return (file_name if name in PACKED else file_name.removesuffix(GZIP)).endswith(suffix)
