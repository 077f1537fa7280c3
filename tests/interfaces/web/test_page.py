"""The page in a real browser: live without a reload, with a keyboard, on narrow screens, with 64 GPUs, plain."""

import pathlib
import re
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from fallow.core.activity import Activity
from fallow.core.board import Board
from fallow.core.money import Prices
from fallow.core.value import replace
from fallow.engine.daemon.publisher import Publisher
from fallow.interfaces.render.colours import LOOKS
from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill
from tests.interfaces.web.boards import many, varied
from tests.interfaces.web.browsing import a_browser
from tests.interfaces.web.histories import record
from tests.interfaces.web.served import TOKEN, Site, served
from tests.places import LIMIT_S, REPOSITORY
from tests.reasons import said

pytestmark = pytest.mark.engine

WAIT_MS = LIMIT_S * 1000
WIDER = """[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth + 1)
  .map((e) => `${e.id} ${e.scrollWidth} of ${e.clientWidth}`)"""
TILES = """[...document.querySelectorAll('.tile')].map((e) => e.getBoundingClientRect())
  .map((box) => [box.left, box.top, box.width])"""
BOTTOM = "(name) => Math.max(...[...document.querySelectorAll(name)].map((e) => e.getBoundingClientRect().bottom))"
# Words of a plot's two axes that lie on each other.
CROSSING = """[...document.querySelectorAll('.plot')].filter((plot) => {
  const boxes = (name) => [...plot.querySelectorAll(name)].map((e) => e.getBoundingClientRect());
  return boxes('.plot-values text').some((a) => boxes('.plot-times text').some(
    (b) => a.left < b.right + 2 && b.left < a.right + 2 && a.top < b.bottom && b.top < a.bottom));
}).length"""
# Tiles in which a word sticks out, or lies on another one.
CUT = """[...document.querySelectorAll('.tile')].filter((tile) => {
  const edge = tile.getBoundingClientRect().right;
  const places = [...tile.querySelectorAll('b, .load, .for, strong')]
    .filter((e) => getComputedStyle(e).position !== 'absolute').map((e) => e.getBoundingClientRect());
  const cross = (a, b) => a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom;
  return places.some((a, n) => a.right > edge || places.slice(n + 1).some((b) => cross(a, b)));
}).map((tile) => tile.id)"""
HERE = """(() => { const e = document.activeElement; const s = getComputedStyle(e);
  return [e.id || e.className || e.textContent.trim() || e.tagName, s.outlineStyle, e.tagName] })()"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with a_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def boards() -> Publisher:
    return Publisher()


@pytest.fixture(scope="module")
def site(boards: Publisher, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A page with a bit of everything, and some minutes behind it."""
    home: pathlib.Path = tmp_path_factory.mktemp("page")
    record(home, varied(time.time()), 120)
    with served(boards, home, token=TOKEN) as made:
        yield made


@pytest.fixture
def eight(boards: Publisher) -> Board:
    """What is on the page: 8 GPUs, each of which does something else."""
    shown = replace(varied(time.time()), prices=Prices(default=2.5, currency="USD"))
    boards.publish(shown)
    return shown


def opened(browser: Any, url: str, width: int = 1280, height: int = 800, *, known: bool = False, **how: Any) -> Any:
    """A page that notes where a script fails or anything breaks the policy."""
    headers = {"authorization": f"Bearer {TOKEN}"} if known else {}
    context = browser.new_context(viewport={"width": width, "height": height}, extra_http_headers=headers, **how)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda line: page.complaints.append(line.text) if line.type == "error" else None)
    page.goto(url)
    return page


def logged_in(browser: Any, site: Site) -> Any:
    page = opened(browser, f"{site.url}/login")
    page.wait_for_function("document.activeElement.matches('input')")  # where it types then
    page.keyboard.type(TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_selector(".live.now")
    return page


def test_a_job_arrives_goes_idle_and_is_stopped_before_our_eyes(
    browser: Any, simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    expect.set_options(timeout=WAIT_MS)
    places = {"FALLOW_SOCKET": str(tmp_path / "fallow.sock")}
    daemon = Fill(simulated.start("up", "--listen", "127.0.0.1:0", **places))
    address = re.findall(r"http://[0-9.:]+/", daemon.until("the page is at"))[0]
    page = opened(browser, address)
    page.wait_for_selector(".live.now")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate("window.mark = document.body")
    card, row = page.locator("#gpu-1"), page.locator("#row-1")
    expect(card.locator(".does")).to_contain_text("free")
    words = ["run", "--gpus", "1", "--warmup", "1s", "--idle-timeout", "20s", "--", sys.executable]
    job = simulated.start(*words, str(REPOSITORY / "tests" / "interfaces" / "web" / "worker.py"))

    expect(card.locator(".does")).to_contain_text("busy")
    expect(row.locator(".holders")).to_contain_text("python")
    expect(page.locator("#said")).to_contain_text("GPU 1 is busy now")
    expect(page.locator(".chip", has_text="busy")).to_contain_text("busy 1")

    assert job.stdin is not None
    job.stdin.write("rest\n")
    job.stdin.flush()
    expect(card.locator(".does")).to_contain_text("idle")
    expect(page.locator("#said")).to_contain_text("GPU 1 is idle now")

    assert job.wait(LIMIT_S) == 124
    expect(card.locator(".does")).to_contain_text("free")
    expect(row.locator(".holders a")).to_have_count(0)
    expect(page.locator("#actions")).to_contain_text("stopped")

    assert page.evaluate("window.mark === document.body"), "it is the same document as at the beginning"
    others = {url for url in asked if not url.endswith("/icon.svg")}
    assert others <= {address}, "one stream, and once a minute the page for its plots"
    assert page.complaints == []
    daemon.process.terminate()
    daemon.process.communicate(timeout=LIMIT_S)
    assert daemon.process.returncode == -signal.SIGTERM


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.more)])
def test_axe_finds_nothing_and_activities_have_their_colours_and_a_shape_and_a_word(
    browser: Any, site: Site, boards: Publisher, eight: Board, scheme: str
) -> None:
    page = opened(browser, site.url, color_scheme=scheme)
    for activity in Activity:
        fill = page.evaluate(f"getComputedStyle(document.querySelector('.legend rect.{activity.value}')).fill")
        wanted = LOOKS[activity].light if scheme == "light" else LOOKS[activity].dark
        assert fill == f"rgb{tuple(bytes.fromhex(wanted[1:]))}"
    for tile, gpu in zip(page.locator(".tile").all(), eight.status.gpus, strict=True):
        assert tile.locator(".does").inner_text().startswith(gpu.activity.value)
        assert tile.locator(f"use[href='#sign-{gpu.activity.value}']").count() == 1, "never colours alone"
    for path, board in (("/login", eight), ("/", eight), ("/", many(time.time(), 64))):
        boards.publish(board)
        page = opened(browser, site.url + path, color_scheme=scheme)
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()


@pytest.mark.usefixtures("eight")
def test_the_keyboard_reaches_everything_and_shows_where_it_is(browser: Any, site: Site) -> None:
    page = logged_in(browser, site)
    visited: list[str] = []
    for _ in range(300):
        page.keyboard.press("Tab")
        name, outline, tag = page.evaluate(HERE)
        if tag == "BODY":
            break
        assert outline != "none", f"{name} does not show that it is chosen"
        visited.append(name)
    assert visited[0] == "skip"
    assert {"gpu-0", "cost-panel", "actions-panel", "fillers-panel", "subject", "for", "why"} <= set(visited)
    page.locator("#subject").select_option("all")
    page.locator("#why").focus()
    page.keyboard.type("by hand")
    page.keyboard.press("Tab")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    (protection,) = site.ask("/api/v1/protections").json["protections"]
    assert (protection["subject"], protection["why"]) == ("all", "by hand")
    assert site.with_token(f"/api/v1/protections/{protection['id']}", "DELETE").status == 204
    assert page.complaints == []


@pytest.mark.more
def test_focus_stays_where_it_was_when_the_page_moves_on(
    browser: Any, site: Site, boards: Publisher, eight: Board
) -> None:
    page = logged_in(browser, site)
    page.locator("#release-4").focus()
    boards.publish(replace(eight, protections=eight.protections[1:]))
    expect(page.locator("#protections")).not_to_contain_text("debugging", timeout=WAIT_MS)
    assert page.evaluate("document.activeElement.id") == "release-4"


@pytest.mark.parametrize(("width", "height", "rows"), [(1280, 800, 1), (390, 844, 2)])
@pytest.mark.usefixtures("eight")
def test_the_first_screen_has_what_is_had_what_is_wasted_all_tiles_and_the_last_day(
    browser: Any, site: Site, width: int, height: int, rows: int
) -> None:
    page = opened(browser, site.url, width, height)
    assert "3 of 8" in page.inner_text("#summary")
    assert "7.50 USD an hour" in page.inner_text("#summary")
    assert len({top for _, top, _ in page.evaluate(TILES)}) == rows
    assert page.evaluate(BOTTOM, ".tile") < page.evaluate(BOTTOM, ".strip") <= height


@pytest.mark.parametrize("width", [320, 390, 768])
@pytest.mark.parametrize("path", ["/", "/gpus/1"])
@pytest.mark.more
@pytest.mark.usefixtures("eight")
def test_nothing_is_wider_than_a_narrow_screen(browser: Any, site: Site, width: int, path: str) -> None:
    page = opened(browser, site.url + path, width, known=True)
    assert page.evaluate(WIDER) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CROSSING) == 0


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.usefixtures("eight")
def test_a_form_that_opens_moves_no_tile_and_is_within_the_page(browser: Any, site: Site, width: int) -> None:
    page = opened(browser, site.url, width, known=True)
    before = page.evaluate(TILES)
    page.locator(".act summary").nth(3).click()
    page.get_by_role("button", name="Protect", exact=True).first.wait_for()
    assert page.evaluate(TILES) == before
    box = page.locator(".act[open] .forms").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert page.locator("#slot-7 .act summary").is_hidden(), "a free GPU has nothing to protect"


@pytest.mark.more
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1920, 1080), (390, 844)])
def test_64_gpus_fit_one_screen(browser: Any, site: Site, boards: Publisher, width: int, height: int) -> None:
    boards.publish(many(time.time(), 64))
    page = opened(browser, site.url, width, height)
    assert page.locator(".tile").count() == 64
    assert page.evaluate(BOTTOM, ".tile") <= height
    assert page.evaluate(CUT) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_on_a_phone_with_64_gpus_the_way_to_protect_a_job_is_seen_and_takes_two_touches(
    browser: Any, site: Site, boards: Publisher
) -> None:
    boards.publish(many(time.time(), 64))
    page = opened(browser, site.url, 390, 844, known=True)
    page.get_by_text("Touch a GPU to protect").wait_for()
    page.locator("#gpu-3").click()
    opener = page.locator(".subject .act summary")
    opener.wait_for()
    box = opener.bounding_box()
    assert box["y"] + box["height"] <= 844, "it is seen without scrolling"
    opener.click()
    page.get_by_role("button", name="Protect", exact=True).wait_for()


@pytest.mark.more
@pytest.mark.parametrize("scripts", [True, False])
def test_a_filter_shows_what_fits_it_with_scripts_and_without(
    browser: Any, site: Site, boards: Publisher, eight: Board, *, scripts: bool
) -> None:
    page = opened(browser, site.url, java_script_enabled=scripts)
    page.get_by_role("link", name="idle 2", exact=True).click()
    page.wait_for_url("**/?show=idle")
    expect(page.locator(".tile:visible")).to_have_count(2, timeout=WAIT_MS)
    assert page.locator("#tiles .chip[aria-current]").inner_text().split() == ["idle", "2"]
    assert page.get_by_role("link", name="mine").count() == 0, "nobody knows who asks"
    if not scripts:
        return
    page.wait_for_selector(".live.now")
    first, second, *others = eight.status.gpus
    freed = replace(second, activity=Activity.FREE, reason=said("nobody holds it"))
    boards.publish(replace(eight, status=replace(eight.status, gpus=(first, freed, *others))))
    expect(page.locator(".tile:visible")).to_have_count(1, timeout=WAIT_MS)
    expect(page.locator("#tiles .chip[aria-current]")).to_have_text("idle 1")


@pytest.mark.usefixtures("eight")
def test_without_script_it_is_a_plain_view_that_loads_itself_again(browser: Any, site: Site) -> None:
    page = opened(browser, site.url, java_script_enabled=False)
    assert "bob" in page.inner_text("#gpu-1")
    assert "idle for 2h34m" in page.inner_text("#row-1")
    assert 'http-equiv="refresh" content="10"' in site.ask("/").text.split("<noscript>")[1].split("</noscript>")[0]


@pytest.mark.usefixtures("eight")
def test_it_loads_nothing_from_elsewhere(browser: Any, site: Site) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(site.url)
    page.wait_for_selector(".live.now")
    files = {"page.css", "actions.css", "page.js", "plots.css", "plots.js", "icon.svg"}
    assert {url.removeprefix(site.url).split("?")[0] for url in asked} <= {
        *("/", "/stream"),
        *(f"/static/{name}" for name in files),
    }
    assert not re.search(r'style="|\bon\w+="|javascript:', site.ask("/").text)


def test_it_waits_for_three_slow_looks_before_it_fades_and_says_since_when_it_hears_nothing(
    browser: Any, tmp_path: pathlib.Path
) -> None:
    made = Publisher()
    made.publish(varied(time.time()))
    with served(made, tmp_path, every_s=4.0) as site:
        page = browser.new_page()
        page.clock.install()
        page.goto(site.url)
        page.wait_for_selector(".live.now")
        heard = page.inner_text("#at")
        page.clock.fast_forward(15_000)
        assert page.get_attribute("#live", "class") == "live now", "news come every 8 s, and one may be late"
        page.clock.fast_forward(15_000)
        assert page.get_attribute("#live", "class") == "live silent"
        assert page.inner_text("#live").startswith(f"no news since {heard}")
        assert "opacity" in page.evaluate("getComputedStyle(document.getElementById('main')).filter")
        page.close()
