"""What all sections of the config have in common."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


def by_default(written: object, alias: str | None = None) -> Any:  # noqa: ANN401  the type is the field's own
    """What holds if the key is left out, as a person would write it."""
    return Field(default=written, alias=alias)


class Section(BaseModel):
    """A table of the config: frozen, every key known and described, defaults written as a person would write them."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        use_attribute_docstrings=True,
        populate_by_name=False,
    )
