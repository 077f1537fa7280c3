"""What `fallow top` makes of a look: the next action, filters, ranges, columns, the line of the last minutes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.core.activity import Activity
from fallow.core.board import Counting
from fallow.core.gpu import Holder, Memory
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.owner import NO_OWNER, Owner, OwnerKind
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.interfaces.top.cells import Row, Trend, cells, widths
from fallow.interfaces.top.jobs import job_tree
from fallow.interfaces.top.look import Look, Starter
from fallow.interfaces.top.rows import Filter, next_on, shown_gpus, summary

UNKNOWN = Unknown("the driver does not tell")


def gpu(index: int, activity: Activity = Activity.IDLE, *holders: Holder, load: float | Unknown = 0.0) -> GpuStatus:
    memory = Memory(80 * 2**30, 0, 80 * 2**30, 0)
    made = GpuStatus(index, f"GPU-{index}", "H100", load, 0.0, memory, holders, 40)
    return replace(made, activity=activity, claim=None)


def holder(pid: int, user: str | Unknown = "ada", owner: Owner = NO_OWNER) -> Holder:
    return Holder(pid, 2**30, birth=7, user=user, command="python train.py", owner=owner)


def look(*gpus: GpuStatus, **more: object) -> Look:
    return Look(Status("box", False, 1000.0, gpus), 5.0, "the daemon", **more)  # type: ignore[arg-type]


def counting(**more: object) -> Counting:
    facts = {"for_s": 60.0, "action": "ask", "in_s": 600.0, **more}
    return Counting("nights", "ada's job", ("GPU-1",), ("pid:11@7",), "idle", **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "words", "told"),
    [
        ({}, "10m", "stops in 10m"),
        ({"in_s": 95.0}, "1m35s", "stops in 1m35s"),
        ({"in_s": 3725.0}, "1h2m", "stops in 1h2m"),
        ({"action": "warn", "in_s": 299.0}, "warn 4m", "warn in 4m"),
        ({"action": "warn", "in_s": 299.0, "notice_s": 600.0}, "14m", "stops in 14m (warned in 4m)"),
        ({"action": "warn", "in_s": 299.0, "notice_s": 600.0, "for_s": 1.0}, "", ""),
        ({"action": "report", "in_s": 2759.0}, "report 45m", "report in 45m"),
        ({"action": "warn", "in_s": 95.0}, "warn 1m", "warn in 1m35s"),
        ({"action": "kill", "in_s": 8.7}, "kill 8s", "asked to end; killed in 8s"),
        ({"for_s": 0.0}, "", ""),
        ({"action": "nothing"}, "", ""),
        ({"paused": "the load cannot be read"}, "paused", "paused"),
        ({"refused": "too many were stopped"}, "held back", "a stop is due, and held back"),
        ({"refused": "it is not yours", "action": "warn"}, "refused", "refused"),
        ({"held_back": "nobody waits"}, "if wanted", "if wanted"),
        ({"left_alone": "ada protects it"}, "protected", "protected"),
        ({"not_judged": "it is new"}, "", ""),
    ],
)
def test_the_last_column_and_the_tree_say_what_a_rule_does_next(
    more: dict[str, object], words: str, told: str
) -> None:
    one = gpu(1, Activity.IDLE, holder(11))
    found = next_on(look(one, rules=(counting(**more),)), one)
    assert (found.words, found.told) == (words, told)
    assert len(words) <= widths(80)["stops"]


def test_words_of_a_filter_are_activities_or_users() -> None:
    assert Filter.parse("ada, idle stuck") == Filter(frozenset({"ada"}), frozenset({Activity.IDLE, Activity.STUCK}))
    assert str(Filter.parse("stuck ada idle")) == "ada idle stuck"


def test_a_gpu_whose_users_are_not_known_is_never_filtered_away_by_user() -> None:
    seen = look(
        gpu(0, Activity.BUSY, holder(1, "bob")),
        gpu(1, Activity.BUSY, holder(2, UNKNOWN)),
        replace(gpu(2, Activity.UNKNOWN), holders=UNKNOWN),
        gpu(3, Activity.BUSY, holder(3, "ada")),
        gpu(4, Activity.FREE),
    )
    assert [each.label for each in shown_gpus(seen, None, Filter.parse("ada"), "index")] == ["1", "2", "3"]


def test_what_is_not_known_comes_last_in_every_order() -> None:
    seen = look(gpu(0, load=UNKNOWN), gpu(1, load=0.2), gpu(2, load=0.9))
    assert [each.label for each in shown_gpus(seen, None, Filter(), "utilization")] == ["2", "1", "0"]


def test_processes_of_one_owner_or_one_session_are_one_job() -> None:
    container = Owner(OwnerKind.CONTAINER, "c" * 64, "vllm-prod")
    seen = look(
        gpu(0, Activity.BUSY, holder(1), holder(2)),
        gpu(1, Activity.BUSY, holder(3), holder(4, "root", container)),
        gpu(2, Activity.BUSY, holder(5, "root", container), holder(2)),
        starters={1: Starter(50, ((49, "torchrun"),)), 2: Starter(50), 3: Starter(60), 4: Starter(70)},
    )
    nodes = job_tree(seen, seen.status.gpus, Filter())
    assert [node.subjects for node in nodes] == [("pid:1", "pid:2"), ("pid:3",), ("pid:4", "pid:5")]
    assert nodes[0].text == "ada  GPU 0,2  busy  3.0 GiB  by torchrun 49"
    assert nodes[2].text == "root  GPU 1-2  busy  2.0 GiB  container vllm-prod"


def test_processes_that_are_not_known_are_a_line_of_the_tree() -> None:
    seen = look(replace(gpu(3, Activity.UNKNOWN), holders=UNKNOWN))
    (node,) = job_tree(seen, seen.status.gpus, Filter())
    assert (node.text, node.subjects) == (f"GPU 3: its processes are {UNKNOWN}", ())


@given(st.integers(80, 500))
def test_the_columns_fill_any_width_from_80_on(width: int) -> None:
    assert sum(widths(width).values()) == width
    row = Row(gpu(0, Activity.BUSY, holder(1, "a" * 40)), look(), Trend(), stale=False)
    assert all(
        cell.cell_len <= whole for cell, whole in zip(cells(row, widths(width)), widths(width).values(), strict=True)
    )


def test_the_line_of_the_last_minutes_is_as_high_as_the_load_and_empty_where_nobody_looked() -> None:
    trend = Trend()
    for at_s, load in ((100.0, 0.0), (101.0, 0.5), (103.0, 1.0), (104.0, UNKNOWN)):
        trend.add(replace(look(gpu(0, Activity.BUSY, load=load)), at_s=at_s))
    assert trend.line("0", 6).plain == " ▁▅ █?"
    assert trend.line("1", 3).plain == "   "


def test_the_first_line_says_less_where_there_is_less_room_and_always_what_is_available() -> None:
    status = look(gpu(0, Activity.FREE), gpu(1, Activity.FILLED), gpu(2, Activity.STUCK)).status
    assert summary(status, None, 120) == "box: 3 x H100: 2 available (1 free, 1 filled), 1 stuck"
    assert summary(status, None, 40) == "box: 3 x H100: 2 available, 1 stuck"
    assert summary(status, None, 3) == "box: 3 GPUs: 2 available, 1 stuck"
    assert summary(status, "1", 120).startswith(
        "box: 3 x H100: 1 available to you (CUDA_VISIBLE_DEVICES=1), 2 available"
    )
    assert [summary(status, "1", width) for width in (84, 70, 31)] == [
        "box: 3 GPUs: 1 available to you (CUDA_VISIBLE_DEVICES), 2 available in all, 1 stuck",
        "box: 3 GPUs: 1 available to you, 2 available in all, 1 stuck",
        "box: 3 GPUs: 1 available to you",
    ]


def test_a_job_is_not_idle_for_longer_than_it_runs() -> None:
    seen = look(replace(gpu(1, Activity.IDLE, holder(1)), for_s=100.0), starters={1: Starter(1, age_s=12.0)})
    (node,) = job_tree(seen, seen.status.gpus, Filter())
    assert "  idle 12s" in node.text
