"""Fillers of a daemon in driven time: who gets a GPU, who leaves it for what, and what one failure does to others."""

import errno
import os
import pathlib
import resource
import tempfile
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.actuators.claims.claims import take
from fallow.core.fillers import Presence, Yield
from fallow.engine.fill.loop import FillLoop
from fallow.engine.history.run import Report, Run
from fallow.engine.machine.claims_seen import our_note
from fallow.engine.machine.clock import minute_of_day
from tests.harness import Machine
from tests.length import examples
from tests.scripted import RecordedFiller

CALM_S = 60
HOUR_S = 3600.0
NOBODY_AT_TERMINALS = "[terminals]\nusers = 'ignore'\n"


def filler(name: str, gpus: str = "0", idle_for: str = "2s", **more: str) -> str:
    keys = {"name": name, "gpus": gpus, "idle_for": idle_for, "grace": "4s", **more}
    return "[[filler]]\ncommand = ['true']\n" + "".join(f"{key} = '{word}'\n" for key, word in keys.items())


def configure(machine: Machine, *fillers: str) -> None:
    machine.configure(NOBODY_AT_TERMINALS + "".join(fillers))


def running(machine: Machine) -> list[RecordedFiller]:
    return [each for each in machine.actions.fillers if each.presence is Presence.RUNNING]


def on(machine: Machine) -> list[str]:
    return sorted(each.words for each in running(machine))


def this_minute(machine: Machine) -> str:
    first = minute_of_day(machine.clock.wall_s())
    return "-".join(f"{minute // 60:02}:{minute % 60:02}" for minute in (first, (first + 2) % 1440))


def test_a_filler_makes_way_for_one_before_it_by_an_ordinary_yield(machine: Machine) -> None:
    configure(machine, filler("first", idle_for="5s"), filler("second", idle_for="0s"))
    machine.pass_(seconds=2)
    (second,) = running(machine)
    second.stays = True
    machine.pass_(seconds=5)
    assert on(machine) == ["second on GPU 0"], "it is still there: it has its grace"
    second.presence = Presence.ABSENT
    machine.gpu(0).shows(utilization=0.4)  # as the driver shows it for a moment after a filler has left
    machine.pass_(seconds=1)
    assert on(machine) == ["first on GPU 0"], "the moment there is room"
    assert machine.said("giving it back: first comes first on GPU 0")


def test_the_first_gives_its_place_to_the_second_while_its_own_rules_forbid_it(machine: Machine) -> None:
    configure(machine, filler("first", between=this_minute(machine)), filler("second"))
    for later_s, expected in ((0.0, "first"), (HOUR_S, "second"), (-HOUR_S, "first")):
        machine.clock.wall_offset_s += later_s
        machine.pass_(seconds=12)
        assert on(machine) == [f"{expected} on GPU 0"]


def test_one_that_always_dies_does_not_keep_the_other_out(machine: Machine) -> None:
    configure(machine, filler("first", idle_for="0s"), filler("second", idle_for="0s"))
    seconds_of_the_other = 0
    for _ in range(300):
        machine.pass_(seconds=1)
        for each in running(machine):
            if each.words.startswith("first"):
                each.die()
        seconds_of_the_other += on(machine) == ["second on GPU 0"]
    assert machine.done.count("start first on GPU 0") < 13
    assert seconds_of_the_other > 200


def test_a_change_touches_no_filler_that_is_still_wanted(machine: Machine) -> None:
    first, second, third = filler("first"), filler("second"), filler("third", gpus="1")
    configure(machine, first, second, third)
    machine.pass_(seconds=5)
    for fillers, expected in (((second, first, third), "second"), ((first, third), "first")):
        configure(machine, *fillers)
        machine.pass_(seconds=10)
        assert on(machine) == [f"{expected} on GPU 0", "third on GPU 1"]
    configure(machine, first, filler("third", gpus="1", between=this_minute(machine)))
    machine.pass_(seconds=1)
    assert machine.done.count("start third on GPU 1") == 1, "its rules changed, and not its process"
    machine.clock.wall_offset_s += HOUR_S
    machine.pass_(seconds=2)
    assert on(machine) == ["first on GPU 0"]


def test_a_suspended_filler_ends_when_its_place_is_given_up(machine: Machine) -> None:
    configure(machine, filler("long", **{"yield": "suspend"}))
    machine.pass_(seconds=5)
    machine.gpu(0).held_by(7)
    machine.pass_(seconds=2)
    assert [each.presence for each in machine.actions.fillers] == [Presence.SUSPENDED]
    configure(machine)
    machine.pass_(seconds=1)
    assert machine.done[-1] == "kill long on GPU 0"
    assert machine.said("its suspended filler is ended: the config has changed")


def test_one_filler_over_all_gpus_waits_until_all_are_quiet(machine: Machine) -> None:
    machine.gpu(1).held_by(7)
    machine.configure(NOBODY_AT_TERMINALS + filler("wide", gpus="all") + "together = true\n")
    machine.pass_(seconds=10)
    assert machine.said("GPUs 0,1: left alone: pid 7")
    machine.gpu(1).left_by(7)
    machine.pass_(seconds=5)
    assert on(machine) == ["wide on GPU 0, 1"]


def test_a_filler_leaves_a_gpu_that_somebody_protects(machine: Machine) -> None:
    configure(machine, filler("spare"))
    machine.pass_(seconds=5)
    machine.protect(f"gpu:{machine.gpu(0).uuid}")
    machine.pass_(seconds=1)
    assert on(machine) == []
    assert machine.said("giving it back: ")


def test_a_gpu_whose_node_cannot_be_watched_is_looked_at_every_20_ms(machine: Machine) -> None:
    configure(machine, filler("spare"))
    machine.pass_(seconds=5)
    machine.gpu(0).held_by(7)
    machine.clock.sleep(0.02)
    machine.daemon.turn()
    assert on(machine) == []


def test_a_gpu_that_was_opened_is_looked_at_as_soon_as_the_driver_may_list_who_it_was(machine: Machine) -> None:
    node = machine.folder / "dev" / "nvidia0"
    node.touch()
    machine.gpu(0).shows(minor=0)
    configure(machine, filler("spare"))
    machine.pass_(seconds=5)
    machine.gpu(0).held_by(7)
    machine.clock.sleep(0.02)
    machine.daemon.turn()
    assert on(machine) == ["spare on GPU 0"], "nothing happened that it knows of"
    node.read_bytes()
    machine.daemon.turn()
    machine.clock.sleep(0.03)
    machine.daemon.turn()
    assert on(machine) == []


def test_a_claim_makes_a_filler_leave_before_the_next_tick(machine: Machine) -> None:
    (machine.folder / "dev" / "nvidia0").touch()
    machine.gpu(0).shows(minor=0)
    configure(machine, filler("spare"))
    machine.pass_(seconds=5)
    machine.daemon.turn()
    assert on(machine) == ["spare on GPU 0"]
    claim = take(machine.world.folder, str(machine.gpu(0).uuid), our_note(machine.world, "train"))
    assert claim is not None
    machine.daemon.turn()
    claim.end()
    assert on(machine) == []


def test_a_filler_is_asked_to_leave_also_where_the_claim_folder_cannot_be_opened(machine: Machine) -> None:
    configure(machine, filler("spare"))
    machine.pass_(seconds=5)
    folder = pathlib.Path(machine.world.folder.path)
    folder.rename(folder.with_name("elsewhere"))
    folder.touch()
    machine.gpu(0).held_by(7)
    machine.pass_(seconds=15)
    assert machine.done == ["start spare on GPU 0", "ask spare on GPU 0"]


def test_a_slot_that_fails_keeps_no_other_from_its_turn_and_its_filler_is_killed(machine: Machine) -> None:
    configure(machine, filler("broken"), filler("other", gpus="1"))
    machine.pass_(seconds=5)

    def fail() -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    running(machine)[0].before_ask = fail
    machine.gpu(0).held_by(7)
    machine.gpu(1).held_by(8)
    machine.pass_(seconds=3)
    assert machine.done[2:] == ["kill broken on GPU 0", "ask other on GPU 1"]
    (told,) = [sentence for sentence in machine.told if "Bad file descriptor" in sentence]
    assert told.startswith("broken on GPU 0 failed: ")


def test_no_yield_waits_for_a_row_about_another(machine: Machine) -> None:
    configure(machine, filler("one"), filler("two", gpus="1"))
    machine.pass_(seconds=5)
    rows: list[int] = []
    for each in running(machine):
        each.before_ask = lambda: rows.append(len(machine.events()))
    before = len(machine.events())
    machine.gpu(0).held_by(7)
    machine.gpu(1).held_by(8)
    machine.pass_(seconds=1)
    assert rows == [before, before]
    assert len(machine.events()) > before


def test_many_descriptors_do_not_keep_it_from_hearing(machine: Machine) -> None:
    """A daemon with a thousand streams has descriptors that select(2) does not know."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    ours, its = os.pipe()
    try:
        configure(machine, filler("spare"))
        os.write(its, b"x")
        fill_loop = FillLoop(Run(machine.world, machine.daemon.journal, Report(print)), [])
        fill_loop.wait(machine.clock.now_s + 3600.0, [ours])
        fill_loop.close()
    finally:
        for fd in (*taken, ours, its):
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


wish = st.fixed_dictionaries(
    {
        "gpus": st.sampled_from(["0", "1", "all"]),
        "idle_for": st.sampled_from(["0s", "2s", "7s"]),
        "yield": st.sampled_from([manner.value for manner in Yield]),
    }
)
stretch = st.tuples(
    st.lists(st.sampled_from(["idle", "held", "unknown"]), min_size=2, max_size=2), st.integers(1, 15)
)


def deserving(wishes: Sequence[dict[str, str]]) -> list[str]:
    """Return the GPUs of each filler if nothing keeps it away: each takes what the fillers before it have left."""
    taken: dict[str, str] = {}
    for number, each in enumerate(wishes):
        cards = ("0", "1") if each["gpus"] == "all" else (each["gpus"],)
        if taken.keys().isdisjoint(cards):
            taken.update(dict.fromkeys(cards, f"filler-{number} on GPU {', '.join(cards)}"))
    return sorted(set(taken.values()))


def show(machine: Machine, states: Sequence[str]) -> None:
    for index, state in enumerate(states):
        gpu = machine.gpu(index)
        gpu.well()
        if state == "unknown":
            gpu.unknown("as drawn")
        elif state == "held":
            gpu.held_by(70 + index)
        elif any(holder.pid == 70 + index for holder in gpu.now().holders):
            gpu.left_by(70 + index)


@pytest.mark.more
@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(wish, min_size=1, max_size=4),
    st.lists(stretch, max_size=6),
    st.integers(0, 15),
)
def test_no_gpu_ever_has_two_fillers_and_in_the_end_the_first_has_it(
    wishes: list[dict[str, str]], history: list[tuple[list[str], int]], stubborn: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(pathlib.Path(folder))
        try:
            texts = (filler(f"filler-{at}", **each) + f"priority = {-at}\n" for at, each in enumerate(wishes))
            machine.configure(NOBODY_AT_TERMINALS + "together = true\n".join((*texts, "")))
            for states, seconds in (*history, (["idle"] * 2, CALM_S)):
                show(machine, states)
                for _ in range(seconds):
                    for each in machine.actions.fillers:
                        each.stays = bool(stubborn >> int(each.words[7]) & 1)
                    machine.pass_(seconds=1)
                    cards = [card for words in on(machine) for card in words.partition("GPU ")[2].split(", ")]
                    assert len(cards) == len(set(cards))
            assert on(machine) == deserving(wishes)
        finally:
            for each in machine.actions.fillers:
                each.stays = False
            machine.close()
