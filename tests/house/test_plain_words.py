"""The pages that people read use plain words, and one word for one thing."""

import re

from tests.conftest import REPOSITORY

OLD = re.compile(
    r"\b(whoever|anew|deeds?|insist(?:s|ed|ing)?|rehears\w*|to be had|in earnest|Sight|SeenGpu|fallow hold|verbs)\b"
)
PAGES = [
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "docs/security.md")),
    *(
        page
        for folder in ("start", "guides", "concepts", "contributing", "reference")
        for page in (REPOSITORY / "docs" / folder).glob("*.md")
    ),
]


def test_no_page_uses_a_word_that_was_given_up() -> None:
    found = {
        f"{page.relative_to(REPOSITORY)}:{number}: {old[0]}"
        for page in PAGES
        for number, line in enumerate(page.read_text().splitlines(), 1)
        if (old := OLD.search(line)) is not None
    }
    assert found == set()


def test_a_gpu_that_is_held_and_unused_is_called_idle_in_every_list_of_activities() -> None:
    for page in PAGES:
        for names in re.findall(r"free, filled, busy, (\w+), stuck", page.read_text()):
            assert names == "idle", page.name
