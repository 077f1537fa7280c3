"""What is said of a GPU after a stop: memory that is free again, and memory that nobody listed holds; no trifles."""

import pytest

from fallow.core.activity import Activity
from fallow.core.unknown import Unknown
from fallow.engine.stop.afterwards import FreedGpu
from tests.engine.history.life import gpu_status

KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("freed", "unseen", "said"),
    [
        (0, 0, False),
        (56 * KIB, 0, False),
        (MIB - 1, Unknown("not read"), False),
        (MIB, 0, True),
        (0, 1, True),
        (Unknown("not read"), Unknown("not read"), True),
    ],
)
def test_less_than_a_mib_is_no_news_and_what_is_unseen_or_unknown_is(
    freed: int | Unknown, unseen: int | Unknown, said: bool
) -> None:
    assert FreedGpu(gpu_status(0, Activity.IDLE), freed, unseen).says_something is said
