"""Promise 1: root's daemon does for a user only what the user could do: it becomes the user first."""

import os
import pathlib
import pwd
import signal
from urllib.parse import urlencode

import pytest

from tests.interfaces.cli.filled import wait_for_lines
from tests.interfaces.cli.stopped import is_running
from tests.places import LIMIT_S
from tests.security.machine import QUICK_RULE, Machine, Page
from tests.waiting import until

pytestmark = pytest.mark.as_root
WORKER, OTHER = pwd.getpwnam("daemon"), pwd.getpwnam("games")


@pytest.fixture
def secret(machine: Machine) -> pathlib.Path:
    """A file that only root can read, in a folder that everybody may enter."""
    file = machine.folder / "secret"
    file.write_text("of root\n")
    file.chmod(0o600)
    return file


def test_a_filler_opens_and_writes_what_its_user_may_and_nothing_of_roots(
    machine: Machine, secret: pathlib.Path
) -> None:
    box = machine.home(WORKER.pw_uid)
    (box / "linked").symlink_to(secret)
    os.lchown(box / "linked", WORKER.pw_uid, WORKER.pw_gid)
    script = f"id -u; id -G; grep CapEff /proc/self/status; cat {secret} 2>&1; exec sleep 1000"
    common = f"user = '{WORKER.pw_name}'\nidle_for = 0\n"
    daemon = machine.up(
        f"[[filler]]\nname = 'looks'\ngpus = 0\nlog = '{box}/log'\ncommand = ['sh', '-c', '{script}']\n{common}"
        f"[[filler]]\nname = 'writes'\ngpus = 1\nlog = '{box}/linked'\ncommand = ['echo', 'mine']\n{common}"
    )
    uid, groups, capabilities, read = wait_for_lines(box / "log", 4)
    assert (uid, groups) == (str(WORKER.pw_uid), str(WORKER.pw_gid))
    assert int(capabilities.split()[1], 16) == 0
    assert "of root" not in read
    daemon.until("linked cannot be written")
    assert secret.read_text() == "of root\n"


def test_the_command_that_saves_a_job_has_the_rights_of_the_user_of_the_job(
    machine: Machine, secret: pathlib.Path
) -> None:
    saved = machine.home(WORKER.pw_uid) / "saved"
    line = f"{{ id -u; cat {secret}; }} > {saved} 2>&1"
    job = machine.job(WORKER.pw_uid, 0)
    machine.up(f"{QUICK_RULE}before = '''run:{line}'''\n")
    assert job.wait(LIMIT_S) == -signal.SIGTERM
    uid, read = saved.read_text().splitlines()
    assert uid == str(WORKER.pw_uid)
    assert "of root" not in read


def test_a_person_has_no_job_of_another_stopped_on_the_page_and_stops_their_own(machine: Machine) -> None:
    mine, theirs = machine.job(WORKER.pw_uid, 0), machine.job(OTHER.pw_uid, 1)
    token = machine.home(0) / "token"
    token.write_text("the-token-of-one-person")
    token.chmod(0o600)
    page = Page(machine.up(f"[[page.person]]\nuser = '{WORKER.pw_name}'\ntoken_file = '{token}'\n"))
    person = {"authorization": "Bearer the-token-of-one-person"}

    def asked(subject: str) -> str:
        """Ask on the page to stop it, and agree to what it shows; what came of it."""
        status, headers, text = page.ask("/stops", urlencode({"subject": subject}), person)
        assert status == 303, text
        order = headers["location"]
        settled(order)
        page.ask(order, "", person)
        return settled(order)

    def settled(order: str) -> str:
        return until(lambda: page.ask(order, None, person)[2], lambda text: 'http-equiv="refresh"' not in text)

    assert "Nothing was stopped" in asked(f"pid:{theirs.pid}")
    assert is_running(theirs.pid)
    asked("gpu:0")
    assert mine.wait(LIMIT_S) == -signal.SIGTERM
    assert is_running(theirs.pid)
