"""Where in a model kernels of torch.compile come from: what generated modules and graphs say together."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

from profscope.compat.origins import OriginTable, Place, collapsed, place_of

_COMPILER_MODULE = "torch._inductor.compile_fx"
_CACHE_MODULE = "torch._inductor.codecache"
_FORWARD = """\
# AOT ID: ['0_forward']
# kernel path: {folder}/norm.py
# Topologically Sorted Source Nodes: [x, layer_norm], Original ATen: [aten.add, aten.native_layer_norm]
# Source node to ATen node mapping:
#   x => add
# Graph fragment:
#   %add : Tensor "f32[8]" = call_function[target=torch.ops.aten.add.Tensor](args = (%a, %b), kwargs = {{}})
triton_per_norm_0 = async_compile.triton('triton_per_norm_0', '''
import triton
''', device_str='cuda')


# kernel path: {folder}/gelu.py
# Topologically Sorted Source Nodes: [linear, gelu], Original ATen: [aten.view, aten.gelu]
triton_poi_gelu_1 = async_compile.triton('triton_poi_gelu_1', '''
import triton
''', device_str='cuda')

def call(args):
        # Source Nodes: [x, layer_norm], Original ATen: [aten.add, aten.native_layer_norm]
        stream0 = get_raw_stream(0)
        triton_per_norm_0.run(arg0_1, buf0, 8, 8, stream=stream0)
        # Topologically Sorted Source Nodes: [linear], Original ATen: [aten.addmm]
        extern_kernels.mm(buf0, arg1_1, out=buf1)
        # Topologically Sorted Source Nodes: [linear, gelu], Original ATen: [aten.view, aten.gelu]
        triton_poi_gelu_1.run(buf1, 8, stream=stream0)
        # Topologically Sorted Source Nodes: [linear_2, gelu_1], Original ATen: [aten.view, aten.gelu]
        triton_poi_gelu_1.run(buf3, 8, stream=stream0)
"""
_BACKWARD = """\
# AOT ID: ['0_backward']
# kernel path: {folder}/back.py
# Unsorted Source Nodes: [gelu, mul_7], Original ATen: [aten.gelu_backward]
triton_poi_back_0 = async_compile.triton('triton_poi_back_0', '''
''', device_str='cuda')
"""
_TORCH = "/site/torch"


def meta(path: str, line: int, kind: type | str = "torch.nn.Linear", stack: str = "nn_module_stack") -> Any:
    trace = f'  File "/home/me/model.py", line {line}, in forward\n    x = self.up(x)\n       ^^^^^^\n'
    return {"stack_trace": trace, stack: {"outer": ("L['self']", "Gpt"), "inner": (path, kind)}}


def node(name: str, meta: dict[str, Any], source: str = "") -> Any:
    if source:
        meta = {**meta, "from_node": [SimpleNamespace(name=source)]}
    return SimpleNamespace(name=name, meta=meta)


def graph(*nodes: Any) -> Any:
    return SimpleNamespace(graph=SimpleNamespace(nodes=nodes))


MODEL = graph(
    node("x", {"stack_trace": '  File "/home/me/model.py", line 3, in forward\n'}),
    node("layer_norm", meta("L['self'].blocks.0.ln", 7)),
    node("linear", meta("L['self'].blocks.0.up", 8)),
    node("gelu", meta("L['self'].blocks.0", 9)),
    node("linear_2", meta("L['self'].blocks.1.up", 8)),
    node("gelu_1", meta("L['self'].blocks.1", 9)),
    node("mul_7", meta("L['self'].wrong", 1)),  # a node of the backward graph is called so, too
)


@pytest.fixture
def inductor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Modules of Inductor's names that compile nothing, and load what is in `tmp_path`. Of graphs, `backward`
    is compiled when it is called."""

    class PyCodeCache:
        modules: ClassVar[list[ModuleType]] = []

        @classmethod
        def load_by_key_path(cls, key: str, path: str) -> ModuleType:
            module = ModuleType(key)
            module.__file__ = path
            cls.modules.append(module)
            return module

    def load(name: str, text: str) -> Any:
        path = tmp_path / f"{name}.py"
        path.write_text(text.format(folder=tmp_path))
        return sys.modules[_CACHE_MODULE].PyCodeCache.load_by_key_path(name, str(path))

    def compile_fx_inner(graph: Any, inputs: Any) -> Any:
        names = [each.name for each in graph.graph.nodes]
        return load("forward", _FORWARD) if "add" in names else load("backward", _BACKWARD)

    def compile_fx(
        model: Any, inputs: Any, inner_compile: Any = compile_fx_inner, patches: Any = None
    ) -> Any:
        if patches:
            return compiler.compile_fx(model, inputs, inner_compile=inner_compile)
        if inputs == "cached":
            load("forward", _FORWARD)
            return load("backward", _BACKWARD)
        forward = graph(
            node("add", model.graph.nodes[0].meta, "x"),
            *(node(f"{each.name}_aten", each.meta, each.name) for each in model.graph.nodes[1:]),
        )
        inner_compile(forward, inputs)
        backward = graph(node("mul_7", meta("L['self'].blocks.1", 9, stack="fwd_nn_module_stack")))
        return lambda: inner_compile(backward, inputs)

    compiler: Any = ModuleType(_COMPILER_MODULE)
    compiler.compile_fx, compiler.compile_fx_inner = compile_fx, compile_fx_inner
    cache: Any = ModuleType(_CACHE_MODULE)
    cache.PyCodeCache = PyCodeCache
    monkeypatch.setitem(sys.modules, _COMPILER_MODULE, compiler)
    monkeypatch.setitem(sys.modules, _CACHE_MODULE, cache)
    before = dict(vars(compiler)), dict(vars(PyCodeCache))
    yield compiler
    assert (dict(vars(compiler)), dict(vars(PyCodeCache))) == before


@pytest.mark.parametrize("patches", [None, {"max_autotune": True}])
def test_kernels_come_from_modules_and_lines(inductor: Any, tmp_path: Path, patches: Any) -> None:
    table = OriginTable()
    with table.watching():
        backward = inductor.compile_fx(MODEL, [], patches=patches)
        backward()  # when it is first needed
    norm, gelu, back = (table.of(f"{tmp_path}/{name}.py") for name in ("norm", "gelu", "back"))
    assert (norm["module"], norm["model_line"]) == ("blocks.0.ln", 7)
    assert norm["ops"] == ["aten.add", "aten.native_layer_norm"]
    assert gelu["module"] == "blocks.*.up, blocks.*"
    assert (gelu["model_file"], gelu["model_line"]) == ("/home/me/model.py", 9)
    assert [place["module"] for place in gelu["places"]] == [
        "blocks.0.up", "blocks.0", "blocks.1.up", "blocks.1",
    ]  # fmt: skip
    assert (back["module"], back["model_line"]) == ("blocks.1", 9)
    # Inductor's caches were in another folder when what its worker had compiled was loaded.
    assert table.of("/other/caches/gelu.py") == gelu
    assert table.of("/another/file.py") == {}


def test_who_still_watches_sees_what_is_compiled_when_another_has_stopped(
    inductor: Any, tmp_path: Path
) -> None:
    table = OriginTable()
    with ExitStack() as session, ExitStack() as first_launch:
        first_launch.enter_context(table.watching())
        backward = inductor.compile_fx(MODEL, [])
        session.enter_context(table.watching())  # at the first launch, of the forward pass
        first_launch.close()
        backward()
    assert table.of(f"{tmp_path}/back.py")["module"] == "blocks.1"


def test_what_comes_from_inductors_cache_has_its_forward_pass_named(inductor: Any, tmp_path: Path) -> None:
    table = OriginTable()
    with table.watching():
        inductor.compile_fx(MODEL, "cached")
    assert table.of(f"{tmp_path}/norm.py")["module"] == "blocks.0.ln"
    assert table.of(f"{tmp_path}/back.py")["module"] == ""  # names of its nodes mean others in the model


def test_of_what_was_compiled_before_the_operations_are_known(inductor: Any, tmp_path: Path) -> None:
    inductor.compile_fx(MODEL, [])()
    assert OriginTable().of(f"{tmp_path}/gelu.py") == {
        "module": "", "model_file": "", "model_line": 0, "ops": ["aten.view", "aten.gelu"], "places": [],
    }  # fmt: skip


def test_another_inductor_compiles_as_it_does(inductor: Any) -> None:
    table = OriginTable()
    load: Any = sys.modules[_CACHE_MODULE].PyCodeCache
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(load, "load_by_key_path")
        compile_fx = inductor.compile_fx
        with table.watching():
            assert inductor.compile_fx is compile_fx
    assert table.unknown.endswith(" has no codecache.PyCodeCache.load_by_key_path")


def test_a_compilation_that_fails_fails_as_it_does(inductor: Any, tmp_path: Path) -> None:
    """And the next one is looked at as ever."""
    table = OriginTable()
    with table.watching():
        with pytest.raises(KeyError, match="the user's"):
            inductor.compile_fx(MODEL, [], inner_compile=fails)
        inductor.compile_fx(MODEL, [])()
    assert table.of(f"{tmp_path}/norm.py")["module"] == "blocks.0.ln"
    assert table.of(f"{tmp_path}/back.py")["module"] == "blocks.1"


def fails(graph: Any, inputs: Any) -> None:
    raise KeyError("the user's")


@pytest.mark.parametrize(
    ("path", "kind", "module"),
    [
        ("L['self'].blocks.0.ln_1", "torch.nn.LayerNorm", "blocks.0.ln_1"),
        ("L['model'].blocks[0].up", "torch.nn.Linear", "blocks.0.up"),
        ("L['self']._modules['blocks']._modules['0']", "my.Block", "blocks.0"),
        ("L['self']._orig_mod.up", "torch.nn.Linear", "up"),
        ("G['model']", "__main__.Gpt", "Gpt"),
        ("L['self']", OriginTable, "OriginTable"),
        ("blocks.0.up", "torch.nn.Linear", "blocks.0.up"),  # as torch.export has it
        ("", "my.Gpt", "Gpt"),
    ],
)
def test_paths_of_modules(path: str, kind: Any, module: str) -> None:
    assert place_of({"nn_module_stack": {"key": (path, kind)}}, _TORCH).module == module


def test_lines_are_the_innermost_outside_of_torch() -> None:
    trace = (
        '  File "/home/me/model.py", line 5, in forward\n    x = self.up(x)\n'
        '  File "/home/me/parts.py", line 8, in up\n    return F.linear(x)\n'
        '  File "/site/torch/nn/modules/linear.py", line 134, in forward\n    return F.linear()\n'
    )
    assert place_of({"stack_trace": trace}, _TORCH) == Place("", "/home/me/parts.py", 8)
    assert place_of({}, _TORCH) == Place()


def test_modules_that_differ_in_numbers_are_one() -> None:
    assert collapsed(["blocks.0.up", "blocks.1.up", "ln", "blocks.0.up"]) == "blocks.*.up, ln"
    assert collapsed(["blocks.3.up", "blocks.3.down"]) == "blocks.3.up, blocks.3.down"
    assert collapsed(["0", "2"]) == "*"
    assert collapsed([]) == ""
