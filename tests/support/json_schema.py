"""The JSON Schema of the model, from its dataclasses.

python -m tests.support.json_schema > profscope/analysis/report.schema.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from profscope.analysis.model.entries import SCHEMA, ProfileModel

_TYPES: Final[Mapping[Any, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    NoneType: "null",
}


def model_schema() -> dict[str, Any]:
    """JSON-able; each dataclass is a definition of its own."""
    definitions: dict[str, Any] = {}
    whole = _schema(ProfileModel, definitions)
    definitions["ProfileModel"]["properties"]["schema"] = {"const": SCHEMA}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA}
    return head | {"title": "What prof.report() returns", **whole, "$defs": definitions}


def _schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if kind is Any:
        return {}
    if kind in _TYPES:
        return {"type": _TYPES[kind]}
    if is_dataclass(kind):
        return _reference(kind, definitions)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return {"anyOf": [_schema(each, definitions) for each in inner]}
    if origin is tuple:
        return {"type": "array", "items": _schema(inner[0], definitions)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema(inner[1], definitions)}
    raise TypeError(f"the model has no fields of {kind}")


def _reference(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    name = kind.__name__
    if name not in definitions:
        definitions[name] = {}  # which ends a circle
        types = get_type_hints(kind)
        properties = {each.name: _schema(types[each.name], definitions) for each in fields(kind)}
        definitions[name] = {
            "type": "object",
            "additionalProperties": False,
            "required": list(properties),
            "properties": properties,
        }
    return {"$ref": f"#/$defs/{name}"}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(model_schema(), indent=1) + "\n")
