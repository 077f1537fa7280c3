"""A daemon shows its page with the files that it was started with."""

import pathlib
import re
import shutil
import urllib.request

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill
from tests.places import LIMIT_S, REPOSITORY

pytestmark = pytest.mark.more


def test_an_update_in_place_does_not_break_the_page_of_a_running_daemon(
    simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    package = tmp_path / "package" / "fallow"
    shutil.copytree(REPOSITORY / "src" / "fallow", package)
    places = {"FALLOW_SOCKET": str(tmp_path / "fallow.sock"), "PYTHONPATH": str(package.parent)}
    up = Fill(simulated.start("up", "--listen", "127.0.0.1:0", **places))
    address = re.findall(r"http://[0-9.:]+/", up.until("the page is at"))[0]
    up.until("up, ")
    replaced = [*(package / "interfaces" / "web" / "templates").rglob("*.html")]
    replaced += (package / "interfaces" / "web" / "static").iterdir()
    for file in replaced:
        file.write_text("{{ what_only_newer_code_gives }}")
    assert len(replaced) > 20
    for path in ("", "gpus/0", "static/page.css"):
        with urllib.request.urlopen(address + path, timeout=LIMIT_S) as answer:
            assert b"what_only_newer" not in answer.read()
