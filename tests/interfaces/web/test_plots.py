"""The plots on the page: drawn by the server, read with a pointer or the keyboard."""

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from fallow.core.board import Board
from fallow.core.money import Prices
from fallow.core.value import replace
from fallow.engine.history.reader import HistoryReader, open_history
from fallow.engine.history.series import SPANS
from fallow.engine.machine.clock import SystemClock
from tests.interfaces.web.boards import varied
from tests.interfaces.web.browsing import a_browser
from tests.interfaces.web.histories import record
from tests.interfaces.web.served import Site, hall, served
from tests.waiting import until

NAMES = ("utilization", "memory", "power", "temperature", "cost")


def priced(wall_s: float) -> Board:
    return replace(varied(wall_s), prices=Prices(2.5, (), "USD"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A page with a past of ten minutes, in which nobody looked for three."""
    home = tmp_path_factory.mktemp("plots")
    record(home, priced(SystemClock().wall_s()), 600, range(-400, -220))
    with served(hall(priced), home) as made:
        yield made


def plot(page: str, name: str) -> str:
    return page.split(f'<figure class="plot plot-{name}">')[1].split("</figure>", maxsplit=1)[0]


def test_the_page_has_the_plots_of_all_gpus_and_leads_to_those_of_each(site: Site) -> None:
    page = site.ask("/?span=1h").text
    assert [name for name in NAMES if f"plot-{name}" not in page] == []
    assert 'href="/?span=7d#plots"' in page
    assert re.search(r'href="/gpus/[^"]+\?span=1h#plots"', page)
    assert 'href="/?span=1h#plots" aria-current="true"' in page
    assert "Each value is the mean of 8 GPUs." in page
    assert re.search(r"As of \d\d:\d\d:\d\d, from \d+ \w{3}, \d\d:\d\d on\.", page.split('id="plots"')[1])
    assert re.search(r'<p class="quiet">As of \d\d:\d\d:\d\d\.</p>', page), "the cost is of another moment"
    assert plot(page, "utilization").count('class="line"') == 2, "before and after nobody looked"


def test_a_plot_needs_no_script_to_tell_time_value_and_who_it_was(site: Site) -> None:
    titles = re.findall(r"<title>([^<]*)</title>", plot(site.ask("/?span=1h").text, "power"))
    assert len(titles) == 120
    last = next(text for text in reversed(titles) if "not known" not in text)
    assert re.fullmatch(r"\d\d:\d\d:\d\d: \d+ W; .*and \d more", last), last


def test_a_span_that_does_not_exist_is_a_day_and_without_history_nothing_is_drawn(
    site: Site, tmp_path: pathlib.Path
) -> None:
    page = site.ask("/?span=%3Cscript%3E").text
    assert 'href="/?span=24h#plots" aria-current="true"' in page
    assert "<script>" not in page
    with served(hall(varied), tmp_path) as empty:
        page = empty.ask("/").text
    assert "Nothing was recorded in that time." in page
    assert '<figure class="plot' not in page


def test_a_visit_has_all_spans_read_so_that_a_click_need_not_wait(tmp_path: pathlib.Path) -> None:
    record(tmp_path, varied(SystemClock().wall_s()), 60)
    opened: list[str] = []

    def counted(folder: str) -> HistoryReader | None:
        opened.append(folder)
        return open_history(folder)

    with served(hall(varied), tmp_path, past=counted) as visited:
        visited.ask("/")
        until(lambda: {span for _, span in visited.app.state.plots._kept} == set(SPANS))
        before = len(opened)
        assert "Each value is the mean of 8 GPUs." in visited.ask("/?span=30d").text
        assert len(opened) == before, "nothing of it is read again"


@pytest.fixture(scope="module")
def page(site: Site) -> Iterator[Any]:
    with a_browser() as browser:
        shown = browser.new_page(viewport={"width": 1280, "height": 800})
        wrong: list[str] = []
        shown.on("pageerror", lambda error: wrong.append(str(error)))
        shown.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        shown.goto(f"{site.url}/?span=1h")
        yield shown
        assert wrong == []


@pytest.mark.engine
def test_a_pointer_reads_the_step_below_it_and_leaves_the_rest_as_it_was(page: Any) -> None:
    first = page.locator(".plot-utilization")
    picture, told = first.locator(".plot-picture"), first.locator(".plot-told")
    before = told.text_content()
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 30, box["y"] + 20)
    assert re.match(r"\d\d:\d\d:\d\d: ", told.text_content())
    assert first.locator(".here").count() == 1
    page.mouse.move(0, 0)
    assert told.text_content() == before
    assert first.locator(".here").count() == 0


@pytest.mark.engine
@pytest.mark.more
def test_the_arrow_keys_read_one_step_after_the_other(page: Any) -> None:
    picture = page.locator(".plot-power .plot-picture")
    picture.focus()
    page.keyboard.press("Home")
    first = picture.get_attribute("aria-valuetext")
    page.keyboard.press("ArrowRight")
    second = picture.get_attribute("aria-valuetext")
    assert first != second
    assert picture.get_attribute("aria-valuenow") == "1"
    assert page.locator(".plot-power .plot-told").text_content() == second
    page.keyboard.press("Escape")
    assert page.locator(".plot-power .here").count() == 0
