"""The dashboard in a real browser: what fits the first screen, filters, tiles by keyboard, and what axe finds."""

import pathlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from fallow.core.activity import Activity
from fallow.core.money import Prices
from fallow.core.value import replace
from fallow.engine.daemon.publisher import Publisher
from tests.interfaces.web.boards import many, varied
from tests.interfaces.web.browsing import a_browser
from tests.interfaces.web.served import Site, served
from tests.places import LIMIT_S
from tests.reasons import said

pytestmark = pytest.mark.engine

WAIT_MS = LIMIT_S * 1000
BOTTOM = "(name) => Math.max(...[...document.querySelectorAll(name)].map((e) => e.getBoundingClientRect().bottom))"
# Tiles in which a word sticks out, or lies on another one.
CUT = """[...document.querySelectorAll('.tile')].filter((tile) => {
  const edge = tile.getBoundingClientRect().right;
  const places = [...tile.querySelectorAll('b, .load, .for, strong')]
    .filter((e) => getComputedStyle(e).position !== 'absolute').map((e) => e.getBoundingClientRect());
  const cross = (a, b) => a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom;
  return places.some((a, n) => a.right > edge || places.slice(n + 1).some((b) => cross(a, b)));
}).map((tile) => tile.id)"""
ROWS = "[...new Set([...document.querySelectorAll('.tile')].map((e) => e.getBoundingClientRect().top))].length"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with a_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def boards() -> Publisher:
    return Publisher()


@pytest.fixture(scope="module")
def site(boards: Publisher, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(boards, tmp_path_factory.mktemp("page")) as made:
        yield made


def opened(browser: Any, site: Site, path: str = "/", **how: Any) -> Any:
    page = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **how}).new_page()
    page.set_default_timeout(WAIT_MS)
    page.goto(site.url + path)
    return page


def eight() -> Any:
    return replace(varied(time.time()), prices=Prices(default=2.5, currency="USD"))


@pytest.mark.parametrize(("width", "height", "rows"), [(1280, 800, 1), (390, 844, 2)])
def test_the_first_screen_has_what_is_had_what_is_wasted_all_tiles_and_the_last_day(
    browser: Any, site: Site, boards: Publisher, width: int, height: int, rows: int
) -> None:
    boards.publish(eight())
    page = opened(browser, site, viewport={"width": width, "height": height})
    assert "3 of 8" in page.inner_text("#summary")
    assert "7.50 USD an hour" in page.inner_text("#summary")
    assert page.evaluate(ROWS) == rows
    assert page.evaluate(BOTTOM, ".tile") < page.evaluate(BOTTOM, ".strip") <= height
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.more
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1920, 1080), (390, 844)])
def test_64_gpus_fit_one_screen(browser: Any, site: Site, boards: Publisher, width: int, height: int) -> None:
    boards.publish(many(time.time(), 64))
    page = opened(browser, site, viewport={"width": width, "height": height})
    assert page.locator(".tile").count() == 64
    assert page.evaluate(BOTTOM, ".tile") <= height
    if width > 390:
        assert page.evaluate(BOTTOM, ".strip") <= height
    assert page.evaluate(CUT) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.more
@pytest.mark.parametrize("scripts", [True, False])
def test_a_filter_shows_what_fits_it_with_scripts_and_without(
    browser: Any, site: Site, boards: Publisher, *, scripts: bool
) -> None:
    boards.publish(eight())
    page = opened(browser, site, java_script_enabled=scripts)
    page.get_by_role("link", name="idle 2", exact=True).click()
    page.wait_for_url("**/?show=idle")
    expect(page.locator(".tile:visible")).to_have_count(2, timeout=WAIT_MS)
    assert page.locator("#tiles .chip[aria-current]").inner_text().split() == ["idle", "2"]
    assert page.get_by_role("link", name="mine").count() == 0, "nobody knows who asks"
    if not scripts:
        return
    page.wait_for_selector(".live.now")
    board = eight()
    freed = replace(board.status.gpus[1], activity=Activity.FREE, reason=said("nobody holds it"))
    gpus = (board.status.gpus[0], freed, *board.status.gpus[2:])
    boards.publish(replace(board, status=replace(board.status, gpus=gpus)))
    expect(page.locator(".tile:visible")).to_have_count(1, timeout=WAIT_MS)
    expect(page.locator("#tiles .chip[aria-current]")).to_have_text("idle 1")


@pytest.mark.more
def test_tiles_are_links_that_show_where_the_keyboard_is(browser: Any, site: Site, boards: Publisher) -> None:
    board = eight()
    boards.publish(board)
    page = opened(browser, site)
    page.locator("#tiles .chip").last.focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "gpu-0"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert page.locator("#gpu-0").get_attribute("href") == f"/gpus/{board.status.gpus[0].uuid}"


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.more)])
def test_axe_finds_nothing_to_complain_about(browser: Any, site: Site, boards: Publisher, scheme: str) -> None:
    for board in (eight(), many(time.time(), 64)):
        boards.publish(board)
        page = opened(browser, site, color_scheme=scheme)
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()


@pytest.mark.more
def test_a_page_that_hears_nothing_fades_and_says_since_when(browser: Any, tmp_path: pathlib.Path) -> None:
    boards = Publisher()
    boards.publish(eight())
    with served(boards, tmp_path) as site:
        page = opened(browser, site)
        page.wait_for_selector(".live.now")
        heard = page.inner_text("#at")
    page.wait_for_selector("body.stale")
    assert page.inner_text("#live") == f"no news since {heard}"
    assert "opacity" in page.evaluate("getComputedStyle(document.getElementById('main')).filter")
