"""Who may wake which parked job, and what a refusal tells."""

import os
import pathlib

import pytest

from fallow.core.errors import FallowError, NotPermitted
from fallow.core.gpu import Gpu
from fallow.core.job import Job
from fallow.core.owner import OwnerKind
from fallow.core.parked import ParkedJob
from fallow.core.process import Process
from fallow.core.protections import AffectedProcess, Everything
from fallow.engine.allocate.job_subject import NamedOwner
from fallow.engine.history.run import open_run
from fallow.engine.machine.world import World
from fallow.engine.owners.known import KnownOwners
from fallow.engine.park.parking import Parking
from fallow.engine.park.record import ParkRecord
from fallow.engine.park.wishes import WakeWish, WishesOfOneTurn, permitted
from fallow.readers.proc import Proc

pytestmark = pytest.mark.more

FIRST = Process(7, 7)
VICS = ParkedJob(FIRST, (FIRST,), "vic", "notebook secret", (), 0.0, owner=("notebook", "12", "secret.ipynb"))
SECRET = NamedOwner(OwnerKind.NOTEBOOK, "secret")


def test_strangers_are_not_told_whether_a_notebook_of_a_name_is_parked() -> None:
    assert permitted((VICS,), WakeWish(SECRET, "eve", may_wake_all=False)) == []
    assert permitted((), WakeWish(SECRET, "eve", may_wake_all=False)) == []
    assert permitted((VICS,), WakeWish(SECRET, "vic", may_wake_all=False)) == [VICS]
    assert permitted((VICS,), WakeWish(SECRET, "root", may_wake_all=True)) == [VICS]


def test_who_may_wake_none_of_the_jobs_is_told_who_may() -> None:
    with pytest.raises(NotPermitted, match="only vic, root and operators may wake it"):
        permitted((VICS,), WakeWish(Everything(), "eve", may_wake_all=False))


def test_many_wishes_cost_one_look_and_one_user_has_a_few_of_them(tmp_path: pathlib.Path) -> None:
    world = World({"FALLOW_STATE_DIR": str(tmp_path / "state"), "FALLOW_CLAIM_DIR": str(tmp_path / "claims")})
    stat = Proc().stat(os.getpid())
    assert stat is not None
    me = Process(stat.pid, stat.birth)
    eves = [
        ParkedJob(Process(number, 1), (me,), "eve", "job", (("GPU-1", 1),), 0.0, holders=(me,))
        for number in (1, 2, 3)
    ]
    ParkRecord(world).write(eves)
    looks: list[str] = []

    def look() -> tuple[Gpu, ...]:
        looks.append("looked")
        return ()

    with open_run(world, lambda _: None) as run:
        wishes = WishesOfOneTurn(Parking(run, KnownOwners(world, run.say)), look)
        wish = WakeWish(Everything(), "eve", may_wake_all=False)
        for _ in range(4):
            assert [why for _, why in wishes.answer(wish).jobs] == ["GPU GPU-1 is not to be seen"] * 3
        with pytest.raises(FallowError, match="try again in a second"):
            wishes.answer(wish)
        assert len(wishes.answer(WakeWish(Everything(), "root", may_wake_all=True)).jobs) == 3
    assert looks == ["looked"]


def test_a_user_has_a_bounded_number_of_parked_jobs_and_a_job_of_processes(tmp_path: pathlib.Path) -> None:
    world = World({"FALLOW_STATE_DIR": str(tmp_path / "state"), "FALLOW_CLAIM_DIR": str(tmp_path / "claims")})
    stat = Proc().stat(os.getpid())
    assert stat is not None
    me = Process(stat.pid, stat.birth)
    ParkRecord(world).write(
        ParkedJob(Process(number, 1), (me,), "eve", "job", (), 0.0, holders=(me,)) for number in range(1, 17)
    )
    with open_run(world, lambda _: None) as run:
        parking = Parking(run, KnownOwners(world, run.say))
        eves = Job(me, "eve", {me: ""}, (), frozenset())
        assert "16 jobs of eve are parked already" in str(parking.why_not(eves, []))
        vics = Job(me, "vic", {me: ""}, (), frozenset())
        assert "parked already" not in str(parking.why_not(vics, []))
        many = [AffectedProcess(number, 1, "vic", "train") for number in range(1, 258)]
        assert "at most 256 are parked together" in str(parking.why_not(vics, many))


def test_users_without_an_account_share_one_number_of_parked_jobs(tmp_path: pathlib.Path) -> None:
    world = World({"FALLOW_STATE_DIR": str(tmp_path / "state"), "FALLOW_CLAIM_DIR": str(tmp_path / "claims")})
    stat = Proc().stat(os.getpid())
    assert stat is not None
    me = Process(stat.pid, stat.birth)
    ParkRecord(world).write(
        ParkedJob(Process(number, 1), (me,), str(100_000 + number), "job", (), 0.0, holders=(me,))
        for number in range(1, 17)
    )
    with open_run(world, lambda _: None) as run:
        parking = Parking(run, KnownOwners(world, run.say))
        another = Job(me, "165000", {me: ""}, (), frozenset())
        assert "16 jobs of users without an account are parked already" in str(parking.why_not(another, []))
