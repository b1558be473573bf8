"""A kernel compiled with its records, by Triton and with no launch, and what a launcher must know of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, NamedTuple

import triton

from profscope.aot.decoding import COMPILED_IN, SCHEMA, Parameter, profile_layout
from profscope.compat.compiling import RecordedCompiler
from profscope.compat.programs import manifest_in
from profscope.compat.triton_parts import GPUTarget, JITFunction, driver, source_class
from profscope.dispatch.recording_stages import RecordingStages
from profscope.errors import CompileError, OptionError
from profscope.instrument_passes.manifest import Manifest
from profscope.options import Options
from profscope.recording.builds import build_of, ptx_of
from profscope.version import __version__

__all__ = ["Signature", "compiled", "described", "target_of"]

_ENTRY: Final = re.compile(r"\.visible \.entry (\w+)\(([^)]*)\)", re.DOTALL)
_PARAMETER: Final = re.compile(r"\.param (?:\.align \d+ )?\.[busf](\d+)")
_CAPABILITIES: Final = (70, 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121)
_HIDDEN: Final = ("global_scratch", "profile_scratch")


# As Triton spells the types that go to a kernel as they are.
_TYPE: Final = re.compile(r"\*k?\w+|[iu](1|8|16|32|64)|fp(16|32|64)|bf16")
_DIVISIBLE: Final = 16  # the only hint that changes code, beside a value of 1, which is a constant
_EXAMPLE: Final = '"*fp32:16", "i32", or a value, which is compiled in'


def compiled(
    kernel: Any,
    signature: Mapping[str, Any],
    target: GPUTarget,
    options: Options,
    configuration: dict[str, Any],
) -> tuple[Any, Signature, Any]:
    """The function, its signature, and its instrumented binary.

    Raises OptionError and CompileError.
    """
    function = kernel
    while not isinstance(function, JITFunction) and hasattr(function, "fn"):  # autotuners and heuristics
        function = function.fn
    if not isinstance(function, JITFunction):
        raise OptionError(f"export: {kernel!r} is not a @triton.jit or @gluon.jit function")
    said = Signature.of(function.__name__, list(function.arg_names), signature)
    source = source_class(function)(
        fn=function, signature=said.types, constexprs=said.constants, attrs=said.attributes
    )
    given = {name: value for name, value in configuration.items() if value is not None}
    compiler = RecordedCompiler(options.digest(__version__), RecordingStages(options))
    with compiler.recording():
        try:
            return function, said, triton.compile(source, target=target, options=given)
        except CompileError:
            raise
        except Exception as error:  # whatever Triton raises of a kernel's own mistakes
            raise CompileError(f"kernel {function.__name__}: {error}") from error


def target_of(said: str | None) -> GPUTarget:
    """The target that a name says; that of the GPU that is there for None. Raises OptionError for what is no
    GPU of NVIDIA's, or none that Triton compiles for: its own error would be the whole assembly."""
    if said is None:
        try:
            active = driver.active.get_current_target()
        except RuntimeError as error:  # Triton's, which counts drivers
            raise OptionError('export: there is no GPU here; name one, such as target="cuda:90"') from error
        said = f"{active.backend}:{active.arch}"
    backend, _, arch = said.partition(":") if isinstance(said, str) else ("", "", "")
    if backend != "cuda" or not arch.isdigit():
        raise OptionError(f'target={said!r}: kernels are exported for NVIDIA GPUs, such as target="cuda:90"')
    if int(arch) not in _CAPABILITIES:
        known = ", ".join(map(str, _CAPABILITIES))
        raise OptionError(f"target={said!r}: Triton compiles for cuda: and one of {known}")
    return GPUTarget("cuda", int(arch), 32)


def _manifest(binary: Any) -> Manifest:
    """Raises CompileError where the binary records nothing."""
    manifest = manifest_in(binary.asm["ttgir"])
    if manifest is None:
        raise CompileError(f"kernel {binary.name} cannot be instrumented: nothing of it is recorded")
    return manifest


def described(function: Any, binary: Any, signature: Signature, options: Options) -> dict[str, Any]:
    """What `Description.document` says of a binary, but for its file. Raises CompileError where it records
    nothing."""
    manifest = _manifest(binary)
    build = build_of(binary)
    metadata = binary.metadata
    return {
        "tool": "profscope export",
        "schema": SCHEMA,
        "profscope": __version__,
        "triton": triton.__version__,
        "target": f"{metadata.target.backend}:{metadata.target.arch}",
        "kernel": function.__name__,
        "entry": binary.name,
        "parameters": [asdict(each) for each in _parameters(binary, signature)],
        "launch": {
            "threads_per_cta": int(metadata.num_warps) * metadata.target.warp_size,
            "shared_bytes": int(metadata.shared),
            "cluster": int(metadata.num_ctas),
            "cooperative": bool(getattr(metadata, "launch_cooperative_grid", False)),
            "programmatic": bool(getattr(metadata, "launch_pdl", False)),
        },
        "global_scratch": {
            "bytes_per_cta": int(metadata.global_scratch_size or 0),
            "alignment": int(metadata.global_scratch_align or 1),
        },
        "profile": profile_layout(manifest),
        "options": {name: options.described()[name] for name in COMPILED_IN},
        "build": (build if options.sources else replace(build, sources=())).to_json(),
        "manifest": json.loads(manifest.to_json()),
    }


def _parameters(binary: Any, signature: Signature) -> list[Parameter]:
    """Those of the function in the PTX: the arguments that are passed, and two that Triton adds.

    Raises CompileError where it has others: a launcher of this Triton's would pass something else.
    """
    entries = {name: _PARAMETER.findall(text) for name, text in _ENTRY.findall(ptx_of(binary))}
    sizes = [int(bits) // 8 for bits in entries.get(binary.name, ())]
    named = [(name, signature.types[name], False) for name in signature.passed]
    named += [(name, "*i8", True) for name in _HIDDEN]
    if len(sizes) != len(named):
        raise CompileError(
            f"kernel {binary.name}: its PTX has {len(sizes)} parameters where its signature and Triton's two "
            f"hidden ones make {len(named)}"
        )
    return [
        Parameter(name, kind, size, hidden) for (name, kind, hidden), size in zip(named, sizes, strict=True)
    ]


class Signature(NamedTuple):
    """types: by argument, "constexpr" where a value is compiled in; constants: these values; attributes: by
    position, what Triton knows of the argument."""

    types: dict[str, str]
    constants: dict[str, Any]
    attributes: dict[tuple[int], list[list[Any]]]

    @property
    def passed(self) -> list[str]:
        """The arguments that are passed at a launch, in their order."""
        return [name for name, kind in self.types.items() if kind != "constexpr"]

    @staticmethod
    def of(kernel: str, names: Sequence[str], given: Mapping[str, Any]) -> Signature:
        """The signature of a kernel whose arguments have these names.

        given: for each a type as Triton writes it, with ":16" behind it where the value, or the address, is a
        multiple of 16; any other value is compiled in. Raises OptionError naming the argument.
        """
        if not isinstance(given, Mapping):
            raise OptionError(f"signature={given!r} must be a dict: for each argument {_EXAMPLE}")
        if strange := [name for name in given if name not in names]:
            raise OptionError(
                f"signature: {kernel} has no argument {strange[0]!r}; it has {', '.join(names)}"
            )
        if missing := [name for name in names if name not in given]:
            raise OptionError(f"signature: {kernel} needs {', '.join(missing)}, too: {_EXAMPLE}")
        types, constants, attributes = {}, {}, {}
        for position, name in enumerate(names):
            said = given[name]
            types[name], hint = _split(name, said) if isinstance(said, str) else ("constexpr", "")
            if types[name] == "constexpr":
                constants[name] = said
            elif hint == "1":
                types[name], constants[name] = "constexpr", 1
            elif hint:
                attributes[(position,)] = [["tt.divisibility", _DIVISIBLE]]
        return Signature(types, constants, attributes)


def _split(name: str, said: str) -> tuple[str, str]:
    """Type and hint of an argument."""
    kind, _, hint = (part.strip() for part in said.partition(":"))
    if kind.startswith(("tensordesc", "nvTmaDesc")):
        raise OptionError(
            f"signature: {name} is {said!r}: descriptors of the host are made by Triton's own launcher; make "
            "it in the kernel, with tl.make_tensor_descriptor"
        )
    if not _TYPE.fullmatch(kind):
        raise OptionError(f"signature: {name} is {said!r}, no type of Triton's; write {_EXAMPLE}")
    if hint not in ("", "1", str(_DIVISIBLE)):
        raise OptionError(f"signature: {name} is {said!r}; the hints are :{_DIVISIBLE} and :1")
    return kind, hint
