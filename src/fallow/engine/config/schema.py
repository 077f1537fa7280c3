"""The JSON Schema of the config, for editors: `python -m fallow.engine.config.schema` prints it."""

import json
import sys

from pydantic import TypeAdapter

from fallow.engine.config.model import Config

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, object]:
    """Return the schema of the whole file. TOML has no null, so a key without a default is simply left out."""
    made = TypeAdapter(Config).json_schema(by_alias=True)
    return {"$schema": _DIALECT, **{key: _without_null(part) for key, part in made.items()}, "title": "fallow.toml"}


def _without_null(part: object) -> object:
    if isinstance(part, list):
        return [_without_null(item) for item in part if item != {"type": "null"}]
    if not isinstance(part, dict):
        return part
    kept = {key: _without_null(item) for key, item in part.items() if not (key == "default" and item is None)}
    if isinstance(kept.get("title"), str):
        del kept["title"]  # a title made from the key's name repeats it
    only = kept.get("anyOf")
    if isinstance(only, list) and len(only) == 1 and isinstance(only[0], dict):
        del kept["anyOf"]
        kept = {**only[0], **kept}
    return kept


if __name__ == "__main__":
    json.dump(json_schema(), sys.stdout, indent=2, ensure_ascii=False)
