"""What the page says, before it is laid out."""

from fallow.core.activity import Activity
from fallow.core.board import Board
from fallow.interfaces.web import view_models
from tests.interfaces.web.boards import varied

NOW_S = 1.7e9


def board() -> Board:
    return varied(NOW_S)


def test_the_page_says_first_how_many_can_be_had() -> None:
    """F9: two are free and one is filled; the one that is claimed is not available."""
    machine = view_models.machine(board(), NOW_S)
    assert machine["available"] == "3 available"
    assert dict(machine["counted"])[Activity.FILLED] == 1
    assert list(dict(machine["counted"]))[:2] == [Activity.FREE, Activity.FILLED]


def test_a_filled_card_shows_nobody_who_holds_it() -> None:
    """F9: and says once what fills it."""
    filled = next(card for card in view_models.cards(board()) if card["activity"] is Activity.FILLED)
    assert filled["holders"] == ()
    assert "fah-client" in filled["because"]
    assert filled["filler"] == ""


def test_a_claimed_card_that_nobody_uses_names_the_claimer() -> None:
    """V8"""
    claimed = view_models.cards(board())[4]
    assert claimed["activity"] is Activity.IDLE
    assert "dan" in claimed["because"]


def test_a_parked_job_is_shown_below_its_card_with_how_to_wake_it() -> None:
    first, *others = view_models.cards(board())
    assert first["parked"] == ("parked: ada's job 4711 (python): 20.0 GiB in host memory; fallow wake pid:4711",)
    assert all(card["parked"] == () for card in others)
