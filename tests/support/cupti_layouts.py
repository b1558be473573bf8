"""How NVIDIA's headers lay out the CUPTI structures of `profscope.evidence`, by the C compiler.

    python -m tests.support.cupti_layouts FOLDER... > tests/data/evidence/cupti_structures.json

FOLDER: an include folder of an unpacked wheel `nvidia-cuda-cupti` or `nvidia-cuda-cupti-cu12`. The test of
the structures reads the result, so it needs neither the headers nor a compiler.
"""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from profscope.evidence import structures

_HEADERS = ("profiler_target", "profiler_host", "range_profiler", "sass_metrics", "target")
PLAIN = {
    "CUpti_SassMetrics_MetricDetails": structures.MetricDetails,
    "CUpti_SassMetrics_Config": structures.MetricConfig,
    "CUpti_SassMetrics_InstanceValue": structures.InstanceValue,
    "CUpti_SassMetrics_Data": structures.InstructionData,
}
# What CUPTI's headers take from CUDA's, which its wheels do not bring, and from C++.
_CUDA = "#pragma once\ntypedef struct CUctx_st *CUcontext; typedef int CUdevice;\n"


def layouts(include: Path) -> tuple[str, dict[str, dict[str, list[int]]]]:
    """The version of CUPTI, and by structure each field's offset and size; "" has the size CUPTI expects."""
    classes = {each.__name__: each for each in structures.STRUCTURES.values()}
    lines = []
    for name, cls in {**classes, **PLAIN}.items():
        for field, *_ in cls._fields_:
            member = f"(({name} *)0)->{field}"
            lines.append(f'P("{name}", "{field}", offsetof({name}, {field}), sizeof({member}));')
        size = f"{name}_STRUCT_SIZE" if name in classes else f"sizeof({name})"
        lines.append(f'P("{name}", "", 0, {size});')
    includes = "".join(f"#include <cupti_{header}.h>\n" for header in _HEADERS)
    body = "\n".join(lines)
    source = f"""#include <stdio.h>
#include <stddef.h>
#include <stdint.h>
{includes}
#define P(s, f, o, z) printf("%s %s. %zu %zu\\n", s, f, (size_t)(o), (size_t)(z))
int main(void) {{ {body} return 0; }}
"""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "cuda.h").write_text(_CUDA)
        (work / "string").write_text("")
        (work / "layout.c").write_text(source)
        command = ["gcc", f"-I{work}", f"-I{include}", "-o", work / "layout", work / "layout.c"]
        subprocess.run(command, check=True)
        printed = subprocess.run([work / "layout"], check=True, capture_output=True, text=True).stdout
    found: dict[str, dict[str, list[int]]] = {}
    for line in printed.splitlines():
        name, field, offset, size = line.split()
        found.setdefault(name, {})[field.rstrip(".")] = [int(offset), int(size)]
    header = (include / "cupti_version.h").read_text()
    version = re.search(r"#define CUPTI_API_VERSION (\d+)", header)
    assert version is not None
    return version[1], found


def main() -> None:
    assert ctypes.sizeof(ctypes.c_void_p) == 8
    table = dict(layouts(Path(folder)) for folder in sys.argv[1:])
    versions = ",\n".join(
        f"{json.dumps(version)}: {{\n"
        + ",\n".join(f" {json.dumps(name)}: {json.dumps(fields)}" for name, fields in found.items())
        + "\n}"
        for version, found in table.items()
    )
    print(f"{{\n{versions}\n}}")


if __name__ == "__main__":
    main()
