"""`profscope.instructions`: the SASS of a kernel, with its places in the source and what each instruction
waits for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from profscope.binaries.rows import Instructions, instructions_in, instructions_of
from profscope.errors import OptionError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["INSTRUCTION_DTYPES", "instructions"]

INSTRUCTION_DTYPES: Final[Mapping[str, str]] = {
    "pc": "int64",
    "opcode": "category",
    "sass": "str",
    "class": "category",
    "ptx_line": "int32",
    "ttgir_op": "category",
    "file": "category",
    "line": "int32",
    "column": "int32",
    "call_path": "category",
    "waits_for": "object",
}
"""The columns of `instructions`, with their pandas dtypes, in order."""


def instructions(kernel: Any, ptx: str | Path | None = None) -> pd.DataFrame:
    """One row per SASS instruction of a kernel, in the order of the binary. Needs no GPU.

        k = add_kernel.warmup(x, y, out, n, BLOCK=1024, grid=(1,))
        profscope.instructions(k)
        profscope.instructions("add_kernel.cubin", "add_kernel.ptx")

    kernel: what Triton returns when it compiles or launches, a `CompiledKernel`; or the path of a `.cubin`,
    with `ptx` the path of the `.ptx` that it was made of (default: beside it, of the same name).

    | column | dtype | |
    |---|---|---|
    | `pc` | int64 | bytes from the function's start |
    | `opcode` | category | with its modifiers, without predicate: `MUFU.EX2` |
    | `sass` | str | the whole instruction |
    | `class` | category | `global load`, `mma`, `barrier`, ...: docs/source-view.md; `other` if unknown |
    | `ptx_line` | int32 | the line of the PTX, from 1; 0 where it is not known |
    | `ttgir_op` | category | the op of TTGIR, where it can be told; else "" |
    | `file`, `line`, `call_path` | category, int32, category | as in `prof.df` |
    | `column` | int32 | of the line, from 0 |
    | `waits_for` | object | a list of the `pc`s of the instructions whose results it needs |

    `attrs["kernel"]` is the kernel's name, `attrs["notes"]` a list of what could not be told. The result is a
    copy: the binary itself is read once.

    Raises OptionError for a kernel without a cubin (AMD's, the emulator's) and for a file that cannot be
    read, ToolchainError without Triton, for what is no cubin, and for PTX of another binary.
    """
    mapped = _of_paths(Path(kernel), ptx) if isinstance(kernel, str | Path) else _of_kernel(kernel, ptx)
    return _frame(mapped)


def _of_paths(cubin: Path, ptx: Any) -> Instructions:
    if cubin.suffix != ".cubin":
        raise OptionError(f"{str(cubin)!r}: the path of a .cubin is expected, or a compiled kernel")
    if not isinstance(ptx, str | Path | None):
        raise OptionError(f"ptx must be the path of a .ptx, not {type(ptx).__name__}")
    assembly = cubin.with_suffix(".ptx") if ptx is None else Path(ptx)
    try:
        return instructions_in(cubin, assembly)
    except OSError as error:
        raise OptionError(f"cannot read {error.filename}: {error.strerror}") from error


def _of_kernel(kernel: Any, ptx: str | Path | None) -> Instructions:
    stages = getattr(kernel, "asm", None)
    if ptx is not None:
        raise OptionError("ptx= goes with the path of a .cubin; a compiled kernel has its own")
    if not isinstance(stages, Mapping):
        raise OptionError(
            f"a compiled kernel or the path of a .cubin is expected, not {type(kernel).__name__}; "
            "kernel[grid](...) and kernel.warmup(...) return a compiled kernel"
        )
    if not isinstance(stages.get("cubin"), bytes) or "ptx" not in stages:
        raise OptionError(
            "the kernel has no cubin: instructions are told for NVIDIA GPUs, not for AMD or the emulator"
        )
    texts = (str(stages.get(stage) or "") for stage in ("ptx", "ttgir", "source"))
    return instructions_of(stages["cubin"], *texts)


def _frame(mapped: Instructions) -> pd.DataFrame:
    import pandas as pd

    fields = [("cls" if name == "class" else name, name) for name in INSTRUCTION_DTYPES]
    columns: dict[str, pd.Series[Any]] = {}
    for field, name in fields:
        values: list[Any] = [getattr(row, field) for row in mapped.rows]
        if name == "waits_for":
            values = [list(pcs) for pcs in values]
        dtype = INSTRUCTION_DTYPES[name]
        if dtype == "category":
            columns[name] = pd.Series(values, dtype="str").astype("category")
        else:
            columns[name] = pd.Series(values, dtype=dtype)
    df = pd.DataFrame(columns)
    df.attrs |= {"kernel": mapped.kernel, "notes": list(mapped.notes)}
    return df
