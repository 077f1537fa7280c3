"""The config of the Debian package, made from the example by the line of its rules; `scripts/try-deb` installs it."""

import re
import subprocess

import pytest

from fallow.engine.config.load import understand
from tests.places import LIMIT_S, REPOSITORY

pytestmark = pytest.mark.more


def test_the_config_of_the_package_changes_nothing_and_makes_nobody_an_operator() -> None:
    """A group of that name may be on the machine already, with members who were never meant."""
    rules = (REPOSITORY / "packaging/debian/rules").read_text()
    (line,) = re.findall(r"^\t(sed .*) \$\(EXAMPLES\)/fallow\.toml >", rules, re.MULTILINE)
    example = REPOSITORY / "src/fallow/examples/fallow.toml"
    words = ["sh", "-c", f"{line.replace('$$', '$')} {example}"]
    made = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
    assert made.count("\n") == example.read_text().count("\n")
    assert understand(made, "fallow.toml") == understand("", "fallow.toml")
