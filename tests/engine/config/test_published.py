"""What is published about the config is current: the JSON Schema, the reference page, the example."""

import json
import re
import tomllib

import pytest
from jsonschema import Draft202012Validator
from pydantic.fields import FieldInfo

from fallow.engine.config.base import descriptions
from fallow.engine.config.cluster import ClusterIdle
from fallow.engine.config.model import SECTIONS, SEVERAL, Config, NoticesToPeople
from fallow.engine.config.persons import Person
from fallow.engine.config.schema import json_schema
from tests.engine.config.example import EXAMPLE, key_lines
from tests.places import REPOSITORY

REFERENCE = REPOSITORY / "docs" / "reference"
PAGE = (REFERENCE / "config.md").read_text()
TABLES = {("machine", "prices"), ("notices", "people")}
INSIDE = {"cluster.idle": ClusterIdle, "page.person": Person}
ALL = {**SECTIONS, "notices.people": NoticesToPeople, **INSIDE}
ROW = r"^\| `(\w+)` \| (.*?) \| (.+) \|$"


def test_the_schema_is_one_and_the_example_fits_it() -> None:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    assert [error.message for error in Draft202012Validator(schema).iter_errors(tomllib.loads(EXAMPLE))] == []
    assert '"null"' not in json.dumps(schema)


def test_every_key_has_a_description() -> None:
    for model in (Config, *ALL.values()):
        assert model.__doc__
        said = descriptions(model)
        assert [name for name in model.model_fields if not said.get(name)] == []


def test_every_section_is_known_by_its_name() -> None:
    assert list(Config.model_fields) == list(SECTIONS)
    assert {name for name, field in Config.model_fields.items() if field.default == ()} == SEVERAL


def test_the_example_shows_every_section_and_nearly_every_key() -> None:
    shown = {(line.section.partition(".")[0], line.key) for line in key_lines()}
    wanted = {
        (name, field.alias or key) for name, model in SECTIONS.items() for key, field in model.model_fields.items()
    }
    files = {("page", "token_file"), ("cluster", "token_file")}  # files to be made
    engines = {("cluster", "kubeconfig"), ("cluster", "slurm_conf")}
    unset = {
        ("cluster", "idle"),
        ("page", "person"),
        ("machine", "operators"),
    }
    assert wanted - shown == TABLES | files | engines | unset


def default_of(field: FieldInfo) -> str:
    """What the page says holds if the key is left out."""
    if field.is_required():
        return "needed"
    if field.default is None:
        return "none"
    words = json.dumps(list(field.default) if isinstance(field.default, tuple) else field.default)
    return f"`{words}`"


def meaning_of(said: str) -> str:
    """What the page says of the key: what editors show of it."""
    said = said.rstrip(".")
    return f"{said[:1].lower()}{said[1:]}"


@pytest.mark.parametrize("name", ALL)
def test_the_reference_page_has_every_key_with_its_default_and_meaning_and_no_other(name: str) -> None:
    heading = f"[[{name}]]" if name in {*SEVERAL, *INSIDE} else f"[{name}]"
    found = re.search(rf"^## `{re.escape(heading)}`\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"docs/reference/config.md has no section on {heading}"
    rows = {key: (default, says) for key, default, says in re.findall(ROW, found[1], re.MULTILINE)}
    fields, said = ALL[name].model_fields, descriptions(ALL[name])
    assert rows == {field.alias or key: (default_of(field), meaning_of(said[key])) for key, field in fields.items()}
