"""Who may wake which parked job, and what a refusal tells."""

import pytest

from fallow.core.errors import NotPermitted
from fallow.core.owner import OwnerKind
from fallow.core.parked import ParkedJob
from fallow.core.process import Process
from fallow.core.protections import Everything
from fallow.engine.allocate.subjects import NamedOwner
from fallow.engine.park.wishes import WakeWish, permitted

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
