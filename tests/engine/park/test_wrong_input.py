"""Wrong input gets one clear sentence: a subject that names nothing, or nothing that is parked."""

import pytest

from tests.conftest import Fallow
from tests.places import ME


@pytest.mark.parametrize(
    ("subject", "sentence"),
    [
        ("contaner:x", "'contaner:x' names nothing; did you mean container?"),
        ("pid:999999999", "there is no process 999999999"),
        ("user:nosuch", "there is no user 'nosuch' on this machine"),
    ],
)
def test_a_subject_that_names_nothing_is_refused(simulated: Fallow, subject: str, sentence: str) -> None:
    done = simulated("wake", subject)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr


def test_where_nothing_is_parked_there_is_nothing_to_do(simulated: Fallow) -> None:
    done = simulated("wake", "mine", f"user:{ME}", "all", "3", "container:vllm-prod", "pid:1", "--json")
    assert done.returncode == 0
    assert '"jobs": []' in done.stdout
    for sentence in (
        "no job of yours is parked",
        f"no job of {ME} is parked",
        "no job is parked",
        "no job of GPU 3 is parked",
        "no container vllm-prod is parked",
        "process 1 is not parked",
    ):
        assert f"{sentence}, as far as can be seen without a daemon" in done.stderr
