"""The page in a real browser, where it was seen not to fit: narrow screens, many tiles, forms that open, axes."""

import pathlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fallow.core.value import replace
from fallow.engine.daemon.publisher import Publisher
from tests.interfaces.web.boards import many, varied
from tests.interfaces.web.browsing import a_browser
from tests.interfaces.web.histories import record
from tests.interfaces.web.served import TOKEN, Site, served
from tests.places import LIMIT_S

pytestmark = pytest.mark.engine

WAIT_MS = LIMIT_S * 1000
WIDER = """[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth + 1)
  .map((e) => `${e.id} ${e.scrollWidth} of ${e.clientWidth}`)"""
TILES = """[...document.querySelectorAll('.tile')].map((e) => e.getBoundingClientRect())
  .map((box) => [box.left, box.top, box.width])"""
# Words of a plot's two axes that lie on each other.
CROSSING = """[...document.querySelectorAll('.plot')].filter((plot) => {
  const boxes = (name) => [...plot.querySelectorAll(name)].map((e) => e.getBoundingClientRect());
  return boxes('.plot-values text').some((a) => boxes('.plot-times text').some(
    (b) => a.left < b.right + 2 && b.left < a.right + 2 && a.top < b.bottom && b.top < a.bottom));
}).length"""
TOPS = "(name) => new Set([...document.querySelectorAll(name)].map((e) => e.getBoundingClientRect().top)).size"
CUT_OFF = """(name) => [...document.querySelectorAll(name)]
  .filter((e) => e.getBoundingClientRect().width > 0 && e.scrollWidth > e.clientWidth + 1)
  .map((e) => e.textContent)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with a_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def boards() -> Publisher:
    return Publisher()


@pytest.fixture(scope="module")
def site(boards: Publisher, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home: pathlib.Path = tmp_path_factory.mktemp("fit")
    record(home, varied(time.time()), 120)
    with served(boards, home, token=TOKEN) as made:
        yield made


def opened(browser: Any, site: Site, path: str, width: int, height: int = 844) -> Any:
    known = {"authorization": f"Bearer {TOKEN}"}
    page = browser.new_context(viewport={"width": width, "height": height}, extra_http_headers=known).new_page()
    page.set_default_timeout(WAIT_MS)
    page.goto(site.url + path)
    return page


@pytest.mark.parametrize("width", [390, 768])
@pytest.mark.parametrize("path", ["/", "/gpus/1"])
@pytest.mark.more
def test_no_table_is_wider_than_its_panel(browser: Any, site: Site, boards: Publisher, width: int, path: str) -> None:
    boards.publish(varied(time.time()))
    page = opened(browser, site, path, width)
    assert page.evaluate(WIDER) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CROSSING) == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_a_form_that_opens_moves_no_tile_and_is_within_the_page(
    browser: Any, site: Site, boards: Publisher, width: int
) -> None:
    boards.publish(varied(time.time()))
    page = opened(browser, site, "/", width)
    before = page.evaluate(TILES)
    page.locator(".act summary").nth(3).click()
    page.get_by_role("button", name="Protect", exact=True).first.wait_for()
    assert page.evaluate(TILES) == before
    box = page.locator(".act[open] .forms").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert page.locator(".act summary").first.inner_text().startswith("protect"), "a word, and no three dots"
    assert page.locator("#slot-7 .act summary").is_hidden(), "a free GPU has nothing to protect"


@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
@pytest.mark.more
def test_the_page_turning_live_moves_no_tile(browser: Any, site: Site, boards: Publisher, width: int) -> None:
    boards.publish(varied(time.time()))
    page = opened(browser, site, "/", width)
    page.wait_for_selector(".live.now")
    live = page.evaluate(TILES)
    page.evaluate("document.querySelector('#live-word').textContent = 'as of'")
    assert page.evaluate(TILES) == live


@pytest.mark.more
def test_64_small_tiles_have_the_word_the_name_how_many_more_and_whether_it_is_protected(
    browser: Any, site: Site, boards: Publisher
) -> None:
    board = many(time.time(), 64)
    first, bobs = board.status.gpus[0], board.status.gpus[3].holders
    assert isinstance(first.holders, tuple)
    assert isinstance(bobs, tuple)
    two = (replace(first.holders[0], user="somebody-long"), bobs[0])
    gpus = (replace(first, holders=two), *board.status.gpus[1:])
    protected = [replace(each, target=type(each.target)(str(gpus[1].uuid))) for each in board.protections]
    boards.publish(replace(board, status=replace(board.status, gpus=gpus), protections=tuple(protected)))
    for width, height in ((390, 844), (768, 1024), (1280, 800)):
        page = opened(browser, site, "/", width, height)
        assert page.evaluate(CUT_OFF, ".tile:not(#gpu-0) .name, .tile em, .notes") == []
        assert page.evaluate(TOPS, ".nav li") == 1, "the ways to the sections are one line"
        assert page.locator("#gpu-0 strong").is_visible()
        assert page.locator("#gpu-1 .safe").is_visible()
        assert page.evaluate(CUT_OFF, "#gpu-1 .notes, #gpu-3 .name") == []
        # In one question: the tile is drawn anew whenever a look comes.
        ends = "['#gpu-0 .more', '#gpu-0'].map(one => document.querySelector(one).getBoundingClientRect().right)"
        more, tile = page.evaluate(ends)
        assert 0 < more <= tile


def test_on_a_phone_with_64_gpus_the_way_to_protect_a_job_is_seen_and_takes_two_touches(
    browser: Any, site: Site, boards: Publisher
) -> None:
    boards.publish(many(time.time(), 64))
    page = opened(browser, site, "/", 390)
    page.get_by_text("Touch a GPU to protect").wait_for()
    page.locator("#gpu-3").click()
    opener = page.locator(".subject .act summary")
    opener.wait_for()
    box = opener.bounding_box()
    assert box["y"] + box["height"] <= 844, "it is seen without scrolling"
    opener.click()
    page.get_by_role("button", name="Protect", exact=True).wait_for()
    assert opened(browser, site, "/", 1280).get_by_text("Touch a GPU to protect").is_hidden()
