"""What people write for an action, and what fallow says of it."""

import pytest

from fallow.core.actions import (
    EndGuard,
    HostAction,
    Notify,
    PowerOff,
    Reboot,
    RunCommand,
    SendSignal,
    in_words,
    parse_action,
    signal_name,
)
from fallow.core.errors import WrongUsage


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("end", EndGuard()),
        ("signal", SendSignal("TERM")),
        ("signal:int", SendSignal("INT")),
        ("signal:SIGUSR1", SendSignal("USR1")),
        ("run:make backup && echo a:b", RunCommand("make backup && echo a:b")),
        ("notify:slack://token@channel", Notify("slack://token@channel")),
        ("shutdown", PowerOff()),
        (" Reboot ", Reboot()),
    ],
)
def test_an_action_is_read_as_people_write_it(text: str, action: HostAction) -> None:
    assert parse_action(text) == action


@pytest.mark.parametrize(
    ("text", "help_given"),
    [
        ("", "is not an action; write end, signal"),
        ("poweroff", "is not an action; write end, signal"),
        ("run:", "write it as run:COMMAND"),
        ("run", "write it as run:COMMAND"),
        ("notify:me", "write it as notify:URL"),
        ("notify", "write it as notify:URL"),
        ("signal:", "is not a signal"),
        ("signal:LOUD", "is not a signal; write its name"),
        ("shutdown:now", "says too much; write it as shutdown"),
        ("end:", "says too much; write it as end"),
    ],
)
def test_what_is_no_action_is_refused_with_help(text: str, help_given: str) -> None:
    with pytest.raises(WrongUsage, match=help_given):
        parse_action(text)


def test_a_signal_has_one_name() -> None:
    assert signal_name("sigterm") == signal_name("TERM") == signal_name(" term ") == "TERM"


def test_the_secret_of_a_notice_is_not_said() -> None:
    assert in_words(Notify("slack://token@channel")) == "send a notice to slack"
