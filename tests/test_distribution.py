"""The distribution: what the sdist and the wheel hold, and that the wheel works where nothing else is."""

from __future__ import annotations

import configparser
import email
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import profscope
from profscope.installed import EXTRAS
from profscope.profiles import load

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "profscope": "profscope",
    **{name: f"profscope/{name}" for name in ("instrument_passes", "viewer")},
}
"""Where the packages are in the repository, and in what is distributed."""
WEB = "profscope/traces/html/web"
BUNDLED = {f"{WEB}/{name}" for name in ("report.js", "report.css", "LICENSE-uPlot.txt")}
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def run(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that knows nothing of this checkout."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(part) for part in arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        check=False,
    )


def succeed(*arguments: str | Path, cwd: Path) -> str:
    """Standard output of a command that must succeed."""
    done = run(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(kind: str, source: Path, out: Path) -> Path:
    """The "sdist" or "wheel" of a source tree, by the build backend itself, without the network."""
    code = f"import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
    succeed(sys.executable, "-c", code, out, cwd=source)
    (built,) = out.glob("*.tar.gz" if kind == "sdist" else "*.whl")
    return built


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing appears in the checkout."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("sdist")
    names = ["pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "docs", *FOLDERS]
    succeed("cp", "-r", *(ROOT / name for name in names), source, cwd=ROOT)
    return build("sdist", source, out)


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist, which must hold all that takes."""
    unpacked, out = tmp_path_factory.mktemp("unpacked"), tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    return build("wheel", source, out)


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands of an environment with the wheel and what it requires, and nothing else."""
    root = tmp_path_factory.mktemp("environment")
    succeed(sys.executable, "-m", "venv", "--without-pip", root, cwd=root)
    pip = (sys.executable, "-m", "pip", "--python", root / "bin" / "python")
    succeed(*pip, "install", "--quiet", "--no-index", "--no-deps", "--no-compile", wheel, cwd=root)
    (site,) = root.glob("lib/python*/site-packages")
    for name in required(DECLARED["dependencies"]):
        link(metadata.distribution(name), site)
    assert succeed(*pip, "check", cwd=root) == "No broken requirements found.\n"
    return root / "bin"


def required(requirements: list[str]) -> set[str]:
    """The names of distributions that requirements ask for here, those that these ask for included."""
    names: set[str] = set()
    waiting = list(requirements)
    while waiting:
        text, _, marker = waiting.pop().partition(";")
        name = re.match(r"[\w.-]+", text.strip())[0]  # type: ignore[index]
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            assert marker, f"{name} is required and not installed"
            continue  # for another system, or an extra
        if "extra" not in marker and name not in names:
            names.add(name)
            waiting += distribution.requires or []
    return names


def link(distribution: metadata.Distribution, site: Path) -> None:
    """Put an installed distribution into another environment."""
    assert distribution.files is not None
    for name in {file.parts[0] for file in distribution.files} - {"..", "__pycache__"}:
        target = Path(str(distribution.locate_file(name)))
        if target.exists() and not (site / name).exists():
            (site / name).symlink_to(target)


def test_the_sdist_holds_what_a_build_and_a_reader_need(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "docs/architecture.md"} <= names
    modules = {
        f"{inside}/{file.relative_to(ROOT / folder)}"
        for folder, inside in FOLDERS.items()
        for file in (ROOT / folder).rglob("*.py")
    }
    assert modules <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests/")]


def test_the_wheel_is_typed_and_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        info = next(name for name in names if name.endswith(".dist-info/METADATA"))
        about = email.message_from_bytes(archive.read(info))
    assert {f"{package}/py.typed" for package in FOLDERS.values()} <= names
    assert {name.partition("/")[0] for name in names} == {"profscope", info.partition("/")[0]}
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert about["License-Expression"] == "MIT"
    assert about["Version"] == profscope.__version__
    assert "profiler" in about["Keywords"].split(",")
    assert "Typing :: Typed" in about.get_all("Classifier")
    assert set(about.get_all("Provides-Extra")) >= set(EXTRAS)


def test_the_wheel_has_all_files_that_modules_read(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    data = {
        f"{inside}/{file.relative_to(ROOT / folder)}"
        for folder, inside in FOLDERS.items()
        for file in (ROOT / folder).rglob("*.*")
        if file.is_file() and file.suffix not in (".py", ".pyc") and file.name != "ruff.toml"
        if not any(part.startswith(".") for part in file.relative_to(ROOT).parts)
    }
    sources = {name for name in data if name.startswith(f"{WEB}/") and name not in BUNDLED}
    assert data - sources <= names
    assert data >= BUNDLED
    assert any(name.endswith("report.schema.json") for name in data)
    assert not sources & names


def test_the_wheel_has_the_entry_points_that_are_declared(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = next(name for name in archive.namelist() if name.endswith("/entry_points.txt"))
        written = configparser.ConfigParser()
        written.read_string(archive.read(info).decode())
    declared = {"console_scripts": DECLARED["scripts"], **DECLARED["entry-points"]}
    assert {name: dict(written[name]) for name in written.sections()} == declared


@pytest.mark.exhaustive
def test_every_module_of_the_wheel_imports(wheel: Path, environment: Path, tmp_path: Path) -> None:
    """With the packages that these tests run with behind it."""
    with zipfile.ZipFile(wheel) as archive:
        files = [name for name in archive.namelist() if name.endswith(".py") and "__main__" not in name]
    modules = [name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in files]
    assert len(modules) > 300
    (site,) = environment.parent.glob("lib/python*/site-packages")
    code = f"import importlib; [importlib.import_module(name) for name in {modules}]"
    succeed(
        "env", f"PYTHONPATH={site}:{sysconfig.get_path('purelib')}", environment / "python", "-c", code,
        cwd=tmp_path,
    )  # fmt: skip


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One commit, and no tag, of what is here."""
    copied = tmp_path / "repository"
    copied.mkdir()
    names = ["pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", ".ci", *FOLDERS]
    succeed("cp", "-r", *(ROOT / name for name in names), copied, cwd=ROOT)
    git = ("git", "-c", "user.name=nobody", "-c", "user.email=nobody")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "all")):
        succeed(*git, *words, cwd=copied)
    return copied


def released(repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run("env", f"PYTHON={sys.executable}", repository / ".ci" / "make-wheel", *words, cwd=repository)


@pytest.mark.exhaustive
def test_a_release_has_the_version_of_its_tag_and_leaves_the_checkout_as_it_is(repository: Path) -> None:
    assert released(repository, "out", "v1.2.3rc1").returncode == 0
    wheel, sdist = sorted(path.name for path in (repository / "out").iterdir())
    assert (wheel, sdist) == ("profscope-1.2.3rc1-py3-none-any.whl", "profscope-1.2.3rc1.tar.gz")
    with zipfile.ZipFile(repository / "out" / wheel) as archive:
        module = archive.read("profscope/instrument_passes/__init__.py").decode()
    assert '__version__ = "1.2.3rc1"' in module
    assert succeed("git", "status", "--porcelain", cwd=repository) == "?? out/\n"


@pytest.mark.parametrize("tag", ["v1.2", 'v1.2.3"'])
def test_what_is_no_tag_of_a_release_is_refused(tag: str, repository: Path) -> None:
    done = released(repository, "out", tag)
    assert (done.returncode, done.stderr) == (2, f"{tag} is not the tag of a release, such as v0.1.0\n")


_DISTRIBUTIONS = {"upath": "universal-pathlib"}  # of modules with another name


def test_the_extras_that_are_looked_for_are_those_declared() -> None:
    for extra, modules in EXTRAS.items():
        declared = {re.match(r"[\w-]+", text)[0] for text in DECLARED["optional-dependencies"][extra]}  # type: ignore[index]
        needed = {_DISTRIBUTIONS.get(module, module.replace("_", "-")) for module in modules}
        assert needed <= declared


def test_the_environment_has_neither_triton_nor_the_checkout(environment: Path, tmp_path: Path) -> None:
    code = "import profscope, importlib.util as u; print(profscope.__file__, u.find_spec('triton'))"
    file, triton = succeed(environment / "python", "-c", code, cwd=tmp_path).split()
    assert Path(file).is_relative_to(environment.parent)
    assert triton == "None"


def test_the_commands_run(environment: Path, tmp_path: Path) -> None:
    assert "usage: profscope view" in succeed(environment / "profscope", "view", "--help", cwd=tmp_path)
    assert "usage: profscope opt" in succeed(environment / "profscope", "opt", "--help", cwd=tmp_path)
    assert "profscope run PROGRAM" in succeed(environment / "profscope", cwd=tmp_path)
    assert succeed(environment / "profscope", "run", "-c", "print('ran')", cwd=tmp_path) == "ran\n"
    said = succeed(environment / "python", "-m", "profscope", cwd=tmp_path)
    assert f"profscope {profscope.__version__}: " in said


PROGRAM = """
import profscope, torch, triton, triton.language as tl

@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)

x, out = torch.arange(256.0), torch.empty(256)
copy_kernel[(2,)](x, out, 256, BLOCK=128)
print(torch.equal(x, out), profscope.__file__)
"""


def test_a_program_is_recorded_on_the_emulator(environment: Path, tmp_path: Path) -> None:
    """With the packages that these tests run with behind the wheel, whose own modules come first."""
    (tmp_path / "copy_program.py").write_text(PROGRAM)
    (site,) = environment.parent.glob("lib/python*/site-packages")
    with_triton = ("env", f"PYTHONPATH={site}:{sysconfig.get_path('purelib')}")
    command = (*with_triton, environment / "profscope")
    run_words = ("run", "--backend", "emulator", "--ctas", "1", "-q", "-o", "t.json", "copy_program.py")
    is_equal, file = succeed(*command, *run_words, cwd=tmp_path).split()
    assert (is_equal, Path(file).is_relative_to(site)) == ("True", True)
    assert len(load(tmp_path / "t.json").launches) == 1


def test_what_needs_triton_says_what_to_install(environment: Path, tmp_path: Path) -> None:
    line = "profscope.session() needs triton and torch: pip install 'profscope[triton]'\n"
    done = run(environment / "python", "-c", "import profscope; profscope.session()", cwd=tmp_path)
    assert done.stderr.endswith(f"\nprofscope.errors.SessionError: {line}")
    done = run(environment / "python", "-m", "profscope.demo", "trace.json", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"profscope.demo: {line}")
