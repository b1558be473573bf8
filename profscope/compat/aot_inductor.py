"""What Inductor's C++ launches: packages of AOTInductor, and graphs of torch.compile with `cpp_wrapper`. It
cannot be recorded, and a note names the kernels.

Either is a library in C++ that loads cubins of its own and launches them with the driver, and nothing of
that goes by Triton. To a kernel that wants a profile buffer its code gives an uninitialised one, which it
frees behind the launch. So nothing is recorded, and what is called meanwhile is counted.

Used of torch 2.11 to 2.15: `AOTICompiledModel.__call__`, `run` of what `torch._export.aot_load` has, and of
`CompiledFxGraph` its `__call__`, `fx_kwargs`, `device_types` and `source_code`.
"""

from __future__ import annotations

import contextlib
import mmap
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from profscope.compat.after_import import after_import
from profscope.compat.patches import patched
from profscope.compat.torch_parts import mapped_files, missing_attribute, package_runner

__all__ = ["AheadOfTime", "kernels_in", "launches_from_cpp"]

_MODULE: Final = "torch.export.pt2_archive._package"
_GRAPHS: Final = "torch._inductor.output_code"
_IN_TEXT: Final = re.compile(r"\b(?<!\.)triton_[a-z]{3}_fused_\w*?\d+(?=[\"'(. ])")
_DEVICE: Final = "AOTI_DEVICE_KEY"
_LIBRARY: Final = re.compile(r"/\S*(?:/aotinductor/|\.wrapper)\S*\.so$", re.MULTILINE)
_KERNEL: Final = re.compile(rb"(?<=\0)triton_[a-z]{3}_\w+(?=\0)")
_MOST_BYTES: Final = 1 << 26  # of a library: weights stand behind its code
_SHOWN_KERNELS: Final = 4


class AheadOfTime:
    """Installed for the length of a session. packages, graphs: what was called on a GPU."""

    def __init__(self) -> None:
        self.packages = _Called()
        self.graphs = _Called()
        self._unknown: list[str] = []

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Calls in the body of a with statement are counted."""
        with contextlib.ExitStack() as stack:

            def patch(owner: str, wrap: Callable[[Callable[..., Any]], Any], module: ModuleType) -> None:
                if unknown := missing_attribute(module, owner):
                    self._unknown.append(unknown)
                else:
                    stack.enter_context(patched(getattr(module, owner), "__call__", wrap))

            for name, owner, wrap in (
                (_MODULE, "AOTICompiledModel", self.counting),
                (_GRAPHS, "CompiledFxGraph", self.counting_graphs),
            ):
                stack.enter_context(after_import(name, partial(patch, owner, wrap)))
            runner = package_runner()
            if runner is not None:
                stack.enter_context(patched(runner, "run", self.counting))
            yield

    def notes(self) -> list[str]:
        """One line for each kind of which there were calls."""
        said = [
            self.packages.said("models that AOTInductor has compiled", "run the model under torch.compile"),
            self.graphs.said("graphs that torch.compile made with cpp_wrapper=True", "leave that out"),
        ]
        return [*filter(None, said), *(f"calls from C++ are not counted: {each}" for each in self._unknown)]

    def counting(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def counted(model: Any, *args: Any, **options: Any) -> Any:
            result = run(model, *args, **options)
            if launches_from_cpp(model):
                self.packages.add(0, lambda: kernels_in(mapped_files()))  # while the libraries are there
            return result

        return counted

    def counting_graphs(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(graph: Any, inputs: Any) -> Any:
            if launches_from_cpp(graph):
                self.graphs.add(id(graph), lambda: _IN_TEXT.findall(getattr(graph, "source_code", "")))
            return call(graph, inputs)

        return counted


class _Called:
    """Calls of one kind, and the kernels that they launch."""

    def __init__(self) -> None:
        self.calls = 0
        self._kernels: set[str] = set()
        self._seen: set[int] = set()
        self._lock = threading.Lock()

    def add(self, which: int, kernels: Callable[[], Iterable[str]]) -> None:
        """A call of `which`. kernels: finds what that launches, and is asked once."""
        with self._lock:
            self.calls += 1
            if which not in self._seen:
                self._seen.add(which)
                self._kernels.update(kernels())

    def said(self, what: str, mend: str) -> str:
        """One line, "" where there were none."""
        if not self.calls:
            return ""
        kernels = sorted(self._kernels)
        shown = ", ".join(kernels[:_SHOWN_KERNELS]) + ", ..." * (len(kernels) > _SHOWN_KERNELS)
        calls = f"{self.calls} call{'s' * (self.calls != 1)}"
        return (
            f"{calls} of {what} went unrecorded: they launch their kernels ({shown or 'of names not known'}) "
            f"from C++; {mend}, or export a kernel with profscope.export; events=True has their times"
        )


def kernels_in(maps: str) -> list[str]:
    """The Triton kernels of the AOTInductor libraries that a process has loaded, as /proc/self/maps says."""
    names: dict[bytes, None] = {}
    for path in dict.fromkeys(_LIBRARY.findall(maps)):
        with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:  # it is gone, or empty
            length = min(_MOST_BYTES, Path(path).stat().st_size)
            with mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ) as content:
                names |= dict.fromkeys(_KERNEL.findall(content))
    return sorted(name.decode() for name in names)


def launches_from_cpp(called: Any) -> bool:
    """Whether what is called, a model of AOTInductor's or a compiled graph, launches kernels on a GPU."""
    options = getattr(called, "fx_kwargs", None)
    if options is None:
        return _device(called) != "cpu"
    devices = getattr(called, "device_types", ())
    return bool(options.get("cpp_wrapper")) and any(device != "cpu" for device in devices)


def _device(model: Any) -> str:
    """Of a model: "cpu", "cuda"; "" where it does not say."""
    loader = getattr(model, "loader", None)
    return "" if loader is None else str(loader.get_metadata().get(_DEVICE, ""))
