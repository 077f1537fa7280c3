"""The pages about one GPU, job and user: everything leads somewhere, and nobody sees more than they may."""

import html
import pathlib
import re
from collections.abc import Iterator
from urllib.parse import unquote

import pytest

from fallow.core.board import Board, Counting
from fallow.core.findings import Verdict, gpu_key, process_key
from fallow.core.gpu import Holder
from fallow.core.money import Prices
from fallow.core.protections import OneProcess, Protection
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.core.visibility import ANYBODY, seen_by
from fallow.engine.history.journal import Journal
from fallow.engine.machine.clock import SystemClock
from tests.interfaces.web.boards import varied
from tests.interfaces.web.histories import record
from tests.interfaces.web.served import Site, hall, served
from tests.reasons import said

SECRET = "--config configs/large.yaml"
ADA, BOB, CAROL = 48211, 50993, 51800


def born(pid: int) -> int:
    return 1000 + pid


def with_births(holders: tuple[Holder, ...] | Unknown) -> tuple[Holder, ...] | Unknown:
    if isinstance(holders, Unknown):
        return holders
    return tuple(replace(one, birth=born(one.pid)) for one in holders)


def board(wall_s: float) -> Board:
    """A board as the daemon hangs it up: whole commands for those who may read them."""
    plain = varied(wall_s)
    gpus = tuple(replace(gpu, holders=with_births(gpu.holders)) for gpu in plain.status.gpus)
    full = replace(plain.status, gpus=gpus)
    rule = Counting(
        "nights", "bob's job", (str(gpus[1].uuid),), (process_key(BOB, born(BOB)),), "idle", 1800.0, "ask", 540.0
    )
    shown = seen_by(full, ANYBODY)
    return replace(plain, status=shown, full_status=full, counting=(rule,), prices=Prices(2.5, (), "USD"))


UUIDS = [str(gpu.uuid) for gpu in board(0.0).status.gpus]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home, clock = tmp_path_factory.mktemp("subjects"), SystemClock()
    record(home, board(clock.wall_s()), 120)
    journal = Journal(str(home / "state"), clock.wall_s, print)
    keys = [gpu_key(UUIDS[1]), process_key(BOB, born(BOB))]
    journal.verdict(Verdict("bob's job 50993 (python)", "idle", said("nothing ran for 30 minutes")), keys)
    by_rule = {"step": "stopped", "rule": "nights", "job_user": "eve"}
    gone = [gpu_key(UUIDS[2]), process_key(8, 80), process_key(6, 90)]
    idle = said("idle for 2h").with_facts(**(by_rule | {"step": "ask"}))
    journal.action("eve's job 8 (python)", "ask the job to end with SIGTERM", idle, gone)
    journal.outcome("eve's job 8 (python)", "stopped", said("its memory is back").with_facts(**by_rule), gone)
    journal.verdict(Verdict("dan's job 7 (python)", "stopped", said("it was idle")), [process_key(7, 77)])
    journal.close()
    with served(hall(board), home) as made:
        yield made


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", " ", page))


def test_a_gpu_is_found_by_its_uuid_and_by_its_index_and_tells_who_holds_it_and_what_was_done(site: Site) -> None:
    by_uuid, by_index = site.ask(f"/gpus/{UUIDS[1]}"), site.ask("/gpus/1")
    assert (by_uuid.status, by_index.status) == (200, 200)
    page = by_uuid.text
    assert "<h1>GPU 1</h1>" in page
    assert 'href="/users/bob"' in page
    assert f'href="/jobs/{BOB}-{born(BOB)}"' in page
    assert "nothing ran for 30 minutes" in page
    assert re.search(r"stops in <span[^>]*>9m", page), "the rule and when"
    assert "protected by bob" in text_of(page)
    assert f'href="/gpus/{UUIDS[1]}?span=7d#plots"' in page


def test_a_job_tells_who_protects_its_gpu_and_a_gpu_who_protects_a_process_on_it(tmp_path: pathlib.Path) -> None:
    def protected(wall_s: float) -> Board:
        on_pid = Protection(9, OneProcess(ADA, born(ADA)), wall_s + 600, "one more epoch", "ada")
        made = board(wall_s)
        return replace(made, protections=(*made.protections, on_pid))

    with served(hall(protected), tmp_path) as site:
        assert "GPU 1 is protected by bob" in text_of(site.ask(f"/jobs/{BOB}").text)
        assert "GPU 1 is protected by bob" in text_of(site.ask("/users/bob").text)
        assert f"process {ADA} is protected by ada" in text_of(site.ask("/gpus/0").text)
        assert f"process {ADA} is protected by ada: one more epoch" in text_of(site.ask("/").text)
        assert "GPU 1 is protected" not in text_of(site.ask(f"/jobs/{ADA}").text)


def test_a_stop_names_the_rule_that_did_it_and_leads_to_job_user_and_gpu(site: Site) -> None:
    places = ("/jobs/8-80", "/users/eve", f"/gpus/{UUIDS[2]}")
    for path in ("/", *places):
        row = next(each for each in site.ask(path).text.split("<tr")[1:] if "eve&#39;s job 8" in each)
        assert "idle for 2h by rule nights" in " ".join(text_of(row).split())
        assert all(f'href="{address}"' in row for address in places), path


def test_a_stop_that_is_due_leads_to_its_job_user_and_gpu_and_a_lost_gpu_says_what_is_not_known(site: Site) -> None:
    due = site.ask("/").text.split('id="stops"')[1].split("</table>")[0]
    for address in (f"/jobs/{BOB}-{born(BOB)}", "/users/bob", f"/gpus/{UUIDS[1]}"):
        assert f'href="{address}"' in due, address
    assert "the GPU is lost" in site.ask("/gpus/5").text


def test_a_user_leads_to_their_gpus_and_jobs_with_hours_and_money(site: Site) -> None:
    page = site.ask("/users/bob").text
    for address in (f"/gpus/{UUIDS[1]}", f"/jobs/{BOB}-{born(BOB)}"):
        assert f'href="{address}"' in page, address
    assert "Hours and money" in page
    assert re.search(r"<strong>0\.0\d USD</strong>", page), "two idle minutes cost some cents"
    assert "bob&#39;s job 50993 (python)" in page
    assert "dan&#39;s job 7" not in page, "that is not his"


def test_a_job_is_found_by_its_pid_and_after_its_end_in_the_journal(site: Site) -> None:
    assert "What it uses now" in site.ask(f"/jobs/{ADA}-{born(ADA)}").text
    assert site.ask(f"/jobs/{ADA}").status == 200
    assert site.ask(f"/jobs/{ADA}-9").status == 404, "another process with that pid"
    gone = site.ask("/jobs/7-77")
    assert gone.status == 200
    assert "it holds no GPU now" in gone.text
    assert "A job that holds no GPU has no hours here; the page of its user has them." in gone.text


MISSING = (
    *("/gpus/99", "/gpus/GPU-nonsense", "/jobs/1", "/jobs/x", "/jobs/1-x", "/jobs/99999999999999999999999"),
    *("/users/nobody", "/users/-", "/users/%3F", "/users/%3Cscript%3Ealert(1)%3C/script%3E", f"/users/{'x' * 400}"),
)


def test_what_nobody_has_heard_of_is_a_page_that_says_so(site: Site) -> None:
    for path in MISSING:
        answer = site.ask(path)
        assert (answer.status, answer.headers["content-type"]) == (404, "text/html; charset=utf-8"), path
        assert "There is no" in answer.text
        assert "<script>" not in answer.text
        assert '<a href="/">' in answer.text


def test_a_browser_gets_a_page_with_a_way_home_for_an_unknown_path_and_a_program_json(site: Site) -> None:
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    page = site.ask("/nothing/%3Cb%3E", headers=browser)
    assert (page.status, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert '<a href="/">' in page.text
    assert "<b>" not in page.text
    for path, headers in (("/nothing", {}), ("/nothing", {"accept": "application/json"}), ("/api/v1/no", browser)):
        assert site.ask(path, headers=headers).json["detail"], path


def test_others_see_no_command_line_and_no_name_of_a_notebook_anywhere(site: Site) -> None:
    for path in (f"/gpus/{UUIDS[0]}", f"/jobs/{ADA}", "/users/ada", f"/gpus/{UUIDS[1]}"):
        page = site.ask(path).text
        assert SECRET not in page, path
        assert "train.ipynb" not in page, path


def test_every_link_of_these_pages_leads_somewhere(site: Site) -> None:
    seen: set[str] = set()
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        page = site.ask(path)
        assert page.status == 200, path
        links = {link.split("#")[0].split("?")[0] for link in re.findall(r'href="(/[^"]*)"', page.text)}
        subjects = [link for link in links if link == "/" or link.split("/")[1] in ("gpus", "jobs", "users")]
        assert path == "/" or "/" in subjects, "there is a way back"
        waiting += [link for link in subjects if link not in seen]
        seen |= set(subjects)
    assert {unquote(link).split("/")[1] for link in seen} >= {"gpus", "jobs", "users"}


def test_programs_get_what_is_plotted(site: Site) -> None:
    whole = site.ask("/api/v1/series?span=1h").json
    assert (whole["span"], whole["step_s"], whole["currency"], len(whole["steps"])) == ("1h", 30, "USD", 120)
    assert max(one["gpus"] for one in whole["steps"]) == 8
    bobs = site.ask("/api/v1/series?span=1h&subject=user:bob").json["steps"]
    held = [one for one in bobs if one["gpus"]]
    assert {(one["gpus"], *one["users"]) for one in held} == {(1, "bob")}
    assert set(held[-1]["spent"]) == {"idle_s"}
    assert all(one["utilization"] is None for one in bobs if not one["gpus"]), "unknown is null, not zero"
    assert site.ask("/api/v1/series?subject=user:nobody").status == 404


def test_a_long_past_of_a_user_is_made_of_whole_stops(tmp_path: pathlib.Path) -> None:
    journal = Journal(str(tmp_path / "state"), SystemClock().wall_s, print)
    for number in range(12):
        subject, keys = f"eve's job {number} (python)", [process_key(100 + number, 7)]
        journal.verdict(Verdict(subject, "idle", said("nothing ran for 30 minutes")), keys)
        for step in ("warn", "ask", "kill"):
            journal.action(subject, f"{step} the job", said("it idles").with_facts(step=step, job_user="eve"), keys)
        journal.outcome(subject, "stopped", said("it is gone").with_facts(step="stopped", job_user="eve"), keys)
    journal.close()
    with served(hall(board), tmp_path) as site:
        page = site.ask("/users/eve").text
    rows = [row for row in page.split("<tr")[1:] if "<summary" in row]
    assert len(rows) == 12
    assert all("after: warned, asked to end, killed" in row for row in rows), "none begins in the middle"
