"""Readers of `metadata["variants"]`: launch options of kernels, and their place in a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from profscope.schema import MODEL_DTYPES

if TYPE_CHECKING:
    import pandas as pd  # imported where columns are made: sessions open without

__all__ = [
    "MODEL", "codes_of", "configuration", "differing", "rows_of", "variant_entry", "with_model",
    "with_model_of_spans",
]  # fmt: skip

MODEL: Final = tuple(MODEL_DTYPES)
_SHOWN_DIGITS: Final = 6
_UNKNOWN: Final = ("", "", 0)

Places = Mapping[tuple[str, int], tuple[str, str, int]]


def variant_entry(metadata: Mapping[str, Any], kernel: str, variant: int) -> dict[str, Any]:
    """The metadata of a variant (docs/views.md); {} if they do not have it."""
    variants = (metadata.get("variants") or {}).get(kernel) or []
    return next((each for each in variants if each.get("variant") == variant), {})


def rows_of(table: pd.DataFrame, kernel: str, variant: int) -> pd.DataFrame:
    """The rows of a configuration, in a table with these columns."""
    if not len(table):  # where a selection would take as long
        return table
    return table[(table["kernel"] == kernel) & (table["variant"] == variant)]


def codes_of(metadata: Mapping[str, Any], kernel: str, key: str) -> list[dict[str, Any]]:
    """The texts of binaries that recorded (`metadata["code"]`), of one configuration, by its key."""
    code = metadata.get("code") or []
    return [each for each in code if (each.get("kernel"), each.get("key")) == (kernel, key)]


def by_variant(metadata: Mapping[str, Any]) -> Places:
    """By kernel and variant what MODEL has of it; empty for a profile without kernels of torch.compile."""
    variants: Mapping[str, Any] = metadata.get("variants") or {}
    return {
        (kernel, entry["variant"]): (model["module"], model["model_file"], model["model_line"])
        for kernel, entries in variants.items()
        for entry in entries
        if (model := entry.get("model"))
    }


def with_model(table: pd.DataFrame, metadata: Mapping[str, Any]) -> pd.DataFrame:
    """A table with columns kernel and variant, and behind its columns MODEL.

    module: the modules of the model that the kernel was made of, `blocks.*.mlp.up` for those that differ in
    numbers only, with commas between others. model_file, model_line: the line of the last operation that it
    does. "" for other kernels, and if nothing is known; the line is missing then.
    """
    places = by_variant(metadata)
    table = _added(
        table, [places.get(key, _UNKNOWN) for key in zip(table["kernel"], table["variant"], strict=True)]
    )
    line = table["model_line"].astype("Int32")
    return table.assign(model_line=line.where(line > 0))


def with_model_of_spans(
    df: pd.DataFrame, launches: pd.DataFrame, metadata: Mapping[str, Any]
) -> pd.DataFrame:
    """A span table with MODEL behind its columns, as `with_model` adds them; its other columns are not
    copied."""
    places = by_variant(metadata)
    if not places or df.empty:
        return df
    import pandas as pd

    keys = zip(launches["kernel"], launches["variant"], strict=True)
    at = pd.Index(launches["launch"]).get_indexer(pd.Index(df["launch"]))
    return _added(df, [places.get(key, _UNKNOWN) for key in keys], at)


def _added(
    table: pd.DataFrame, rows: Iterable[tuple[str, str, int]], at: np.ndarray[Any, Any] | None = None
) -> pd.DataFrame:
    """at: of the table's rows which of `rows` is theirs; None: each has its own."""
    import pandas as pd

    columns = {}
    known = list(rows)
    for place, name in enumerate(MODEL):
        values = [row[place] for row in known]  # zip(*) has no columns where there are no rows
        if MODEL_DTYPES[name] != "category":
            numbers = np.array(values, MODEL_DTYPES[name])
            columns[name] = numbers if at is None else numbers[at]
            continue
        codes, categories = pd.factorize(np.array(values, dtype=object))
        columns[name] = pd.Categorical.from_codes(
            codes if at is None else codes[at], categories=pd.Index(categories, dtype="str")
        )
    return table.assign(**columns)


_LAUNCH_OPTIONS: Final = ("num_warps", "num_stages", "num_ctas", "maxnreg")


def configuration(variant: Mapping[str, Any]) -> dict[str, Any]:
    """By name: captured functions and constexprs, types of arguments, constexprs, and the launch options that
    were set."""
    options = {name: variant[name] for name in _LAUNCH_OPTIONS if variant.get(name) is not None}
    told = (variant.get(name) or {} for name in ("captured", "signature", "constexprs"))
    return {name: value for each in told for name, value in each.items()} | options


def differing(variants: Sequence[Mapping[str, Any]], number: int) -> dict[str, Any]:
    """The differences of a kernel's variant from others: in its configuration, and the function's module; if
    there are none, `source`, the beginning of its source's hash. `i32:16` is Triton's notation for a multiple
    of 16."""
    flat = [_specialised(variant) | _function(variant) for variant in variants]
    at = next((at for at, about in enumerate(variants) if about["variant"] == number), None)
    if at is None:
        return {}
    mine = flat[at]
    differs = {name: value for name, value in mine.items() if any(each.get(name) != value for each in flat)}
    source = str(variants[at].get("source_hash") or "")[:_SHOWN_DIGITS]
    return differs | ({"source": source} if source and flat.count(mine) > 1 else {})


def _specialised(variant: Mapping[str, Any]) -> dict[str, Any]:
    """Its configuration; types say what Triton knows of the values."""
    special: Mapping[str, Any] = variant.get("specialisation") or {}
    return {
        name: ":".join([str(value), *(str(known) for _, known in special[name])])
        if name in special
        else value
        for name, value in configuration(variant).items()
    }


def _function(variant: Mapping[str, Any]) -> dict[str, Any]:
    return {"function": variant["function"]} if variant.get("function") else {}
