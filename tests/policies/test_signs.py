"""Signs of anybody: each alone is enough, the filler's own are none, and what is not known is no sign."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.core.gpu import Holder, Recent
from fallow.core.reasons import Reason
from fallow.core.reservations import Claim, Note, Reservations
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.policies.signs import Scene, in_hours, sign
from tests.core.gpus import NOT_SUPPORTED, held, idle
from tests.reasons import said


def test_on_an_empty_card_there_is_nobody() -> None:
    assert sign(Scene(idle())) is None


@pytest.mark.parametrize(
    ("scene", "words"),
    [
        (Scene(held(pid=7)), "pid 7 is on GPU 0"),
        (Scene(idle(), reservations=Reservations(claim=Claim(False, 9, "ada"))), "GPU 0 is claimed by ada (pid 9)"),
        (Scene(idle(), reservations=Reservations(picked=True)), "somebody picked GPU 0 moments ago"),
        (
            Scene(idle(), reservations=Reservations(filler=Note(1, program="sweep"))),
            "another filler is on GPU 0: sweep",
        ),
        (Scene(idle(), protection=said("ada protects all (protection 1)")), "ada protects all"),
        (Scene(idle(recent=Recent(1.0, 0.1, 0.4))), "something ran on GPU 0"),
        (Scene(idle(utilization=0.2)), "20% utilization by no visible process"),
    ],
)
def test_each_sign_alone_is_enough(scene: Scene, words: str) -> None:
    found = sign(scene)
    assert isinstance(found, Reason)
    assert words in str(found)


@pytest.mark.parametrize(
    "scene",
    [
        Scene(idle(trouble="lost")),
        Scene(idle(holders=NOT_SUPPORTED)),
        Scene(idle(memory=NOT_SUPPORTED)),
        Scene(idle(utilization=NOT_SUPPORTED)),
    ],
)
def test_what_is_not_known_is_neither_a_sign_nor_quiet(scene: Scene) -> None:
    assert isinstance(sign(scene), Unknown)


def test_what_a_filler_or_an_ignored_program_does_is_no_sign_and_a_stranger_beside_it_is() -> None:
    card = idle(utilization=1.0, recent=Recent(1.0, 1.0, 1.0))
    assert sign(Scene(card, ignored=True)) is None
    stranger = Holder(8, 2**30, user="ada", command="python train.py")
    assert str(sign(Scene(replace(card, holders=(stranger,)), ignored=True))) == "pid 8 of ada (python) is on GPU 0"


@given(st.integers(0, 1439), st.integers(0, 1439), st.integers(0, 1439))
def test_each_minute_is_either_between_two_hours_or_between_them_the_other_way(minute: int, a: int, b: int) -> None:
    if a != b:
        assert in_hours(minute, a, b) != in_hours(minute, b, a)


def test_a_process_on_the_gpu_is_told_before_anything_else() -> None:
    scene = Scene(held(pid=7), Reservations(picked=True), said("protected"))
    assert str(sign(scene)) == "pid 7 is on GPU 0"
