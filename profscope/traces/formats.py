"""The formats that have a file in a folder: adding the file is all that makes a format known."""

import pkgutil
from collections.abc import Sequence
from types import ModuleType

__all__ = ["format_names"]


def format_names(folder: ModuleType, own: Sequence[str]) -> list[str]:
    """The names of a folder's files: `own`, profscope's own formats, first, then the others by name.

    Nothing is imported. A file whose name begins with an underscore is no format.
    """
    names = {file.name for file in pkgutil.iter_modules(folder.__path__) if not file.name.startswith("_")}
    return [*own, *sorted(names.difference(own))]
