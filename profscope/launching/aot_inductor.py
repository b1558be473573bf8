"""Models that AOTInductor has compiled: their kernels cannot be recorded, and a note names them.

A package is a library in C++ that loads cubins of its own and launches them with the driver, and nothing of
that goes by Triton. To a kernel that wants a profile buffer its code gives an uninitialised one, which it
frees behind the launch. So nothing is recorded, and what is called meanwhile is counted.

Used of torch 2.11 to 2.15: `AOTICompiledModel.__call__`, and `run` of what `torch._export.aot_load` has.
"""

from __future__ import annotations

import contextlib
import mmap
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch

from profscope.recording.after_import import after_import
from profscope.recording.patches import patched
from profscope.recording.processes import mapped_files

__all__ = ["AheadOfTime", "kernels_in"]

_MODULE: Final = "torch.export.pt2_archive._package"
_DEVICE: Final = "AOTI_DEVICE_KEY"
_LIBRARY: Final = re.compile(r"/\S*(?:/aotinductor/|\.wrapper)\S*\.so$", re.MULTILINE)
_KERNEL: Final = re.compile(rb"(?<=\0)triton_[a-z]{3}_\w+(?=\0)")
_MOST_BYTES: Final = 1 << 26  # of a library: weights stand behind its code
_SHOWN_KERNELS: Final = 4


class AheadOfTime:
    """Installed for the length of a session. calls: of models on a GPU."""

    def __init__(self) -> None:
        self.calls = 0
        self._kernels: list[str] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Calls in the body of a with statement are counted."""
        with contextlib.ExitStack() as stack:

            def patch(module: ModuleType) -> None:
                stack.enter_context(patched(module.AOTICompiledModel, "__call__", self._counting))

            stack.enter_context(after_import(_MODULE, patch))
            runner = getattr(getattr(torch._C, "_aoti", None), "AOTIModelContainerRunnerCuda", None)
            if runner is not None:
                stack.enter_context(patched(runner, "run", self._counting))
            yield

    def notes(self) -> list[str]:
        """One line where there were such calls."""
        if not self.calls:
            return []
        shown = ", ".join(self._kernels[:_SHOWN_KERNELS]) + ", ..." * (len(self._kernels) > _SHOWN_KERNELS)
        calls = f"{self.calls} call{'s' * (self.calls != 1)}"
        return [
            f"{calls} of models that AOTInductor has compiled went unrecorded: they launch their kernels "
            f"({shown or 'of names not known'}) from C++; run the model under torch.compile, or export a "
            "kernel with profscope.export; events=True has their times"
        ]

    def _counting(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def counted(model: Any, *args: Any, **options: Any) -> Any:
            result = run(model, *args, **options)
            if _device(model) != "cpu":
                with self._lock:
                    self.calls += 1
                    if self.calls == 1:  # while the libraries are there
                        self._kernels = kernels_in(mapped_files())
            return result

        return counted


def kernels_in(maps: str) -> list[str]:
    """The Triton kernels of the AOTInductor libraries that a process has loaded, as /proc/self/maps says."""
    names: dict[bytes, None] = {}
    for path in dict.fromkeys(_LIBRARY.findall(maps)):
        with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:  # it is gone, or empty
            length = min(_MOST_BYTES, Path(path).stat().st_size)
            with mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ) as content:
                names |= dict.fromkeys(_KERNEL.findall(content))
    return sorted(name.decode() for name in names)


def _device(model: Any) -> str:
    """Of a model: "cpu", "cuda"; "" where it does not say."""
    loader = getattr(model, "loader", None)
    return "" if loader is None else str(loader.get_metadata().get(_DEVICE, ""))
