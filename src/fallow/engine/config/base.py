"""The base class of all sections of the config."""

import ast
import inspect
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


def by_default(written: object, alias: str | None = None) -> Any:  # noqa: ANN401  the type is the field's own
    """Return a field whose default is written as a person would write it."""
    return Field(default=written, alias=alias)


def descriptions(section: type[BaseModel]) -> dict[str, str]:
    """Return what is written below each field of a section; nothing where our sources are not installed.

    Pydantic does so too if asked, but at each import, which took a fifth of the CPU time of `fallow check`.
    """
    found: dict[str, str] = {}
    for part in reversed([each for each in section.__mro__ if issubclass(each, BaseModel) and each is not BaseModel]):
        try:
            (tree,) = ast.parse(inspect.getsource(part)).body
        except OSError:
            continue
        for field, below in pairwise(getattr(tree, "body", [])):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(below, ast.Expr)
            ):
                found[field.target.id] = inspect.cleandoc(ast.literal_eval(below.value))
    return found


def _describe(schema: dict[str, Any], section: type[BaseModel]) -> None:
    said = {(section.model_fields[name].alias or name): text for name, text in descriptions(section).items()}
    for key, part in schema.get("properties", {}).items():
        if key in said:
            part["description"] = said[key]


class Section(BaseModel):
    """A table of the config: frozen, every key known and described, defaults as a person would write them."""

    model_config = ConfigDict(
        frozen=True,
        defer_build=True,
        extra="forbid",
        validate_default=True,
        populate_by_name=False,
        json_schema_extra=_describe,
    )
