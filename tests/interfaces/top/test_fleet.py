"""`fallow top --fleet`: the GPUs of all hosts on one screen; a silent host is a row that says so."""

import pathlib
from collections.abc import Iterator

import pytest

from fallow.core.activity import Activity
from fallow.core.errors import FallowError
from fallow.core.gpu_status import NO_OUTLOOK, Outlook, Status
from fallow.core.value import replace
from fallow.interfaces.top.cells import Row, Trend, cells, widths
from fallow.interfaces.top.details import job_lines, silent_lines
from fallow.interfaces.top.dialogs import TextScreen
from fallow.interfaces.top.jobs import jobs_on
from fallow.interfaces.top.look import Look
from fallow.interfaces.top.rows import Filter, Line, lines_of, next_on, shown_lines, summary, to_have
from fallow.interfaces.top.widgets import GpuTable
from tests.conftest import Fallow
from tests.engine.fleet.test_fleet import Machine, member
from tests.interfaces.cli.stopped import ALONE, SLEEPER, Job
from tests.interfaces.top.driven import Driver, drive
from tests.interfaces.top.test_rows import gpu, holder, look
from tests.places import ME
from tests.waiting import until

pytestmark = pytest.mark.more


def other(name: str, *gpus: object, **more: object) -> Look:
    """What a host tells of its GPUs."""
    return replace(look(*gpus), host=name, outlooks={}, source=f"{name} tells it", **more)  # type: ignore[arg-type]


SILENT = replace(other("gpu2"), outlooks=None, silent="it did not answer", silent_s=300.0)


def fleet(*hosts: Look) -> Look:
    gpus = tuple(each for host in hosts for each in host.status.gpus)
    status = Status(f"{len(hosts)} hosts", False, 1000.0, gpus)
    return replace(look(), status=status, hosts=hosts, rules=())


HERE = replace(look(gpu(0, Activity.FREE), gpu(1, Activity.IDLE, holder(7))), host="box")
ALL = fleet(HERE, other("gpu1", gpu(0, Activity.FREE), gpu(1, Activity.BUSY, holder(7, "bob"), load=0.5)), SILENT)


def test_gpus_of_the_same_number_on_two_hosts_are_two_lines_and_a_silent_host_is_one() -> None:
    assert [line.label for line in lines_of(ALL)] == ["box:0", "box:1", "gpu1:0", "gpu1:1", "gpu2"]


def test_what_can_be_had_is_told_by_host_and_summed_up_where_it_is_long() -> None:
    assert to_have(ALL, None, 40) == "you can have GPU box:0 gpu1:0"
    assert to_have(ALL, "1", 40) == "you can have GPU gpu1:0", "CUDA_VISIBLE_DEVICES is about this machine alone"
    assert to_have(ALL, None, 4) == "you can have 2 GPUs of 2 hosts"
    assert summary(ALL.status, None, 80).startswith("3 hosts: 4 x H100: 2 available")


def test_filters_and_orders_go_over_all_hosts() -> None:
    def shown(words: str, sort: str = "index") -> list[str]:
        return [line.label for line in shown_lines(ALL, None, Filter.parse(words, {"box", "gpu1", "gpu2"}), sort)]

    assert shown("idle") == ["box:1"]
    assert shown("bob") == ["gpu1:1", "gpu2"], "who is on a silent host is not known"
    assert shown("gpu1 busy") == ["gpu1:1"]
    assert shown("", "utilization") == ["gpu1:1", "box:0", "box:1", "gpu1:0", "gpu2"]


def test_the_same_pid_on_two_hosts_is_two_jobs() -> None:
    jobs = jobs_on(lines_of(ALL), Filter())
    assert [(node.host, node.text.split()[:2], node.subjects) for node in jobs] == [
        ("box", ["box", "ada"], ("pid:7",)),
        ("gpu1", ["gpu1", "bob"], ("pid:7",)),
    ]
    assert len({node.key for job in jobs for node in (job, *job.below)}) == 4
    assert "gpu1 tells it" in "\n".join(job_lines(jobs[1], ALL.hosts[1], list(ALL.hosts[1].status.gpus)))


@pytest.mark.parametrize(
    ("told", "words", "stops"),
    [
        (Outlook(90.5), "1m30s", True),
        (Outlook(190.0, warns_in_s=60.0), "3m", False),
        (Outlook(90.0, 60.0), "protected", False),
        (Outlook(killed_in_s=8.5), "kill 8s", True),
        (Outlook(kept_back="enough was stopped"), "held back", False),
        (NO_OUTLOOK, "", False),
    ],
)
def test_what_rules_mean_is_as_the_other_host_tells_it(told: Outlook, words: str, stops: bool) -> None:
    host = replace(other("gpu1", gpu(3)), outlooks={"3": told})
    found = next_on(host, host.status.gpus[0])
    assert (found.words, found.stops) == (words, stops)


@pytest.mark.parametrize("width", [80, 99, 120, 200])
def test_the_names_of_hosts_find_room_and_a_silent_one_says_why(width: int) -> None:
    for name in ("gpu1", "a-host-with-a-name-of-40-letters-and-more"):
        wide = widths(width, [name])
        assert sum(wide.values()) == width
        row = Row(Line(replace(SILENT, host=name), lines_of(SILENT)[0].gpu), Trend(), stale=False)
        told = dict(zip(wide, (cell.plain for cell in cells(row, wide)), strict=True))
        assert told["host"][:4] == name[:4]
        assert (told["index"], told["activity"]) == ("", "silent")
        assert told["job"].startswith("it did")
    assert silent_lines(SILENT)[0] == "gpu2 has been silent for 5m: it did not answer"


@pytest.fixture
def machines(tmp_path: pathlib.Path) -> Iterator[list[Machine]]:
    made: list[Machine] = []
    yield made
    for each in made:
        each.fallow.end_all()


@pytest.mark.more
def test_one_screen_shows_real_daemons_and_says_where_to_act(machines: list[Machine], tmp_path: pathlib.Path) -> None:
    machines.append(Machine(tmp_path / "gpu1", "2xA100"))
    there = machines[0]
    job = Job(there.fallow.on("1"), ALONE + SLEEPER)
    there.up()
    config = "[fleet]\nevery = '200ms'\n" + member("gpu1", there.port, there.token_file)
    machines.append(Machine(tmp_path / "box", "1xT4", config))
    shows = machines[1]
    shows.up()
    until(lambda: shows.hosts()["gpu1"]["error"] is None, pause_s=0.1)

    async def look_at_all(top: Driver) -> None:
        await top.sees("2 hosts: 1 x Tesla T4, 2 x A100")
        table = top.app.query_one("#left", GpuTable)
        here = table.labels[0]
        assert table.labels[1:] == ("gpu1:0", "gpu1:1")
        await top.sees("you can have GPU ")
        await top.until(lambda: any(line.startswith(f"gpu1  {ME}  ") for line in top.jobs))
        await top.press("down", "down", "s")
        await top.until(lambda: top.outcome == "gpu1 is another machine: run there: fallow stop 1")
        await top.press("p")
        await top.until(lambda: top.outcome == "gpu1 is another machine: run there: fallow protect 1")
        await top.press("enter")
        await top.sees("gpu1 tells it: run fallow why there")
        await top.press("escape", "tab", "s")
        await top.until(lambda: top.outcome == f"gpu1 is another machine: run there: fallow stop pid:{job.pid}")
        await top.press("shift+tab", "up", "up", "p")
        await top.sees(f"Protect GPU {here.rpartition(':')[2]} ")
        await top.press("enter")
        await top.until(lambda: f"{ME} protects GPU 0 " in top.outcome)
        there.end()
        await top.sees("2 hosts (1 silent): 1 x Tesla T4")
        await top.until(lambda: table.labels == (here, "gpu1"))
        await top.press("down", "s")
        await top.until(lambda: top.outcome.startswith("gpu1 has been silent for "))
        await top.press("enter")
        await top.until(lambda: isinstance(top.app.screen, TextScreen))
        await top.sees("what they did before is not shown")
        await top.press("escape")
        shows.end()
        await top.sees("ago: ")

    try:
        drive(shows.fallow, look_at_all, "--fleet", size=(120, 24))
    finally:
        job.end()


def test_without_a_fleet_it_is_said_before_the_screen_changes(simulated: Fallow) -> None:
    async def never(_: Driver) -> None:
        raise AssertionError("the screen was drawn")

    for words, told in (
        (("--fleet",), "no daemon here asks other hosts"),
        (("--fleet", "--alone"), "--alone does not go with --fleet"),
        (("--fleet", "0"), "--fleet shows whole hosts"),
    ):
        with pytest.raises(FallowError, match=told):
            drive(simulated, never, *words)
