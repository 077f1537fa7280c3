"""Conditions that real servers answer: busy, not busy, with nonsense."""

import os
import pathlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.core.http import Endpoint, HttpAnswer
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.engine.conditions.beside import Lanes
from fallow.engine.conditions.parse import HttpBusy, parse_job_condition
from fallow.engine.conditions.servers import AnswersBusy, Servers
from fallow.engine.conditions.shared import Shared
from fallow.engine.machine.clock import SystemClock
from fallow.readers.proc import Proc
from tests.engine.conditions.stage import conditions, job_of, told_by
from tests.harness import ManualClock
from tests.length import PLANS
from tests.waiting import until

Answer = Callable[[socket.socket], None]
Serve = Callable[[Answer], int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve every connection on a port of the loopback interface in the same way; its number."""
    listeners: list[socket.socket] = []

    def start(answer: Answer) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def one(connection: socket.socket) -> None:
            with suppress(OSError), connection:
                if connection.recv(65536):
                    answer(connection)

        def run() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=one, args=(connection,), daemon=True).start()

        threading.Thread(target=run, daemon=True).start()
        return int(listener.getsockname()[1])

    yield start
    for listener in listeners:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def says(status: int, body: bytes = b"") -> Answer:
    head = f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n".encode()
    return lambda connection: connection.sendall(head + body)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (says(200), Reason),
        (says(404), type(None)),
        (says(204), type(None)),
        (says(302), type(None)),
        (says(401), Unknown),
        (says(500), Unknown),
        (says(503), Unknown),
        (lambda connection: connection.sendall(b"\x1b[2J\x00nonsense"), Unknown),
        (lambda connection: connection.close(), Unknown),
    ],
)
def test_200_is_busy_another_status_is_not_and_what_cannot_be_told_is_unknown(
    tmp_path: pathlib.Path, serve: Serve, answer: Answer, found: type
) -> None:
    (condition,) = conditions(tmp_path).begin([f"http:http://127.0.0.1:{serve(answer)}/busy?token=secret"])
    said = told_by(condition, job_of(os.getpid()))
    assert isinstance(said, found), said
    assert "secret" not in f"{condition.text} {said}"
    assert str(said).isprintable()


def test_a_server_of_another_user_is_not_asked(tmp_path: pathlib.Path, serve: Serve) -> None:
    """Anybody may take a port that its server has left, and say that somebody else's job is not busy."""
    asked: list[frozenset[int]] = []

    def http(
        to: Endpoint, method: str, target: str, headers: Mapping[str, str], limit_s: float
    ) -> HttpAnswer | Unknown:
        asked.append(to.users)
        return HttpAnswer(404)

    servers = Servers(Proc(), http, Shared(Lanes(SystemClock(), lambda _: None)))
    wanted = parse_job_condition("http:http://127.0.0.1:8000/")
    assert isinstance(wanted, HttpBusy)
    condition = AnswersBusy(wanted, servers)
    until(lambda: condition(job_of(os.getpid())) is None)
    assert asked[0] == frozenset((0, os.geteuid()))


class Played:
    """A server whose answers are drawn."""

    def __init__(self, drawn: list[HttpAnswer | Unknown | Exception]) -> None:
        self._drawn = drawn

    def __call__(
        self, to: Endpoint, method: str, target: str, headers: Mapping[str, str], limit_s: float
    ) -> HttpAnswer | Unknown:
        answer = self._drawn.pop(0) if self._drawn else Unknown("late")
        if isinstance(answer, Exception):
            raise answer
        return answer


class AtOnce(Lanes):
    """Lanes without threads: what is given is done at once, and reports what fails."""

    def give(self, name: str, work: Callable[[], None]) -> bool:
        with suppress(ValueError):
            work()
        return True


ANSWERS = st.lists(
    st.one_of(
        st.builds(HttpAnswer, st.sampled_from([200, 204, 302, 401, 404, 500, 503, 999]), st.binary(max_size=40)),
        st.just(Unknown("the server at port 1 did not answer within 2 s")),
        st.just(ValueError("a mistake of ours")),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=PLANS)
@given(ANSWERS)
def test_no_answers_raise_and_a_no_needs_an_answer_that_says_it(
    drawn: list[HttpAnswer | Unknown | Exception],
) -> None:
    clock = ManualClock()
    servers = Servers(Proc(), Played(list(drawn)), Shared(AtOnce(clock, lambda _: None)))
    wanted = parse_job_condition("http:http://127.0.0.1:1/")
    assert isinstance(wanted, HttpBusy)
    condition = AnswersBusy(wanted, servers)
    job = job_of(os.getpid())
    condition(job)
    for answer in drawn:
        found = condition(job)
        if found is None:
            assert isinstance(answer, HttpAnswer)
            assert answer.status not in (200, 401, 500, 503)
        elif isinstance(found, Unknown):
            assert found.why.isprintable()
        clock.sleep(1.0)
        condition(job)  # it is read again
