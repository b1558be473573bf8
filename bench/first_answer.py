"""What a user waits for: the first findings of a process, and each question to a profile of many spans.

    python -m bench.first_answer [--rows REGEX] [--json FILE] [--profile]     # on a GPU
    python -m bench.first_answer --spans 23.5 [--json FILE] [--profile]       # millions
    python -m bench.first_answer --tiny             # small sizes; without a GPU on the emulator

All kernels are of one process, in turn, each in a session of its own: the first one imports what all need;
--rows softmax is a process whose first one is softmax. Triton's cache has another kernel, and modules are
compiled, as pip does it; torch, Triton and the kernel's inputs are there when the clock starts. Seconds, and
CPU seconds of all threads. Indented phases are parts of the one above them, and some overlap. --profile: the
40 functions with most time, work of pools done by the calling thread. Many spans are those of a matmul that
is recorded now, without a GPU those of a recording, repeated.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from bench import phases, questions
from bench.phases import Clock, Profiled
from bench.reading import compiled_environment

__all__ = ["main"]

_BOUNDS_S: Final = {"matmul": 4.0, "softmax": 1.5, "attention": 3.0}
_MANY: Final = "many spans"
_Took = Mapping[str, list[float]]
_MODULES: Final = ("findings", "verdict", "rules.diagnose", "rules.kernel")  # that `findings()` imports
_PARTS: Final = {
    "decoding": "profscope.decoding.assemble.assemble",
    "reading evidence": "profscope.evidence.tables.evidence",
    "disassembly": "profscope.binaries.rows.disassembled",
    "places": "profscope.binaries.rows._places",
    "verdict": "profscope.analysis.verdict.verdict",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; returns an exit code, 1 if a bound is not kept."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.first_answer",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--rows", default="", metavar="REGEX", help="only kernels that it matches")
    parser.add_argument("--spans", type=float, help="in millions: time the questions instead")
    parser.add_argument("--tiny", action="store_true", help="small sizes; without a GPU on the emulator")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--of", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.of:
        profiled = phases.profiled if options.profile else contextlib.nullcontext
        if options.spans:
            asked = {_MANY: questions.asked(options.spans, profiled)}
        else:
            asked = {name: _first(name, options.tiny, profiled) for name in options.of.split(",")}
        print(json.dumps(asked))
        return 0
    names = [_MANY] if options.spans else [name for name in _BOUNDS_S if re.search(options.rows, name)]
    figures = _in_own_process(names, sys.argv[1:] if argv is None else argv)
    kept, is_full = True, _on_gpu() and not options.tiny
    for name, found in figures.items():
        print(f"\n{name:24}{'s':>8}{'CPU s':>8}{'bound':>8}")
        bounds = questions.BOUNDS_S if options.spans else {"in all": _BOUNDS_S[name]} if is_full else {}
        for phase, (took_s, cpu_s) in found.items():
            bound = bounds.get(phase)
            kept &= bound is None or took_s <= bound
            print(f"{phase:24}{took_s:8.2f}{cpu_s:8.2f}{'' if bound is None else f'{bound:8.2f}'}")
    if options.json:
        options.json.write_text(json.dumps(figures) + "\n")
    if is_full or options.spans:
        print(f"\nbounds {'kept' if kept else 'not kept'}")
    return int(not kept)


def _on_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


_OTHER_KERNEL: Final = """
import torch
import profscope
from bench import kernels
workload = kernels.add(1 << 10)
with kernels.surroundings(), profscope.session(evidence=True) as prof:
    workload.launch(workload.inputs("cuda" if torch.cuda.is_available() else "cpu"))
prof.findings()
"""


def _in_own_process(names: Sequence[str], argv: Sequence[str]) -> Mapping[str, _Took]:
    """By name and phase, seconds and CPU seconds; what the process prints before is printed."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-m", "bench.first_answer", *argv, "--of", ",".join(names)]
        environment = compiled_environment(Path(cache)) | {"TRITON_CACHE_DIR": cache}
        # The first process ever is not timed: Triton compiles what all kernels need, and Python its modules.
        subprocess.run([sys.executable, "-c", _OTHER_KERNEL], env=environment, check=True)
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    *printed, figures = done.stdout.splitlines()
    print(*printed, sep="\n", end="\n" * bool(printed))
    found: Mapping[str, _Took] = json.loads(figures)
    return found


def _first(name: str, is_tiny: bool, profiled: Profiled) -> _Took:
    """The phases up to the first findings of a kernel."""
    import torch

    from bench import kernels

    synchronize = torch.cuda.synchronize if _on_gpu() else int
    sizes: Mapping[str, Sequence[Sequence[Any]]] = {
        "matmul": [(4096, (128, 256, 64), 8), (128, (64, 64, 32), 4)],
        "softmax": [(8192, 4096), (16, 256)],
        "attention": [(64, 4096), (1, 256)],
    }
    workload, clock = vars(kernels)[name](*sizes[name][is_tiny]), Clock()
    with kernels.surroundings():
        inputs = workload.inputs("cuda" if _on_gpu() else "cpu")
        synchronize()
        with clock("in all"):
            with clock("import profscope"):
                import profscope
            with clock("open the session"):
                prof = profscope.session(evidence=True, ctas=64).__enter__()
            with clock("first launch"):
                workload.launch(inputs)
                synchronize()
            with clock("29 launches"):
                for _ in range(29):
                    workload.launch(inputs)
                synchronize()
            with clock("close the session"):
                prof.__exit__(None, None, None)
            with clock("findings"):
                with clock("    imports"):
                    for module in _MODULES:
                        import_module(f"profscope.analysis.{module}")
                with clock.parts(_PARTS), phases.pools() as pools, profiled():
                    prof.findings()
    print(f"{name}: findings() opens {len(pools)} thread pools")
    return clock.took


if __name__ == "__main__":
    sys.exit(main())
