"""The built site in a real browser: typing a word finds its page and leads there, and diagrams are pictures."""

import functools
import http.server
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests import length
from tests.house.commands import blocks_run_by
from tests.interfaces.web.browsing import a_browser
from tests.places import BUILD_S, LIMIT_S, REPOSITORY

pytestmark = pytest.mark.more

PARTS = REPOSITORY / ".venv" / "docs" / ".ready"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """Build the site by the line of the page on the documents, and serve it as that line does."""
    (block,) = blocks_run_by(__file__)
    build, serve = block.lines[0].split(" && ")
    assert serve == "python3 -m http.server --bind 127.0.0.1 --directory build/site"
    if not length.MORE and not PARTS.exists():
        pytest.skip("what builds the site is not installed: make docs")
    done = subprocess.run(build.split(), cwd=REPOSITORY, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, done.stderr
    handler = functools.partial(_Quiet, directory=str(REPOSITORY / "build" / "site"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(LIMIT_S)


@pytest.fixture(scope="module")
def tab(site: str) -> Iterator[Any]:
    """A tab that refuses to load anything from elsewhere, and keeps what was asked for there."""
    with a_browser() as browser:
        opened = browser.new_page()
        opened.set_default_timeout(60_000)
        opened.elsewhere = []

        def decide(route: Any) -> None:
            if route.request.url.startswith(site):
                route.continue_()
            else:
                opened.elsewhere.append(route.request.url)
                route.abort()

        opened.route("**/*", decide)
        yield opened


@pytest.mark.parametrize(
    ("word", "page"),
    [("epilog", "docs/guides/slurm-nodes.html"), ("ntfy", "docs/guides/notices.html")],
)
def test_typing_a_word_finds_its_page_and_leads_there(tab: Any, site: str, word: str, page: str) -> None:
    tab.goto(f"{site}/index.html")
    tab.click(".md-search__button")
    tab.keyboard.type(word)
    tab.locator(f"[role=listbox] a[href*='{page}']").first.click()
    tab.wait_for_url(f"**/{page}*")
    assert word in tab.inner_text("article").lower()
    assert tab.elsewhere == []


def test_a_diagram_is_a_picture_and_not_its_source(tab: Any, site: str) -> None:
    tab.goto(f"{site}/docs/contributing/policies.html")
    assert "stateDiagram" not in tab.inner_text("article")
    pictures = tab.locator("article img").evaluate_all("all => all.map(each => each.naturalWidth)")
    assert len(pictures) == 5
    assert all(width > 100 for width in pictures)
    assert tab.elsewhere == []
