"""Save what a kernel really wrote: one .npz per launch with the raw buffer, the manifest and the TTGIR.

    python -m tests.gpu.capture DIR    # of all kernels that this GPU can run, small, as tests/data has some

Arrays: `buffer`, uint8, the CTA areas as fetched; `manifest` and `ttgir`, uint8, UTF-8 text; `info`, uint8,
JSON: case, kernel, level, rows (of short rings, or null), launch, spans, records, dropped, device,
triton, date.
Source paths lose the folders of the machine they were on; as the manifest's digest depends on them, the
launch header gets the new one. Nothing else of a buffer is touched. A later version of the format that
describes it as well has put its own number into the manifest, and that digest into the header.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import triton
from triton import knobs

import profscope
import profscope.decoding.assemble
from profscope.decoding.areas import launch_header
from profscope.decoding.build import RawLaunch
from profscope.instrument_passes.manifest import Manifest
from profscope.schema import Tables
from tests.kernels.cases import Case
from tests.support.on_gpu import cases_here
from tests.support.short_rings import short_rings

Bytes = npt.NDArray[np.uint8]
# (level, rows of rings): short rings of loops over 16 iterations wrap; None: as long as the kernel needs.
_VARIANTS: tuple[tuple[str, int | None], ...] = (("heavy", None), ("light", None), ("heavy", 16))


def capture(case: Case, level: str, rows: int | None, folder: Path, backend: str) -> Iterator[Path]:
    """Run a case in a session; the files of its launches. backend: "gpu" or "emulator"."""
    inputs = case.inputs("cuda" if backend == "gpu" else "cpu")
    with _raw_launches() as raw, _ttgir_of_loads() as texts:
        rings = contextlib.nullcontext() if rows is None else short_rings()
        with rings, profscope.session(instrument=level, backend=backend) as prof:
            case.launch(inputs)
        profile = prof.profile
    recorded = profile.df[~profile.df["kind"].isin(["async", "gap"])]  # those are worked out
    spans = recorded["launch"].value_counts()
    if rows is not None and not profile.launches["dropped"].any():
        return  # its rings did not wrap: the same records as with longer ones
    for launch, row in zip(raw, profile.launches.itertuples(), strict=True):
        info = {
            "case": case.name,
            "kernel": row.kernel,
            "level": level,
            "rows": rows,
            "launch": row.launch,
            "spans": int(spans.get(row.launch, 0)),
            "records": row.records,
            "dropped": row.dropped,
            "device": profile.metadata["device"]["name"],
            "triton": triton.__version__,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        manifest = Manifest.from_json(_portable(launch.manifest.to_json()))
        path = folder / f"{case.name}-{level}{'' if rows is None else f'-{rows}'}-{row.launch}.npz"
        np.savez_compressed(
            path,
            buffer=_redirected(launch.buffer, launch.manifest, manifest),
            manifest=_bytes(manifest.to_json()),
            ttgir=_bytes(_portable(texts[row.kernel])),
            info=_bytes(json.dumps(info)),
        )
        yield path


def _portable(text: str) -> str:
    """Paths from the project or package on, without the folders they are in."""
    return re.sub(r'/[^"\s\\]*?/(?=(?:tests|triton)/|module\.ttgir)', "", text)


def _redirected(buffer: Bytes, old: Manifest, new: Manifest) -> Bytes:
    """The buffer with its header's digest changed from one manifest's to another's."""
    changed = buffer.copy()
    header = launch_header(changed)
    assert header["digest"] == old.digest
    header["digest"] = new.digest
    return changed


def _bytes(text: str) -> Bytes:
    return np.frombuffer(text.encode(), np.uint8)


@contextlib.contextmanager
def _raw_launches() -> Iterator[list[RawLaunch]]:
    """The raw launches that the session in the block decodes last."""
    found: list[RawLaunch] = []
    assemble = profscope.decoding.assemble.assemble

    def spy(launches: Sequence[RawLaunch], *args: Any) -> Tables:
        found[:] = launches
        return assemble(launches, *args)

    with mock.patch.object(profscope.decoding.assemble, "assemble", spy):
        yield found


@contextlib.contextmanager
def _ttgir_of_loads() -> Iterator[dict[str, str]]:
    """Kernel name -> the TTGIR in Triton's cache of every binary that is loaded in the block."""
    found: dict[str, str] = {}

    def loaded(module: Any, function: Any, name: str, metadata_group: Mapping[str, str], hash: str) -> None:
        path = next(path for file, path in metadata_group.items() if file.endswith(".ttgir"))
        found[name] = Path(path).read_text()

    chain = knobs.runtime.kernel_load_end_hook
    chain.add(loaded)
    try:
        yield found
    finally:
        chain.remove(loaded)


if __name__ == "__main__":
    for each in cases_here():
        for level, rows in _VARIANTS:
            for path in capture(each, level, rows, Path(sys.argv[1]), "gpu"):
                print(f"{path.name}: {path.stat().st_size} bytes")
