"""JSON Schemas that every host accepts, made from the argument and result models.

The subset is the DeepSeek Harness's, the narrowest: no `$ref`, `anyOf`, type lists, `format` or
ranges. An optional argument is absent, not null; a nullable result is `oneOf` with null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pydantic.json_schema import GenerateJsonSchema

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import core_schema

JsonSchema = dict[str, Any]

# What stays of a schema, in this order. Ranges are told in descriptions and checked in code.
_KEYWORDS = (
    "type",
    "oneOf",
    "description",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "default",
)


class _Arguments(GenerateJsonSchema):
    """Optional arguments keep their plain type; their default None is not told."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default") is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


class _Results(GenerateJsonSchema):
    """Nullable fields are one of two schemas; a field with default None is absent when unset."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return {"oneOf": [self.generate_inner(schema["schema"]), {"type": "null"}]}

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        inner = schema["schema"]
        if schema.get("default") is None and inner["type"] == "nullable":
            return self.generate_inner(inner["schema"])
        return super().default_schema(schema)

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,  # noqa: ARG002, FBT001 - the signature is pydantic's
    ) -> bool:
        return bool(field["schema"]["type"] != "default")


def arguments_schema(model: type[BaseModel]) -> JsonSchema:
    """Return the input schema of a closed argument model, without the model's own docstring."""
    schema = model.model_json_schema(by_alias=True, schema_generator=_Arguments)
    schema.pop("description", None)  # it is for readers of the code; the tool has its description
    return {"required": [], **_plain(schema, schema.get("$defs", {}))}


def result_schema(model: type[BaseModel]) -> JsonSchema:
    """Return the output schema of a result model."""
    schema = model.model_json_schema(by_alias=True, mode="serialization", schema_generator=_Results)
    return _plain(schema, schema.get("$defs", {}))


def _plain(schema: JsonSchema, definitions: JsonSchema) -> JsonSchema:
    """Put definitions in place and keep only the keywords of the subset."""
    if "$ref" in schema:
        target = definitions[schema["$ref"].rpartition("/")[2]]
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    plain: JsonSchema = {}
    for keyword in _KEYWORDS:
        if keyword not in schema:
            continue
        value = schema[keyword]
        if keyword == "properties":
            value = {name: _plain(inner, definitions) for name, inner in value.items()}
        elif keyword == "items":
            value = _plain(value, definitions)
        elif keyword == "oneOf":
            value = [_plain(cast("JsonSchema", inner), definitions) for inner in value]
        elif keyword == "additionalProperties" and not isinstance(value, bool):
            value = True  # the subset knows booleans only
        plain[keyword] = value
    return plain
