"""What a person finds on the page: ways to its sections, who wastes most, what fits a filter, who protects what."""

import html
import pathlib
import re
import time

from fallow.core.board import Board, Counting
from fallow.core.gpu import Holder
from fallow.core.money import Prices
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.machine.clock import SystemClock
from fallow.interfaces.web import dashboard
from tests.interfaces.web.boards import varied
from tests.interfaces.web.histories import record
from tests.interfaces.web.served import Site, hall, served


def of_nobody(wall_s: float) -> Board:
    """A machine on which a user who is called nobody wastes a GPU, and nothing of power is known."""
    plain = varied(wall_s)
    gpus = list(plain.status.gpus)
    gpus[1] = replace(gpus[1], holders=(Holder(50_993, 2**30, user="nobody", command="python x.py", birth=9),))
    dark = tuple(replace(gpu, power_w=Unknown("no meter"), temperature_c=Unknown("no meter")) for gpu in gpus)
    status = replace(plain.status, gpus=dark)
    return replace(plain, status=status, prices=Prices(2.5, (), "USD"), fillers=(), guards=(), counting=rules(plain))


def rules(board: Board) -> tuple[Counting, ...]:
    uuids = [str(gpu.uuid) for gpu in board.status.gpus]
    return (
        Counting("nights", "bob's job", (uuids[1],), (), "idle", 1900.0, "ask", 18.0),
        Counting("hangs", "carol's job", (uuids[2],), (), "stuck", 720.0, "warn", 1080.0),
    )


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def part(page: str, name: str) -> str:
    return page.split(f'id="{name}"')[1].split("</section>", maxsplit=1)[0]


def test_each_page_leads_to_each_section_of_the_main_page(tmp_path: pathlib.Path) -> None:
    with served(hall(varied), tmp_path) as site:
        main, gpu = site.ask("/").text, site.ask("/gpus/1").text
    places = re.findall(r'<li><a href="/#([a-z-]+)">([^<]+)</a>', main)
    assert [name for _, name in places] == ["Stops due", "Why stopped", "Who wastes most", "Protections"]
    for place, _ in places:
        assert f'id="{place}"' in main
        assert f'href="/#{place}"' in gpu


def test_the_first_figures_name_who_wasted_most_this_week_even_a_user_called_nobody(tmp_path: pathlib.Path) -> None:
    board = of_nobody(SystemClock().wall_s())
    record(tmp_path, board, 240)
    with served(hall(lambda _: board), tmp_path) as site:
        page = site.ask("/").text
    waste = page.split('id="waste-title"')[1].split("</section>")[0]
    assert re.search(r"Most in 7 days : \w+ 4m , 0\.1\d USD", text_of(waste)), text_of(waste)
    assert 'href="/#cost-title"' in waste
    cost = page.split('id="cost-title"')[1].split("</section>")[0]
    assert "Who wastes most, and what it cost" in text_of(cost)
    assert '<a href="/users/nobody">nobody</a>' in cost
    assert "4m" in text_of(cost)
    assert "<0.1" not in text_of(cost), "small times are minutes"
    assert "Not known in that time: power, temperature." in page
    assert 'id="plot-power"' not in page, "an empty grid says less"


def test_fillers_and_guards_have_no_section_where_there_are_none(tmp_path: pathlib.Path) -> None:
    with served(hall(of_nobody), tmp_path / "none") as site:
        page = site.ask("/").text
    assert 'id="fillers-title"' not in page
    assert "There are no fillers and no guards." in text_of(page)
    with served(hall(varied), tmp_path / "some") as site:
        assert 'id="fillers-title"' in site.ask("/").text


def stops_shown(site: Site, show: str) -> list[str]:
    rows = re.findall(r'<tr role="row" data-on="(\d)"( hidden)?>', site.ask(f"/?show={show}").text)
    return [name for name, hidden in rows if not hidden]


def test_a_filter_holds_for_the_stops_that_are_due_and_for_the_last_day(tmp_path: pathlib.Path) -> None:
    with served(hall(of_nobody), tmp_path) as site:
        assert stops_shown(site, "all") == ["1", "2"]
        assert stops_shown(site, "stuck") == ["2"]
        assert stops_shown(site, "free") == []
        nothing, some = site.ask("/?show=filled").text, site.ask("/?show=stuck").text
        gpus = [replace(gpu, activity=dashboard.Activity.BUSY) for gpu in of_nobody(time.time()).status.gpus]
    assert '<p class="quiet" id="no-stop-shown">' in nothing
    assert '<p class="quiet" id="no-stop-shown" hidden>' in some
    busy = replace(of_nobody(time.time()), counting=())
    with served(hall(lambda _: replace(busy, status=replace(busy.status, gpus=tuple(gpus)))), tmp_path) as site:
        assert re.search(r'<section id="day"[^>]* hidden>', site.ask("/?show=free").text)
        assert not re.search(r'<section id="day"[^>]* hidden>', site.ask("/?show=busy").text)


def test_a_due_stop_says_why_the_gpu_counts_as_idle_and_not_only_for_how_long(tmp_path: pathlib.Path) -> None:
    with served(hall(of_nobody), tmp_path) as site:
        due = text_of(part(site.ask("/").text, "stops"))
    assert "held by 1 process, nothing ran in the last 14 s" in due


def test_a_tile_says_by_whom_and_how_long_it_is_protected(tmp_path: pathlib.Path) -> None:
    with served(hall(varied), tmp_path) as site:
        tile = site.ask("/").text.split('id="gpu-1"')[1].split("</a>")[0]
    assert "protected 1h30m by bob" in text_of(tile) or "protected 1h29m by bob" in text_of(tile)


def test_tiles_of_jobs_that_are_all_called_python_name_their_pids() -> None:
    board = of_nobody(time.time())
    jobs = tuple(
        replace(gpu, holders=(Holder(90 + gpu.index, 1, user="bob", command="python"),)) for gpu in board.status.gpus
    )
    tiles = dashboard.tiles(replace(board, status=replace(board.status, gpus=jobs)))
    assert [tile["what"] for tile in tiles][1:3] == ["python pid 91", "python pid 92"]


def test_the_page_of_a_gpu_says_when_its_job_is_stopped_and_how_to_protect_it_without_a_token(
    tmp_path: pathlib.Path,
) -> None:
    with served(hall(of_nobody), tmp_path) as site:
        page, free = site.ask("/gpus/1").text, site.ask("/gpus/7").text
    head = text_of(page.split('id="now-title"')[0])
    assert "stops in 18s" in head
    assert "fallow protect 1 --for 2h" in head
    assert "fallow protect" not in free, "a free GPU has nothing to protect"


def test_on_the_page_of_a_user_what_was_stopped_comes_before_hours_and_plots(tmp_path: pathlib.Path) -> None:
    with served(hall(of_nobody), tmp_path) as site:
        main, user = site.ask("/").text, site.ask("/users/nobody").text
    assert user.index("What was stopped or done, and why") < user.index("Hours and money")
    assert main.index("What was stopped or done, and why") < main.index("Over time")


def test_the_login_says_what_works_without_a_token(tmp_path: pathlib.Path) -> None:
    with served(hall(varied), tmp_path, token="a-token-that-nobody-guesses") as site:
        assert "<code>fallow protect 3 --for 2h</code>" in site.ask("/login").text
