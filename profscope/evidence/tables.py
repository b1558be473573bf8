"""The tables `counts`, `counters` and `experiments`, from what the witnesses kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.binaries.rows import instructions
from profscope.errors import OptionError, ToolchainError
from profscope.evidence.metrics import COUNTERS, COUNTS, user_counters
from profscope.evidence.sample_tables import Number, numbering, sample_tables
from profscope.evidence.subject import (
    CountedLaunch,
    CounterValues,
    ExperimentedKernel,
    SampledLaunch,
    Subject,
)
from profscope.schema import MEASURED_DTYPES, Tables, measured_frame

__all__ = ["Evidence", "counters_table", "counts_table", "evidence", "experiments_table", "with_evidence"]


@dataclass(frozen=True, eq=False)
class Evidence:
    """All that a session has of the hardware, before it is joined with the launches.

    samples: as `sample_tables` returns them, None if there are none. about: JSON-able; `configurations`, a
    list of [kernel, variant, key] of the other tables, and `notes`.
    """

    samples: tuple[pd.DataFrame, dict[str, Any]] | None
    counts: pd.DataFrame
    counters: pd.DataFrame
    experiments: pd.DataFrame
    about: dict[str, Any]


def evidence(
    counts: Sequence[CountedLaunch],
    samples: Sequence[SampledLaunch],
    counters: Sequence[CounterValues],
    experiments: Sequence[ExperimentedKernel] = (),
    added: Sequence[str] = (),
) -> Evidence:
    """Tables of what the witnesses kept. added: see `counters_table`."""
    number = numbering({})
    counts_of, notes = counts_table(counts, number)
    counters_of, more = counters_table(counters, number, added)
    subjects = [*(each.subject for each in counts), *(each.subject for each in counters)]
    keys = dict.fromkeys((subject.kernel, subject.key) for subject in subjects)
    keys |= dict.fromkeys((each.kernel, each.key) for each in experiments)
    configurations = [[kernel, number(kernel, key), key] for kernel, key in keys]
    about = {"configurations": configurations, "notes": [*notes, *more]}
    sampled = sample_tables(samples, number) if samples else None
    return Evidence(sampled, counts_of, counters_of, experiments_table(experiments, number), about)


def with_evidence(tables: Tables, evidence: Evidence) -> Tables:
    """Tables with the evidence, in their own numbers of configurations."""
    metadata, notes = dict(tables.metadata), list(tables.metadata.get("notes") or ())
    number = numbering(metadata.get("variants") or {})
    measured = {}
    if evidence.samples is not None:
        samples, sampler = evidence.samples
        binaries = sampler["binaries"]
        told = [(each["kernel"], each["variant"], each["key"]) for each in binaries]
        measured["samples"] = _renumbered(samples, told, number)
        binaries = [{**each, "variant": number(each["kernel"], each["key"])} for each in binaries]
        metadata["sampler"] = {**(metadata.get("sampler") or {}), **sampler, "binaries": binaries}
        notes += sampler["notes"]
    for name in ("counts", "counters", "experiments"):
        measured[name] = _renumbered(getattr(evidence, name), evidence.about["configurations"], number)
    metadata["notes"] = [*notes, *evidence.about["notes"]]
    return replace(tables, metadata=metadata, **measured)


def _renumbered(table: pd.DataFrame, told: Iterable[Sequence[Any]], number: Number) -> pd.DataFrame:
    """told: the kernel, number and key of each of its configurations."""
    new = {(kernel, variant): number(kernel, key) for kernel, variant, key in told}
    keys = zip(table["kernel"], table["variant"].tolist(), strict=True)
    return table.assign(variant=np.array([new.get(key, key[1]) for key in keys], np.int32))


def counts_table(launches: Sequence[CountedLaunch], number: Number) -> tuple[pd.DataFrame, list[str]]:
    """The table `counts`, columns of COUNT_DTYPES, and notes for the user.

    One row for each instruction of a configuration, in the order of the binary. An instruction of a binary
    that cannot be read has no opcode and no place, and a note says why.
    """
    parts, notes = [], []
    for group in _of_configurations(launches, number).values():
        first = group[0]
        subject = first.subject
        same = [each for each in group if each.subject.cubin == subject.cubin]
        if len(same) < len(group):
            notes.append(f"{subject.kernel}: instructions of one of its binaries are counted")
        callees = sum(each.in_callees for each in same)
        if callees:
            notes.append(f"{subject.kernel}: {callees} instructions of noinline functions are left out")
        totals = {name: np.sum([each.counts[name] for each in same], axis=0) for name in COUNTS}
        counted = pd.DataFrame({"pc": first.pcs, **totals})
        places, why = _places(subject)
        notes += [f"{subject.kernel}: {each}" for each in why]
        rows = counted.merge(places, on="pc", how="left", sort=False)
        rows = rows.fillna({"line": 0, "column": 0}).fillna("")
        parts.append(
            rows.assign(
                kernel=subject.kernel,
                variant=number(subject.kernel, subject.key),
                launches=len(same),
            )
        )
    return _table("counts", parts), notes


def counters_table(
    results: Sequence[CounterValues], number: Number, added: Sequence[str] = ()
) -> tuple[pd.DataFrame, list[str]]:
    """The table `counters`, columns of COUNTER_DTYPES, and notes for the user.

    One row for each counter of a configuration. Where launches of several shapes were counted, those of the
    longest time stand for it. added: NVIDIA's names of the metrics that the user added.
    """
    parts, notes = [], []
    for group in _of_configurations(results, number).values():
        longest = max(group, key=lambda each: each.values.get(_TIME, 0.0))
        subject = longest.subject
        if len(group) > 1:
            notes.append(
                f"{subject.kernel}: its counters are of the longest of {len(group)} shapes of launches"
            )
        rows = [
            {
                "counter": counter.name,
                "metric": read[0],
                "value": read[1],
                "unit": counter.unit,
                "peak_pct": read[2],
            }
            for counter in (*COUNTERS, *user_counters(added))
            if (read := counter.read(longest.values)) is not None
        ]
        parts.append(
            pd.DataFrame(rows).assign(
                kernel=subject.kernel,
                variant=number(subject.kernel, subject.key),
                launches=longest.launches,
            )
        )
    return _table("counters", parts), notes


def experiments_table(kernels: Sequence[ExperimentedKernel], number: Number) -> pd.DataFrame:
    """The table `experiments`, columns of EXPERIMENT_DTYPES, in the order in which they were made."""
    return _table(
        "experiments", [each.rows.assign(variant=number(each.kernel, each.key)) for each in kernels]
    )


_TIME: Final = COUNTERS[0].metric


def _of_configurations(results: Sequence[Any], number: Number) -> dict[tuple[str, int], list[Any]]:
    groups: dict[tuple[str, int], list[Any]] = {}
    for each in results:
        subject: Subject = each.subject
        groups.setdefault((subject.kernel, number(subject.kernel, subject.key)), []).append(each)
    return dict(sorted(groups.items()))


def _places(subject: Subject) -> tuple[pd.DataFrame, list[str]]:
    """By pc the opcode and the place in the source, and notes."""
    columns = ["pc", "opcode", "file", "line", "column", "call_path"]
    try:
        df = instructions(SimpleNamespace(asm={"cubin": subject.cubin, "ptx": subject.ptx}))
    except (OptionError, ToolchainError) as error:
        empty = pd.DataFrame({name: pd.Series(dtype="int64") for name in columns})
        return empty.astype(dict.fromkeys(("opcode", "file", "call_path"), "str")), [
            f"counts have no lines: {error}"
        ]
    texts = {"opcode": "str", "file": "str", "call_path": "str"}
    return df[columns].astype(texts), list(df.attrs["notes"])


def _table(name: str, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    if not parts:
        return measured_frame(name)
    whole = pd.concat(parts, ignore_index=True)
    return measured_frame(name, {column: whole[column] for column in MEASURED_DTYPES[name]})
