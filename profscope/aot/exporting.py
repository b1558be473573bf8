"""A kernel for launchers without Python: its instrumented binary, and what they must know of it, in files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from profscope.aot.decoding import COMPILED_IN, Description
from profscope.errors import OptionError
from profscope.installed import require
from profscope.options import Options
from profscope.traces.output import whole_file
from profscope.traces.own_files import check_replaceable

__all__ = ["export"]

_SUFFIXES: Final = (".cubin", ".json", ".h")


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

    Files that an earlier export wrote are replaced, others are an error.

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
    path = _checked(path)
    function, said, binary = compiled(kernel, signature, target_of(target), chosen, configuration)
    cubin: bytes = binary.asm["cubin"]
    document = described(function, binary, said, chosen)
    document |= {"cubin": f"{path.name}.cubin", "sha256": hashlib.sha256(cubin).hexdigest()}
    header = _c_header(path.name, document)
    contents = (cubin, json.dumps(document, indent=1).encode(), header.encode())
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as written:  # all of them, before the first takes its place
        for suffix, data in zip(_SUFFIXES, contents, strict=True):
            written.enter_context(whole_file(path.with_name(path.name + suffix))).write(data)
    return Description(document)


def _checked(given: str | Path) -> Path:
    """Where to write. Raises OptionError if no files can be there, or some that must stay are."""
    path = Path(given)
    if not path.name:
        raise OptionError(
            f"path={str(given)!r}: there is no name for the files in it; write one like build/softmax"
        )
    folder = next(each for each in path.parents if each.exists())
    if not folder.is_dir():
        raise OptionError(
            f"path={str(given)!r}: {str(folder)!r} is a file; choose a name in a folder, like build/softmax"
        )
    for suffix in _SUFFIXES:
        file = path.with_name(path.name + suffix)
        check_replaceable(file, f"path={str(given)!r}: cannot write {str(file)!r}")
    return path


def _c_header(name: str, document: dict[str, Any]) -> str:
    """What a launcher must know, as constants and two functions in C. name: what all that it defines begins
    with; document: of `Description`."""
    name = re.sub(r"\W", "_", name)
    name = f"_{name}" if name[:1].isdigit() else name
    macro, profile, launch = name.upper(), document["profile"], document["launch"]
    parameters = "\n".join(
        f" *   {at}  {each['type']:<8} {each['name']}{_hidden(document, each)}"
        for at, each in enumerate(document["parameters"])
    )
    constants = {
        "ENTRY": f'"{document["entry"]}"',
        "PARAMETERS": len(document["parameters"]),
        "THREADS": launch["threads_per_cta"],
        "SHARED_BYTES": launch["shared_bytes"],
        "CLUSTER": launch["cluster"],
        "COOPERATIVE": int(launch["cooperative"]),
        "PROGRAMMATIC": int(launch["programmatic"]),
        "GLOBAL_SCRATCH_BYTES_PER_CTA": document["global_scratch"]["bytes_per_cta"],
        "PROFILE_ALIGNMENT": profile["alignment"],
        "RING_LOG2": profile["ring_log2"],
    }
    defines = "\n".join(f"#define {macro}_{what} {value}" for what, value in constants.items())
    area = f"UINT64_C({profile['cta_bytes']})"
    if profile["ring_bytes"]:
        area = f"({area} + (UINT64_C({profile['ring_bytes']}) << ring_log2))"
    return f"""\
/* {document["entry"]}, instrumented by profscope {document["profscope"]} for {document["target"]}.
 *
 * Parameters of the kernel, in order:
{parameters}
 *
 * A launch: allocate {name}_profile_bytes() and
 * {macro}_PROFILE_ALIGNMENT bytes more, set all of them to zero, round the address up to a multiple of
 * {macro}_PROFILE_ALIGNMENT, and pass what {name}_profile_pointer() makes of it.
 * When the kernel has ended, copy the bytes back from the rounded address and write them to a file;
 * profscope.decode(file, json) reads it. A null pointer records nothing.
 *
 * stride_log2: one CTA of every 2^stride_log2 records. ring_log2: loops keep their last 2^ring_log2
 * iterations, from {profile["min_ring_log2"]} to {profile["max_ring_log2"]}.
 */
#ifndef PROFSCOPE_{macro}_H
#define PROFSCOPE_{macro}_H

#include <stdint.h>

{defines}

/* ctas: of the grid, those of all clusters. */
static inline uint64_t {name}_profile_bytes(uint64_t ctas, unsigned stride_log2, unsigned ring_log2) {{
    uint64_t areas = (ctas + (UINT64_C(1) << stride_log2) - 1) >> stride_log2;
    (void)ring_log2;
    return {profile["header_bytes"]} + areas * {area};
}}

static inline uint64_t {name}_profile_pointer(uint64_t address, unsigned stride_log2, unsigned ring_log2) {{
    return address | {profile["enable_bits"]} | (uint64_t)stride_log2 << {profile["stride_shift"]}
           | (uint64_t)(ring_log2 - {profile["min_ring_log2"]}) << {profile["ring_shift"]};
}}

#endif
"""


def _hidden(document: dict[str, Any], parameter: dict[str, Any]) -> str:
    if not parameter["hidden"]:
        return ""
    if parameter["name"] == "profile_scratch":
        return ": the profile pointer"
    size = document["global_scratch"]["bytes_per_cta"]
    return (
        f": {size} bytes for each CTA, aligned to {document['global_scratch']['alignment']}"
        if size
        else ": null"
    )
