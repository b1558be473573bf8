"""The report below a cell of a notebook."""

from __future__ import annotations

import sys
from typing import Any, Final

from profscope.analysis.texts import tag
from profscope.errors import DrawError
from profscope.schema import Tables
from profscope.threads import worker_pool
from profscope.traces.html.document import document

__all__ = ["framed", "show"]

_LEAST, _MOST = 100, 10_000
_ELSEWHERE: Final = (
    "prof.show() puts the report below a cell of a notebook, and this is none: prof.save('report.html') "
    "writes it to a file for a browser, and print(prof.findings().to_string()) says the most of it here"
)


def show(tables: Tables, height: int) -> None:
    """See `Questions.show`."""
    if isinstance(height, bool) or not isinstance(height, int) or not _LEAST <= height <= _MOST:
        raise DrawError(f"prof.show(): height={height!r} is a number of pixels, {_LEAST} to {_MOST:,}")
    if not _in_notebook():
        raise DrawError(_ELSEWHERE)
    from IPython.display import display

    data = {"text/html": framed(tables, height), "text/plain": "the report of profscope (HTML)"}
    display(data, raw=True)  # type: ignore[no-untyped-call]


def framed(tables: Tables, height: int) -> str:
    """The report in a frame, as HTML. What is in it may run the report's own script, and sees nothing of the
    notebook around it."""
    with worker_pool() as pool:
        page = document(tables, pool)
    return tag(
        "iframe", srcdoc=page, sandbox="allow-scripts", width="100%", height=height, title="profscope report",
        style="border: 1px solid rgba(128, 128, 128, 0.4); border-radius: 4px",
    )  # fmt: skip


def _in_notebook() -> bool:
    """Whether a front end that shows HTML drives this process. IPython itself is never imported for that."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None
