"""What profscope needs of torch's own inside, and what to say where a version of torch does not have it."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["missing_attribute", "package_runner"]


def package_runner() -> Any:
    """The class whose `run` runs a package of AOTInductor's on a GPU; None if this torch has none."""
    inside = getattr(sys.modules.get("torch"), "_C", None)
    return getattr(getattr(inside, "_aoti", None), "AOTIModelContainerRunnerCuda", None)


def missing_attribute(owner: Any, *names: str) -> str:
    """ "torch 2.16.0 has no CachingAutotuner.run": the first of these attributes, each "name" or "name.name",
    that `owner`, a module, a class or an object, does not have. "" where it has them all."""
    for name in names:
        value = owner
        for part in name.split("."):
            if not hasattr(value, part):
                whose = getattr(owner, "__name__", type(owner).__name__).rpartition(".")[2]
                version = getattr(sys.modules.get("torch"), "__version__", "of this version")
                return f"torch {version} has no {whose}.{name}"
            value = getattr(value, part)
    return ""
