"""Addresses of people from a template: only a plain login name fills one."""

import pytest

from fallow.core.address_template import AddressTemplate, is_plain, parse_template
from fallow.core.errors import WrongUsage

SECRET = "hunter2"
ODD = ("", "-ada", "..", "a/b", "a@b", "a&b=c", "a b", "a%2Fb", "ädä", "CORP\\ada", "1000", "a\n", "a:b")


@pytest.mark.parametrize("name", ODD)
def test_a_login_name_that_is_not_plain_makes_no_address(name: str) -> None:
    assert not is_plain(name)
    with pytest.raises(WrongUsage):
        AddressTemplate("mailto://{user}@example.org").address(name, 1000)


@pytest.mark.parametrize("name", ["ada", "grace.hopper", "_apt", "x-1", "3d", "A" * 64])
def test_a_plain_name_and_its_number_take_their_places(name: str) -> None:
    found = parse_template(f"json://{SECRET}@example.org/{{user}}/{{uid}}").address(name, 1000)
    assert found == f"json://{SECRET}@example.org/{name}/1000"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ada@example.org", "it is not an address for notices"),
        (f"mailto://bot:{SECRET}@example.org", "it has no {user}, so everybody's notices would go to one address"),
        (f"json://x/{SECRET}/{{user}}/{{home}}", "it has a placeholder other than {user} and {uid}"),
        (f"json://x/{SECRET}/{{user}}/{{user", "it has a placeholder other than {user} and {uid}"),
        ("{user}://x/", "it is not an address for notices"),
    ],
)
def test_a_template_that_would_tell_somebody_else_is_refused(text: str, says: str) -> None:
    with pytest.raises(WrongUsage) as refused:
        parse_template(text)
    assert refused.value.sentence == says
    assert SECRET not in str(refused.value), "a complaint repeats no password"
