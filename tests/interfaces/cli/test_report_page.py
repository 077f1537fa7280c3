"""The page of a report in a real browser: alone, without a script, in light and dark, on a phone, and for ears."""

import os
import pathlib
import re
import time
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest

from fallow.core.activity import Activity
from fallow.core.gpu_status import GpuStatus
from fallow.core.value import replace
from fallow.interfaces.render.colours import LOOKS
from tests.conftest import Fallow
from tests.engine.history.life import life
from tests.interfaces.cli.test_report import record

CHROMIUM = "/usr/bin/chromium"
DAYS = 0.1


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Some hours of 8 cards, with jobs whose names try to get out."""

    def hostile(gpu: GpuStatus) -> GpuStatus:
        if not isinstance(gpu.holders, tuple) or not gpu.holders:
            return gpu
        bad = replace(gpu.holders[0], command='<script>alert("x")</script><img src=//evil>')
        return replace(gpu, holders=(bad,)) if gpu.index == 3 else gpu

    fallow = Fallow(tmp_path_factory.mktemp("page"))
    statuses = life(DAYS, start_s=time.time() - DAYS * 86400)
    record(fallow, (replace(one, gpus=tuple(map(hostile, one.gpus))) for one in statuses))
    target = fallow.home / "report.html"
    target.write_text(fallow("report", "--price", "€2.50/h", "--format", "html").stdout)
    return target


@pytest.fixture
def browser() -> Iterator[Any]:
    if not os.path.exists(CHROMIUM):
        pytest.skip("there is no Chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.mark.as_root
def test_the_page_needs_nothing_from_elsewhere_and_no_script(page_file: pathlib.Path) -> None:
    text = page_file.read_text()
    assert not re.search(r"<(script|link|img|iframe|object)|\bon\w+=|url\(|@import|https?:", text)
    assert "&lt;script&gt;" in text
    assert 'style="' not in text


def test_pictures_say_what_they_show_and_stand_beside_tables(page_file: pathlib.Path) -> None:
    body = page_file.read_text().split("<body>")[1].split("</body>")[0]
    root = ElementTree.fromstring(f"<body>{body}</body>")  # it is well formed as XML, too
    ids = [one.get("id") for one in root.iter() if one.get("id")]
    assert len(ids) == len(set(ids))
    pictures = [svg for svg in root.iter("svg") if svg.get("role") == "img"]
    assert len(pictures) > 8 + 8 + 2
    for svg in pictures:
        named = (svg.get("aria-labelledby") or "").split()
        assert [
            part.get("id") for part in (svg.find("title"), svg.find("desc")) if part is not None and part.text
        ] == named
    assert len(list(root.iter("table"))) == 6, "one by hour of the week, and one for each kind"
    assert all(cell.get("scope") for cell in root.iter("th"))


@pytest.mark.more
@pytest.mark.engine
def test_it_is_readable_in_light_and_dark_and_on_a_phone(page_file: pathlib.Path, browser: Any) -> None:
    grounds = set()
    for width, scheme in ((1200, "light"), (1200, "dark"), (360, "light"), (360, "dark")):
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, java_script_enabled=False
        )
        asked: list[str] = []
        page = context.new_page()
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.goto(page_file.as_uri())
        box = page.locator("main").bounding_box()
        assert box is not None
        assert box["width"] <= width, "nothing sticks out; wide tables scroll by themselves"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        fill = page.evaluate("getComputedStyle(document.querySelector('rect.idle')).fill")
        wanted = LOOKS[Activity.IDLE].light if scheme == "light" else LOOKS[Activity.IDLE].dark
        assert fill == f"rgb{tuple(bytes.fromhex(wanted[1:]))}"
        assert asked == [page_file.as_uri()]
        assert page.get_by_role("table").count() == 6
        assert page.get_by_role("img", name=re.compile("^GPU 0, ")).count() == 1
        context.close()
    assert len(grounds) == 2
