"""Where the output goes away or knows few letters, a command ends with its exit code and without a traceback."""

import subprocess

import pytest

from fallow.core.errors import WrongUsage
from fallow.interfaces.cli.main import command_of
from fallow.interfaces.cli.options import common
from tests.conftest import Fallow
from tests.places import LIMIT_S


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("fallow run -v -- sh -c 'exit 5' >&-", 5),
        ("fallow run -v -- true 2>/dev/full", 0),
        ("fallow status --watch=100ms | head -1; exit ${PIPESTATUS[0]}", 141),
        ("PYTHONIOENCODING=ascii fallow status", 0),
    ],
)
def test_streams_change_no_exit_code(simulated: Fallow, script: str, code: int) -> None:
    words = ["bash", "-c", script]
    done = subprocess.run(words, env=simulated.environ, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr


def test_two_dashes_are_no_value_of_an_option() -> None:
    with pytest.raises(WrongUsage, match="no value"):
        command_of("pick", common())[1].parse_args(["--count=--"])
