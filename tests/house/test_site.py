"""The documents are also a site: every one is in its navigation, and none fetches a font."""

import re
import tomllib
from collections.abc import Iterator

import pytest

from tests.places import REPOSITORY

pytestmark = pytest.mark.more

SITE = tomllib.loads((REPOSITORY / "zensical.toml").read_text())["project"]


def pages(part: object) -> Iterator[str]:
    """Yield the files that a part of the navigation names."""
    match part:
        case str():
            yield part
        case list() | dict():
            for each in part.values() if isinstance(part, dict) else part:
                yield from pages(each)


def test_every_document_is_in_the_navigation_once() -> None:
    """Decisions are listed on a page of their own."""
    listed = list(pages(SITE["nav"]))
    assert len(listed) == len(set(listed))
    docs = {path for path in (REPOSITORY / "docs").rglob("*.md") if "decisions" not in path.parts}
    assert {str(path.relative_to(REPOSITORY)) for path in docs} - set(listed) == set()
    assert [name for name in listed if not (REPOSITORY / name).exists()] == []


def test_every_decision_is_in_the_list_of_decisions() -> None:
    folder = REPOSITORY / "docs" / "decisions"
    listed = set(re.findall(r"\]\(([^)]+)\)", (folder / "README.md").read_text()))
    assert {path.name for path in folder.glob("0*.md")} == listed


def test_the_site_is_told_to_fetch_no_font() -> None:
    assert SITE["theme"]["font"] is False
