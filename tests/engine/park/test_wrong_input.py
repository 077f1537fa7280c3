"""Wrong input gets one clear sentence: a rule that cannot park, a subject that names nothing."""

import pathlib

import pytest

from tests.conftest import Fallow
from tests.places import ME


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        ('["stop", "park"]', "a job is parked first, and stopped if that is not possible"),
        ('["park", "park"]', "a job is parked first, and stopped if that is not possible"),
        ("[]", "it names nothing to do (name park or stop)"),
        ('"parc"', "'parc' is not what can be done with an idle job (did you mean park?)"),
        ("3", '3 is not what can be done with an idle job (write "stop", "park" or ["park", "stop"])'),
    ],
)
def test_an_action_that_makes_no_sense_is_named_with_what_to_write(
    fallow: Fallow, tmp_path: pathlib.Path, action: str, sentence: str
) -> None:
    assert sentence in checked(fallow, tmp_path, f'idle_for = "1h"\naction = {action}')


def test_a_rule_against_hangs_alone_cannot_park(fallow: Fallow, tmp_path: pathlib.Path) -> None:
    said = checked(fallow, tmp_path, 'stuck_for = "1h"\naction = "park"')
    assert "a job that hangs does not come to rest, so it cannot be parked" in said


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


def checked(fallow: Fallow, folder: pathlib.Path, rule: str, code: int = 78) -> str:
    """What `fallow check` says of a config with this rule."""
    file = folder / "fallow.toml"
    file.write_text(f'[[idle]]\nname = "forgotten"\n{rule}\n')
    file.chmod(0o600)
    done = fallow("check", str(file))
    assert done.returncode == code, done
    return done.stdout + done.stderr
