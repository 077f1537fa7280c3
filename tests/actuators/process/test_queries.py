"""A program that is asked is bounded in time and in what it prints, and its errors are kept apart."""

import os
import time

import pytest

from fallow.actuators.process.queries import Answer, Queries
from fallow.core.unknown import Unknown

QUERIES = Queries(time.monotonic)
ENVIRON = {"PATH": os.environ["PATH"]}


def ask(*words: str, limit_s: float = 100.0, most_bytes: int = 1 << 20) -> Answer | Unknown:
    return QUERIES.ask(words, ENVIRON, limit_s, most_bytes)


def test_output_and_errors_are_kept_apart() -> None:
    answer = ask("sh", "-c", "echo out; echo first >&2; echo last >&2; exit 3")
    assert isinstance(answer, Answer)
    assert (answer.output, answer.code, answer.ok, answer.last_line) == (b"out\n", 3, False, "last")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("sleep", "1000"), "did not answer within"),
        (("sh", "-c", "trap '' TERM; echo x; exec sleep 1000"), "did not answer within"),
        (("cat", "/dev/zero"), "more than 1048576 bytes"),
        (("no-such-program-of-slurm",), "there is no command"),
    ],
)
def test_one_that_hangs_or_floods_or_is_not_there_is_unknown(words: tuple[str, ...], why: str) -> None:
    answer = ask(*words, limit_s=100.0 if words[0] == "cat" else 0.3)
    assert isinstance(answer, Unknown)
    assert why in answer.why
