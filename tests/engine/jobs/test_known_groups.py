"""The protected groups of users are remembered for some minutes."""

from collections.abc import Sequence

from fallow.core.unknown import Unknown
from fallow.engine.jobs.known_groups import Found, KnownGroups
from tests.harness import ManualClock


def test_groups_are_looked_up_again_after_minutes_and_a_failure_is_said_once() -> None:
    answers: list[Found] = [Unknown("the database does not answer"), frozenset({"staff"})]
    clock, said, asked = ManualClock(), list[str](), list[str]()

    def look_up(user: str, _groups: Sequence[str]) -> Found:
        asked.append(user)
        return answers[0]

    known = KnownGroups(["staff"], clock, said.append, look_up)
    assert known.of("ada") == answers[0]
    clock.sleep(300.0)
    known.of("ada")
    assert ["ada is protected" in each for each in said] == [True]
    answers.pop(0)
    assert isinstance(known.of("ada"), Unknown)
    assert len(asked) == 2
    clock.sleep(300.0)
    assert known.of("ada") == {"staff"}
