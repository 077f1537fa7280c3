"""The report is kept as a file: the same as the command writes, as the visitor may see it."""

import csv
import io
import pathlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fallow.engine.config.listen_address import Address
from fallow.engine.history.reader import HistoryReader, open_history
from tests.interfaces.web.boards import varied
from tests.interfaces.web.served import TOKEN, Site, hall, served
from tests.places import LIMIT_S


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    pretend = Address("0.0.0.0", 8990)
    with served(hall(varied), tmp_path_factory.mktemp("downloads"), token=TOKEN, pretend=pretend) as made:
        yield made


def test_the_report_is_a_file_that_a_browser_keeps_as_the_command_writes_it(site: Site) -> None:
    for path, kind in (("/report.csv?by=user&since=30d", "text/csv"), ("/report.html", "text/html")):
        answer = site.with_token(path)
        assert answer.status == 200
        assert answer.headers["content-type"].startswith(kind)
        assert answer.headers["content-disposition"].startswith('attachment; filename="fallow-')
    (head, *_) = csv.reader(io.StringIO(site.with_token("/report.csv?by=user").text))
    assert head[0] == "user"
    hours = site.with_token("/report.csv?by=hour")
    assert hours.text.startswith("weekday,hour,observed_s,")
    assert 'filename="fallow-hour-' in hours.headers["content-disposition"]
    assert site.with_token("/report.html?by=hour").status == 422


@pytest.mark.parametrize(
    "query", ["since=soon", "since=0", "since=-1d", "since=9999999d", "by=moon", "since=7d&x=1", "since=%3Cscript%3E"]
)
def test_what_makes_no_sense_is_refused_in_a_sentence(site: Site, query: str) -> None:
    answer = site.with_token(f"/report.csv?{query}")
    assert (answer.status, bool(answer.json["detail"])) == (422, True)


def test_the_page_leads_to_both(tmp_path: pathlib.Path) -> None:
    with served(hall(varied), tmp_path) as open_site:
        text = open_site.ask("/").text
    assert 'href="/report.html?since=7d"' in text
    assert 'href="/report.csv?since=7d&amp;by=user"' in text


def test_the_daemon_answers_while_a_long_report_is_added_up(tmp_path: pathlib.Path) -> None:
    begun, may_go_on = threading.Event(), threading.Event()

    def slow_disk(folder: str) -> HistoryReader | None:
        begun.set()
        assert may_go_on.wait(LIMIT_S)
        return open_history(folder)

    with served(hall(varied), tmp_path, past=slow_disk) as site, ThreadPoolExecutor(1) as beside:
        report = beside.submit(site.ask, "/report.csv")
        try:
            assert begun.wait(LIMIT_S)
            assert len(site.ask("/api/v1/status").json["gpus"]) == 8
            assert not report.done()
        finally:
            may_go_on.set()
        assert report.result(LIMIT_S).status == 200
