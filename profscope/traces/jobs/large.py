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
    heads, unread = read_heads(job.folder, job.paths)
    heads, said = of_one_run(job, heads, [*job.notes, *unread])
    without = [head for head in heads if not head.is_summed]
    said += [
        f"rank {head.rank} is missing: {head.name} has no sums; rank={head.rank} shows it" for head in without
    ]
    heads = [head for head in heads if head.is_summed]
    if not heads:
        raise TraceError(f"{file} has no part that can be read: {'; '.join(said)}")
    shown, launch = (_slowest(heads), None) if only.launch is None else _with_launch(heads, only.launch)
    rank = heads[shown].rank
    loaded = load_part(job.paths[rank], replace(only, launch=launch, variant=None))
    spans = sum(job.spans.values())
    file.left_out = spans - len(loaded.tables.df)
    said.append(
        f"the {spans:,} spans of all ranks are summed, not held in memory: span tables, findings and the "
        f"timeline are of rank {rank}, {'the slowest' if only.launch is None else 'which made it'}; "
        "rank=N shows another"
    )
    return merged_stack(stack_of(heads, rank, loaded.tables), said, rank)


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
