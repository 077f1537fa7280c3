"""What the page says: what is available, what is wasted, what is about to be stopped, and where to look on."""

import asyncio
import html
import pathlib
import re
import time

import pytest

from fallow.core.activity import Activity
from fallow.core.board import Board, Counting
from fallow.core.gpu import Holder
from fallow.core.money import Prices
from fallow.core.protections import OneProcess, OneUser, Protection
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.interfaces.web import dashboard, view_models
from tests.interfaces.web.boards import many, varied
from tests.interfaces.web.histories import record
from tests.interfaces.web.served import hall, served
from tests.places import LIMIT_S

NOW_S = 1.7e9
UUID = str(varied(NOW_S).status.gpus[1].uuid)
LATER = Counting("nights", "bob's job", (UUID,), (), "idle", 900.0, "warn", 300.0, notice_s=600.0)
SOON = replace(LATER, rule="hangs", fault="stuck", action="ask", in_s=18.0, notice_s=None)


def board(**changes: object) -> Board:
    return replace(varied(NOW_S), prices=Prices(default=2.5, currency="USD"), **changes)


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_idle_and_stuck_gpus_are_wasted_and_unknown_ones_are_neither_wasted_nor_available() -> None:
    found = board()
    wasted, available = dashboard.wasted(found), dashboard.available(found)
    assert (wasted["number"], wasted["money"]) == (3, "7.50 USD")
    assert [(gpu["label"], gpu["who"]) for gpu in wasted["gpus"]] == [("1", "bob"), ("4", "dan"), ("2", "carol")]
    assert (available["number"], available["of"], available["unknown"]) == (3, 8, 1)
    assert [[label for label, _ in run] for run in available["gpus"]] == [["3"], ["6", "7"]]


def test_a_gpu_without_a_price_is_named_and_not_added_up() -> None:
    for prices, told in ((Prices(named=((UUID, 4.0),), currency="USD"), ("4.00 USD", 2)), (Prices(), ("", 0))):
        wasted = dashboard.wasted(replace(board(), prices=prices))
        assert (wasted["money"], wasted["unpriced"]) == told


def test_each_tile_leads_to_its_gpu_and_says_who_and_for_how_long() -> None:
    tiles = dashboard.tiles(board())
    assert tiles[1]["address"] == f"/gpus/{UUID}"
    assert (tiles[1]["activity"], tiles[1]["who"], tiles[1]["lasted"].text) == (Activity.IDLE, "bob", "2h34m")
    assert tiles[1]["load"].text == "0%"
    assert tiles[5]["load"].text == "?", "what is not known is not 0"
    shown = {
        show: "".join(tile["label"] for tile in tiles if dashboard.is_shown(tile, show, mine))
        for show, mine in (("mine", "dan"), ("wasted", None), ("free", None))
    }
    assert shown == {"mine": "4", "wasted": "124", "free": "67"}, "what one has claimed is one's own too"


def test_a_filled_card_shows_nobody_who_holds_it_and_a_parked_job_how_to_wake_it() -> None:
    cards = view_models.cards(board())
    filled = next(card for card in cards if card["activity"] is Activity.FILLED)
    assert (filled["holders"], filled["filler"]) == ((), "")
    assert "fah-client" in filled["because"]
    assert "dan" in cards[4]["because"], "who has claimed it"
    parked = "parked: ada's job 4711 (python): 20.0 GiB in host memory; fallow wake pid:4711"
    assert [card["parked"] for card in cards if card["parked"]] == [(parked,)]


def test_the_soonest_stop_is_first_and_what_is_kept_back_is_last_with_why() -> None:
    why = {
        "refused": "too many were stopped",
        "left_alone": "protected",
        "held_back": "nobody waits",
        "paused": "cpu:50 is not known",
    }
    kept = [replace(SOON, **{name: sentence}) for name, sentence in why.items()]
    not_due = [
        replace(SOON, fault="", action="nothing"),
        replace(LATER, for_s=1.0),
        replace(SOON, not_judged="the rule is about the user ada"),
    ]
    found = board(counting=(LATER, *kept, *not_due, SOON))
    assert [(stop["rule"], stop["in"].text, stop["kept"]) for stop in dashboard.stops(found)] == [
        ("hangs", "18s", ""),
        ("nights", "15m", ""),
        *(("hangs", "18s", sentence) for sentence in why.values()),
    ]
    assert [stop["warned"] and stop["warned"].text for stop in dashboard.stops(found)][:2] == [None, "5m"]
    assert dashboard.tiles(board(counting=(LATER,)))[1]["stops"].text == "15m", "before it was warned too"
    assert dashboard.tiles(found)[1]["stops"].text == "18s"
    assert dashboard.tiles(found)[0]["stops"] is None


@pytest.mark.parametrize("target", [OneProcess(50993, 7), OneUser("bob"), None])
def test_a_tile_says_that_something_on_its_gpu_is_protected(target: OneProcess | OneUser | None) -> None:
    if target is None:  # a process that holds no GPU, which only the rule knows
        found = board(protections=(), counting=(replace(SOON, left_alone="bob protects process 9"),))
    else:
        found = board(protections=(Protection(9, target, NOW_S + 60, "", "bob"),))
    gpus = tuple(replace(gpu, holders=with_birth(gpu.holders)) for gpu in found.status.gpus)
    found = replace(found, status=replace(found.status, gpus=gpus))
    assert [tile["label"] for tile in dashboard.tiles(found) if tile["protected"]] == ["1"]
    over = replace(found, status=replace(found.status, wall_s=NOW_S + 61), counting=())
    assert not any(tile["protected"] for tile in dashboard.tiles(over))


def with_birth(holders: tuple[Holder, ...] | Unknown) -> tuple[Holder, ...] | Unknown:
    return holders if isinstance(holders, Unknown) else tuple(replace(each, birth=7) for each in holders)


def test_a_stop_that_is_held_back_or_left_alone_stays_on_the_page_with_the_reason(tmp_path: pathlib.Path) -> None:
    limit, environment = "5 were ended in the last 1h, and 5 may be", "pid 50993 has FALLOW_PROTECT=1"
    due = replace(SOON, subject="bob's job 50993 (python)", for_s=7_200.0, in_s=0.0, refused=limit)
    with served(hall(lambda at_s: replace(varied(at_s), protections=(), counting=(due,))), tmp_path / "a") as site:
        page = site.ask("/").text
    assert f'<em title="{limit}"><span class="in">stop </span>held back</em>' in page, "on its tile"
    stops = text_of(page.split('id="stops"')[1].split("</section>")[0])
    assert f"; held back: {limit}" in stops
    assert "held by 1 process, nothing ran in the last 14 s" in stops, "why the GPU counts as idle"
    alone = replace(LATER, subject="bob's job 50993", left_alone=environment)
    with served(hall(lambda at_s: replace(varied(at_s), protections=(), counting=(alone,))), tmp_path / "b") as site:
        page = text_of(site.ask("/").text)
    assert f"bob's job 50993 is protected: {environment}" in page
    assert "Nothing is on protection" not in page


def test_a_part_whose_times_went_on_is_the_same_as_if_it_were_rendered_anew(tmp_path: pathlib.Path) -> None:
    before = varied(time.time())
    later = tuple(replace(gpu, for_s=(gpu.for_s or 0.0) + 3_600) for gpu in before.status.gpus)
    after = replace(before, status=replace(before.status, gpus=later))

    def rendered(*boards: Board) -> dict[str, str]:
        shown = hall()
        shown.publish(boards[0])
        with served(shown, tmp_path) as site:
            watchers = site.app.state.watchers
            for one in boards:
                shown.publish(one)
                parts = asyncio.run_coroutine_threadsafe(watchers._render(), watchers._loop).result(LIMIT_S)
        return {name: html for name, html in parts.html.items() if name.startswith(("tile-", "row-", "summary"))}

    updated, anew = rendered(before, after), rendered(after)
    assert len(anew) == 17
    assert updated == anew


def test_every_gpu_that_is_available_is_named_in_ranges() -> None:
    found = many(NOW_S, 10)
    free = replace(found.status.gpus[5], mig=None)
    gpus = tuple(
        replace(free if index in (0, 1, 2, 5, 7, 8, 9) else found.status.gpus[0], index=index, uuid=f"GPU-{index}")
        for index in range(10)
    )
    available = dashboard.available(replace(found, status=replace(found.status, gpus=gpus)))
    assert [[label for label, _ in run] for run in available["gpus"]] == [["0", "2"], ["5"], ["7", "9"]]
    assert available["gpus"][0][1] == ("2", "/gpus/GPU-2")


@pytest.mark.parametrize(("show", "labels"), [("wasted", "124"), ("available", "367"), ("nonsense", "01234567")])
def test_the_filter_in_use_is_marked_and_one_that_does_not_exist_is_named(
    tmp_path: pathlib.Path, show: str, labels: str
) -> None:
    with served(hall(lambda at_s: replace(varied(at_s), counting=(SOON,))), tmp_path) as site:
        page, mine = site.ask(f"/?show={show}").text, site.ask("/?show=mine").text
    assert "".join(re.findall(r'<li id="slot-(\d+)" data-of="\d+">', page)) == labels
    chips = page.split('aria-label="Which GPUs are shown"')[1].split("</nav>")[0]
    marked = re.findall(r'href="([^"]*)" aria-current="true"', chips)
    assert marked == (["/"] if show == "nonsense" else [f"/?show={show}"])
    assert ("There is no filter &#39;nonsense&#39;" in page) == (show == "nonsense")
    assert ('data-on="1" hidden' in page) == (show == "available"), "a stop is shown where its GPU is"
    assert "Which GPUs are yours is not known here" in mine


def test_each_page_leads_to_each_section_of_the_main_page(tmp_path: pathlib.Path) -> None:
    with served(hall(varied), tmp_path) as site:
        main, gpu = site.ask("/").text, site.ask("/gpus/1").text
    places = re.findall(r'<li><a href="/#([a-z-]+)">([^<]+)</a>', main)
    assert [name for _, name in places] == ["Stops due", "Why stopped", "Who wastes most", "Protections"]
    for place, _ in places:
        assert f'id="{place}"' in main
        assert f'href="/#{place}"' in gpu


def test_the_first_figures_name_who_wasted_most_this_week_even_a_user_called_nobody(tmp_path: pathlib.Path) -> None:
    plain = board(fillers=(), guards=())
    gpus = list(plain.status.gpus)
    gpus[1] = replace(gpus[1], holders=(Holder(50_993, 2**30, user="nobody", command="python x.py", birth=9),))
    dark = tuple(replace(gpu, power_w=Unknown("no meter"), temperature_c=Unknown("no meter")) for gpu in gpus)
    shown = replace(plain, status=replace(plain.status, gpus=dark, wall_s=time.time()))
    record(tmp_path, shown, 240)
    with served(hall(lambda _: shown), tmp_path) as site:
        page, user = site.ask("/").text, site.ask("/users/nobody").text
    waste = text_of(page.split('id="waste-title"')[1].split("</section>")[0])
    assert re.search(r"Most in 7 days : \w+ 4m , 0\.1\d USD", waste), waste
    assert '<a href="/users/nobody">nobody</a>' in page.split('id="cost-title"')[1].split("</section>")[0]
    assert "Not known in that time: power, temperature." in page
    assert 'id="plot-power"' not in page, "an empty grid says less"
    assert 'id="fillers-title"' not in page
    assert "There are no fillers and no guards." in text_of(page)
    assert user.index("What was stopped or done, and why") < user.index("Hours and money")


def test_the_page_of_a_gpu_says_when_its_job_is_stopped_and_how_to_protect_it_without_a_token(
    tmp_path: pathlib.Path,
) -> None:
    with served(hall(lambda at_s: replace(varied(at_s), counting=(SOON,))), tmp_path) as site:
        page, free = site.ask("/gpus/1").text, site.ask("/gpus/7").text
        tile = text_of(site.ask("/").text.split('id="gpu-1"')[1].split("</a>")[0])
    head = text_of(page.split('id="now-title"')[0])
    assert "stops in 18s" in head
    assert "fallow protect 1 --for 2h" in head
    assert "fallow protect" not in free, "a free GPU has nothing to protect"
    assert re.search(r"protected 1h(30|29)m by bob", tile)


def test_tiles_of_jobs_that_are_all_called_python_name_their_pids() -> None:
    found = board()
    jobs = tuple(
        replace(gpu, holders=(Holder(90 + gpu.index, 1, user="bob", command="python"),)) for gpu in found.status.gpus
    )
    tiles = dashboard.tiles(replace(found, status=replace(found.status, gpus=jobs)))
    assert [tile["what"] for tile in tiles][1:3] == ["python pid 91", "python pid 92"]
