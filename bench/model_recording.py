"""Record the program of docs/programs.md, and put its recording where its tests read it.

    python -m bench.model_recording                      # on a GPU
    python -m bench.model_recording --dry-run --out FILE   # on the emulator, small: shows that it runs

Runs `profscope run` with `OPTIONS`, in a folder of its own. The paths of the machine are taken out of what it
has written. Fails where the recording is larger than `LARGEST`: the repository keeps it. The page's outputs
are then written anew by `python -m tests.support.pages docs/programs.md`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pandas as pd
import torch

import profscope
from profscope.instrument_passes.kept_text import packed, unpacked
from profscope.profiles import Profile
from profscope.schema import MEASURED_DTYPES
from profscope.traces.saving import save

__all__ = ["OPTIONS", "main"]

ROOT: Final = Path(__file__).parents[1]
PROGRAM: Final = ROOT / "examples/compiled_model/train.py"
RECORDING: Final = ROOT / "tests/data/compiled_model.pftrace.gz"
OPTIONS: Final = ("--ctas", "64", "--wait")
LARGEST: Final = 400_000  # bytes

# What a profile keeps packed, by the names of it.
_PACKED: Final = ("ttgir", "ptx", "sass")
# The emulator in place of a GPU, and a model that it is done with in a minute; no line stands elsewhere.
_SMALL: Final = {
    "import torch\n": "import torch; from tests.support.whole_inductor import compiling_for_the_emulator\n",
    ".cuda().bfloat16()": "; emulator = compiling_for_the_emulator(); emulator.__enter__()",
    ', device="cuda", dtype=torch.bfloat16': "",
    "Block(512)": "Block(64)",
    "(1024, 512": "(32, 64",
    "range(20)": "range(3)",
    "        model.zero_grad()\n": "        model.zero_grad()\nemulator.__exit__(None, None, None)\n",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Record it; returns 1 where there is no GPU, the program fails, or the file is too large."""
    parser = argparse.ArgumentParser(prog="python -m bench.model_recording", description=__doc__)
    parser.add_argument("--out", type=Path, default=RECORDING)
    parser.add_argument("--dry-run", action="store_true", help="small, on the emulator")
    options = parser.parse_args(argv)
    if not torch.cuda.is_available() and not options.dry_run:
        print("bench.model_recording: no GPU is active; --dry-run shows that it runs", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="model-") as name:
        folder = Path(name).resolve()
        program, trace = folder / PROGRAM.name, folder / "model.pftrace.gz"
        text = PROGRAM.read_text()
        program.write_text(_small(text) if options.dry_run else text)
        command = [sys.executable, "-m", "profscope", "run", "-o", trace.name, *OPTIONS, program.name]
        # Inductor's and Triton's caches would leave out what is to be seen: that it compiles.
        caches = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TRITON_CACHE_DIR": f"{folder}/triton"}
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        ran = subprocess.run(command, cwd=folder, env={**os.environ, **caches, "PYTHONPATH": path})
        if ran.returncode:
            return 1
        prof = profscope.load(trace)
        places = {str(folder): "", str(Path(torch.__file__).parents[1]): "site-packages", str(ROOT): ""}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        save(_moved(prof, places), options.out)
    size = options.out.stat().st_size
    print(
        f"{options.out}: {size:,} bytes, {len(prof.launches)} launches, {len(prof.program.modules())} modules"
    )
    if size > LARGEST:
        print(f"bench.model_recording: more than the {LARGEST:,} bytes that the repository takes")
    return int(size > LARGEST)


def _small(text: str) -> str:
    """The program on the emulator."""
    for before, after in _SMALL.items():
        if before not in text:
            raise RuntimeError(f"{PROGRAM} has no {before!r}")
        text = text.replace(before, after)
    return text


def _moved(prof: Profile, places: Mapping[str, str]) -> Profile:
    """The profile with other paths. places: folder -> what stands for it, "" for nothing."""
    pattern = re.compile("|".join(f"{re.escape(each)}(/?)" for each in sorted(places, key=len, reverse=True)))

    def moved(text: str) -> str:
        def replacement(match: re.Match[str]) -> str:
            place = places[match[0].rstrip("/")]
            return f"{place}/" if place else ""

        return pattern.sub(replacement, text)

    tables = {
        name: _frame(getattr(prof, name), moved) for name in ("launches", *MEASURED_DTYPES, "host", "events")
    }
    return replace(prof, df=_frame(prof.tables.df, moved), metadata=_document(prof.metadata, moved), **tables)


def _document(value: Any, moved: Callable[[str], str], name: str = "") -> Any:
    if isinstance(value, str):
        return packed(moved(unpacked(value))) if name in _PACKED and value else moved(value)
    if isinstance(value, Mapping):
        return {moved(str(key)): _document(each, moved, str(key)) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_document(each, moved) for each in value]
    return value


def _frame(frame: pd.DataFrame, moved: Callable[[str], str]) -> pd.DataFrame:
    """A table whose categories are moved."""
    frame = frame.copy()
    for name in frame.columns:
        if isinstance(frame[name].dtype, pd.CategoricalDtype):
            frame[name] = frame[name].cat.rename_categories(moved)
        elif frame[name].dtype == object or pd.api.types.is_string_dtype(frame[name].dtype):
            frame[name] = frame[name].map(lambda each: moved(each) if isinstance(each, str) else each)
    return frame


if __name__ == "__main__":
    raise SystemExit(main())
