"""Jobs are stopped from the page by their own person, who has read before what will be stopped."""

import os
import subprocess
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from fallow.core.account import Account
from fallow.engine.config.persons import KnownPerson
from fallow.engine.history.journal import Journal
from fallow.engine.machine.world import World
from fallow.engine.stop.for_person import StopsForPersons
from fallow.readers.accounts import account
from fallow.readers.secret import hashed
from tests.interfaces.web.boards import varied
from tests.interfaces.web.served import TOKEN, Answer, Site, hall, served
from tests.places import LIMIT_S
from tests.waiting import until

FORM = {"content-type": "application/x-www-form-urlencoded"}
MINE, ADAS = "the-token-of-me-alone", "the-token-of-ada-alone"


class Page:
    """A page on which this user and ada may stop what is theirs, and a job of this user on GPU 0."""

    def __init__(self, site: Site, environ: dict[str, str]) -> None:
        self.site = site
        self._environ = {**environ, "CUDA_VISIBLE_DEVICES": "0"}
        self._started: list[subprocess.Popen[bytes]] = []

    def job(self) -> subprocess.Popen[bytes]:
        made = subprocess.Popen(["sleep", "1000"], env=self._environ)
        self._started.append(made)
        return made

    def ask(self, path: str, body: str | None = None, token: str = MINE) -> Answer:
        headers = {**FORM, "authorization": f"Bearer {token}"}
        return self.site.ask(path, "GET" if body is None else "POST", body, headers)

    def cookie(self) -> dict[str, str]:
        answer = self.site.ask("/login", "POST", urlencode({"token": MINE}), {**FORM, "origin": self.site.url})
        return {**FORM, "cookie": answer.headers["set-cookie"].partition(";")[0]}

    def plan(self, subject: str = "gpu:0") -> tuple[str, str]:
        """The address of an order, and its page once it was looked at."""
        begun = self.ask("/stops", f"subject={subject}")
        assert begun.status == 303, begun.text
        return begun.headers["location"], self.settled(begun.headers["location"])

    def settled(self, order: str) -> str:
        return until(lambda: self.ask(order).text, lambda text: 'http-equiv="refresh"' not in text, pause_s=0.1)

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.wait(LIMIT_S)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    home = tmp_path_factory.mktemp("stops")
    environ = {
        "PATH": "/usr/bin:/bin",
        "FALLOW_SIMULATE": "2xH100",
        "FALLOW_CLAIM_DIR": str(home / "own-claims"),
        "FALLOW_SOCKET": str(home / "none.sock"),
        "FALLOW_STATE_DIR": str(home / "own-state"),
    }
    world = World(environ)
    me = account(str(os.geteuid()))
    assert me is not None
    ada = Account("ada", 54321, 54321, "/", "/bin/sh")
    persons = (KnownPerson(me, hashed(MINE)), KnownPerson(ada, hashed(ADAS)))
    journal = Journal(str(home / "own-state"), world.clock.wall_s, print)
    with served(hall(varied), home, token=TOKEN, persons=persons, stops=StopsForPersons(world, journal)) as site:
        made = Page(site, environ)
        yield made
        made.end()
    journal.close()
    world.close()


@pytest.mark.more
def test_a_job_is_shown_before_it_is_stopped_and_stopped_only_when_its_person_agrees(page: Page) -> None:
    job = page.job()
    order, shown = page.plan()
    assert f"job {job.pid} (sleep)" in shown
    assert "send SIGTERM to every process of the job" in shown
    assert "then SIGKILL 10s later" in shown
    assert "nothing has been touched" in shown
    for other in (page.ask(order, token=ADAS), page.ask(order, "", token=ADAS)):
        assert other.status == 404, "an order of another is not told"
    for origin in ("http://evil.example", "null", "http://localhost:1"):
        assert page.site.ask(order, "POST", "", {**page.cookie(), "origin": origin}).status == 401
    assert page.ask(order, "", token=TOKEN).status == 403
    assert job.poll() is None
    assert page.site.ask(order, "POST", "", {**page.cookie(), "origin": page.site.url}).status == 303
    done = page.settled(order)
    assert "What came of it" in done
    assert job.wait(LIMIT_S) == -15
    another = page.job()
    assert page.ask(order, "").status == 303, "who agrees twice stops nothing more"
    assert "What came of it" in page.settled(order)
    assert another.poll() is None


def test_a_job_that_ended_meanwhile_is_told_and_its_successor_is_left_alone(page: Page) -> None:
    job = page.job()
    order, _ = page.plan(f"pid:{job.pid}")
    job.kill()
    job.wait(LIMIT_S)
    successor = page.job()
    page.ask(order, "")
    assert "all of it has ended meanwhile" in page.settled(order)
    assert successor.poll() is None


def test_whoever_has_no_token_of_their_own_stops_nothing_and_reads_why(page: Page) -> None:
    shared = page.ask("/stops", "subject=gpu:0", token=TOKEN)
    assert (shared.status, "with the token that people share nobody stops a job" in shared.text) == (403, True)
    nobody = page.site.ask("/stops", "POST", "subject=gpu:0", FORM)
    assert (nobody.status, 'href="/login"' in nobody.text) == (401, True)
    elsewhere = page.site.ask("/stops", "POST", "subject=gpu:0", {**page.cookie(), "origin": "http://evil.example"})
    assert elsewhere.status == 401


def test_what_names_no_job_is_refused_in_a_sentence(page: Page) -> None:
    for subject in ("", "all", "--yes", "user:root", "slurm:1", "gpu:0%0a--yes", "%3Cscript%3E"):
        answer = page.ask("/stops", f"subject={subject}")
        assert (answer.status, "name a GPU or a process to stop" in answer.text) == (422, True)
        assert "<script>" not in answer.text


def test_what_was_refused_is_a_sentence_on_the_page(page: Page) -> None:
    order, shown = page.plan("gpu:1")
    assert "nobody is on GPU 1" in shown
    assert "Nothing was stopped" in shown
    assert page.ask(order, "").status == 303
    protected = page.ask("/protections", "subject=gpu:99&for=1h")
    assert (protected.status, "That was not done" in protected.text) == (404, True)
    assert page.ask("/protections", "subject=gpu:0&for=soon").status == 422


def test_only_a_person_gets_a_button_to_stop(page: Page) -> None:
    for address in ("/", "/gpus/0", "/jobs/48211"):
        assert 'action="/stops"' in page.ask(address).text
    assert 'action="/stops"' not in page.ask("/", token=TOKEN).text
    assert 'action="/protections"' in page.ask("/", token=TOKEN).text
    assert 'class="act"' not in page.site.ask("/").text
