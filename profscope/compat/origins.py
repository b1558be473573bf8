"""The lines and modules of a model that torch.compile made kernels of.

Inductor names the graph nodes of each kernel in comments of the module that launches it. The graphs have the
nodes' places in the model, but are gone when a kernel is launched: so they are read while they are compiled,
in a session or under `profscope run`. For kernels compiled earlier only the operations are known. The table
lives as long as the process.

Used of torch 2.11 to 2.15: `compile_fx.compile_fx` and its inner compiler, `PyCodeCache`, and of nodes
`stack_trace`, `nn_module_stack`, `fwd_nn_module_stack` and `from_node`.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from profscope.compat.patches import after_import, replaced
from profscope.compat.torch_parts import missing_attribute

__all__ = ["ORIGINS", "Launched", "OriginTable", "Place", "collapsed", "launched_in", "place_of"]

_COMPILER: Final = "torch._inductor.compile_fx"
_CACHE: Final = "torch._inductor.codecache"
_PATH: Final = re.compile(r"\s*# kernel path: (.+)")
_MADE_OF: Final = re.compile(r"\s*# (?:\w+ )*Source Nodes: \[(.*?)\], Original ATen: \[(.*?)\]")
_BACKWARD: Final = re.compile(r"# AOT ID: \['\w*backward'\]")
_DEFINED: Final = re.compile(r"(\w+) = async_compile\.triton\('")
_RUN: Final = re.compile(r"\s*(\w+)\.run\(")
_FRAME: Final = re.compile(r'File "([^"]+)", line (\d+), in ')
_STEP: Final = re.compile(r"\[['\"]?([^\]'\"]+)['\"]?\]|\.?(\w+)")
_HIDDEN: Final = frozenset(("_modules", "_orig_mod"))
_NUMBER: Final = re.compile(r"(?<=\.)\d+(?=\.|$)|^\d+(?=\.|$)")


class Place(NamedTuple):
    """A place in the model. module: its path, as in `named_modules()`, or the model's class for the model
    itself; line: of `file`, the innermost outside of torch; "" and 0 if unknown."""

    module: str = ""
    file: str = ""
    line: int = 0


class Launched(NamedTuple):
    """The graph nodes that one launch of a kernel computes. nodes: in order; ops: of ATen."""

    nodes: tuple[str, ...]
    ops: tuple[str, ...]


def launched_in(text: str) -> dict[str, list[Launched]]:
    """For each file of a kernel what it is launched for, as the text of a generated module says."""
    files: dict[str, str] = {}  # kernel -> file
    launches: dict[str, list[Launched]] = {}
    file, said = "", None
    for line in text.splitlines():
        if match := _PATH.match(line):
            file = match[1].strip()
        elif match := _MADE_OF.match(line):
            said = Launched(_names(match[1]), _names(match[2]))
        elif match := _DEFINED.match(line):
            files[match[1]] = file
            if said is not None:
                launches.setdefault(file, []).append(said)
            file, said = "", None
        elif (match := _RUN.match(line)) and match[1] in files and said is not None:
            of_file = launches.setdefault(files[match[1]], [])
            if said not in of_file:
                of_file.append(said)
            said = None
    return {file: of_file for file, of_file in launches.items() if file}


def place_of(meta: Mapping[str, Any], torch_folder: str) -> Place:
    """The place of a graph node, by its metadata."""
    frames = _FRAME.findall(meta.get("stack_trace") or "")
    own = [(file, int(line)) for file, line in frames if not file.startswith(torch_folder)]
    file, line = own[-1] if own else ("", 0)
    stack = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack") or {}
    return Place(_module(stack), file, line)


def collapsed(modules: Iterable[str]) -> str:
    """Modules in one text: `blocks.*.up` for those that differ in numbers only."""
    alike: dict[str, list[str]] = {}
    for module in dict.fromkeys(modules):
        alike.setdefault(_NUMBER.sub("*", module), []).append(module)
    return ", ".join(each[0] if len(each) == 1 else pattern for pattern, each in alike.items())


class _Looked(threading.local):
    """Graphs that this thread is compiling, node -> where it is from: the model's, and those made of it, the
    innermost last."""

    def __init__(self) -> None:
        self.model: Mapping[str, Place] | None = None
        self.graphs: list[Mapping[str, Place]] = []


class OriginTable:
    """The places of the kernels of generated files."""

    def __init__(self) -> None:
        self.unknown = ""  # what this torch does not have: then no graph is looked at
        # By generated module and a kernel's file name: what it is launched for, and where that comes from.
        self._modules: dict[str, dict[str, list[tuple[Launched, tuple[Place, ...]]]]] = {}
        self._looked = _Looked()
        self._lock = threading.Lock()
        self._watchers = 0
        self._patches = contextlib.ExitStack()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """In the body of a with statement graphs are looked at when Inductor compiles them.

        Bodies may overlap: a run stops to wait for the first launch when its session has begun.
        """
        with self._lock:
            self._watchers += 1
            if self._watchers == 1:
                self._patches.enter_context(self._patched())
        try:
            yield
        finally:
            with self._lock:
                self._watchers -= 1
                if not self._watchers:
                    self._patches.close()

    @contextlib.contextmanager
    def _patched(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:

            def patch(module: ModuleType) -> None:
                self.unknown = missing_attribute(
                    module, "compile_fx", "compile_fx_inner"
                ) or missing_attribute(sys.modules.get(_CACHE), "PyCodeCache.load_by_key_path")
                if self.unknown:
                    return
                stack.enter_context(replaced(module, "compile_fx", self._watched(module)))
                cache = sys.modules[_CACHE].PyCodeCache
                loading = classmethod(self._loading(cache.load_by_key_path.__func__))
                stack.enter_context(replaced(cache, "load_by_key_path", loading))

            stack.enter_context(after_import(_COMPILER, patch))
            yield

    def of(self, file: str) -> dict[str, Any]:
        """The places of the kernel of a generated file, JSON-able; {} if unknown.

        A file is identified by its name, a hash of its contents. Inductor rewrites files that its workers
        compiled when a session first launches them, maybe in another folder.

        module: as `collapsed`; model_file, model_line: of the last node; ops: of ATen; places: of all nodes.
        """
        for module in _loaded():
            if str(module.__file__) not in self._modules:  # compiled while nobody looked
                self._read(str(module.__file__))
        with self._lock:
            launches = [each for module in self._modules.values() for each in module.get(Path(file).name, ())]
        if not launches:
            return {}
        places = list(dict.fromkeys(place for _, of_launch in launches for place in of_launch))
        last = next((place for place in reversed(places) if place.file), Place())
        return {
            "module": collapsed(place.module for place in places if place.module),
            "model_file": last.file,
            "model_line": last.line,
            "ops": list(dict.fromkeys(op for launched, _ in launches for op in launched.ops)),
            "places": [place._asdict() for place in places],
        }

    def _watched(self, compiler: ModuleType) -> Callable[..., Any]:
        """compile_fx that looks at the graph it is given, and at those it makes of it."""
        compile_fx: Callable[..., Any] = compiler.compile_fx

        @functools.wraps(compile_fx)
        def compile_and_look(model: Any, inputs: Any, *args: Any, **options: Any) -> Any:
            if self._looked.model is not None or args:  # it calls itself
                return compile_fx(model, inputs, *args, **options)
            options["inner_compile"] = self._looking(options.get("inner_compile", compiler.compile_fx_inner))
            self._looked.model = _nodes(model)
            try:
                return compile_fx(model, inputs, **options)
            finally:
                self._looked.model = None

        return compile_and_look

    def _looking(self, compile: Callable[..., Any]) -> Callable[..., Any]:
        """What compiles a graph, its first argument; what is loaded meanwhile was made of it."""

        @functools.wraps(compile)
        def compile_looked_at(graph: Any, *args: Any, **options: Any) -> Any:
            self._looked.graphs.append(_nodes(graph))  # before it is changed
            try:
                return compile(graph, *args, **options)
            finally:
                self._looked.graphs.pop()

        return compile_looked_at

    def _loading(self, load: Callable[..., ModuleType]) -> Callable[..., ModuleType]:
        """PyCodeCache.load_by_key_path that notes of which graphs a module was made."""

        @functools.wraps(load)
        def load_and_read(cache: Any, key: str, path: str, *args: Any, **options: Any) -> ModuleType:
            looked = self._looked
            if looked.graphs or looked.model is not None:
                self._read(path, looked.graphs, looked.model)
            return load(cache, key, path, *args, **options)

        return load_and_read

    def _read(
        self,
        path: str,
        graphs: Sequence[Mapping[str, Place]] = (),
        model: Mapping[str, Place] | None = None,
    ) -> None:
        """Note what a generated module says. graphs, model: those that it was made of."""
        try:
            text = Path(path).read_text()
        except (OSError, UnicodeDecodeError):  # it is gone: then its kernels have no origin
            text = ""
        near = list(reversed(graphs))
        if model is not None and not _BACKWARD.search(text):  # whose nodes have names of their own
            near.append(model)

        def places(launched: Launched) -> tuple[Place, ...]:
            known = (next((graph[node] for graph in near if node in graph), None) for node in launched.nodes)
            return tuple(dict.fromkeys(place for place in known if place is not None))

        launches = {
            Path(file).name: [(launched, places(launched)) for launched in of_file]
            for file, of_file in launched_in(text).items()
        }
        with self._lock:
            self._modules[path] = launches


ORIGINS: Final = OriginTable()


def _loaded() -> list[ModuleType]:
    """What Inductor has generated and loaded."""
    cache = getattr(sys.modules.get(_CACHE), "PyCodeCache", None)
    return [] if cache is None else list(cache.modules)


def _nodes(graph: Any) -> dict[str, Place]:
    """Where the nodes of a graph come from, by the names that the comments have for them."""
    nodes = getattr(getattr(graph, "graph", None), "nodes", ())
    folder = str(Path(sys.modules["torch"].__file__ or "").parent)
    places: dict[str, Place] = {}
    for node in nodes:
        origin = node.meta.get("from_node")
        name = getattr(origin[0], "name", node.name) if origin else node.name
        place = place_of(node.meta, folder)
        if place != Place():
            places.setdefault(name, place)
    return places


def _names(listed: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in listed.split(",") if name.strip())


def _module(stack: Mapping[str, Any]) -> str:
    """The innermost of a node's stack of modules: its path in the model; of the model itself its class."""
    if not stack:
        return ""
    path, kind = list(stack.values())[-1][:2]
    steps = [quoted or plain for quoted, plain in _STEP.findall(str(path))]
    if str(path).startswith(("L[", "G[")):  # the variable that the model is in
        steps = steps[2:]
    steps = [step for step in steps if step not in _HIDDEN]
    return ".".join(steps) or getattr(kind, "__name__", str(kind)).rpartition(".")[2]
