"""A notice: something happened that people asked to be told of."""

from typing import Literal, get_args

from fallow.core.value import value

NoticeEvent = Literal["idle", "warned", "stopped", "stuck", "card_lost", "card_back", "going_down", "filler_given_up"]
NOTICE_EVENTS: tuple[NoticeEvent, ...] = get_args(NoticeEvent)


@value
class Notice:
    """What happened, to whom, and the sentence that says so."""

    event: NoticeEvent
    subject: str
    """Whom it is about, as the journal's keys have it: the same again soon is told once."""
    text: str
