"""The base class of all sections of the config."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


def by_default(written: object, alias: str | None = None) -> Any:  # noqa: ANN401  the type is the field's own
    """Return a field whose default is written as a person would write it."""
    return Field(default=written, alias=alias)


class Section(BaseModel):
    """A table of the config: frozen, every key known and described, defaults as a person would write them."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        use_attribute_docstrings=True,
        populate_by_name=False,
    )
