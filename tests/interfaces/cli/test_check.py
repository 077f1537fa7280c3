"""`fallow check` as a person uses it."""

import json
import pathlib
import re

import pytest

from tests.conftest import Fallow
from tests.engine.config.example import EXAMPLE
from tests.places import REPOSITORY


def written(fallow: Fallow, text: str) -> pathlib.Path:
    """A config that fallow uses if nobody names another."""
    file = fallow.home / "fallow.toml"
    file.write_text(text)
    fallow.environ["FALLOW_CONFIG"] = str(file)
    return file


def test_every_mistake_is_printed_with_its_line_and_then_their_number(fallow: Fallow) -> None:
    file = written(fallow, '[machine]\nevry = "1s"\n\n[page]\nlisten = "0.0.0.0:80"\n')
    done = fallow("check")
    assert (done.returncode, done.stderr) == (78, "")
    first, second, last = done.stdout.splitlines()
    assert first == f"{file}:2: machine.evry: there is no such key in [machine] (did you mean every?)"
    assert second.startswith(f"{file}:5: page.listen: 0.0.0.0:80 can be reached")
    assert last == "2 mistakes"


def test_the_example_is_printed_as_it_ships_and_has_no_mistakes(fallow: Fallow) -> None:
    done = fallow("check", "--example")
    assert (done.returncode, done.stdout) == (0, EXAMPLE)
    file = written(fallow, EXAMPLE)
    done = fallow("check")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{file}: no mistakes\n", "")


def test_the_json_has_the_mistakes_and_the_remarks(fallow: Fallow) -> None:
    file = written(fallow, "[page]\nlisten = 3\n[history]\nkeep_for = 86400\n")
    done = fallow("check", "--json")
    assert done.returncode == 78
    told = json.loads(done.stdout)
    assert told["file"] == str(file)
    assert told["mistakes"] == [
        {"line": 2, "path": "page.listen", "sentence": "3 is not text", "suggestion": "write it in quotes"}
    ]
    assert [remark["path"] for remark in told["remarks"]] == ["history.keep_for"]
    assert "86400 without a unit means 86400 seconds" in done.stderr
    text = (REPOSITORY / "docs" / "reference" / "json.md").read_text()
    assert [name for name in (*told, *told["mistakes"][0]) if f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--example", "file.toml"), 2, "--example takes no file"),
        (("/no/such/a file.toml",), 78, "to begin one: fallow check --example > '/no/such/a file.toml'"),
        ((), 2, "to begin one: fallow check --example"),
    ],
)
def test_without_a_config_it_says_how_to_begin_one(
    fallow: Fallow, words: tuple[str, ...], code: int, says: str
) -> None:
    if pathlib.Path("/etc/fallow/fallow.toml").exists():
        pytest.skip("this machine has a config of its own")
    done = fallow("check", *words)
    assert (done.returncode, says in done.stdout + done.stderr) == (code, True)


def test_the_reference_page_shows_what_really_happens(fallow: Fallow, tmp_path: pathlib.Path) -> None:
    page = (REPOSITORY / "docs" / "reference" / "config.md").read_text()
    shown = re.search(r"\$ fallow check fallow.toml\n(.*?)```", page, re.DOTALL)
    assert shown
    file = tmp_path / "fallow.toml"
    file.write_text(
        '[machine]\nevry = "1s"\n[[filler]]\nname = "a"\nuser = "nobdy"\ncommand = "cd /srv && ./embed > log"\n'
        'idle_for = "soon"\n[page]\nlisten = "0.0.0.0:8990"\nhosts = "https://gpu1:8990/"\n'
    )
    assert fallow("check", str(file)).stdout.replace(str(file), "fallow.toml") == shown[1]
