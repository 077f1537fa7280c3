"""Who is a person of the page, and which tokens are refused, in a sentence and at the key."""

import os
import pathlib

import pytest

from fallow.core.errors import ConfigWrong, WrongUsage
from fallow.engine.config.feasible import Feasible
from fallow.engine.config.load import understand
from fallow.engine.config.model import Config
from fallow.engine.config.persons import Person, known_persons, shared_token
from fallow.engine.machine.world import World
from fallow.readers.secret import hashed
from tests.places import ME

TOKEN = "a-token-of-one-person"


def token_file(folder: pathlib.Path, name: str, token: str = TOKEN, mode: int = 0o600) -> pathlib.Path:
    path = folder / name
    path.write_text(f"{token}\n")
    path.chmod(mode)
    return path


def person(user: str, path: object) -> str:
    return f"[[page.person]]\nuser = '{user}'\ntoken_file = '{path}'\n"


def load(text: str) -> Config:
    world = World({"PATH": "/usr/bin:/bin"}, simulate="8xH100")
    try:
        return understand(text, "f", Feasible(world, print))
    finally:
        world.close()


def mistakes(text: str) -> list[str]:
    with pytest.raises(ConfigWrong) as caught:
        load(text)
    return [mistake.in_file("f") for mistake in caught.value.mistakes]


def test_a_person_is_their_user_and_only_the_hash_of_their_token_is_kept(tmp_path: pathlib.Path) -> None:
    found = load(person(ME, token_file(tmp_path, "one")))
    (known,) = known_persons(found.page.person, None)
    assert (known.account.name, known.account.uid, known.token_hash) == (ME, os.geteuid(), hashed(TOKEN))
    assert TOKEN not in repr(known)


@pytest.mark.parametrize(
    ("token", "mode", "says"),
    [
        ("too-short", 0o600, "must be one word of at least 16"),
        ("two words of some length", 0o600, "must be one word"),
        (TOKEN, 0o644, "others can read the token"),
    ],
)
def test_a_bad_token_of_a_person_is_refused_at_its_key(
    tmp_path: pathlib.Path, token: str, mode: int, says: str
) -> None:
    (mistake,) = mistakes(person(ME, token_file(tmp_path, "one", token, mode)))
    assert mistake.startswith("f:3: page.person[1].token_file: ")
    assert says in mistake
    assert TOKEN not in mistake


def test_a_token_that_is_not_there_is_not_made_and_it_is_told_how(tmp_path: pathlib.Path) -> None:
    (mistake,) = mistakes(person(ME, tmp_path / "none"))
    assert "there is no file" in mistake
    assert "umask 077" in mistake
    assert not (tmp_path / "none").exists()


@pytest.mark.as_root
def test_a_token_that_two_persons_have_is_refused(tmp_path: pathlib.Path) -> None:
    one, two = token_file(tmp_path, "one"), token_file(tmp_path, "two")
    (mistake,) = mistakes(person(ME, one) + person("nobody", two))
    assert mistake.startswith("f:6: page.person[2].token_file: it holds the token of page.person[1] too")


def test_the_token_of_the_page_is_no_persons(tmp_path: pathlib.Path) -> None:
    shared = token_file(tmp_path, "shared")
    (mistake,) = mistakes(f"[page]\ntoken_file = '{shared}'\n" + person(ME, token_file(tmp_path, "one")))
    assert "it holds the token of the page" in mistake
    with pytest.raises(WrongUsage, match=r"page\.person\[1\]\.token_file"):
        known_persons((Person.model_validate({"user": ME, "token_file": str(shared)}),), shared_token(str(shared)))


def test_root_is_written_as_root_and_by_no_other_name(tmp_path: pathlib.Path) -> None:
    (mistake,) = mistakes(person("0", token_file(tmp_path, "one")))
    assert 'write user = "root"' in mistake


def test_a_person_is_named_once(tmp_path: pathlib.Path) -> None:
    text = person(ME, token_file(tmp_path, "one")) + person(ME, token_file(tmp_path, "two", "another-token-of-them"))
    (mistake,) = mistakes(text)
    assert f"page.person[1] is '{ME}' too" in mistake
