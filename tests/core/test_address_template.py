"""Addresses of people from a template: whatever a login name is, it chooses nothing but its own place."""

from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.core.address_template import AddressTemplate, is_plain, parse_template
from fallow.core.errors import WrongUsage
from tests.length import examples

SECRET = "hunter2"
TEMPLATES = (
    "mailto://{user}@example.org",
    f"mailto://bot:{SECRET}@mail.example.org:587?to={{user}}@example.org&from=fallow@example.org",
    f"json://hooks.example.org:8080/{SECRET}/{{user}}/{{uid}}",
)
ODD = (
    "",
    "-ada",
    ".ada",
    "..",
    ".",
    "a/b",
    "a@b",
    "a?b",
    "a&b=c",
    "a b",
    "a%2Fb",
    "ädä",
    "CORP\\ada",
    "1000",
    "a\n",
    "a:b",
)


@pytest.mark.parametrize("name", ODD)
def test_a_login_name_that_is_not_plain_makes_no_address(name: str) -> None:
    assert not is_plain(name)
    with pytest.raises(WrongUsage):
        AddressTemplate(TEMPLATES[0]).address(name, 1000)


NAMES = st.one_of(st.text(max_size=40), st.from_regex(r"\A[A-Za-z0-9._@/?&=:#%-]{1,20}\Z"), st.sampled_from(ODD))


@settings(max_examples=examples(600))
@given(NAMES, st.sampled_from(TEMPLATES))
def test_no_login_name_changes_more_than_its_own_place_in_the_address(name: str, text: str) -> None:
    template = parse_template(text)
    usual = urlsplit(template.address("ada", 1000))
    if not is_plain(name):
        with pytest.raises(WrongUsage):
            template.address(name, 1000)
        return
    made = urlsplit(template.address(name, 1000))
    assert (made.scheme, made.hostname, made.port, made.fragment) == (usual.scheme, usual.hostname, usual.port, "")
    assert made.path == usual.path.replace("ada", name)
    expected = {key: [each.replace("ada", name) for each in values] for key, values in parse_qs(usual.query).items()}
    assert parse_qs(made.query) == expected
    assert made.username == ("bot" if "bot" in text else name if "mailto" in text else None)


def test_names_that_people_have_are_plain() -> None:
    assert all(is_plain(name) for name in ("ada", "grace.hopper", "_apt", "x-1", "3d", "A" * 64))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ada@example.org", "it is not an address for notices"),
        (f"mailto://bot:{SECRET}@example.org", "it has no {user}, so everybody's notices would go to one address"),
        (f"json://x/{SECRET}/{{user}}/{{home}}", "it has a placeholder other than {user} and {uid}"),
        (f"json://x/{SECRET}/{{user}}/{{user", "it has a placeholder other than {user} and {uid}"),
        (f"json://bot:{SECRET}@{{user}}/", "a login name would choose the host"),
        (f"json://bot:{SECRET}@example.org:{{uid}}/{{user}}", "a login name would choose the host"),
        (f"json://x/?{SECRET}={{user}}&{{user}}=1", "a login name would choose an option"),
        (f"json://[x/{SECRET}/{{user}}", "it is not an address for notices"),
        ("{user}://x/", "it is not an address for notices"),
    ],
)
def test_a_template_that_would_tell_somebody_else_is_refused(text: str, says: str) -> None:
    with pytest.raises(WrongUsage) as refused:
        parse_template(text)
    assert refused.value.sentence == says
    assert SECRET not in str(refused.value), "a complaint repeats no password"
