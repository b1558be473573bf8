"""Compiles one kernel for a target, in any Python that has Triton: `profscope compile-diff` passes this text
to `python -c`, so nothing of profscope is imported here.

The request comes as JSON on standard input, and the answer goes to the file that it names:

    file, name   of the kernel
    arguments    of each [name or None, kind, value, what is known of it]; in order if there are no names
    target       "cuda:90"
    options      num_warps and the like
    answer       the file to write
"""

import base64
import importlib
import importlib.util
import json
import math
import sys
from pathlib import Path
from typing import Any

_KEPT = ("num_warps", "num_stages", "num_ctas", "maxnreg", "shared")


def main() -> None:
    request = json.load(sys.stdin)
    try:
        answer = _answer(request)
    except Exception as error:  # noqa: BLE001  # whatever Triton or the file raises is the answer
        lines = str(error).strip().splitlines()
        answer = {"error": f"{type(error).__name__}: {lines[-1] if lines else ''}"}
    Path(request["answer"]).write_text(json.dumps(answer))


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler import compile as compile_kernel

    module = _module(Path(request["file"]).resolve())
    kernel = getattr(module, request["name"])
    while not hasattr(kernel, "arg_names") or hasattr(kernel, "configs"):  # autotuner, heuristics
        kernel = kernel.fn
    kind = ASTSource
    if getattr(kernel, "is_gluon", lambda: False)():
        kind = importlib.import_module("triton.experimental.gluon._runtime").GluonASTSource
    backend, _, arch = request["target"].partition(":")
    target = GPUTarget(
        backend, int(arch) if backend == "cuda" else arch, 64 if arch.startswith("gfx9") else 32
    )
    signature, constants, attributes = _arguments(request["arguments"], list(kernel.arg_names))
    source = kind(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
    built = compile_kernel(source, target=target, options=request["options"])
    texts = {name: str(built.asm.get(name, "")) for name in ("ttgir", "ptx")}
    cubin = built.asm.get("cubin")
    return {
        "triton": triton.__version__,
        **texts,
        "cubin": base64.b64encode(cubin).decode() if isinstance(cubin, bytes) else "",
        "about": {name: getattr(built.metadata, name, None) for name in _KEPT},
        "sources": [_text(kernel, ""), *_helpers(module, kernel)],
    }


def _module(path: Path) -> Any:
    """A file as a module: of its package, if it is in one."""
    root, name = path.parent, path.stem
    while (root / "__init__.py").exists():
        root, name = root.parent, f"{root.name}.{name}"
    sys.path.insert(0, str(root))
    if name != path.stem:
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _arguments(given: list[Any], names: list[str]) -> tuple[dict[str, Any], dict[Any, Any], dict[Any, Any]]:
    """Signature, constexprs by name or path, and attributes by path."""
    if given and given[0][0] is None:
        if len(given) != len(names):
            raise ValueError(f"{len(given)} arguments for {len(names)}: {', '.join(names)}")
        given = [[name, *each[1:]] for name, each in zip(names, given, strict=True)]
    signature: dict[str, Any] = dict.fromkeys(names, "constexpr")
    constants: dict[Any, Any] = {}
    attributes: dict[Any, Any] = {}
    for name, kind, value, known in given:
        first, *inside = str(name).split(".")
        path = (names.index(first), *map(int, inside))
        if kind is not None and not inside:
            signature[first] = tuple(kind) if isinstance(kind, list) else kind
        if kind == "constexpr":
            constants[path if inside else first] = _constant(value)
        if known:
            attributes[path] = [list(each) for each in known]
    return signature, constants, attributes


def _constant(value: Any) -> Any:
    """A constexpr as a profile keeps it: types and infinities as text."""
    import triton.language as tl

    if not isinstance(value, str):
        return value
    if value in ("inf", "-inf", "nan"):
        return math.nan if value == "nan" else float(value)
    kinds = {str(kind): kind for kind in vars(tl).values() if isinstance(kind, tl.dtype)}
    return kinds.get(value, value)


def _helpers(module: Any, kernel: Any) -> list[dict[str, Any]]:
    """The other functions of the module, for lines that moved."""
    known = (value for value in vars(module).values() if value is not kernel and hasattr(value, "raw_src"))
    return [_text(value, value.__name__) for value in known if not value.__module__.startswith("triton.")]


def _text(function: Any, name: str) -> dict[str, Any]:
    file = function.fn.__code__.co_filename
    text = "".join(function.raw_src)
    return {"name": name, "file": file, "line": function.starting_line_number, "text": text}


if __name__ == "__main__":
    main()
