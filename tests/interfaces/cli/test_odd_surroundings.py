"""Surroundings in which a command once ended with an internal error, or without a way out."""

import pytest

from tests.conftest import Fallow

pytestmark = pytest.mark.more


@pytest.mark.parametrize(
    "words",
    [
        ("up", "--for", "100ms", "--listen", "127.0.0.1:0"),
        ("report", "--format", "html"),
        ("check", "--example"),
        ("doctor", "--unit"),
        ("completion", "zsh"),
        ("help", "run"),
    ],
    ids=" ".join,
)
def test_no_file_of_fallow_is_read_in_the_encoding_of_the_locale(simulated: Fallow, words: tuple[str, ...]) -> None:
    """In a locale that is not UTF-8 the page showed other letters, or the daemon did not start."""
    done = simulated(*words, PYTHONWARNDEFAULTENCODING="1", PYTHONWARNINGS="error::EncodingWarning")
    assert done.returncode == 0, done.stderr
    plain = simulated(*words, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert plain.returncode == 0, plain.stderr
