"""F6: check says all that up would refuse on this machine, at once."""

import os
import pathlib

import pytest

from fallow.core.errors import ConfigWrong
from fallow.core.mistake import Mistake
from fallow.engine.config.feasible import Feasible
from fallow.engine.config.load import understand
from fallow.engine.machine.world import World
from tests.conftest import Fallow
from tests.places import ME

FILLER = f"[[filler]]\nname = 'a'\nuser = '{ME}'\n"
PATH = "/usr/bin:/bin"
ADA = 61001
WHY = "who could change what fallow reads or runs"


def mistakes(text: str, let_pass: list[Mistake] | None = None) -> list[str]:
    world = World({"PATH": PATH}, simulate="8xH100")
    told: list[str] = []
    try:
        understand(text, "f", Feasible(world, told.append), None if let_pass is None else let_pass.append)
    except ConfigWrong as error:
        return [mistake.in_file("f") for mistake in error.mistakes]
    finally:
        world.close()
    return []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (FILLER + "command = 'cd /srv && x > log'\n", "f:4: filler[1].command: '&' is for a shell, and no shell"),
        (FILLER + "command = 'no-such-program --now'\n", "f:4: filler[1].command: there is no command"),
        (FILLER + "command = 'true'\ncwd = '/no/such'\n", "f:5: filler[1].cwd: /no/such is not a folder to run in"),
        (FILLER + "command = 'true'\nlog = '/no/such/log'\n", "f:5: filler[1].log: the folder /no/such is not there"),
        (FILLER + "command = 'true'\ngpus = '0-15'\n", "f:5: filler[1].gpus: there is no GPU 8 here"),
        ("[[idle]]\nname = 'i'\nidle_for = '1h'\ngpus = 9\n", "f:4: idle[1].gpus: there is no GPU '9' here"),
        ("[[idle]]\nname = 'i'\nidle_for = '1h'\nusers = ['nobdy']\n", "f:4: idle[1].users[1]: there is no user"),
        (
            "[[idle]]\nname = 'i'\nidle_for = '1h'\nact = true\nbefore = 'run:(true'\n",
            "f:5: idle[1].before: a command to run is no line that a shell can read",
        ),
        (
            f"[[guard]]\nname = 'g'\nuser = '{ME}'\naction = 'run:(true'\n",
            "f:4: guard[1].action: a command to run is no line that a shell can read",
        ),
        ("[protect]\ngroups = ['rot']\n", "f:2: protect.groups[1]: there is no group 'rot' on this machine"),
        (
            "[notices.people]\ntemplate = 'mailt://secret-{user}@example.org'\n",
            "f:2: notices.people.template: no notice can be sent to mailt://…: Apprise does not know the address",
        ),
        ("[protect]\nusers = ['root', 'nobdy']\n", "f:2: protect.users[2]: there is no user 'nobdy' on this machine"),
    ],
)
def test_what_up_would_refuse_is_a_mistake_with_its_line(text: str, says: str) -> None:
    (mistake,) = mistakes(text)
    assert says in mistake


@pytest.mark.parametrize(
    "text",
    [
        FILLER + "command = ['sh', '-c', 'a | b']\n",
        FILLER + "command = 'true'\ngpus = '0-7'\nlog = '/tmp/{gpu}.log'\nignore_user = ['root', '4711']\n",
        FILLER + "command = 'no-such'\nenabled = false\n",
        "[page]\nhosts = ['gpu1', 'gpu1.example.org', '10.0.0.1', '::1']\ntoken_file = '/etc/fallow/token'\n",
    ],
)
def test_what_works_is_no_mistake(text: str) -> None:
    assert mistakes(text) == []


def test_a_wrong_key_hides_no_other_mistake_of_its_section() -> None:
    text = FILLER + "command = 'no-such'\nidle_for = 'soon'\ngpus = 9\ncwd = '/no/such'\nzz = 1\n"
    text += FILLER.replace("'a'", "3") + "command = 'no-such'\n"
    lines = [mistake.split(":")[1] for mistake in mistakes(text)]
    assert lines == ["5", "6", "7", "8", "10", "12"]


def test_nothing_follows_from_a_key_that_is_wrong_itself() -> None:
    (mistake,) = mistakes("[[idle]]\nname = 'i'\nidle_for = 'soon'\n")
    assert "'soon' is not a duration" in mistake
    (mistake,) = mistakes("[page]\nlisten = '0.0.0.0:80'\ntoken_file = 3\n")
    assert "page.token_file" in mistake


def test_a_gpu_that_is_not_there_is_waited_for_by_up() -> None:
    """A card that fell off the bus must not take the whole daemon down at the next boot."""
    passed: list[Mistake] = []
    assert mistakes(FILLER + "command = 'true'\ngpus = '0-15'\n", passed) == []
    assert [mistake.where for mistake in passed] == ["filler[1].gpus"]


def test_without_a_driver_nothing_is_said_of_gpus(driverless: Fallow, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "f.toml"
    file.write_text(FILLER + "command = 'true'\ngpus = '0-15'\n")
    done = driverless("check", str(file))
    assert done.returncode == 0, done.stdout


@pytest.mark.as_root
@pytest.mark.parametrize(("engine", "key"), [("kubernetes", "kubeconfig"), ("slurm", "slurm_conf")])
def test_root_takes_no_kubeconfig_and_no_slurm_conf_that_others_could_have_written(
    engine: str, key: str, tmp_path: pathlib.Path
) -> None:
    """They name programs and plugins, which root would run."""
    file = tmp_path / "file"
    text = f"[cluster]\nengine = '{engine}'\n{key} = '{file}'\n"
    assert mistakes(text) == [], "only root can make it"
    file.touch(0o644)
    assert mistakes(text) == []
    os.chown(file, ADA, ADA)
    assert mistakes(text) == [f"f:3: cluster.{key}: {file} belongs to another user, {WHY} (chown -h root {file})"]
    assert mistakes(text + "enabled = false\n") == []
