"""Promise 5: on the page and the socket nobody reads or does what their token or uid does not allow."""

import json
import pwd
import signal
from urllib.parse import urlencode

import pytest

from tests.places import LIMIT_S
from tests.security.machine import ADA, BOB, QUICK_RULE, Machine, Page
from tests.waiting import until

pytestmark = pytest.mark.as_root
WORKER = pwd.getpwnam("daemon")
TOKEN = "a-token-that-nobody-guesses"
SECRET = "hunter2-of-ada"
PROTECTIONS = "/api/v1/protections"


def with_token(machine: Machine) -> str:
    """Return the part of a config for a page with a token that people share."""
    token = machine.home(0) / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    return f"[page]\ntoken_file = '{token}'\n"


def test_on_the_socket_users_read_their_own_command_lines_and_change_what_is_theirs(machine: Machine) -> None:
    machine.job(ADA, 0, "sh", "-c", "read line", f"--token={SECRET}")
    daemon = machine.up()
    placed = machine.fallow(ADA, "protect", "0", "--for", "1h", "--json")
    number = str(json.loads(placed.stdout)["protections"][0]["id"])
    until(lambda: machine.fallow(ADA, "status", "--json").stdout, lambda text: SECRET in text)
    for words in (("status", "--json"), ("why", "0"), ("protect", "--list", "--json"), ("report", "--by", "job")):
        asked = machine.fallow(BOB, *words)
        assert SECRET not in asked.stdout + asked.stderr
    for words in (
        ("protect", "--release", number),
        (
            "up",
            "--reload",
        ),
    ):
        assert machine.fallow(BOB, *words).returncode == 77
    assert not daemon.told("reloaded")
    assert number in machine.fallow(BOB, "protect", "--list", "--json").stdout
    assert machine.fallow(ADA, "protect", "--release", number).returncode == 0


def test_on_the_page_nothing_changes_without_the_token_or_at_the_wish_of_another_site(machine: Machine) -> None:
    page = Page(machine.up(with_token(machine)))
    wish = urlencode({"subject": "gpu:1", "for": "1h"})
    status, headers, _ = page.ask("/login", urlencode({"token": TOKEN}), {"origin": page.origin})
    assert status == 303
    cookie = {"cookie": headers["set-cookie"].partition(";")[0]}
    refused = {
        "without a token": {},
        "with a wrong token": {"authorization": "Bearer a-token-that-somebody-guessed"},
        "from another site": {**cookie, "origin": "http://evil.example"},
        "from another port of this host": {**cookie, "origin": "http://127.0.0.1:1"},
        "under a name that leads here": {**cookie, "origin": "http://evil.example", "host": "evil.example"},
    }
    for how, shown in refused.items():
        assert page.ask("/protections", wish, shown)[0] in (401, 403, 421), how
    assert json.loads(page.ask(PROTECTIONS)[2])["protections"] == []
    assert page.ask("/", None, {"host": "evil.example"})[0] == 421
    assert page.ask("/protections", wish, {**cookie, "origin": page.origin})[0] == 303
    assert len(json.loads(page.ask(PROTECTIONS)[2])["protections"]) == 1


def test_a_name_that_a_user_chose_is_no_markup_no_escape_code_and_no_word_of_a_shell(machine: Machine) -> None:
    runs = f"cd${{IFS}}tmp;cd${{IFS}}{machine.folder.name};touch${{IFS}}pwned"  # a name ends at a space or slash
    name = f"<script>x\x1b[2J$({runs})`{runs}`';{runs};'"
    job = machine.job(WORKER.pw_uid, 0, name, "1000", executable="/usr/bin/sleep")
    saved = machine.home(WORKER.pw_uid) / "saved"
    daemon = machine.up(f"{with_token(machine)}{QUICK_RULE}before = '''run:echo $FALLOW_BECAUSE > {saved}'''\n")
    page = Page(daemon)
    until(lambda: page.ask("/")[2], lambda text: "&lt;script&gt;x" in text)
    for path in ("/", f"/jobs/{job.pid}", "/metrics"):
        text = page.ask(path)[2]
        assert "<script>x" not in text
        assert "\x1b" not in text
    for words in (("status", "--long"), ("why", "0"), ("stop", "0", "--dry-run")):
        asked = machine.fallow(0, *words)
        assert "<script>x" in asked.stdout + asked.stderr
        assert "\x1b" not in asked.stdout + asked.stderr
    assert job.wait(LIMIT_S) == -signal.SIGTERM
    assert saved.exists()
    assert not (machine.folder / "pwned").exists()
    assert "\x1b" not in "".join(daemon.said)
