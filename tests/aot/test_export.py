"""What `export` writes: files a C compiler takes, whose figures are those of the record format."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton import knobs

import profscope
from profscope.__main__ import main
from profscope.aot import exporting
from profscope.aot.decoding import Description
from profscope.demo import kernels
from profscope.demo.kernels import softmax_kernel
from profscope.device.sizing import needed_bytes
from profscope.errors import CompileError, OptionError
from profscope.instrument_passes.records import LaunchBits
from profscope.traces.output import whole_file

SIGNATURE = {"out_ptr": "*fp32:16", "in_ptr": "*fp32:16", "rows": "i32", "cols": "i32:16", "BLOCK": 64}
EXAMPLE = Path(__file__).parents[2] / "examples" / "ahead_of_time"
LAUNCHES = ((1, 0, 4), (7, 1, 10), (1024, 3, 12), (100_000, 0, 10))
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@triton.jit
def untyped(x_ptr, count):
    tl.store(x_ptr + count, tl.load(x_ptr + count) + unknown_name)  # noqa: F821


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "new"
    profscope.export(softmax_kernel, SIGNATURE, folder / "softmax", target="cuda:90")
    return folder


def test_the_files(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["softmax.cubin", "softmax.h", "softmax.json"]
    assert (folder / "softmax.cubin").read_bytes().startswith(b"\x7fELF")
    document = json.loads((folder / "softmax.json").read_text())
    assert [each["name"] for each in document["parameters"]] == [
        "out_ptr", "in_ptr", "rows", "cols", "global_scratch", "profile_scratch",
    ]  # fmt: skip
    assert [each["bytes"] for each in document["parameters"]] == [8, 8, 4, 4, 8, 8]
    assert document["launch"]["threads_per_cta"] == 128
    assert document["target"] == "cuda:90"
    assert document["build"]["configuration"]["constexprs"] == {"BLOCK": 64}
    assert "tl.range" in document["build"]["sources"][0]["text"]


def test_the_command_writes_what_the_function_does(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = kernels.__file__
    monkeypatch.syspath_prepend(str(tmp_path))  # the command puts the file's folder there,
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:])  # and keeps its modules apart
    words = ["export", f"{file}:softmax_kernel", "-o", str(tmp_path / "softmax"), "--target", "cuda:90"]
    assert main([*words, "--signature", "*fp32:16, *fp32:16, i32, i32:16, 64"]) == 0
    of_function, of_command = (Description.read(each / "softmax.json") for each in (folder, tmp_path))
    assert of_command.document["sha256"] == of_function.document["sha256"]
    assert of_command.document["options"] == of_function.document["options"]
    assert (tmp_path / "softmax.h").read_bytes() == (folder / "softmax.h").read_bytes()
    assert main([*words, "--signature", "*fp32:16, *fp32:16, i32"]) == 2
    assert "has 3 arguments" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("none.py:k", "no file 'none.py'; write it like kernels.py:softmax_kernel"),
        (f"{__file__}:k", "has no 'k'"),
        (f"{kernels.__file__}:torch", "is not a @triton.jit or @gluon.jit function"),
    ],
)
def test_a_kernel_that_is_not_there_is_one_line(
    named: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(".")
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:])
    assert main(["export", named, "-o", "never", "--signature", "i32"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", ""], "-o '': there is no name for the files in it; write one like build/softmax"),
        (["-o", "k.c/x"], "-o 'k.c/x': 'k.c' is a file; choose a name in a folder, like build/softmax"),
        (
            ["-o", "k"],
            "-o 'k': cannot write 'k.h': profscope did not write the file that is there; move it, or",
        ),
        (
            ["-o", "x", "--target", "cuda:9999"],
            "--target 'cuda:9999': Triton compiles for cuda: and one of 70, ",
        ),
        (
            ["-o", "x", "--target", "gpu"],
            "--target 'gpu': kernels are exported for NVIDIA GPUs, such as --target ",
        ),
    ],
)
def test_an_error_names_the_flag(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:])
    monkeypatch.chdir(tmp_path)
    for name in ("k.c", "k.h"):
        Path(name).write_text("of the user")
    command = ["export", f"{kernels.__file__}:softmax_kernel", "--target", "cuda:90", *words]
    assert main([*command, "--signature", "*fp32:16, *fp32:16, i32, i32:16, 64"]) == 2
    error = capfd.readouterr().err
    assert error.startswith(f"profscope export: {said}")
    assert error.count("\n") == 1
    assert sorted(os.listdir()) == ["k.c", "k.h"]


@needs_cc
def test_the_header_says_what_the_record_format_does(folder: Path, tmp_path: Path) -> None:
    calls = "".join(
        f'printf("%llu %llu\\n", (unsigned long long)softmax_profile_bytes({ctas}, {stride}, {ring}), '
        f"(unsigned long long)softmax_profile_pointer(SOFTMAX_PROFILE_ALIGNMENT, {stride}, {ring}));\n"
        for ctas, stride, ring in LAUNCHES
    )
    source = tmp_path / "print.c"
    source.write_text(f'#include <stdio.h>\n#include "softmax.h"\nint main(void) {{\n{calls}return 0;\n}}\n')
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-I", str(folder)]
    subprocess.run(["cc", *flags, str(source), "-o", str(tmp_path / "print")], check=True)
    printed = subprocess.run([str(tmp_path / "print")], check=True, capture_output=True, text=True).stdout
    manifest = Description.read(folder / "softmax.json").manifest
    expected = [
        f"{needed_bytes(manifest, ctas, bits)} {32768 | bits.encode()}"
        for ctas, stride, ring in LAUNCHES
        for bits in [LaunchBits(stride, ring)]
    ]
    assert printed.splitlines() == expected


@needs_cc
def test_the_example_compiles(folder: Path) -> None:
    include = Path(triton.__file__).parent / "backends" / "nvidia" / "include"
    flags = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", str(folder), "-isystem", str(include)]
    subprocess.run(["cc", *flags, str(EXAMPLE / "launch.c")], check=True)


def test_sources_can_be_left_out(tmp_path: Path) -> None:
    made = profscope.export(softmax_kernel, SIGNATURE, tmp_path / "a", target="cuda:90", sources=False)
    assert made.document["build"]["sources"] == ()
    assert "tl.range" not in (tmp_path / "a.json").read_text()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"signature": {**SIGNATURE, "z": 3}}, "has no argument 'z'"),
        ({"signature": {"out_ptr": "*fp32"}}, "needs in_ptr, rows, cols, BLOCK, too"),
        ({"signature": {**SIGNATURE, "rows": "int"}}, "rows is 'int', no type of Triton's"),
        ({"signature": {**SIGNATURE, "rows": "i32:8"}}, "the hints are :16 and :1"),
        ({"signature": {**SIGNATURE, "in_ptr": "tensordesc<fp32[64]>"}}, "make it in the kernel"),
        ({"signature": "*fp32,*fp32"}, "must be a dict"),
        ({"target": "hip:gfx942"}, "exported for NVIDIA GPUs"),
        ({"target": 90}, "target=90: kernels are exported for NVIDIA GPUs"),
        ({"target": "cuda:9999"}, r"target='cuda:9999': Triton compiles for cuda: and one of 70, 75, 80, "),
        ({"path": ""}, "path='': there is no name for the files in it; write one like build/softmax"),
        (
            {"path": f"{__file__}/x"},
            f"path='{__file__}/x': '{__file__}' is a file; choose a name in a folder",
        ),
        ({"ctas": 64}, "no option 'ctas'; there are instrument"),
        ({"kernel": print}, "is not a @triton.jit"),
    ],
)
def test_bad_arguments(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    given = {"kernel": softmax_kernel, "signature": SIGNATURE, "target": "cuda:90", "path": tmp_path / "x"}
    with pytest.raises(OptionError, match=says):
        profscope.export(**given | change)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU is the target then")
def test_without_a_gpu_there_is_no_target_but_one_that_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match='there is no GPU here; name one, such as target="cuda:90"'):
        profscope.export(softmax_kernel, SIGNATURE, tmp_path / "x")


def test_a_kernel_that_does_not_compile(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"kernel untyped: at 2:53:[^~]*unknown_name is not defined"):
        profscope.export(untyped, {"x_ptr": "*fp32", "count": "i32"}, tmp_path / "x", target="cuda:90")


def test_inside_a_session(tmp_path: Path) -> None:
    profscope.export(softmax_kernel, SIGNATURE, tmp_path / "outside", target="cuda:90")
    with profscope.session(backend="emulator"):
        profscope.export(softmax_kernel, SIGNATURE, tmp_path / "inside", target="cuda:90")
    assert (tmp_path / "inside.cubin").read_bytes() == (tmp_path / "outside.cubin").read_bytes()


def test_an_export_replaces_the_one_before(tmp_path: Path) -> None:
    profscope.export(softmax_kernel, SIGNATURE, tmp_path / "a.v2", target="cuda:90")
    made = profscope.export(softmax_kernel, SIGNATURE | {"BLOCK": 128}, tmp_path / "a.v2", target="cuda:80")
    assert Description.read(tmp_path / "a.v2.json").document["sha256"] == made.document["sha256"]
    assert "for cuda:80" in (tmp_path / "a.v2.h").read_text()
    (tmp_path / "a.v2.cubin").write_bytes(b"\x7fELF of another compiler")
    with pytest.raises(OptionError, match=r"a\.v2\.cubin': profscope did not write"):
        profscope.export(softmax_kernel, SIGNATURE, tmp_path / "a.v2", target="cuda:90")


@pytest.mark.parametrize("suffix", [".cubin", ".json", ".h"])
def test_an_export_replaces_no_file_of_others(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / f"a{suffix}"
    theirs.write_text("/* of the user */")
    monkeypatch.setattr(triton, "compile", None)  # it is an error before
    with pytest.raises(OptionError, match=rf"cannot write '{theirs}': profscope did not write the file"):
        profscope.export(softmax_kernel, SIGNATURE, tmp_path / "a", target="cuda:90")
    assert theirs.read_text() == "/* of the user */"
    assert os.listdir(tmp_path) == [theirs.name]


def test_an_export_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profscope.export(softmax_kernel, SIGNATURE, tmp_path / "a", target="cuda:90")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def on_a_full_disk(path: Path) -> Any:
        if path.suffix == ".h":
            raise OSError(errno.ENOSPC, "no space")
        return whole_file(path)

    monkeypatch.setattr(exporting, "whole_file", on_a_full_disk)
    with pytest.raises(OSError, match="no space"):
        profscope.export(softmax_kernel, SIGNATURE, tmp_path / "a", target="cuda:80")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_nothing_is_left_installed(tmp_path: Path) -> None:
    before = knobs.runtime.add_stages_inspection_hook, knobs.compilation.instrumentation_mode
    profscope.export(softmax_kernel, SIGNATURE | {"rows": "i32:1"}, tmp_path / "x", target="cuda:90")
    assert (knobs.runtime.add_stages_inspection_hook, knobs.compilation.instrumentation_mode) == before
