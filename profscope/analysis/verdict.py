"""The verdict on the spans of a profile, kernel by kernel, with reasons."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from profscope.analysis.overhead import overhead
from profscope.analysis.spans.asked_once import asked_once
from profscope.analysis.spans.corrections import record_cost
from profscope.analysis.spans.pieces import each_piece, pieces
from profscope.analysis.spans.rows import (
    Ints,
    OfLaunches,
    begins_of_runs,
    grid_scales,
    group_keys,
    group_numbers,
    not_samples,
)
from profscope.analysis.spans.summing import share_errors
from profscope.analysis.texts import Markup, count_text, tag
from profscope.analysis.timeline.distances import distances
from profscope.analysis.trust_rules import CARE, DISTRUST, NEAR_RECORDS, RULES, Facts, Reason
from profscope.analysis.variants import variant_entry
from profscope.schema import Tables

__all__ = [
    "DISTRUST",
    "EMULATED",
    "LABELS",
    "TRUST",
    "KernelVerdict",
    "Verdict",
    "is_open_to_doubt",
    "verdict",
    "verdict_html",
    "verdict_of",
]

TRUST: Final = "trust"
NOTHING: Final = "nothing recorded"
EMULATED: Final = "emulated"
LABELS: Final = (TRUST, EMULATED, CARE, DISTRUST)
"""From the best to the worst; "emulated" is no distrust: the figures are exact, of a cost model."""
_OF_SPANS: Final = {CARE: "trust the spans with care", DISTRUST: "do not trust the spans"}
"""In a sentence beside findings, which may be of bare launches."""
_NS_STEP: Final = 32.0  # of the globaltimer
_LONG_NS: Final = 200 * _NS_STEP  # a rate over so long is off by at most 1 %
_SHOWN: Final = 3


@dataclass(frozen=True)
class KernelVerdict:
    """The verdict on one variant of a kernel. label: one of LABELS; reasons: by the rules in docs/verdict.md;
    not_measured: rules without data, and why."""

    kernel: str
    variant: int
    label: str
    reasons: tuple[Reason, ...] = ()
    not_measured: tuple[str, ...] = ()

    def __str__(self) -> str:
        """ "add_kernel #0: trust with care", and a line for each reason."""
        return "\n".join(self.lines())

    def lines(self, told: Collection[str] = ()) -> list[str]:
        """The lines of `str()`, without entries of `not_measured` that are in `told`."""
        lines = [f"{self.kernel} #{self.variant}: {self.label}"]
        lines += [f"  {reason.rule}: {reason.text}" for reason in self.reasons]
        return lines + [f"  not measured: {text}" for text in self.not_measured if text not in told]


class Verdict(Mapping[tuple[str, int], KernelVerdict]):
    """By kernel and variant, in the order of their first launch; `str()` has all reasons in full.

    prof.verdict.label
    prof.verdict["add_kernel", 0].reasons
    """

    def __init__(self, verdicts: Mapping[tuple[str, int], KernelVerdict]) -> None:
        self._verdicts = dict(verdicts)

    def __getitem__(self, key: tuple[str, int]) -> KernelVerdict:
        return self._verdicts[key]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self._verdicts)

    def __len__(self) -> int:
        return len(self._verdicts)

    @property
    def label(self) -> str:
        """The worst of them; "nothing recorded" where there is nothing to judge."""
        return max((each.label for each in self.values()), key=LABELS.index, default=NOTHING)

    @property
    def headline(self) -> str:
        """One line: the label and, where there are some, the reasons in short."""
        worst = [each for each in self.values() if each.reasons]
        worst.sort(key=lambda each: -LABELS.index(each.label))
        told = [f"{each.kernel}: {', '.join(reason.rule for reason in each.reasons)}" for each in worst]
        more = [f"{len(told) - _SHOWN} more"] if len(told) > _SHOWN else []
        return "; ".join([self.label, *told[:_SHOWN], *more])

    def in_brief(self, longest: Iterable[tuple[str, int]] = (), called: Callable[[str], str] = str) -> str:
        """One sentence for who reads no more: the label, and of the worst kernel the reason that comes first
        among those for its label, with its figures; other reasons and kernels by name and number.

        longest: kernels and variants, the one first that matters most; among the worst ones that is told of.
        called: how a kernel's name is written.
        """
        worst = [key for key, each in self.items() if each.reasons and each.label == self.label]
        if not worst:
            return self.headline
        ranked = {key: at for at, key in enumerate(longest)}
        told = self[min(worst, key=lambda key: ranked.get(key, len(ranked)))]
        reason = next((each for each in told.reasons if each.label == told.label), told.reasons[0])
        others = [each.rule for each in told.reasons if each is not reason]
        of_its_own = sum(kernel == told.kernel for kernel, _ in self) > 1
        name = called(told.kernel) + f" #{told.variant}" * of_its_own
        more = [each for each in self.values() if each.reasons and each is not told]
        more.sort(key=lambda each: ranked.get((each.kernel, each.variant), len(ranked)))
        several = len({kernel for kernel, _ in self}) < len(self)
        names = [called(each.kernel) + f" #{each.variant}" * several for each in more[:_SHOWN]]
        names += ["..."] * (len(more) > _SHOWN)
        whose = "configuration" if several else "kernel"
        said = f"{_OF_SPANS.get(self.label, self.label)}: {f'{name}: ' * (len(self) > 1)}{reason.text}"
        said += f"; also {', '.join(others)}" if others else ""
        if not more:
            return said
        return f"{said}; {count_text(len(more), f'more {whose}')} with reasons: {', '.join(names)}"

    def __str__(self) -> str:
        lines = [self.label]
        missing = [each.not_measured for each in self.values()]
        of_all = (
            [text for text in missing[0] if all(text in each for each in missing)] if len(self) > 1 else []
        )
        lines += [f"  not measured: {text}" for text in of_all]
        return "\n".join([*lines, *(line for each in self.values() for line in each.lines(of_all))])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        reasons = {f"{each.kernel} #{each.variant}": each.reasons for each in self.values()}
        return verdict_html(self.label, self.headline, reasons)


def verdict_html(label: str, headline: str, reasons: Mapping[str, Sequence[Reason]]) -> Markup:
    """For notebooks: the label, and by kernel the reasons behind it; those of several unfold."""
    items = [
        tag("li", f"{name}: ", tag("b", reason.rule), f" {reason.text}")
        for name, own in reasons.items()
        for reason in own
    ]
    head = "Verdict: ", tag("b", label), headline.removeprefix(label)
    if not items:
        return tag("p", *head)
    return tag("details", tag("summary", *head), tag("ul", *items), open=len(reasons) == 1)


def verdict(tables: Tables) -> Verdict:
    """Whether to believe the spans of each kernel and variant: whether its recorded launches still describe
    the bare kernel. Findings from bare launches have a confidence of their own.

    "do not trust" where one reason forbids it, "trust with care" where one asks for care, else "trust";
    "emulated" for a profile of the emulator's, whatever else there is. The rules are in docs/verdict.md.
    """
    apart = distances(tables) if len(tables.samples) else pd.DataFrame()
    return verdict_of(tables, overhead(tables), apart)


def verdict_of(tables: Tables, costs: pd.DataFrame, apart: pd.DataFrame) -> Verdict:
    """`verdict` with known results of `overhead` and `distances`."""
    launches = tables.launches
    rows, pairs = costs.to_dict("records"), apart.to_dict("records")
    said = costs.attrs["not_measured"]
    short, clocks = _short_spans(tables), _clock_changes(tables)
    is_sampled = bool((grid_scales(launches) != 1).any()) and len(tables.df) > 0
    errors = share_errors(tables) if is_sampled else {}
    verdicts = {}
    number, configurations = group_numbers(launches)
    groups, count = OfLaunches(launches, number, -1), len(configurations)
    shorts, changes = _means(short, groups, count), _medians(clocks, groups, count)
    for at, (kernel, variant) in enumerate(group_keys(configurations)):
        of_variant = launches.iloc[np.flatnonzero(number == at)]
        facts = Facts(
            launches=of_variant,
            overhead=[row for row in rows if (row["kernel"], row["variant"]) == (kernel, variant)],
            builds=variant_entry(tables.metadata, kernel, variant).get("builds") or [],
            short=shorts[at],
            clock_change=changes[at],
            distances=[row for row in pairs if (row["kernel"], row["variant"]) == (kernel, variant)],
            scaled=kernel not in not_samples(tables.metadata),
            share_error=errors.get((kernel, variant)),
            tool=str(tables.metadata.get("tool") or ""),
            emulated=tables.emulated,
        )
        reasons = [reason for rule in RULES if (reason := rule.check(facts)) is not None]
        labels = [EMULATED] if tables.emulated else [TRUST, *(reason.label for reason in reasons)]
        name = f"{kernel} #{variant}: "
        missing = dict.fromkeys(text.removeprefix(name) for text in said if text.startswith(name))
        verdicts[kernel, variant] = KernelVerdict(
            kernel, variant, max(labels, key=LABELS.index), tuple(reasons), tuple(missing)
        )
    return Verdict(verdicts)


def is_open_to_doubt(tables: Tables) -> bool:
    """Whether known facts may forbid trust; if not, `verdict` is not needed."""
    variants = [each for of_kernel in (tables.metadata.get("variants") or {}).values() for each in of_kernel]
    builds = [build["build"] for variant in variants for build in variant.get("builds") or []]
    unfinished = bool((tables.launches["unfinished"] > 0).any())
    return not tables.emulated and ("bare" in builds or unfinished)


@asked_once
def _short_spans(tables: Tables) -> pd.DataFrame:
    """By launch: the cycles of spans with nothing inside that are near the cost of a record, and of all
    outermost ones. Empty where the cost is not known."""
    df, cost = tables.df, record_cost(tables.metadata)
    if cost is None or not len(df):
        return pd.DataFrame({"short": [], "all": []})
    kind, parents = df["kind"].array, df["parent"].to_numpy()
    durations, launches = df["duration_cycles"].to_numpy(), df["launch"].to_numpy()
    most = NEAR_RECORDS * cost.each

    def of_piece(part: slice) -> tuple[Ints, ...]:
        parent, duration = parents[part], durations[part]
        leaf = np.array(kind[part] != "async")
        root = leaf & (parent < 0)
        leaf[parent[leaf & (parent >= 0)] - part.start] = False
        begins = begins_of_runs(launches[part])
        sums = (np.add.reduceat(duration * rows, begins) for rows in (leaf & (duration < most), root))
        return launches[part][begins], *sums

    found = [np.concatenate(each) for each in zip(*each_piece(of_piece, pieces(df)), strict=True)]
    table = pd.DataFrame(dict(zip(("launch", "short", "all"), found, strict=True)))
    return table.groupby("launch").sum().astype(np.float64)


def _means(short: pd.DataFrame, groups: OfLaunches[np.int64], count: int) -> list[float | None]:
    """By configuration, of so many, what part of its outermost spans' time is short spans'."""
    of = groups.of(short.index.to_numpy())
    own = short[of >= 0]
    few, whole = (np.bincount(of[of >= 0], own[name], count).tolist() for name in ("short", "all"))
    return [part / total if total else None for part, total in zip(few, whole, strict=True)]


@asked_once
def _clock_changes(tables: Tables) -> pd.Series[float]:
    """By launch: how much faster than at its slowest the clock ran, from outermost spans that last long
    enough to tell, the hundredth at either end left out."""
    df = tables.df
    rows = np.flatnonzero((df["parent"].to_numpy() < 0) & (df["duration_cycles"].to_numpy() > 0))
    roots = df[["launch", "kind", "duration_ns", "duration_cycles"]].iloc[rows]
    roots = roots[(roots["duration_ns"] > _LONG_NS) & (roots["kind"] != "async")]
    rates = (roots["duration_cycles"] / roots["duration_ns"]).groupby(roots["launch"])
    return rates.quantile(0.99) / rates.quantile(0.01) - 1


def _medians(changes: pd.Series[float], groups: OfLaunches[np.int64], count: int) -> list[float | None]:
    """By configuration, of so many."""
    of, values = groups.of(changes.index.to_numpy()), changes.to_numpy()
    own = (values[of == at] for at in range(count))
    return [float(np.median(each)) if len(each) else None for each in own]
