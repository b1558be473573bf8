"""Answers that several questions need: each is computed once for the tables of a profile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from profscope.schema import ANSWERS, Tables

__all__ = ["asked_once"]

T = TypeVar("T")


def asked_once(question: Callable[[Tables], T]) -> Callable[[Tables], T]:
    """A question whose answer stays with the tables that it is asked of, for as long as they live. Threads
    that ask at the same time wait for one of them. An error is not kept.

    Tables stay as they are once they are asked: other rows make other tables (`dataclasses.replace`), without
    answers. `prof.df` is a frame of its own, and pandas keeps what a user writes there apart from theirs.
    Whoever is given an answer leaves it as it is, too.
    """

    @wraps(question)
    def asked(tables: Tables) -> T:
        # Each in one step, whatever other threads do.
        known: dict[Any, _Answer] = vars(tables).setdefault(ANSWERS, {})
        answer = known.setdefault(question, _Answer())
        with answer.lock:
            if not answer.value:
                answer.value.append(question(tables))
        value: T = answer.value[0]
        return value

    return asked


class _Answer:
    """value: a list of it, empty until it is known."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.value: list[Any] = []
