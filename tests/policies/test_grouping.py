"""Notices in driven time: what comes together goes together, and never more than was asked for."""

from hypothesis import given
from hypothesis import strategies as st

from fallow.core.notices import NOTICE_EVENTS, Notice, NoticeEvent
from fallow.policies.grouping import MOST_WAITING, SAME_AGAIN_S, GroupingRules, Message, Outbox, collect, due_s, note
from tests.policies.histories import modest

RULES = GroupingRules(group_for_s=10.0, at_most=3, per_s=3600.0)


class Desk:
    """A box that is looked at once a second, as the thread that sends does when it is due."""

    def __init__(self, rules: GroupingRules = RULES) -> None:
        self.rules = rules
        self.box = Outbox()
        self.now_s = 0.0
        self.sent: list[tuple[float, Message]] = []

    def note(self, event: NoticeEvent, subject: str = "gpu:0", text: str = "it happened") -> None:
        self.box = note(self.box, Notice(event, subject, text), self.now_s, self.rules)
        self._send_what_is_due()

    def pass_s(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.now_s += 1.0
            self._send_what_is_due()

    def _send_what_is_due(self) -> None:
        due = due_s(self.box, self.rules)
        if due is not None and due <= self.now_s:
            self.box, message = collect(self.box, self.now_s, self.rules, "host")
            if message is not None:
                self.sent.append((self.now_s, message))


def test_what_happens_within_the_window_is_one_message() -> None:
    desk = Desk()
    for number in range(5):
        desk.note("warned", f"pid:{number}", f"job {number}")
        desk.pass_s(2)
    ((at_s, message),) = desk.sent
    assert at_s == 10.0
    assert message == Message("fallow on host: 5 notices", "job 0\njob 1\njob 2\njob 3\njob 4")


def test_a_single_notice_is_its_own_title() -> None:
    desk = Desk()
    desk.note("card_lost", text="GPU 3 cannot be used")
    desk.pass_s(10)
    assert desk.sent[0][1] == Message("fallow on host: GPU 3 cannot be used", "GPU 3 cannot be used")


def test_the_same_about_the_same_is_told_once_in_ten_minutes_and_then_counted() -> None:
    desk = Desk()
    for _ in range(30):
        desk.note("card_lost")
        desk.pass_s(19)
    assert len(desk.sent) == 1
    desk.pass_s(SAME_AGAIN_S)
    desk.note("card_lost")
    desk.pass_s(10)
    assert desk.sent[1][1].text.endswith("29 of card_lost.")


def test_that_the_machine_goes_down_is_told_at_once_and_always() -> None:
    desk = Desk()
    for number in range(6):
        desk.note("stopped", f"pid:{number}")
        desk.pass_s(20)
    desk.note("warned", "pid:99")
    desk.note("going_down", "machine", "the machine goes down")
    assert desk.sent[-1][0] == desk.now_s
    assert "the machine goes down" in desk.sent[-1][1].text


def test_events_that_nobody_asked_for_are_dropped() -> None:
    desk = Desk(GroupingRules(frozenset({"stuck"})))
    desk.note("warned")
    desk.pass_s(100)
    assert desk.sent == []


def test_a_storm_is_bounded_and_counted() -> None:
    desk = Desk()
    for number in range(5000):
        desk.note("warned", f"pid:{number}")
    assert len(desk.box.waiting) == MOST_WAITING
    desk.pass_s(10)
    assert desk.sent[0][1].text.endswith(f"{5000 - MOST_WAITING} of warned.")


happenings = st.lists(
    st.tuples(st.sampled_from(NOTICE_EVENTS), st.integers(0, 5), st.integers(0, 900)), min_size=1, max_size=60
)


@modest
@given(story=happenings)
def test_every_notice_is_told_or_counted_exactly_once_and_the_limits_hold(
    story: list[tuple[NoticeEvent, int, int]],
) -> None:
    desk = Desk()
    for event, subject, pause_s in story:
        desk.note(event, f"gpu:{subject}", "happened")
        desk.pass_s(pause_s)
    desk.pass_s(20)
    told = sum(message.text.count("happened") for _, message in desk.sent)
    counted = sum(
        int(word)
        for _, message in desk.sent
        for line in message.text.splitlines()
        if line.startswith("Not sent")
        for word in line.replace(",", " ").split()
        if word.isdigit()
    )
    assert told + counted + sum(desk.box.left_out.values()) == len(story)
    ordinary = [at_s for at_s, _ in desk.sent]
    if not any(event == "going_down" for event, _, _ in story):
        assert all(len([at for at in ordinary if at_s - 3600 < at <= at_s]) <= RULES.at_most for at_s in ordinary)
