"""A program with modules that have names of those that profscope imports; all others in its folder fail."""

from __future__ import annotations

from pathlib import Path
from typing import Final

OWN: Final = "bottleneck html/entities pandas secrets\n"
"""What the program prints of its modules: first, behind its launch, and at its exit."""

_PROGRAM: Final = """
import atexit, importlib, os, sys
import torch, triton
import triton.language as tl

@triton.jit
def fill_kernel(out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), 1.0)

def print_own():
    import bottleneck, html.entities, pandas, secrets
    print(bottleneck.mine, html.entities.mine, pandas.mine, secrets.mine)

print_own()
atexit.register(print_own)
# From here on nobody but the program imports anything from its folder.
packages = os.listdir(os.path.dirname(os.path.dirname(torch.__file__)))
for name in sorted({*sys.stdlib_module_names, *packages, "viewer", "instrument_passes"}):
    if name.isidentifier() and name not in ("torch", "triton"):
        with open(f"{sys.path[0]}/{name}.py", "a") as file:
            file.write(f"\\nif not 'mine' in globals(): raise SystemError('{name} of the program')\\n")
importlib.invalidate_caches()
out = torch.empty(512, device="cuda" if torch.cuda.is_available() else "cpu")
fill_kernel[(4,)](out, BLOCK=128)
print(out.sum().item())
print_own()
"""


def write_program(folder: Path) -> Path:
    """Write it to a new folder; it can be run once there."""
    (folder / "html").mkdir(parents=True)
    for name in ("bottleneck", "html/__init__", "html/entities", "pandas", "secrets"):
        (folder / f"{name}.py").write_text(f"mine = {name!r}\n")
    path = folder / "program.py"
    path.write_text(_PROGRAM)
    return path
