"""A job whose spans do not fit into memory: the launches and sums of all ranks, the spans of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow.compute as pc

from profscope.errors import TraceError
from profscope.schema import Tables
from profscope.traces.jobs.folder import JobFolder, of_one_run
from profscope.traces.jobs.heads import Head, read_heads, stack_of
from profscope.traces.jobs.merging import launch_offsets, merged_stack
from profscope.traces.loading import load_part
from profscope.traces.trace_file import TraceFile

__all__ = ["read_large_job"]


def read_large_job(file: TraceFile, job: JobFolder) -> Tables:
    """The spans are those of the launch that is asked for, else of the rank whose launches took longest.

    Raises TraceError where none of the parts can be read.
    """
    only = file.only
    summed = {rank: path for rank, path in job.paths.items() if path.suffix == ".parquet"}
    heads, unread = read_heads(job.folder, summed)
    others = {rank: path for rank, path in job.paths.items() if rank not in summed}
    unread += [_without_sums(rank, str(path.relative_to(job.folder))) for rank, path in others.items()]
    heads, said = of_one_run(job, heads, [*job.notes, *unread])
    said += [_without_sums(head.rank, head.name) for head in heads if not head.is_summed]
    heads = [head for head in heads if head.is_summed]
    while heads:
        shown, launch = (_slowest(heads), None) if only.launch is None else _with_launch(heads, only.launch)
        rank = heads[shown].rank
        try:
            loaded = load_part(job.paths[rank], replace(only, launch=launch, variant=None))
            break
        except TraceError as error:
            if only.launch is not None:
                raise  # it is what was asked for
            said.append(f"rank {rank} is missing: {error}")
            del heads[shown]
    if not heads:
        raise TraceError(f"{file} has no part that can be read: {'; '.join(said)}")
    spans = sum(job.spans[head.rank] for head in heads)
    file.left_out = spans - len(loaded.tables.df)
    of_one = "all figures" if only.inside else "spans, samples, findings"  # first, where a report cuts it
    which = "the slowest" if only.launch is None else "which made it"
    said.append(
        f"{of_one} are of rank {rank} alone, {which}: the {spans:,} spans of all ranks are summed, not held "
        "in memory; rank=N shows another"
    )
    return merged_stack(stack_of(heads, rank, loaded.tables), said, rank)


def _without_sums(rank: int, name: str) -> str:
    return f"rank {rank} is missing: {name} has no sums; rank={rank} shows it"


def _slowest(heads: Sequence[Head]) -> int:
    """The place of the part whose launches took longest."""
    took = [
        pc.sum(pc.subtract(each["end_ns"], each["start_ns"])).as_py() if each else 0
        for each in (head.tables.get("launches") for head in heads)
    ]
    return int(np.argmax(took))


def _with_launch(heads: Sequence[Head], launch: int) -> tuple[int, int]:
    """The place of the part with a launch of this number in the whole, and its number there."""
    stack = stack_of(heads, -1, Tables())
    launches = stack.column("launches", "launch")
    for at, (own, offset) in enumerate(zip(launches, launch_offsets(stack), strict=True)):
        if (own == launch - offset).any():
            return at, launch - offset
    raise TraceError(f"no launch {launch}; there are {sum(map(len, launches))} launches")
