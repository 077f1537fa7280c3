"""A card that is lost is told of once, and once more when it is back."""

import pathlib
from collections.abc import Sequence

from fallow.core.gpu import Gpu, MigPlace, Snapshot
from fallow.core.notices import Notice
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.machine.world import World
from fallow.engine.notify.lost_gpus import LostGpus
from tests.core.gpus import idle

LOST = replace(idle(1), trouble="the GPU is lost", uuid=Unknown("no answer"))


def told(folder: pathlib.Path, looks: Sequence[tuple[Gpu, ...]]) -> list[Notice]:
    noted, sentences = list[Notice](), list[str]()
    journal = Journal(str(folder), lambda: 1.0, sentences.append)
    cards = LostGpus(Run(World({}), journal, Report(sentences.append, notify=noted.append)))
    for at_s, gpus in enumerate(looks):
        cards.turn(Snapshot("host", simulated=False, at_s=float(at_s), wall_s=0.0, gpus=gpus))
    assert len(journal.last(f"gpu:{idle(1).uuid}")) == len(noted) == len(sentences)
    journal.close()
    return noted


def test_a_card_is_lost_when_it_lasts_and_back_when_it_answers(tmp_path: pathlib.Path) -> None:
    both = (idle(0), idle(1))
    found = told(tmp_path, [both] * 3 + [(idle(0), LOST)] * 100 + [both] * 5)
    assert [(notice.event, notice.subject) for notice in found] == [
        ("card_lost", f"gpu:{idle(1).uuid}"),
        ("card_back", f"gpu:{idle(1).uuid}"),
    ]
    assert "the GPU is lost" in found[0].text


def test_a_moment_without_an_answer_is_no_loss(tmp_path: pathlib.Path) -> None:
    both = (idle(0), idle(1))
    assert told(tmp_path, ([both] * 5 + [(idle(0), LOST)] * 9) * 5) == []


def test_a_card_that_is_not_listed_any_more_is_lost_and_a_mig_instance_is_not(tmp_path: pathlib.Path) -> None:
    part = replace(idle(0), mig=MigPlace(1, "GPU-parent", 3), uuid="MIG-1")
    found = told(tmp_path, [(part, idle(1))] * 3 + [()] * 20)
    assert [notice.event for notice in found] == ["card_lost"]
