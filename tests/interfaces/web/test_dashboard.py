"""What the dashboard says, before it is laid out: what is available, what is wasted, what is about to be stopped."""

import asyncio
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
from fallow.interfaces.web import dashboard
from fallow.interfaces.web.page_parts import Parts
from tests.interfaces.web.boards import many, varied
from tests.interfaces.web.served import hall, served
from tests.places import LIMIT_S

NOW_S = 1.7e9
MOST_BYTES = 50_000


def board(**changes: object) -> Board:
    return replace(varied(NOW_S), prices=Prices(default=2.5, currency="USD"), **changes)


def test_idle_and_stuck_gpus_are_wasted_and_unknown_ones_are_neither_wasted_nor_available() -> None:
    found = board()
    wasted, available = dashboard.wasted(found), dashboard.available(found)
    assert (wasted["number"], wasted["money"]) == (3, "7.50 USD")
    assert [(gpu["label"], gpu["who"]) for gpu in wasted["gpus"]] == [("1", "bob"), ("4", "dan"), ("2", "carol")]
    assert (available["number"], available["of"], available["unknown"]) == (3, 8, 1)
    assert [[label for label, _ in run] for run in available["gpus"]] == [["3"], ["6", "7"]]


def test_a_gpu_without_a_price_is_named_and_not_added_up() -> None:
    found = board()
    only_one = Prices(named=((str(found.status.gpus[1].uuid), 4.0),), currency="USD")
    wasted = dashboard.wasted(replace(found, prices=only_one))
    assert (wasted["money"], wasted["unpriced"]) == ("4.00 USD", 2)


def test_without_any_price_no_money_is_named() -> None:
    wasted = dashboard.wasted(replace(board(), prices=Prices()))
    assert (wasted["number"], wasted["money"], wasted["unpriced"]) == (3, "", 0)


def test_each_tile_leads_to_its_gpu_and_says_who_and_for_how_long() -> None:
    found = board()
    tile = dashboard.tiles(found)[1]
    assert tile["address"] == f"/gpus/{found.status.gpus[1].uuid}"
    assert (tile["activity"], tile["who"], tile["lasted"].text) == (Activity.IDLE, "bob", "2h34m")
    assert tile["load"].text == "0%"
    assert dashboard.tiles(found)[5]["load"].text == "?", "what is not known is not 0"


def test_mine_is_what_i_hold_or_have_claimed_and_nothing_else() -> None:
    tiles = dashboard.tiles(board())
    assert [tile["label"] for tile in tiles if dashboard.is_shown(tile, "mine", "dan")] == ["4"]
    assert [tile["label"] for tile in tiles if dashboard.is_shown(tile, "mine", None)] == []
    assert [tile["label"] for tile in tiles if dashboard.is_shown(tile, "wasted", None)] == ["1", "2", "4"]
    assert [tile["label"] for tile in tiles if dashboard.is_shown(tile, "free", None)] == ["6", "7"]


def test_the_soonest_stop_is_first_and_what_is_kept_back_is_last_with_why() -> None:
    uuid = str(varied(NOW_S).status.gpus[1].uuid)
    later = Counting("nights", "bob's job", (uuid,), (), "idle", 900.0, "warn", 300.0, notice_s=600.0)
    soon = replace(later, rule="hangs", fault="stuck", action="ask", in_s=18.0, notice_s=None)
    kept = [
        replace(soon, refused="too many were stopped"),
        replace(soon, left_alone="protected"),
        replace(soon, held_back="nobody waits"),
        replace(soon, paused="cpu:50 is not known"),
    ]
    not_due = [
        replace(soon, fault="", action="nothing"),
        replace(later, for_s=0.0),
        replace(later, for_s=1.0),
        replace(soon, not_judged="the rule is about the user ada"),
    ]
    found = board(counting=(later, *kept, *not_due, soon))
    assert [(stop["rule"], stop["in"].text, stop["kept"]) for stop in dashboard.stops(found)] == [
        ("hangs", "18s", ""),
        ("nights", "15m", ""),
        ("hangs", "18s", "too many were stopped"),
        ("hangs", "18s", "protected"),
        ("hangs", "18s", "nobody waits"),
        ("hangs", "18s", "cpu:50 is not known"),
    ]
    assert [stop["warned"] and stop["warned"].text for stop in dashboard.stops(found)][:2] == [None, "5m"]
    assert dashboard.tiles(board(counting=(later,)))[1]["stops"].text == "15m", "before it was warned too"
    assert dashboard.tiles(found)[1]["stops"].text == "18s"
    assert dashboard.tiles(found)[0]["stops"] is None


def test_a_stop_that_the_limit_holds_back_stays_on_the_page_with_the_reason(tmp_path: pathlib.Path) -> None:
    uuid, why = str(varied(NOW_S).status.gpus[1].uuid), "5 were ended in the last 1h, and 5 may be"
    due = Counting("nights", "bob's job 50993 (python)", (uuid,), (), "idle", 7_200.0, "ask", 0.0, refused=why)
    with served(hall(lambda wall_s: replace(varied(wall_s), protections=(), counting=(due,))), tmp_path) as site:
        page = site.ask("/").text
    assert f'<em title="{why}"><span class="in">stop </span>held back</em>' in page, "on its tile"
    stops = page.split('id="stops"')[1].split("</table>")[0]
    assert "stop held back" in stops
    assert f"; held back: {why}" in stops
    assert "bob&#39;s job 50993 (python)" in stops


@pytest.mark.parametrize("target", [OneProcess(50993, 7), OneUser("bob")])
def test_a_tile_says_that_a_process_or_a_user_on_its_gpu_is_protected(target: OneProcess | OneUser) -> None:
    found = board(protections=(Protection(9, target, NOW_S + 60, "", "bob"),))
    gpus = tuple(replace(gpu, holders=_with_birth(gpu.holders, 7)) for gpu in found.status.gpus)
    found = replace(found, status=replace(found.status, gpus=gpus))
    assert [tile["label"] for tile in dashboard.tiles(found) if tile["protected"]] == ["1"]
    over = replace(found, status=replace(found.status, wall_s=NOW_S + 61))
    assert [tile["label"] for tile in dashboard.tiles(over) if tile["protected"]] == []


def test_the_protections_name_a_job_that_only_its_environment_protects(tmp_path: pathlib.Path) -> None:
    uuid, why = str(varied(NOW_S).status.gpus[1].uuid), "the environment of pid 50993 has FALLOW_PROTECT=1"
    rule = Counting("nights", "bob's job 50993", (uuid,), (), "idle", 0.0, "warn", 60.0, left_alone=why)
    with served(hall(lambda wall_s: replace(varied(wall_s), protections=(), counting=(rule,))), tmp_path) as site:
        page = site.ask("/").text
    assert f"bob&#39;s job 50993 is protected: {why}" in page
    assert "Nothing is on protection" not in page


def test_a_tile_says_that_a_rule_leaves_its_job_alone_for_a_process_that_holds_no_gpu() -> None:
    found = board(protections=())
    uuid = str(found.status.gpus[1].uuid)
    rule = Counting(
        "nights", "bob's job", (uuid,), (), "idle", 0.0, "warn", 60.0, left_alone="bob protects process 9"
    )
    tiles = dashboard.tiles(replace(found, counting=(rule,)))
    assert [tile["label"] for tile in tiles if tile["protected"]] == ["1"]


def _with_birth(holders: tuple[Holder, ...] | Unknown, birth: int) -> tuple[Holder, ...] | Unknown:
    return holders if isinstance(holders, Unknown) else tuple(replace(each, birth=birth) for each in holders)


def test_what_64_gpus_tell_in_a_second_is_small_when_every_figure_changes(tmp_path: pathlib.Path) -> None:
    boards = hall()
    before = many(time.time(), 64)
    moved = tuple(
        replace(
            gpu,
            for_s=(gpu.for_s or 0.0) + 3_600,
            temperature_c=71,
            power_w=333.0,
            recent=replace(gpu.recent, mean=0.37),
        )
        for gpu in before.status.gpus
    )

    boards.publish(before)
    with served(boards, tmp_path) as site:
        watchers = site.app.state.watchers

        def rendered() -> Parts:
            return asyncio.run_coroutine_threadsafe(watchers._render(), watchers._loop).result(LIMIT_S)

        first = rendered()
        boards.publish(replace(before, status=replace(before.status, gpus=moved)))
        sent = rendered().since(first)
    assert b'"load-63":"37%"' in sent
    assert b'"bar-63":"37"' in sent
    assert b"tile-63" not in sent, "the tile itself is as it was"
    assert len(sent) < MOST_BYTES


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
    with served(hall(varied), tmp_path) as site:
        page = site.ask(f"/?show={show}").text
        mine = site.ask("/?show=mine").text
        plain = site.ask("/").text
    shown = re.findall(r'<li id="slot-(\d+)" data-of="\d+">', page)
    assert "".join(shown) == labels
    chips = page.split('aria-label="Which GPUs are shown"')[1].split("</nav>")[0]
    marked = re.findall(r'href="([^"]*)" aria-current="true"', chips)
    assert marked == (["/"] if show == "nonsense" else [f"/?show={show}"])
    assert ("There is no filter &#39;nonsense&#39;" in page) == (show == "nonsense")
    assert "Which GPUs are yours is not known here" in mine
    assert 'class="note" role="status"' not in plain
