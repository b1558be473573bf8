"""`profscope doctor`: tests and prints what this machine allows. All rows, in order, and what follows from
them."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from profscope.around.job import JOB, RANKS, SIZES
from profscope.commands.doctor_rows import FAILED, MISSING, OK, REFUSED, Row, answers
from profscope.commands.run_variables import PREFIX
from profscope.commands.self_test import document, self_test
from profscope.device.gpus import cache_folder
from profscope.errors import exit_status, run_command
from profscope.evidence.cupti import (
    EMULATED,
    FORBIDDEN,
    TOOL_VARIABLES,
    has_sys_admin,
    is_for_administrators,
    several_ranks,
)
from profscope.installed import require
from profscope.progress import working
from profscope.traces.output import whole_file
from profscope.traces.own_files import check_replaceable
from profscope.version import __version__

__all__ = [
    "SECTIONS",
    "VARIABLES",
    "as_json",
    "as_text",
    "environment",
    "main",
    "make_parser",
    "rows",
    "to_do",
]

SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Installed": ("profscope", "python", "triton", "torch", "ptxas", "nvdisasm", "cuobjdump", "cupti"),
    "Machine": ("gpu", "peaks", "permission", "ranks"),
    "Evidence by CUPTI": ("counts", "samples", "counters"),
    "Without permission or GPU": ("records", "experiments", "emulator"),
    "Files": ("cache",),
}
"""The names of all rows, in order."""

VARIABLES: Final[Mapping[str, str]] = {
    "PROFSCOPE_EMULATOR": "1: kernels run on the emulator",
    JOB: "the run that all ranks belong to",
    **dict.fromkeys(RANKS, "the rank of this process"),
    **dict.fromkeys(SIZES, "how many ranks the job has"),
    "MASTER_ADDR": "the host of rank 0, with which clocks are compared",
    "CUDA_VISIBLE_DEVICES": "the GPUs that this process may use",
    "TRITON_HOME": "the folder of .triton/cache, if not the home",
    "TRITON_CACHE_DIR": "where Triton keeps binaries, recorded ones too",
    "TRITON_PTXAS_PATH": "another ptxas than Triton's",
    "TRITON_NVDISASM_PATH": "another nvdisasm than Triton's",
    "TRITON_CUOBJDUMP_PATH": "another cuobjdump than Triton's",
    "TRITON_ALWAYS_COMPILE": "1: no experiments",
    "XDG_CACHE_HOME": "where profscope keeps the peaks of GPUs, in profscope/peaks",
    "TORCHINDUCTOR_CACHE_DIR": "where Inductor keeps its libraries",
    "PYTHON_EXEC": "what torchrun starts ranks with",
    **dict.fromkeys(TOOL_VARIABLES, "set by a tool that has CUPTI to itself"),
}
"""By name, what the environment variables that profscope reads, or that decide what it finds, are for."""

_INSTALLED: Final = ("triton", "torch", "ptxas", "nvdisasm", "cuobjdump", "cupti", "gpu")
_WITNESSES: Final = ("counts", "samples", "counters")
_CHECKS: Final = "from profscope.commands.doctor_checks import main; main()"
_TRIED: Final = ("8.", "9.0")  # how the compute capabilities begin that profscope was run on
_INSTALL: Final = "pip install 'profscope[triton]'"
_ALLOW: Final = "NVreg_RestrictProfilingToAdminUsers=0 for the driver, or SYS_ADMIN for a container"
_NO_PERMISSION: Final = 'evidence=["records", "experiments"] (--evidence records,experiments)'


def rows(environ: Mapping[str, str] = os.environ, *, measures: bool = False) -> dict[str, Row]:
    """By name, in the order of SECTIONS. measures: have the peaks of the GPU measured."""
    found = answers(_INSTALLED, _CHECKS)
    ranked = several_ranks(environ)
    unobservable = _unusable(found, "triton", "torch", "cupti") or (Row(REFUSED, ranked) if ranked else None)
    found |= dict.fromkeys(_WITNESSES, unobservable) if unobservable else answers(_WITNESSES, _CHECKS)
    check = "measured peaks" if measures else "peaks"
    found |= {
        "profscope": Row(OK, __version__, {"version": __version__}),
        "python": Row(OK, f"{platform.python_version()}, {sys.executable}", _of_python()),
        "peaks": _unusable(found, "triton", "torch") or answers([check], _CHECKS)[check],
        "permission": _permission(),
        "ranks": Row(REFUSED, ranked) if ranked else Row(OK, "this process is no rank of a job"),
        "cache": _cache(environ),
    }
    found |= _replacements(found)
    return {name: found[name] for names in SECTIONS.values() for name in names}


def _unusable(found: Mapping[str, Row], *needed: str) -> Row | None:
    """Why the GPU need not be tried; None if it must be. needed: rows that must be ok."""
    gpu, torch = found["gpu"], found["torch"]
    if not gpu.is_ok:
        return Row(MISSING, f"no GPU, and {EMULATED}" if gpu.state == MISSING else gpu.text)
    lacking = [name for name in needed if not found[name].is_ok]
    if lacking:
        return Row(MISSING, f"needs {', '.join(lacking)}")
    return None if torch.facts["cuda"] else Row(MISSING, "torch is built without CUDA")


def _of_python() -> dict[str, Any]:
    return {"version": platform.python_version(), "path": sys.executable}


def _permission() -> Row:
    """What the driver's settings say of counters, which the rows of CUPTI try."""
    administrators, sys_admin = is_for_administrators(), has_sys_admin()
    facts = {"administrators_only": administrators, "sys_admin": sys_admin}
    if administrators is None:
        return Row(MISSING, "unknown: no /proc/driver/nvidia/params", facts)
    if not administrators:
        return Row(OK, "the driver gives counters to everybody (RmProfilingAdminOnly: 0)", facts)
    who = "which this process is" if sys_admin else "and this process has no CAP_SYS_ADMIN"
    text = f"the driver gives counters to administrators only (RmProfilingAdminOnly: 1), {who}"
    return Row(OK if sys_admin else REFUSED, text, facts)


def _cache(environ: Mapping[str, str]) -> Row:
    """Where Triton keeps binaries (see `triton.knobs`), and profscope the peaks of GPUs."""
    home = Path(environ.get("TRITON_HOME") or Path.home())
    folder = Path(environ.get("TRITON_CACHE_DIR") or home / ".triton" / "cache")
    kept = cache_folder(environ)
    facts = {"path": str(folder), "profscope": str(kept)}
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if not os.access(there, os.W_OK):
        return Row(FAILED, f"{there} cannot be written: set TRITON_CACHE_DIR", facts)
    there_yet = {path: "" if path.exists() else ", not there yet" for path in (folder, kept)}
    return Row(OK, f"{folder} (binaries{there_yet[folder]}), {kept} (peaks{there_yet[kept]})", facts)


def _replacements(found: Mapping[str, Row]) -> dict[str, Row]:
    """What needs no permission, and what each of them replaces."""
    lacking = [name for name in ("triton", "torch") if not found[name].is_ok]
    if lacking:
        needs = Row(MISSING, f"needs {' and '.join(lacking)}")
        return dict.fromkeys(("records", "experiments", "emulator"), needs)
    gpu = found["gpu"]
    counted = "executions, active lanes and sectors that the kernel counts itself: in place of counts"
    cost = "what a line costs, measured by leaving it out: in place of samples and counters"
    emulated = "runs PTX for sm_80 on the CPU, counts its instructions, has cycles of a cost model"
    no_records = "no GPU, and the emulator counts instructions itself"
    return {
        "records": Row(OK, counted)
        if gpu.is_ok
        else Row(MISSING, no_records if gpu.state == MISSING else gpu.text),
        "experiments": Row(OK, cost),
        "emulator": Row(OK, emulated),
    }


def environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of VARIABLES that are set, and the defaults of `profscope run`."""
    defaults = sorted(name for name in environ if name.startswith(PREFIX))
    return {name: environ[name] for name in (*VARIABLES, *defaults) if name in environ}


def to_do(found: Mapping[str, Row], environ: Mapping[str, str] = os.environ) -> str:
    """One line: the first thing that stands in the way of a finding, and what helps."""
    gpu, torch, witnesses = found["gpu"], found["torch"], [found[name] for name in _WITNESSES]
    for name in ("triton", "torch"):
        if found[name].state == MISSING:
            return f"to record kernels: {_INSTALL}; traces can be viewed and compared without"
        if not found[name].is_ok:
            return f"install another {name}: {found[name].text}"
    if gpu.state == MISSING:
        return "sessions run on the emulator, where findings have no gain; record on a GPU for that"
    if not gpu.is_ok:
        return f"findings rest on spans alone: {gpu.text}"
    if not torch.facts["cuda"]:
        return "install a torch that is built for CUDA: this one cannot use the GPU"
    if environ.get("PROFSCOPE_EMULATOR") == "1":
        return "unset PROFSCOPE_EMULATOR: with it, sessions run on the emulator and not on the GPU"
    if any(row.facts.get("result") in FORBIDDEN for row in witnesses):
        return f"ask for counters (rented GPUs seldom allow it): {_ALLOW}; or use {_NO_PERMISSION}"
    bad = next((name for name in ("cupti", *_WITNESSES) if not found[name].is_ok), None)
    if bad is not None:
        return f"no {bad} ({found[bad].text}): use {_NO_PERMISSION} instead"
    untried = [each["capability"] for each in gpu.facts["gpus"] if not each["capability"].startswith(_TRIED)]
    if untried:
        return f"nothing is missing, but profscope was never run on compute capability {untried[0]}"
    return "nothing is missing: `profscope run script.py` records with all evidence"


_EPILOG: Final = f"""\
examples:
  profscope doctor --json | jq -r .to_do
  profscope doctor --measure
  profscope doctor --json | jq -r .rows.counters.state

Each row is ok, missing (not in this machine), refused (this process may not
use it) or failed. With --json: "rows" has by name its "state", "text" and
"facts"; "environment" the variables that are set; "to_do" the last line.

{
    exit_status(
        "done, also if things are missing",
        "--measure measured nothing, --self-test found a difference, or output that cannot be written",
    )
}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    return run_command("profscope doctor", lambda: _doctor(words))


def _doctor(words: Sequence[str]) -> int:
    parser = make_parser()
    given = parser.parse_args(words)
    if given.self_test is not None:
        if given.json or given.measure:
            parser.error("--self-test goes alone: the file that it writes is JSON")
        return _self_test(Path(given.self_test))
    found = _found(measures=given.measure)
    written = as_json if given.json else as_text
    sys.stdout.write(written(found, environment(), to_do(found)))
    if given.measure and not found["peaks"].is_ok:
        sys.stderr.write(f"profscope doctor: --measure measured nothing: {found['peaks'].text}\n")
        return 1
    return 0


def _found(*, measures: bool = False) -> dict[str, Row]:
    with working("measuring the GPU" if measures else "looking at this machine"):
        return rows(measures=measures)


def _self_test(path: Path) -> int:
    check_replaceable(path, f"cannot write {str(path)!r}")
    require("triton", "profscope doctor --self-test")
    tested, machine = self_test(), _found()
    with whole_file(path) as file:
        file.write(json.dumps(document(tested, machine), indent=1).encode())
    lines = [f"{name:9}  {row.state:6}  {row.text}" for name, row in tested.items()]
    differs = not all(row.is_ok for row in tested.values())
    lines += [f"wrote {path}, for a bug report: it has no names of users or folders"]
    lines += [f"To do: {'report what differs, with the file' if differs else to_do(machine)}"]
    sys.stdout.write("\n".join(lines) + "\n")
    return int(differs)


def as_json(found: Mapping[str, Row], variables: Mapping[str, str], advice: str) -> str:
    """The document of --json; see docs/hardware.md."""
    told = {
        name: {"state": row.state, "text": row.text, "facts": dict(row.facts)} for name, row in found.items()
    }
    document = {"rows": told, "environment": dict(variables), "to_do": advice}
    return json.dumps(document, indent=2) + "\n"


def as_text(found: Mapping[str, Row], variables: Mapping[str, str], advice: str) -> str:
    """The rows in their sections, findings below each other."""
    width = max(map(len, [*found, *variables]))
    lines = []
    for title, names in SECTIONS.items():
        lines += [
            title,
            *(f"  {name:{width}}  {found[name].state:7}  {found[name].text}" for name in names),
            "",
        ]
    if variables:
        lines += ["Environment", *(f"  {name:{width}}  {value}" for name, value in variables.items()), ""]
    lines.append(f"To do: {advice}")
    return "\n".join(lines) + "\n"


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="profscope doctor",
        description="Say what this machine allows, why findings may be missing, and what to do.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print the same as JSON, for programs")
    parser.add_argument(
        "--measure",
        action="store_true",
        help="measure what the first GPU does at most: bandwidth, latency, FLOPs; kept for later sessions",
    )
    parser.add_argument(
        "--self-test",
        nargs="?",
        const="profscope-self-test.json",
        metavar="FILE",
        help="run five kernels with known answers, and write what was found for a bug report "
        "(default: profscope-self-test.json)",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser
