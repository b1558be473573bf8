"""A call in one of Triton's chains of launch hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from triton import knobs

__all__ = ["ChainedHook"]


class ChainedHook:
    """Adds `call` to one of Triton's hook chains; a user's plain function in its place keeps running."""

    def __init__(self, name: str, call: Callable[..., None]) -> None:
        self._name = name
        self._call = call
        self._before: Any = None
        self._chain: Any = None

    def __enter__(self) -> None:
        self._before = self._chain = getattr(knobs.runtime, self._name)
        if not isinstance(self._before, knobs.HookChain):
            self._chain = knobs.HookChain()
            if self._before is not None:
                self._chain.add(self._before)
            setattr(knobs.runtime, self._name, self._chain)
        self._chain.add(self._call)

    def __exit__(self, *error: object) -> None:
        self._chain.remove(self._call)
        if self._chain is not self._before:
            setattr(knobs.runtime, self._name, self._before)
