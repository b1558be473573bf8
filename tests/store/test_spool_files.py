"""The file of a spool: what is written is read back, whatever happens to its bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import profscope
from profscope.decoding.assemble import assemble
from profscope.decoding.build import RawLaunch
from profscope.errors import TraceError
from profscope.instrument_passes.records import LAUNCH_HEADER
from profscope.store.chunks import CHUNK, MAGIC, VERSION, SpoolWriter, version_of
from profscope.store.spool_reading import read
from tests.support.synth import Loop, Program, Work, launch


@cache
def launches() -> tuple[RawLaunch, ...]:
    made = [
        launch([Program((Loop((trips,), (Work(5),)),), warps=warps)], ctas=2, seed=trips)
        for trips, warps in ((3, 1), (7, 2), (2, 1), (9, 1))
    ]
    return tuple(
        RawLaunch(index, made[index].manifest, index % 2, 7 * index, 2, made[index].buffer)
        for index in range(len(made))
    )


def written(folder: Path, *, close: bool = True) -> Path:
    """A spool that was flushed twice."""
    writer = SpoolWriter(folder, {"backend": "emulator"})
    writer.launches(launches()[:2])
    writer.session({"backend": "emulator", "extra": 1}, ["a note"])
    writer.launches(launches()[2:3])
    writer.session({"backend": "emulator", "extra": 2}, ["another note"])
    writer.launches(launches()[3:])
    writer.close()
    if not close:
        *_, (_, end), _ = chunks(writer.path)
        os.truncate(writer.path, end)
    return writer.path


def chunks(path: Path) -> Iterator[tuple[str, int]]:
    """Kind and end of every chunk, from the headers alone."""
    content, at = path.read_bytes(), 0
    while at < len(content):
        header = np.frombuffer(content, CHUNK, 1, at)[0]
        at += CHUNK.itemsize + -(-int(header["length"]) // 16) * 16
        yield header["kind"].decode(), at


def assert_same(found: RawLaunch, expected: RawLaunch) -> None:
    assert np.array_equal(found.buffer, expected.buffer)
    assert found.manifest == expected.manifest
    assert (found.index, found.device, found.stream, found.ctas) == (
        expected.index, expected.device, expected.stream, expected.ctas,
    )  # fmt: skip


def test_what_is_written_is_read(tmp_path: Path) -> None:
    spool = read(written(tmp_path))
    for found, expected in zip(spool.launches, launches(), strict=True):
        assert_same(found, expected)
    assert spool.metadata == {"backend": "emulator", "extra": 2}
    assert spool.notes == ["another note"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("whole"))


@given(data=st.data())
def test_a_file_cut_anywhere_reads_up_to_the_last_complete_chunk(whole: Path, data: st.DataObject) -> None:
    content = whole.read_bytes()
    at = data.draw(st.integers(0, len(content)), label="length")
    cut = whole.with_name("cut.spool")
    cut.write_bytes(content[:at])
    complete = [(kind, end) for kind, end in chunks(whole) if end <= at]
    if not complete:
        with pytest.raises(TraceError):
            read(cut)
        return
    spool = read(cut)
    kinds = [kind for kind, _ in complete]
    for found, wanted in zip(spool.launches, launches()[: kinds.count("launch")], strict=True):
        assert_same(found, wanted)
    end = complete[-1][1]
    cut_note = f"cut.spool is readable up to byte {end} of {at}: the chunk there is incomplete"
    assert (cut_note in spool.notes) == (end < at)
    assert any("has no end" in note for note in spool.notes) == (kinds[-1] != "end")
    assert ("a note" in spool.notes) == (kinds.count("session") == 2)


@given(data=st.data())
def test_a_mutated_byte_costs_what_its_chunk_holds_and_is_noted(whole: Path, data: st.DataObject) -> None:
    content = bytearray(whole.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1), label="byte")
    content[at] ^= data.draw(st.integers(1, 255), label="bits")
    damaged = whole.with_name("damaged.spool")
    damaged.write_bytes(content)
    if version_of(bytes(content[: CHUNK.itemsize])) not in (None, VERSION):
        with pytest.raises(TraceError, match="which reads version"):
            read(damaged)
        return
    hit = next(number for number, (_, end) in enumerate(chunks(whole)) if at < end)
    kinds = [kind for kind, _ in chunks(whole)]
    spool = read(damaged)
    assert spool.metadata == {"backend": "emulator", "extra": 2 - (hit == last(kinds, "session"))}
    lost = {
        "launch": [kinds[: hit + 1].count("launch") - 1],
        "program": [kinds[:hit].count("program")],  # each launch has its own
    }.get(kinds[hit], [])
    assert [each.index for each in spool.launches] == [i for i in range(len(launches())) if i not in lost]
    for found in spool.launches:
        assert_same(found, launches()[found.index])
    for index in lost:
        assert any(note.startswith(f"launch {index} is missing: ") for note in spool.notes)
    assert any("damaged.spool is " in note for note in spool.notes)


def last(kinds: list[str], kind: str) -> int:
    return len(kinds) - 1 - kinds[::-1].index(kind)


def overwrite(path: Path, *places: int) -> Path:
    content = bytearray(path.read_bytes())
    for at in places:
        content[at] ^= 0x55
    damaged = path.with_name("damaged.spool")
    damaged.write_bytes(content)
    return damaged


@given(data=st.data())
def test_a_damaged_launch_header_costs_that_launch_at_most(data: st.DataObject) -> None:
    """The header of a launch's records, as a kernel that writes where it should not leaves it."""
    damaged = launches()[1].buffer.copy()
    fields = [LAUNCH_HEADER.fields[name] for name in ("launch_bits", "digest", "grid_x", "grid_y")]
    dtype, at, *_ = data.draw(st.sampled_from(fields))
    damaged[at : at + dtype.itemsize] = list(data.draw(st.binary(min_size=4, max_size=4)))
    raws = [replace(each, buffer=damaged) if each.index == 1 else each for each in launches()]
    tables = assemble(raws, {"backend": "emulator"})
    present = tables.launches["launch"].tolist()
    assert present in ([0, 1, 2, 3], [0, 2, 3])
    if present == [0, 2, 3]:
        assert [note for note in tables.metadata["notes"] if note.startswith("launch 1: ")]
    else:
        grid = tables.launches.loc[1, ["grid_x", "grid_y", "grid_z"]].to_numpy()
        assert grid.prod() == 2


def test_a_spool_that_lost_its_first_bytes_is_still_known(whole: Path) -> None:
    damaged = overwrite(whole, 0)
    assert [each.index for each in read(damaged).launches] == [0, 1, 2, 3]
    assert len(profscope.load(damaged).launches) == 4


def test_what_is_no_spool(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text("{}")
    with pytest.raises(TraceError, match="is a folder with no profile in it"):
        profscope.load(tmp_path)
    (tmp_path / "text.spool").write_text("not one")
    with pytest.raises(TraceError, match="is no spool of profscope"):
        profscope.load(tmp_path)
    (tmp_path / "text.spool").write_text("")
    with pytest.raises(TraceError, match="is no spool of profscope"):
        profscope.load(tmp_path / "text.spool")


def test_the_page_about_the_format_has_each_field_of_a_chunk() -> None:
    page = (Path(__file__).parents[2] / "docs" / "records.md").read_text()
    section = page[page.index("## Spools") : page.index("## Files")]
    rows = re.findall(r"^\| `(\w+)` \| (\w)(\d+) \|", section, re.MULTILINE)
    assert CHUNK.fields is not None
    sizes = {"S": 1, "u": 8, "i": 8}  # of one as the page counts: bytes of texts, bits of numbers
    assert rows == [
        (name, dtype.kind, str(dtype.itemsize * sizes[dtype.kind]))
        for name, (dtype, *_) in CHUNK.fields.items()
    ]
    assert f"header of {CHUNK.itemsize} bytes" in section
    assert f"`{MAGIC.decode()}`" in section
