"""What a host answers is other people's words: whatever it is, there is a row, and nothing raises."""

import json
import pathlib
import stat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.core.activity import Activity, Finding
from fallow.core.board import Counting
from fallow.core.gpu import Counters, Holder, MigPlace
from fallow.core.gpu_status import Outlook, Shown, Status, seen
from fallow.core.owner import Owner, OwnerKind
from fallow.core.parked import ParkedJob
from fallow.core.process import Process
from fallow.core.protections import OneGpu, Protection
from fallow.core.reasons import Reason
from fallow.core.reservations import Claim
from fallow.core.unknown import NOT_ASKED
from fallow.engine.machine.world import World
from fallow.engine.remote.ask import WRONG_SHAPE, Refused, checked
from fallow.engine.remote.choose import Offered, by_suitability, offers
from fallow.engine.remote.ssh import Ssh
from fallow.engine.remote.status import HostStatus, host_status, status_of_all
from fallow.interfaces.cli.status import SORTS
from fallow.interfaces.cli.status_choice import chosen
from fallow.interfaces.render import as_json, status_lines, status_long
from tests.conftest import Fallow
from tests.core.gpus import GIB, held

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def example() -> str:
    """An answer in which everything is there: a holder, a claim, a filler, a parked job."""
    holder = Holder(
        100, 2 * GIB, 0.5, user="alice", command="python train.py", owner=Owner(OwnerKind.NOTEBOOK, "a", "b")
    )
    claim = Claim(False, 100, "alice", "python", 1.0)
    gpu = seen(
        held(holders=(holder,), mig=MigPlace(1, "GPU-2", NOT_ASKED), counters=Counters(0.1, 0.1, 0.1, 0.1)),
        Finding(Activity.BUSY, Reason("process_ran", pid=100, load=0.5)),
        2.0,
        claim,
        filler=claim,
        filler_pids=(5,),
    )
    first = Process(7, 1)
    job = ParkedJob(first, (first,), "bob", "python", ((str(gpu.uuid), GIB),), 1.0)
    protection = Protection(1, OneGpu(str(gpu.uuid)), 600.0, "debugging", "bob")
    begun = ("nights", "alice's job", (str(gpu.uuid),), (), "idle", 60.0)
    rules = [Counting(*begun, "ask", 18.0), Counting(*begun, "kill", 8.0)]
    rules.append(Counting(*begun, "ask", 0.0, refused="enough was stopped"))
    return json.dumps(as_json.status(Status("gpu1", False, 1.0, (gpu,), (job,)), [protection], rules))


class Scripted:
    """A host whose ssh prints a file and ends with a code."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.world = World({"PATH": "/usr/bin:/bin"})
        self.script = folder / "ssh"
        self.ssh = Ssh((str(self.script),), "fallow")
        self.does("cat $0.out")

    def does(self, line: str) -> None:
        self.script.write_text(f"#!/bin/sh\n{line}\n")
        self.script.chmod(stat.S_IRWXU)

    def status(self, output: bytes, limit_s: float = 60.0) -> HostStatus | Refused:
        pathlib.Path(f"{self.script}.out").write_bytes(output)
        ((_, answer),) = status_of_all(self.world, self.ssh, ["gpu1"], [], limit_s)
        return answer

    def offers(self, facts: object) -> list[tuple[str, Offered | Refused]]:
        pathlib.Path(f"{self.script}.out").write_text(json.dumps(facts))
        return offers(self.world, self.ssh, ["gpu1"], [])


@pytest.fixture
def scripted(tmp_path: pathlib.Path) -> Scripted:
    return Scripted(tmp_path)


@pytest.fixture
def answered(simulated: Fallow) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(simulated("status", "--json").stdout)
    return facts


def test_a_true_answer_is_shown(scripted: Scripted, answered: dict[str, Any]) -> None:
    seen = scripted.status(json.dumps(answered).encode())
    assert isinstance(seen, HostStatus)
    assert len(seen.status.gpus) == 4
    assert seen.facts == answered


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        (b"", "host_makes_no_sense"),
        (b"Welcome to gpu1!\n", "host_makes_no_sense"),
        (b"[]", "host_makes_no_sense"),
        (b"[" * 100_000, "host_makes_no_sense"),
        (b'{"version": NaN}', "host_makes_no_sense"),
        (b'{"version": 99}', "host_other_version"),
        (b'{"version": 1}', "host_makes_no_sense"),
        (b"\xff\xfe{}", "host_makes_no_sense"),
        (b" " * (9 * 2**20), "host_makes_no_sense"),
    ],
)
def test_nonsense_is_a_row_that_says_so(scripted: Scripted, output: bytes, kind: str) -> None:
    seen = scripted.status(output)
    assert isinstance(seen, Refused)
    assert seen.reason.kind == kind
    assert str(seen.reason).isprintable()


@pytest.mark.parametrize(
    ("line", "kind", "code"),
    [
        ("echo 'fallow: no driver here' >&2; exit 69", "host_refuses", 69),
        ("echo 'fallow: there is no option --x (see: fallow pick --help)' >&2; exit 2", "host_does_not_take", 2),
        ("echo 'pick: unknown' >&2; exit 2", "host_does_not_take", 2),
        ("echo 'fallow: 9 GPUs wanted, and this machine has 2' >&2; exit 2", "host_refuses", 2),
        ("echo 'sh: exec: fallow: not found' >&2; exit 127", "host_without_fallow", 127),
        ("printf 'Permission denied\\033[2J (publickey).\\n' >&2; exit 255", "host_unreachable", 255),
        ("exit 3", "host_refuses", 3),
        ("kill -9 $$", "host_refuses", 137),
    ],
)
def test_each_way_to_fail_has_its_sentence(scripted: Scripted, line: str, kind: str, code: int) -> None:
    scripted.does(line)
    seen = scripted.status(b"")
    assert isinstance(seen, Refused)
    assert (seen.reason.kind, seen.exit_code) == (kind, code)
    assert str(seen.reason).isprintable()


def test_a_host_that_hangs_is_left_after_its_time(scripted: Scripted) -> None:
    scripted.does("sleep 1000")
    seen = scripted.status(b"", limit_s=0.2)
    assert isinstance(seen, Refused)
    assert seen.reason.kind == "host_silent"


def test_a_connection_that_stays_open_behind_ssh_delays_nothing(scripted: Scripted, answered: dict[str, Any]) -> None:
    scripted.does("cat $0.out; sleep 1000 &")  # as a shared connection keeps the pipes
    assert isinstance(scripted.status(json.dumps(answered).encode()), HostStatus)


def places(fact: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in an object where something can be put in."""
    inside = fact.items() if isinstance(fact, dict) else enumerate(fact) if isinstance(fact, list) else ()
    return [at, *(place for name, each in inside for place in places(each, (*at, name)))]


EXAMPLE = example()
ENDLESS = "-1e999"
"""A number of JSON that Python reads as infinite."""


def test_the_example_is_an_answer(scripted: Scripted) -> None:
    answer = scripted.status(EXAMPLE.encode())
    assert isinstance(answer, HostStatus)
    assert answer.outlooks == {"0:1": Outlook(18.0, 599.0, "enough was stopped", 8.0)}, "as it is counted there"


@given(st.data())
def test_whatever_stands_in_an_answer_it_is_shown_or_refused(data: st.DataObject) -> None:
    facts = json.loads(EXAMPLE)
    place = data.draw(st.sampled_from(places(facts)[1:]))
    inside = facts
    for name in place[:-1]:
        inside = inside[name]
    inside[place[-1]] = data.draw(JSON | st.just(ENDLESS))
    answer = json.dumps(facts).replace(f'"{ENDLESS}"', ENDLESS)
    try:
        shown = host_status(checked(answer.encode()))
    except WRONG_SHAPE:
        return
    for sort in SORTS:
        lines, remark = chosen(shown.status.gpus, "alice", mine=data.draw(st.booleans()), idle=False, sort=sort)
        for view in (status_lines, status_long):
            named = Shown(shown.status, None, shown.status.available, lines, shown.outlooks, remark)
            view.show([named])


def test_offers_are_checked_too(scripted: Scripted) -> None:
    gpu = {"index": 0, "mig_slot": None, "uuid": "GPU-1", "holders": [], "temperature_c": 40}
    gpu |= {"memory_total_bytes": 80 * 2**30, "memory_used_bytes": 0}
    for wrong in (
        {"mig_slot": 1, "uuid": "$(reboot)"},
        {"index": "0;reboot"},
        {"holders": 7},
        {"mig_slot": 1, "uuid": None},
        {"temperature_c": {}},
    ):
        ((_, answer),) = scripted.offers({"version": 1, "gpus": [gpu | wrong]})
        assert isinstance(answer, Refused) or wrong == {"temperature_c": {}}
    for none in ([], None, {}, [7]):
        ((_, answer),) = scripted.offers({"version": 1, "gpus": none})
        assert isinstance(answer, Refused)


def test_the_most_suitable_host_is_empty_then_has_most_memory_then_is_coolest() -> None:
    def offer(held: int, free_gib: int, warmth: int) -> Offered:
        return Offered(("0",), held, free_gib, warmth)

    answers = [("filled", offer(1, 80, 6)), ("warm", offer(0, 80, 9)), ("small", offer(0, 40, 6))]
    order = [host for host, _ in by_suitability([*answers, ("best", offer(0, 80, 6))], lambda: 0)]
    assert order == ["best", "warm", "small", "filled"]
