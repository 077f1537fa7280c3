"""Programs can rely on the kinds of reasons: the page about JSON names each of them."""

from fallow.core.reasons import SENTENCES
from tests.places import REPOSITORY


def test_every_kind_of_reason_is_in_the_page_about_json() -> None:
    page = (REPOSITORY / "docs" / "reference" / "json.md").read_text()
    assert [kind for kind in SENTENCES if f"`{kind}`" not in page] == []
