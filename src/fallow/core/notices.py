"""A notice: something that people want to be informed of."""

from typing import Literal, get_args

from fallow.core.value import value

NoticeEvent = Literal[
    "idle",
    "warned",
    "goes_on",
    "stopped",
    "parked",
    "stuck",
    "card_lost",
    "card_back",
    "going_down",
    "filler_given_up",
]
NOTICE_EVENTS: tuple[NoticeEvent, ...] = get_args(NoticeEvent)


@value
class Notice:
    """What happened, to what, and the sentence for people."""

    event: NoticeEvent
    subject: str
    """What it is about, as a key of the journal: the same event again soon is sent once."""
    text: str
    person: str = ""
    """The login name of the user whose job it is about; empty if it is about no job."""
    advice: str = ""
    """What that person can do."""
