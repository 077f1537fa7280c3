"""Persons of the page under a real daemon: a token that was changed or taken away ends with the next reload."""

import http.client
import pathlib
from urllib.parse import urlencode

from tests.conftest import Fallow
from tests.places import LIMIT_S, ME

OLD, NEW = "the-first-token-of-me", "the-second-token-of-me"
FORM = {"content-type": "application/x-www-form-urlencoded"}


def ask(port: int, path: str, headers: dict[str, str], body: str | None = None) -> tuple[int, str]:
    """The status of an answer, and the cookie in it."""
    wire = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        wire.request("GET" if body is None else "POST", path, body, headers)
        answer = wire.getresponse()
        answer.read()
        return answer.status, (answer.getheader("set-cookie") or "").partition(";")[0]
    finally:
        wire.close()


def port_of(line: str) -> int:
    return int(line.split("127.0.0.1:")[1].split("/", maxsplit=1)[0])


def test_a_token_that_was_changed_or_taken_away_is_worth_nothing_after_a_reload(
    simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    token, file = tmp_path / "token", simulated.home / "fallow.toml"
    token.write_text(OLD)
    token.chmod(0o600)
    page = "[page]\nlisten = '127.0.0.1:0'\n"
    running = simulated.up(f"{page}[[page.person]]\nuser = '{ME}'\ntoken_file = '{token}'\n")
    port = port_of(running.until("the page is at"))
    running.until("up, with")
    origin = {"origin": f"http://127.0.0.1:{port}"}
    status, cookie = ask(port, "/login", {**FORM, **origin}, urlencode({"token": OLD}))
    assert status == 303
    assert ask(port, "/stops/none", {"cookie": cookie})[0] == 404
    token.write_text(NEW)
    assert simulated("up", "--reload").returncode == 0
    port = port_of(running.until("the page is at"))
    assert ask(port, "/stops/none", {"cookie": cookie})[0] == 401, "the session ended with its token"
    assert ask(port, "/stops/none", {"authorization": f"Bearer {OLD}"})[0] == 401
    assert ask(port, "/stops/none", {"authorization": f"Bearer {NEW}"})[0] == 404
    file.write_text(page)
    assert simulated("up", "--reload").returncode == 0
    port = port_of(running.until("the page is at"))
    assert ask(port, "/stops/none", {"authorization": f"Bearer {NEW}"})[0] == 403, "nobody can stop anything here"
    running.process.terminate()
