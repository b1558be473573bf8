"""What the page says of each kernel: its entry in the model, its tables, and its sampled instructions."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final, cast

import pandas as pd

from profscope.analysis.answers import Answer
from profscope.analysis.findings import FindingsOf, findings_frame, findings_of
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, SkippedKernel, kernel_analyses
from profscope.analysis.kernels.roof_rows import roof_frame, roof_rows_of
from profscope.analysis.model.build import ModelSources, by_configuration, profile_model
from profscope.analysis.model.entries import KernelEntry, ProfileModel
from profscope.analysis.model.judgement import Judgement
from profscope.analysis.model.labels import differs_text
from profscope.analysis.sources import sampled_code
from profscope.instrument_passes.errors import IRError
from profscope.schema import Tables
from profscope.traces.above import attempted

__all__ = ["Kernel", "Sampled", "kernels_of", "model_of"]

Sampled = dict[tuple[str, int], list[dict[str, Any]]]
"""By file and line: pc, text, class, samples, stalls [[reason, samples]] and blamed (file, class, line), the
most sampled first; text is "" where the profile has none."""


def sampled_by_line(tables: Tables, kernel: str, variant: int) -> Sampled:
    """Those of the bare binary."""
    samples = tables.samples
    own = samples[(samples["kernel"] == kernel) & (samples["variant"] == variant)]
    texts = _texts(tables.metadata, kernel, variant, own)
    lines: Sampled = defaultdict(list)
    for key, rows in own.groupby(["file", "line", "pc"], sort=False):
        file, line, pc = cast(tuple[str, int, int], key)
        stalls = rows.groupby("stall")["samples"].sum().sort_values(ascending=False, kind="stable")
        others = rows[rows["blamed_pc"] != rows["pc"]]
        cause = others.iloc[int(others["samples"].to_numpy().argmax())] if len(others) else None
        lines[str(file), int(line)].append(
            {
                "pc": int(pc),
                "text": texts.get(int(pc), ""),
                "class": str(rows["class"].iloc[0]),
                "samples": int(rows["samples"].sum()),
                "stalls": [[str(stall), int(count)] for stall, count in stalls.items()],
                "blamed": None
                if cause is None
                else (str(cause["blamed_file"]), str(cause["blamed_class"]), int(cause["blamed_line"])),
            }
        )
    return {place: sorted(rows, key=lambda row: -row["samples"]) for place, rows in lines.items()}


def _texts(metadata: dict[str, Any], kernel: str, variant: int, own: pd.DataFrame) -> dict[int, str]:
    """By pc; none where the profile keeps none, and where that is damaged, what is wrong with it."""
    if not len(own):
        return {}
    try:
        kept = sampled_code(metadata, kernel, variant)
    except (IRError, ValueError) as error:
        return dict.fromkeys(own["pc"].tolist(), f"cannot be read: {error}")
    return {each.pc: " ".join(each.text.split()) for each in kept or ()}


MOST_KERNELS: Final = 24
"""Kernels and variants with sections of their own: those whose launches took longest."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """One configuration of a kernel: its entry in the model, its rows of the table of launches, and the rows
    of it alone of the questions. roofline_missing: what could not be told of it, and why."""

    entry: KernelEntry
    launches: pd.DataFrame
    lines: pd.DataFrame
    summary: pd.DataFrame
    roofline: pd.DataFrame
    roofline_missing: list[str]
    sampled: Sampled

    @property
    def kernel(self) -> str:
        return self.entry.kernel

    @property
    def variant(self) -> int:
        return self.entry.variant

    @property
    def name(self) -> str:
        """With what tells it from the kernel's other configurations."""
        return f"{self.entry.name} {differs_text(self.entry.differs) * bool(self.entry.label)}".rstrip()


def model_of(tables: Tables, pool: Executor) -> tuple[ProfileModel, ModelSources, pd.DataFrame]:
    """The model, what it is made from, and the roofline; what can run beside the rest does."""
    asked = pool.submit(_judgement, tables)
    sources = ModelSources(tables)
    sources.lines  # noqa: B018  while the kernels are judged
    judgement, roofs = asked.result()
    parts = ("findings", "lines", "accounts")
    model = profile_model(tables, None, parts, MOST_KERNELS, sources=sources, judgement=judgement)
    return model, sources, roofs


def _judgement(tables: Tables) -> tuple[Judgement, pd.DataFrame]:
    """Findings and roofline: what both are asked of is read once."""
    told = [(_findings(tables, each), roof_rows_of(each)) for each in kernel_analyses(tables)]
    found = findings_frame(tables, [said for said, _ in told])
    return Judgement(found, {}), roof_frame(roof for _, roof in told)


def _findings(tables: Tables, judged: KernelAnalysis | SkippedKernel) -> FindingsOf:
    """Those of one configuration. The page may be all that is kept of a profile: where working them out
    fails, it says so."""
    notes: list[str] = []
    said = attempted("findings", lambda: findings_of(tables, judged), None, notes)
    return said or FindingsOf(Answer([], []), judged.kernel, notes[0])


def kernels_of(
    tables: Tables, model: ProfileModel, sources: ModelSources, roofs: pd.DataFrame
) -> list[Kernel]:
    """Those with sections of their own, in the order of the model."""
    missing = roofs.attrs.get("not_measured") or ()
    launches, lines, summary, roofline = map(
        by_configuration, (tables.launches, sources.lines, sources.summary, roofs)
    )
    kernels = []
    for entry in model.kernels[:MOST_KERNELS]:
        key = entry.kernel, entry.variant
        names = {entry.kernel, f"{entry.kernel} #{entry.variant}"}
        texts = (str(text).partition(": ") for text in missing)
        kernels.append(
            Kernel(
                entry=entry,
                launches=launches[key],
                lines=lines.get(key, sources.lines.iloc[:0]).reset_index(drop=True),
                summary=summary.get(key, sources.summary.iloc[:0]).reset_index(drop=True),
                roofline=roofline.get(key, roofs.iloc[:0]).reset_index(drop=True),
                roofline_missing=list(dict.fromkeys(text for name, _, text in texts if name in names)),
                sampled=sampled_by_line(tables, *key),
            )
        )
    return kernels
