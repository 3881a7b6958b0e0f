"""How firmly a server holds an answer to a JSON Schema, and how it says that it will not. Knows no vendor's SDK.

No two servers take the same part of JSON Schema: OpenAI's strict mode has no `maxLength`, a grammar may grow too large
by a bound. So a schema that is refused is asked for once more by its shape alone, before it is given up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from howsure.errors import InputError
from howsure.models.servers.endpoint import check

FORMS = ("json_schema", "json_shape", "json_object", "free")
"""The firmest first: the whole schema; without the bounds on its values; any JSON object; any text."""

REFUSED_FORM = re.compile(
    r"schema|grammar|response.?format|response.?mime.?type|json.?(?:object|mode)|structured.?output"
    r"|(?:guided|constrained).?decoding|controlled.?generation",
    re.I,
)
"""What a server writes that objects to the form of an answer."""

_BOUNDS = frozenset(
    {
        *("minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("multipleOf", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains"),
        *("minProperties", "maxProperties"),
    }
)
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords that hold schemas by names, which are anything at all."""

_VALUES = frozenset({"enum", "const", "default", "examples"})


def check_schema(schema: Any) -> None:
    """Raise in one sentence for what cannot be sent as a schema; None is no schema."""
    if schema is None:
        return
    check(isinstance(schema, Mapping), f"answer_schema is a JSON Schema as a mapping, not {type(schema).__name__}")
    try:
        json.dumps(dict(schema), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"answer_schema cannot be written as JSON: {error}") from error


def shape(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without what bounds its values: kinds, names and choices stay.

    >>> shape({"type": "object", "properties": {"format": {"type": "string", "maxLength": 9}}})
    {'type': 'object', 'properties': {'format': {'type': 'string'}}}
    """
    return {keyword: _unbounded(keyword, value) for keyword, value in schema.items() if keyword not in _BOUNDS}


def _unbounded(keyword: str, value: Any) -> Any:
    if keyword in _VALUES:
        return value
    if keyword in _NAMED and isinstance(value, Mapping):
        return {name: _unbounded("", one) for name, one in value.items()}
    if isinstance(value, Mapping):
        return shape(value)
    return [_unbounded("", one) for one in value] if isinstance(value, list | tuple) else value


def next_form(form: str, schema: Mapping[str, Any]) -> str | None:
    """The form to ask for once this one was refused; None after the last. One that would ask for the same is no step.

    >>> next_form("json_schema", {"type": "string", "maxLength": 9}), next_form("json_schema", {"type": "string"})
    ('json_shape', 'json_object')
    """
    following = FORMS[FORMS.index(form) + 1 :]
    unlike = (one for one in following if one != "json_shape" or shape(schema) != schema)
    return next(unlike, None)


def loosened(form: str, refusal: str | None) -> str:
    """What to tell of a model that refused a firmer form."""
    return f"does not hold its answers to the schema ({refusal}); it is asked with form={form}"
