"""Each sentence of docs/security.md names a test, and each test that it names is there."""

import re

from tests.places import REPOSITORY

PAGE = (REPOSITORY / "docs" / "security.md").read_text()
LEFT = "## What is left"


def named(text: str) -> list[tuple[str, str]]:
    return re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text)


def is_there(file: str, name: str) -> bool:
    path = REPOSITORY / file
    return path.exists() and re.search(rf"^\s*def {name}\(", path.read_text(), re.MULTILINE) is not None


def test_every_test_that_the_page_names_is_there() -> None:
    assert [f"{file}::{name}" for file, name in named(PAGE) if not is_there(file, name)] == []
    assert not is_there("tests/house/test_security_page.py", "test_that_nobody_wrote")


def test_every_sentence_about_what_holds_names_a_test() -> None:
    promised = PAGE.partition(LEFT)[0]
    sentences = re.findall(r"^- (.*?)(?=^- |^## |^`fallow|\Z)", promised, re.MULTILINE | re.DOTALL)
    assert len(sentences) > 20
    assert [sentence for sentence in sentences if not named(sentence)] == []
