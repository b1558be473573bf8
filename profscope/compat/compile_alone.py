"""Compiles one kernel for a target, in any Python that has Triton: `profscope compile-diff` passes this text
to `python -c`, so nothing of profscope is imported here.

The request comes as JSON on standard input, and the answer goes to the file that it names:

    file, name   of the kernel
    like         its configuration, as a profile's `metadata["variants"]` has it
    target       "cuda:90"
    answer       the file to write
"""

import base64
import importlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_NO_NUMBERS = ("inf", "-inf", "nan")


def main() -> None:
    request = json.load(sys.stdin)
    try:
        answer = _answer(request)
    except Exception as error:  # noqa: BLE001  whatever Triton or the file raises is the answer
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
    while not hasattr(kernel, "raw_src"):  # an autotuner's, or of heuristics
        kernel = kernel.fn
    kind = ASTSource
    if getattr(kernel, "is_gluon", lambda: False)():
        kind = importlib.import_module("triton.experimental.gluon._runtime").GluonASTSource
    backend, _, arch = request["target"].partition(":")
    lanes = 64 if arch.startswith("gfx9") else 32
    target = GPUTarget(backend, int(arch) if backend == "cuda" else arch, lanes)
    options = {name: request["like"][name] for name in _OPTIONS if request["like"].get(name) is not None}
    source = kind(kernel, *_arguments(request["like"], list(kernel.arg_names)))
    built = compile_kernel(source, target=target, options=options)
    return {
        "triton": triton.__version__,
        "ttgir": str(built.asm["ttgir"]),
        "ptx": str(built.asm.get("ptx", "")),
        "cubin": base64.b64encode(built.asm.get("cubin", b"")).decode(),
        "shared_bytes": built.metadata.shared,
        "taken_as_types": {
            name: repr(_constant(value))
            for name, value in request["like"]["constexprs"].items()
            if isinstance(value, str) and not isinstance(_constant(value), str)
        },
        "about": {name: getattr(built.metadata, name, None) for name in _OPTIONS},
        "sources": [_text(kernel, ""), *_helpers(module, kernel)],
    }


def _module(path: Path) -> Any:
    """A file as a module: of its package, if it is in one; else by itself, whatever else has its name."""
    root, name = path.parent, path.stem
    while (root / "__init__.py").exists():
        root, name = root.parent, f"{root.name}.{name}"
    sys.path.insert(0, str(root))
    if "." in name and root != path.parent:
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    spec.loader.exec_module(module)
    return module


def _arguments(like: dict[str, Any], names: list[str]) -> tuple[dict[Any, Any], ...]:
    """Signature, constexprs and attributes. What is inside of a tuple is called `name.1`."""
    signature = {
        name: tuple(kind) if isinstance(kind, list) else kind for name, kind in like["signature"].items()
    }

    def path(name: str) -> tuple[int, ...]:
        first, *inside = name.split(".")
        return (names.index(first), *map(int, inside))

    constants = {path(name): _constant(value) for name, value in like["constexprs"].items()}
    attributes = {path(name): known for name, known in (like.get("specialisation") or {}).items()}
    return signature, constants, attributes


def _constant(value: Any) -> Any:
    """A constexpr as a profile keeps it: types and infinities as text."""
    import triton.language as tl

    if not isinstance(value, str):
        return value
    kinds = {str(kind): kind for kind in vars(tl).values() if isinstance(kind, tl.dtype)}
    return float(value) if value in _NO_NUMBERS else kinds.get(value, value)


def _helpers(module: Any, kernel: Any) -> list[dict[str, Any]]:
    """The other functions of the module, for lines that moved."""
    known = (value for value in vars(module).values() if value is not kernel and hasattr(value, "raw_src"))
    return [_text(value, value.__name__) for value in known]


def _text(function: Any, name: str) -> dict[str, Any]:
    file = function.fn.__code__.co_filename
    text = "".join(function.raw_src)
    return {"name": name, "file": file, "line": function.starting_line_number, "text": text}


if __name__ == "__main__":
    main()
