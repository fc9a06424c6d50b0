"""The subset of JSON Schema that every host accepts: a walker and a validator."""

from __future__ import annotations

import math

ANNOTATIONS = {"description", "title", "default", "examples"}


def is_number(value):
    """Say whether a value is a JSON number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


KINDS = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": is_number,
    "integer": lambda value: is_number(value) and value == int(value),
}
KEYWORDS = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items"},
    "oneOf": {"oneOf"},
}
SCALAR_KEYWORDS = {"enum", "const"}


# --- the walker -------------------------------------------------------------------------------


def outside_subset(schema, place="$"):
    """Yield what a schema says beyond the subset."""
    kind = "oneOf" if "oneOf" in schema and "type" not in schema else schema.get("type")
    if not isinstance(kind, str) or kind not in {*KINDS, "oneOf"}:
        yield f"{place}: type {kind!r}"
        return
    allowed = KEYWORDS.get(kind, SCALAR_KEYWORDS) | ANNOTATIONS | ({"type"} - {kind})
    yield from (f"{place}: {keyword}" for keyword in sorted(set(schema) - allowed))
    yield from _incomplete(kind, schema, place)
    for step, inner in _below(schema):
        yield from outside_subset(inner, place + step)


def _incomplete(kind, schema, place):
    if kind == "oneOf" and len(schema["oneOf"]) < 2:
        yield f"{place}: oneOf of fewer than two"
    if kind == "array" and not isinstance(schema.get("items"), dict):
        yield f"{place}: items is no schema"
    if not set(schema.get("required", [])) <= set(schema.get("properties", {})):
        yield f"{place}: requires what is not there"
    if not isinstance(schema.get("additionalProperties", False), bool):
        yield f"{place}: additionalProperties is no boolean"
    values = [*schema.get("enum", []), *(schema[k] for k in ("default", "const") if k in schema)]
    if kind in KINDS and not all(KINDS[kind](value) for value in values):
        yield f"{place}: a value that is no {kind}"


def _below(schema):
    yield from ((f".{name}", inner) for name, inner in schema.get("properties", {}).items())
    yield from ((f"|{n}", inner) for n, inner in enumerate(schema.get("oneOf", [])))
    if isinstance(schema.get("items"), dict):
        yield "[]", schema["items"]


# --- the validator ----------------------------------------------------------------------------


def faults(value, schema, place="$"):
    """Yield where a value breaks a schema of the subset."""
    if "oneOf" in schema:
        fitting = [inner for inner in schema["oneOf"] if not list(faults(value, inner, place))]
        if len(fitting) != 1:
            yield f"{place}: {len(fitting)} of oneOf fit"
    elif not KINDS[schema["type"]](value):
        yield f"{place}: {value!r} is no {schema['type']}"
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is none of {schema['enum']}"
    elif schema["type"] == "object":
        yield from _object_faults(value, schema, place)
    elif schema["type"] == "array":
        for index, inner in enumerate(value):
            yield from faults(inner, schema["items"], f"{place}[{index}]")


def _object_faults(value, schema, place):
    properties = schema.get("properties", {})
    yield from (f"{place}: no {name}" for name in schema.get("required", []) if name not in value)
    for name, inner in value.items():
        if name in properties:
            yield from faults(inner, properties[name], f"{place}.{name}")
        elif not schema.get("additionalProperties", True):
            yield f"{place}: {name} is not in the schema"
