"""A kernel for launchers without Python: its instrumented binary, and what they must know of it, in files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from profscope.aot.c_header import c_header
from profscope.aot.description import COMPILED_IN, Description
from profscope.errors import OptionError
from profscope.installed import require
from profscope.options import Options
from profscope.traces.output import whole_file

__all__ = ["export"]


def export(
    kernel: Any,
    signature: Mapping[str, Any],
    path: str | Path,
    *,
    target: str | None = None,
    num_warps: int = 4,
    num_stages: int = 3,
    num_ctas: int = 1,
    maxnreg: int | None = None,
    **options: Any,
) -> Description:
    """Compile a kernel ahead of time with its records: `path` with `.cubin`, `.json` and `.h` behind it.

        profscope.export(softmax_kernel, {"out_ptr": "*fp32:16", "in_ptr": "*fp32:16", "rows": "i32",
                         "cols": "i32", "BLOCK": 1024}, "build/softmax", target="cuda:90")

    signature: for each argument its type, as Triton's own compiler takes it, or the value to be compiled in.
    target: "cuda:90"; the GPU that is there by default. num_warps, num_stages, num_ctas, maxnreg: as at a
    launch. options: those of `session()` that are compiled in: instrument, measure, sources.

    Returns what the JSON file says (see `Description`). `profscope.decode` reads what a launch wrote.

    Raises OptionError for a bad argument, CompileError where the kernel cannot be compiled, or cannot be
    instrumented, and OSError if a file cannot be written.
    """
    require("triton", "profscope.export()")
    from profscope.aot.compiling import compiled, described, target_of

    for name in options:
        if name not in COMPILED_IN:
            raise OptionError(f"export: no option {name!r}; there are {', '.join(COMPILED_IN)}")
    chosen = Options(**options)
    configuration = {
        "num_warps": num_warps,
        "num_stages": num_stages,
        "num_ctas": num_ctas,
        "maxnreg": maxnreg,
    }
    function, said, binary = compiled(kernel, signature, target_of(target), chosen, configuration)
    cubin: bytes = binary.asm["cubin"]
    path = Path(path)
    document = described(function, binary, said, chosen)
    document |= {"cubin": f"{path.name}.cubin", "sha256": hashlib.sha256(cubin).hexdigest()}
    files = {
        ".cubin": cubin,
        ".json": json.dumps(document, indent=1).encode(),
        ".h": c_header(path.name, document).encode(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    for suffix, data in files.items():
        with whole_file(path.with_name(path.name + suffix)) as file:
            file.write(data)
    return Description(document)
