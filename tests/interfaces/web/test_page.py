"""The page in a real browser: live without a reload, with a keyboard, for ears, light and dark, narrow, plain."""

import pathlib
import re
import signal
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import expect

from fallow.core.activity import Activity
from fallow.core.money import Prices
from fallow.core.value import replace
from fallow.engine.daemon.publisher import Publisher
from fallow.engine.history.journal import Journal
from fallow.engine.history.writer import HistoryWriter
from fallow.interfaces.render.colours import LOOKS
from tests.conftest import Fallow
from tests.engine.history.life import life
from tests.interfaces.cli.filled import Fill
from tests.interfaces.web.boards import varied
from tests.interfaces.web.browsing import a_browser
from tests.interfaces.web.served import TOKEN, Site, served
from tests.places import LIMIT_S, REPOSITORY
from tests.reasons import said

WAIT_MS = LIMIT_S * 1000
# The ratio of two colours' luminance as WCAG 2 has it, for every element with text of its own.
CONTRASTS = """() => {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return {rgb: [r, g, b], alpha: a};
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = parse(getComputedStyle(at).backgroundColor);
      if (found.alpha === 1) return found.rgb;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.closest("svg") || !element.checkVisibility()) continue;
    const [one, other] = [light(parse(getComputedStyle(element).color).rgb), light(ground(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    found.push([ratio, element.tagName + "." + element.className + ": " + element.textContent.trim().slice(0, 40)]);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with a_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def busy_hall() -> Publisher:
    made = Publisher()
    made.publish(replace(varied(time.time()), prices=Prices(default=2.5, currency="USD")))
    return made


@pytest.fixture(scope="module")
def site(busy_hall: Publisher, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A page with a bit of everything, and some hours behind it."""
    home = tmp_path_factory.mktemp("page")
    (home / "state").mkdir()
    history = HistoryWriter(str(home / "state"), print)
    for status in life(0.05, start_s=time.time() - 0.05 * 86400):
        history.record(status)
    history.close()
    journal = Journal(str(home / "state"), time.time, print)
    journal.action("folding on GPU 6", "ask", said("dan has come"), [])
    journal.close()
    with served(busy_hall, home, token=TOKEN) as made:
        yield made


def opened(browser: Any, url: str, **how: Any) -> Any:
    """A page that is live, and that stops the test if a script fails or anything breaks the policy."""
    page = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **how}).new_page()
    page.set_default_timeout(WAIT_MS)
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda line: page.complaints.append(line.text) if line.type == "error" else None)
    page.goto(url)
    return page


def live(browser: Any, site: Site, **how: Any) -> Any:
    page = opened(browser, site.url, **how)
    page.wait_for_selector(".live.now")
    return page


@pytest.mark.engine
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


@pytest.mark.engine
@pytest.mark.more
def test_it_says_what_there_is_to_say(browser: Any, site: Site) -> None:
    page = live(browser, site)
    assert page.locator("h1").inner_text() == "box"
    for name in ("Available now", "Wasted now", "GPUs", "The last day", "Stops that are due", "In detail"):
        assert page.get_by_role("heading", name=name, exact=True, level=2).count() == 1
    done, cost = "What was stopped or done, and why", "Who wastes most, and what it cost"
    for name in (done, cost, "Fillers", "Guards", "Protections"):
        assert page.get_by_role("heading", name=name, exact=True, level=2).count() == 1
    card = page.locator("#row-1")
    for word in ("idle", "2h34m", "nothing ran in the last 14 s", "bob", "ipykernel_launcher", "122 of 700 W"):
        assert word in card.inner_text()
    assert "filled with fah-client" in page.locator("#row-3").inner_text()
    lost = page.locator("#row-5").inner_text()
    assert "not known" in lost
    assert "the card has fallen off the bus" in lost
    assert "USD" in page.locator("#cost").inner_text()
    assert page.get_by_role("img", name=re.compile("GPU 0 over the last day: .*busy .*[hm]")).count() == 1
    for word in ("folding", "yielding", "dan has come", "not before 20:00"):
        assert word in page.locator("#fillers").inner_text()
    assert "debugging a hang" in page.locator("#protections").inner_text()
    assert page.complaints == []


@pytest.mark.engine
@pytest.mark.more
def test_it_has_landmarks_names_and_headers_for_ears(browser: Any, site: Site) -> None:
    page = live(browser, site)
    for role in ("banner", "main", "contentinfo"):
        assert page.get_by_role(role).count() == 1
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.locator("#said").get_attribute("aria-live") == "polite"
    levels = [
        int(tag[1]) for tag in page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map((h) => h.tagName)")
    ]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.evaluate("[...document.querySelectorAll('th')].every((head) => head.scope)")
    assert page.evaluate("[...document.querySelectorAll('table')].every((table) => table.caption)")
    pictures = "[...document.querySelectorAll('svg')].every((s) => s.ariaHidden === 'true' || s.ariaLabel)"
    assert page.evaluate(pictures)
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))
    names = page.evaluate(
        "[...document.querySelectorAll('[aria-labelledby]')].map((e) => e.getAttribute('aria-labelledby'))"
    )
    assert set(names) <= set(ids)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("where", ["/", "/login"])
@pytest.mark.engine
@pytest.mark.more
def test_every_word_stands_out_from_its_ground(browser: Any, site: Site, scheme: str, where: str) -> None:
    page = opened(browser, f"{site.url}{where}", color_scheme=scheme)
    ratios = page.evaluate(CONTRASTS)
    assert len(ratios) > (50 if where == "/" else 4)
    assert [words for ratio, words in ratios if ratio < 4.5] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.engine
@pytest.mark.more
def test_activities_have_their_colours_and_never_colours_alone(browser: Any, site: Site, scheme: str) -> None:
    page = live(browser, site, color_scheme=scheme)
    for activity in Activity:
        fill = page.evaluate(f"getComputedStyle(document.querySelector('.legend rect.{activity.value}')).fill")
        wanted = LOOKS[activity].light if scheme == "light" else LOOKS[activity].dark
        assert fill == f"rgb{tuple(bytes.fromhex(wanted[1:]))}"
    tiles = page.locator(".tile").all()
    assert len(tiles) == 8
    for tile in tiles:
        (word,) = (each.value for each in Activity if each.value in str(tile.get_attribute("class")).split())
        assert tile.locator(".does").inner_text().startswith(word)
        assert tile.locator(f"use[href='#sign-{word}']").count() == 1, "a shape of its own"


@pytest.mark.engine
def test_the_keyboard_reaches_everything_and_shows_where_it_is(browser: Any, site: Site) -> None:
    page = opened(browser, f"{site.url}/login")
    page.wait_for_function("document.activeElement.matches('input')")  # where it types then
    page.keyboard.type(TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_selector(".live.now")
    visited: list[str] = []
    for _ in range(300):
        page.keyboard.press("Tab")
        here = page.evaluate(
            "(() => { const e = document.activeElement; const s = getComputedStyle(e);"
            "return [e.id || e.className || e.textContent.trim() || e.tagName, s.outlineStyle, e.tagName] })()"
        )
        if here[2] == "BODY":
            break
        assert here[1] != "none", f"{here[0]} does not show that it is chosen"
        visited.append(here[0])
    assert visited[0] == "skip"
    assert {"cost-panel", "actions-panel", "fillers-panel", "protections-panel", "subject", "for", "why"} <= set(
        visited
    )
    assert "release-4" in visited, "a protection of one's own can be released"
    assert "release-3" not in visited, "one of somebody else cannot"

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


@pytest.mark.as_root
def test_only_who_knows_the_token_gets_buttons_that_release(site: Site) -> None:
    stranger, known = site.ask("/").text, site.with_token("/").text
    assert "protection 4" in stranger
    assert "/release" not in stranger
    assert 'action="/protections/4/release"' in known


@pytest.mark.engine
@pytest.mark.more
def test_focus_stays_where_it_was_when_the_page_moves_on(browser: Any, site: Site, busy_hall: Publisher) -> None:
    page = opened(browser, f"{site.url}/login")
    page.wait_for_function("document.activeElement.matches('input')")  # where it types then
    page.keyboard.type(TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_selector(".live.now")
    page.locator("#release-4").focus()
    before = busy_hall.board
    assert before is not None
    busy_hall.publish(replace(before, protections=before.protections[1:]))
    expect(page.locator("#protections")).not_to_contain_text("debugging", timeout=WAIT_MS)
    assert page.evaluate("document.activeElement.id") == "release-4"
    busy_hall.publish(before)


@pytest.mark.parametrize("width", [320, 390, 768])
@pytest.mark.engine
@pytest.mark.more
def test_nothing_sticks_out_on_a_narrow_screen(browser: Any, site: Site, width: int) -> None:
    page = live(browser, site, viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    small = page.evaluate(
        "[...document.querySelectorAll('p, td, th, dd, li')].filter((e) => e.checkVisibility()"
        " && e.textContent.trim() && parseFloat(getComputedStyle(e).fontSize) < 11).map((e) => e.className)"
    )
    assert small == []


@pytest.mark.engine
def test_without_script_it_is_a_plain_view_that_loads_itself_again(browser: Any, site: Site) -> None:
    page = opened(browser, site.url, java_script_enabled=False)
    assert "bob" in page.inner_text("#gpu-1")
    assert "idle for 2h34m" in page.inner_text("#row-1")
    assert 'http-equiv="refresh" content="10"' in site.ask("/").text.split("<noscript>")[1].split("</noscript>")[0]


@pytest.mark.engine
def test_it_loads_nothing_from_elsewhere(browser: Any, site: Site) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(site.url)
    page.wait_for_selector(".live.now")
    assert {url.removeprefix(site.url).split("?")[0] for url in asked} <= {
        "/",
        "/static/page.css",
        "/static/actions.css",
        "/static/page.js",
        "/static/plots.css",
        "/static/plots.js",
        "/static/icon.svg",
        "/stream",
    }
    assert not re.search(r'style="|\bon\w+="|javascript:', site.ask("/").text)


def test_it_waits_for_three_slow_looks_before_it_says_that_it_hears_nothing(
    browser: Any, tmp_path: pathlib.Path
) -> None:
    made = Publisher()
    made.publish(varied(time.time()))
    with served(made, tmp_path, every_s=4.0) as site:
        page = browser.new_page()
        page.clock.install()
        page.goto(site.url)
        page.wait_for_selector(".live.now")
        page.clock.fast_forward(15_000)
        assert page.get_attribute("#live", "class") == "live now", "news come every 8 s, and one may be late"
        page.clock.fast_forward(15_000)
        assert page.get_attribute("#live", "class") == "live silent"
        page.close()


@pytest.mark.more
@pytest.mark.engine
def test_it_says_so_when_nobody_tells_it_anything_any_more(browser: Any, tmp_path: pathlib.Path) -> None:
    made = Publisher()
    made.publish(varied(time.time()))
    with served(made, tmp_path) as site:
        page = live(browser, site)
    page.wait_for_selector(".live.silent")
    assert "no news since" in page.inner_text("#live")
