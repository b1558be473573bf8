"""What an exported kernel wrote is what the same launch is in a session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import profscope
from profscope.demo.kernels import matmul, matmul_kernel, softmax, softmax_kernel
from profscope.errors import OptionError, RecordError
from tests.support.exported import Bytes, Exported
from tests.support.validation import validate

SOFTMAX = {"out_ptr": "*fp32:16", "in_ptr": "*fp32:16", "rows": "i32", "cols": "i32:16", "BLOCK": 64}
MATMUL = {"a_ptr": "*fp16:16", "b_ptr": "*fp16:16", "c_ptr": "*fp16:16", "M": "i32:16", "N": "i32:16"}
MATMUL |= {"K": "i32:16"}
BLOCKS = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}
PLACED = ["start_ns"]  # the launches stand at different places of the emulator's time
ROWS, COLS, CTAS = 24, 64, 8


def softmax_of(**options: Any) -> tuple[Exported, Bytes]:
    exported = Exported(softmax_kernel, SOFTMAX, **options)
    return exported, launched(exported)


def launched(exported: Exported, grid: tuple[int, int, int] = (CTAS, 1, 1), **bits: int) -> Bytes:
    # Memory of torch's, as in a session: where it begins decides how many sectors an access touches.
    out, x = torch.zeros(ROWS, COLS), torch.ones(ROWS, COLS)
    arrays = {"out_ptr": out.numpy(), "in_ptr": x.numpy()}
    return exported.launch(grid, arrays | {"rows": ROWS, "cols": COLS}, **bits)


@pytest.fixture(scope="module")
def recorded() -> tuple[Exported, Bytes]:
    return softmax_of()


def alike(ours: pd.DataFrame, theirs: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(ours.drop(columns=PLACED), theirs.drop(columns=PLACED))


def test_a_launch_is_as_in_a_session(recorded: tuple[Exported, Bytes]) -> None:
    exported, buffer = recorded
    with profscope.session(backend="emulator") as prof:
        softmax(torch.ones(ROWS, COLS), CTAS)
    decoded = profscope.decode(buffer, exported.description)
    alike(decoded.tables.df, prof.tables.df)
    assert decoded.metadata["variants"].keys() == prof.metadata["variants"].keys()
    assert decoded.metadata["sources"] == prof.metadata["sources"]
    assert validate(decoded.tables) == []


def test_a_pipelined_loop_with_rings() -> None:
    exported = Exported(matmul_kernel, MATMUL | BLOCKS, instrument="heavy")
    a, b, c = torch.ones(64, 128).half(), torch.ones(128, 64).half(), torch.zeros(64, 64).half()
    arguments = {"a_ptr": a.numpy(), "b_ptr": b.numpy(), "c_ptr": c.numpy(), "M": 64, "N": 64, "K": 128}
    decoded = profscope.decode(exported.launch((2, 2, 1), arguments), exported.description)
    assert (c == 128).all()
    with profscope.session(backend="emulator", instrument="heavy") as prof:
        matmul(torch.ones(64, 128).half(), torch.ones(128, 64).half(), 32)
    alike(decoded.tables.df, prof.tables.df)
    assert decoded.launches["dropped"].sum() == 0


def test_short_rings_drop_and_say_so() -> None:
    exported = Exported(softmax_kernel, SOFTMAX, instrument="heavy")
    rows = 40
    arrays = {"out_ptr": np.zeros((rows, COLS), np.float32), "in_ptr": np.ones((rows, COLS), np.float32)}
    buffer = exported.launch((1, 1, 1), arrays | {"rows": rows, "cols": COLS}, ring_log2=4)
    decoded = profscope.decode(buffer, exported.description)
    assert decoded.launches["dropped"].sum() > 0
    iterations = decoded.df[decoded.df["kind"] == "iteration"]
    assert iterations["iteration"].max() == rows - 1


def test_several_launches_and_fewer_ctas(recorded: tuple[Exported, Bytes], tmp_path: Path) -> None:
    exported, buffer = recorded
    file = tmp_path / "second.records"
    file.write_bytes(launched(exported, stride_log2=1).tobytes())
    decoded = profscope.decode([buffer, file], exported.description)
    assert decoded.launches["ctas"].tolist() == [CTAS, CTAS // 2]
    assert decoded.launches["grid_x"].tolist() == [CTAS, CTAS]
    assert sorted(decoded.df[decoded.df["launch"] == 1]["cta"].unique()) == [0, 3, 5, 7]


def test_the_planes_of_a_grid(recorded: tuple[Exported, Bytes]) -> None:
    exported, _ = recorded
    buffer = launched(exported, (2, 1, 4))
    assert profscope.decode(buffer, exported.description).launches["grid_z"].tolist() == [4]
    few = launched(exported, (2, 1, 4), stride_log2=3)
    with pytest.raises(RecordError, match="may have 2 to 8 CTAs; say ctas="):
        profscope.decode(few, exported.description)
    assert profscope.decode(few, exported.description, ctas=8).launches["grid_z"].tolist() == [4]


def test_what_stands_behind_the_records_is_left_alone(recorded: tuple[Exported, Bytes]) -> None:
    exported, buffer = recorded
    longer = np.concatenate([buffer, np.full(5000, 255, np.uint8)])
    decoded = profscope.decode(longer, exported.description, ctas=CTAS)
    alike(decoded.tables.df, profscope.decode(buffer, exported.description).tables.df)


def test_a_buffer_that_cannot_be_read(recorded: tuple[Exported, Bytes], tmp_path: Path) -> None:
    exported, buffer = recorded
    described = exported.description
    for bad, says in (
        (buffer[:40], "40 bytes are no launch's"),
        (buffer[:-4], "bytes, where 8 CTAs with ring_log2=10 and stride_log2=0 write"),
        (np.zeros_like(buffer), "nothing was recorded"),
        (tmp_path / "none", "none: cannot be read: No such file"),
        (3.5, "a buffer is bytes, a uint8 array or a path, no float"),
    ):
        with pytest.raises(RecordError, match=says):
            profscope.decode(bad, described)
    with pytest.raises(RecordError, match="ctas=3 cannot be: its grid has 8 x 1 CTAs"):
        profscope.decode(buffer, described, ctas=3)
    for ctas in (0, -1, "8"):
        with pytest.raises(OptionError, match="it is a number of CTAs"):
            profscope.decode(buffer, described, ctas=ctas)  # type: ignore[arg-type]
    other = Exported(softmax_kernel, SOFTMAX, instrument="light").description
    with pytest.raises(RecordError, match="another kernel, or another build of softmax_kernel"):
        profscope.decode(buffer, other)
    with pytest.raises(RecordError, match="buffer 1: nothing was recorded"):
        profscope.decode([buffer, np.zeros_like(buffer)], described)


def altered(document: Any, *path: Any) -> Any:
    """A copy of a document, with None where this path leads."""
    copy = json.loads(json.dumps(document))
    *inner, last = path
    place = copy
    for step in inner:
        place = place[step]
    place[last] = None
    return copy


def test_a_manifest_that_is_none(recorded: tuple[Exported, Bytes], tmp_path: Path) -> None:
    exported, buffer = recorded
    trace = tmp_path / "trace.json"
    trace.write_text("{}")
    document = exported.description.document
    for bad, says in (
        (trace, "trace.json: is not what export"),
        (tmp_path / "none.json", "cannot be read as what export"),
        (document | {"schema": 99}, "in schema 99"),
        (document | {"manifest": {}}, "is damaged"),
        (document | {"build": {}}, "is damaged"),
        (document | {"options": "all"}, "is damaged: options is 'all'"),
        ({name: each for name, each in document.items() if name != "triton"}, "is damaged: 'triton'"),
        (altered(document, "manifest", "sections", 0, "spans", 0, "file"), "Span.file=None"),
        (altered(document, "build", "sources", 0, "name"), "SourceText.name=None"),
    ):
        with pytest.raises(RecordError, match=says):
            profscope.decode(buffer, bad)


def test_what_was_decoded_can_be_viewed(
    recorded: tuple[Exported, Bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from profscope.viewer.cli import main

    exported, buffer = recorded
    profscope.decode(buffer, exported.description).save(tmp_path / "trace.json")
    assert main([str(tmp_path / "trace.json")]) == 0
    assert "softmax_kernel" in capsys.readouterr().out
