"""The documents are also a site: every one is in its navigation, in one of four rooms, and none fetches a font."""

import re
import tomllib
from collections.abc import Iterator

import pytest

from tests.places import REPOSITORY

pytestmark = pytest.mark.more

SITE = tomllib.loads((REPOSITORY / "zensical.toml").read_text())["project"]
ROOMS = ("start", "guides", "concepts", "reference")


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


def test_the_navigation_has_the_four_rooms() -> None:
    titles = [title.lower() for part in SITE["nav"] for title in part]
    assert set(ROOMS) <= set(titles)


@pytest.mark.parametrize("room", ROOMS)
def test_every_page_begins_with_something_to_do(room: str) -> None:
    """Below its title, after one paragraph at most."""
    paragraph = r"(?:(?!```|[|<#-])(?:[^\n]+\n){1,4}\n)?"
    begin = re.compile(rf"# [^\n]+\n\n{paragraph}(?:<!-- [^\n]* -->\n)?```(?:sh|console|toml|python)\n")
    pages = sorted((REPOSITORY / "docs" / room).glob("*.md"))
    assert pages != []
    assert [page.name for page in pages if not begin.match(page.read_text())] == []


def test_the_site_is_told_to_fetch_no_font() -> None:
    assert SITE["theme"]["font"] is False
