"""The keys that a route of `/api/v1` takes in its query or path: how each is read, and its schema for OpenAPI."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from pydantic_core import CoreSchema, SchemaValidator, ValidationError, core_schema

from fallow.core.value import value

REQUIRED = object()
"""The default of a key that must be given."""


@value
class Key:
    """One key: how its value is read, and its schema."""

    name: str
    default: Any
    """What the key is without a value; REQUIRED if it must have one."""
    reads: CoreSchema
    """What pydantic reads it by."""
    schema: dict[str, Any]
    """The schema of a value, for OpenAPI."""
    meaning: str | None = None
    takes_many: bool = False
    """Whether all values of the key count; else the last does."""

    def parsed(self, raw: str | list[str]) -> Any:  # noqa: ANN401  what the key holds
        """Return the value; raise ValidationError if it is wrong."""
        return self._reader.validate_python(raw)

    @cached_property
    def _reader(self) -> SchemaValidator:
        """Return what reads it, made for the first value that is given: a pattern may take a megabyte."""
        return SchemaValidator(self.reads)


def number(
    name: str,
    default: float | object = REQUIRED,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float,
    meaning: str | None = None,
) -> Key:
    """Return a key for a finite number. It is more than `above`, or at least `least`."""
    reads = core_schema.float_schema(gt=above, ge=least, le=most, allow_inf_nan=False)
    bounds = {"exclusiveMinimum": above, "minimum": least, "maximum": most}
    return _key(name, default, reads, {"type": "number", **bounds}, meaning)


def whole(name: str, default: int | object = REQUIRED, *, least: int, most: int, meaning: str | None = None) -> Key:
    """Return a key for a whole number."""
    reads = core_schema.int_schema(ge=least, le=most)
    return _key(name, default, reads, {"type": "integer", "minimum": least, "maximum": most}, meaning)


def text(
    name: str,
    default: str | object | None = REQUIRED,
    *,
    shortest: int | None = None,
    longest: int | None = None,
    pattern: str | None = None,
    meaning: str | None = None,
) -> Key:
    """Return a key for a text."""
    reads = core_schema.str_schema(min_length=shortest, max_length=longest, pattern=pattern)
    schema = {"type": "string", "minLength": shortest, "maxLength": longest, "pattern": pattern}
    return _key(name, default, reads, schema, meaning)


def described_text(name: str, pattern: str, *, longest: int) -> Key:
    """Return a key for a text of which the route itself judges; what fits the pattern is always right."""
    reads = core_schema.str_schema(min_length=1, max_length=longest)
    return _key(name, None, reads, {"type": "string", "pattern": pattern})


def word(name: str, default: str, words: Sequence[str]) -> Key:
    """Return a key for one of some words."""
    return _key(name, default, core_schema.literal_schema(list(words)), {"type": "string", "enum": list(words)})


def _key(
    name: str,
    default: object,
    reads: CoreSchema,
    schema: dict[str, Any],
    meaning: str | None = None,
    *,
    takes_many: bool = False,
) -> Key:
    given = {word: bound for word, bound in schema.items() if bound is not None}
    return Key(name, default, reads, given, meaning, takes_many)


def faults_of(error: ValidationError, *place: str) -> list[str]:
    """Return a sentence for each fault, with its place, and without what was sent: it may be anything."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [f"{'.'.join(map(str, (*place, *each['loc'])))}: {each['msg']}" for each in found]
