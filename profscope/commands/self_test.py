"""`profscope doctor --self-test`: kernels with known answers, recorded and analysed.

They run in another process, since they may crash. The file has results and the machine, but no names of users
and folders, for bug reports.
"""

from __future__ import annotations

import getpass
import json
import linecache
import re
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from profscope.commands.doctor_rows import FAILED, OK, Row, answers
from profscope.experiments.worker_processes import serve
from profscope.progress import working
from profscope.recording.diagnostics import one_line

if TYPE_CHECKING:
    from profscope.demo.known_answers import Case
    from profscope.sessions import Session

__all__ = ["KERNELS", "differences", "document", "main", "self_test", "without_names"]

KERNELS: Final = ("softmax", "scattered", "rounds", "atomic", "matmul")
SCHEMA: Final = "profscope-self-test/1"
_PROGRAM: Final = "from profscope.commands.self_test import main; main()"
_LAUNCHES: Final = 9  # one is recorded, one counts, experiments are made before the fourth or the eighth
_CTAS: Final = 16
_GPU_CTAS: Final = 1024  # so that launches take longer than what else differs between them
_SECONDS: Final = 60
_TOLERANCE: Final = 0.02  # of counts, which are scaled up on a GPU
_FOLDERS: Final = re.compile(r"(?<![\w.~])(?:~|/[^\s/,;:'\"()]+)(?:/[^\s/,;:'\"()]+)*/(?=[^\s/,;:'\"()])")


def self_test() -> dict[str, Row]:
    """By kernel, whether all was found that it has."""
    with working("testing five kernels"):
        return answers(KERNELS, _PROGRAM)


def main() -> int:
    """Serve `self_test`, until it closes the pipe or is gone."""
    serve(lambda name: asdict(_tested(name)))
    return 0


def _tested(name: str) -> Row:
    try:
        from profscope.demo.known_answers import CASES

        return _of_case(next(each for each in CASES if each.name == name))
    except Exception as error:  # noqa: BLE001  whatever it is, it is what differs
        return Row(FAILED, one_line(error), {"traceback": traceback.format_exc()})


def _of_case(case: Case) -> Row:
    import torch

    import profscope
    from profscope.device.backend import select

    with select("auto") as machine:
        on_gpu = machine.emulated is None
    ctas, device = (_GPU_CTAS, "cuda") if on_gpu else (_CTAS, "cpu")
    evidence = ["records", "experiments", f"seconds:{_SECONDS}"]
    with profscope.session(instrument="heavy", evidence=evidence) as prof:
        for _ in range(_LAUNCHES):
            result, right = case.launch(device, ctas)
    wrong = [] if torch.allclose(result, right, rtol=1e-3) else ["results: other values than torch has"]
    has_evidence = torch.version.hip is None
    wrong += differences(case, prof, ctas, has_evidence=has_evidence)
    facts = {"differs": wrong, **_facts(prof)}
    done = f"results, spans{', counts, experiments' if has_evidence else '; AMD GPUs give no evidence'}"
    return Row(FAILED if wrong else OK, "; ".join(wrong) or done, facts)


def differences(case: Case, prof: Session, ctas: int, *, has_evidence: bool = True) -> list[str]:
    """Differences of a profile of a case from its known answer. has_evidence: whether such GPUs give any."""
    launches = len(prof.launches)
    if not launches:
        return ["recording: no launch"]
    found = [*_of_spans(case, prof, launches, ctas)]
    if has_evidence:
        found += [*_of_counts(case, prof, ctas), *_of_experiments(case, prof)]
    return found


def _of_spans(case: Case, prof: Session, launches: int, ctas: int) -> Iterator[str]:
    from profscope.demo.known_answers import WARPS

    spans = prof.df
    number = spans["scope"].value_counts()
    for word, a_warp in {f"{case.name}_kernel": 1, **case.spans}.items():
        wanted = a_warp * WARPS * ctas * launches
        there = sum(spans_there for scope, spans_there in number.items() if word in str(scope).split())
        if there != wanted:
            yield f"spans: {there:,} of {word!r} instead of {wanted:,}"
    ends = spans["start_cycle"] + spans["duration_cycles"]
    of_warp = [spans[name] for name in ("launch", "cta", "warp")]
    kernels = spans["kind"] == "kernel"
    first = spans["start_cycle"].where(kernels).groupby(of_warp).transform("max")
    last = ends.where(kernels).groupby(of_warp).transform("max")
    is_outside = (spans["start_cycle"] < first) | (ends > last) | (spans["duration_cycles"] < 0)
    if outside := int(is_outside.sum()):
        yield f"spans: {outside:,} outside their warp's kernel"


def _of_counts(case: Case, prof: Session, ctas: int) -> Iterator[str]:
    counts = prof.counts
    if not len(counts):
        yield "counts: none"
        return
    for text, of_cta in case.sectors.items():
        is_there = [
            text in linecache.getline(file, line)
            for file, line in zip(counts["file"], counts["line"], strict=True)
        ]
        there = float((counts["sectors"] / counts["launches"])[is_there].sum())
        if abs(there - of_cta * ctas) > _TOLERANCE * of_cta * ctas:
            yield f"counts: {there:,.0f} sectors of `{text}` instead of {of_cta * ctas:,}"


def _of_experiments(case: Case, prof: Session) -> Iterator[str]:
    op, how, least = case.costs
    rows = prof.experiments
    rows = rows[(rows["op"] == op) & (rows["experiment"] == how)]
    if not len(rows):
        yield f"experiments: none of {op!r}, {how}"
    elif (
        not rows["valid"].iloc[0] and least > 0
    ):  # else it shows that experiments are made, not what they save
        yield f"experiments: {op!r}, {how}: {rows['why_not'].iloc[0]}"
    elif not (saved := rows["saved_pct"].iloc[0]) >= least:
        yield f"experiments: {op!r}, {how}, saves {saved:.1f} % instead of {least:g} % or more"


def _facts(prof: Session) -> dict[str, Any]:
    metadata = prof.metadata
    experiments = prof.experiments[["op", "experiment", "saved_pct", "low_pct", "high_pct", "why_not"]]
    return {
        "backend": metadata["backend"],
        "launches": len(prof.launches),
        "spans": prof.df["scope"].value_counts().to_dict(),
        "median_cycles": prof.df.groupby("scope")["duration_cycles"].median().to_dict(),
        "sectors": int(prof.counts["sectors"].sum()),
        "experiments": json.loads(experiments.to_json(orient="values")),
        "verdict": prof.verdict.label,
        "not_measured": metadata["evidence"]["not_measured"],
        "notes": list(metadata["notes"]),
    }


def document(tested: Mapping[str, Row], machine: Mapping[str, Row]) -> Any:
    """The file of a self-test."""
    told: dict[str, Any] = {"schema": SCHEMA}
    told["kernels"] = {name: asdict(row) for name, row in tested.items()}
    told["machine"] = {name: asdict(row) for name, row in machine.items()}
    return without_names(told, str(Path.home()), getpass.getuser())


def without_names(value: Any, home: str, user: str) -> Any:
    """A JSON value without folders, except files' own names, and without a user's name."""
    if isinstance(value, Mapping):
        return {name: without_names(each, home, user) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_names(each, home, user) for each in value]
    if not isinstance(value, str):
        return value
    text = _FOLDERS.sub("", value.replace(home, "~") if home != "/" else value)
    return re.sub(rf"\b{re.escape(user)}\b", "USER", text) if user != "root" else text
