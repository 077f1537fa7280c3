"""Conditions that real servers answer: busy, not busy, never, in drops, without end, with nonsense."""

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
from fallow.engine.conditions.parse import HttpBusy, Metric, Vllm, parse_job_condition
from fallow.engine.conditions.servers import AnswersBusy, MetricShowsWork, Servers, VllmWorks
from fallow.engine.conditions.shared import Shared
from fallow.engine.machine.clock import SystemClock
from fallow.readers.proc import Proc
from tests.engine.conditions.stage import conditions, job_of, told_by
from tests.engine.driven import DrivenClock
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


def never(connection: socket.socket) -> None:
    connection.recv(1)


def trickles(connection: socket.socket) -> None:
    connection.settimeout(0.05)
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"x")
        with suppress(TimeoutError):
            if not connection.recv(1):
                return


def without_end(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(b"a 1\n" * 10_000)


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
        (never, Unknown),
        (trickles, Unknown),
        (without_end, Unknown),
        (lambda connection: connection.sendall(b"\x1b[2J\x00nonsense"), Unknown),
        (lambda connection: connection.close(), Unknown),
    ],
)
@pytest.mark.more
def test_200_is_busy_another_status_is_not_and_what_cannot_be_told_is_unknown(
    tmp_path: pathlib.Path, serve: Serve, answer: Answer, found: type
) -> None:
    (condition,) = conditions(tmp_path).begin([f"http:http://127.0.0.1:{serve(answer)}/busy?token=secret"])
    said = told_by(condition, job_of(os.getpid()))
    assert isinstance(said, found), said
    assert "secret" not in f"{condition.text} {said}"
    assert str(said).isprintable()


def test_nobody_there_is_unknown(tmp_path: pathlib.Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for text in (
        f"http:http://127.0.0.1:{port}/",
        f"metric:http://127.0.0.1:{port}/ up",
        f"vllm:http://127.0.0.1:{port}",
    ):
        (condition,) = conditions(tmp_path).begin([text])
        assert isinstance(told_by(condition, job_of(os.getpid())), Unknown)


@pytest.mark.more
def test_a_metric_is_above_a_number_or_moves(tmp_path: pathlib.Path, serve: Serve) -> None:
    lines = ['requests_total{code="200"} 5\nrequests_total{code="500"} 1\nrunning 0\n']

    def answer(connection: socket.socket) -> None:
        says(200, lines[0].encode())(connection)

    port = serve(answer)
    made = conditions(tmp_path)
    url, job = f"http://127.0.0.1:{port}/metrics", job_of(os.getpid())
    moved, above, low = made.begin(
        [f"metric:{url} requests_total", f"metric:{url} requests_total>5", f"metric:{url} running>0"]
    )
    assert str(told_by(above, job)) == "requests_total is 6, above 5"
    assert told_by(low, job) is None
    assert told_by(moved, job) is None, "it has not moved"
    lines[0] = 'requests_total{code="200"} 9\nrunning 2\n'
    assert str(told_by(moved, job, lambda found: found is not None)) == "requests_total went from 6 to 9"
    assert told_by(low, job, lambda found: found is not None).kind == "metric_above"
    assert told_by(moved, job, lambda found: found is None) is None, "and not since"
    lines[0] = "running NaN\n"
    assert isinstance(told_by(low, job, lambda found: isinstance(found, Unknown)), Unknown)
    assert isinstance(told_by(moved, job, lambda found: isinstance(found, Unknown)), Unknown)


def test_an_answer_of_more_than_256_kib_is_not_read(tmp_path: pathlib.Path, serve: Serve) -> None:
    port = serve(says(200, b"# x\n" * (300 << 8) + b"running 5\n"))
    (condition,) = conditions(tmp_path).begin([f"metric:http://127.0.0.1:{port}/metrics running>1"])
    assert isinstance(told_by(condition, job_of(os.getpid())), Unknown)


@pytest.mark.more
def test_a_vllm_server_works_while_it_has_requests_or_answers_some(tmp_path: pathlib.Path, serve: Serve) -> None:
    numbers = [0, 5]

    def answer(connection: socket.socket) -> None:
        text = (
            f'vllm:num_requests_running{{m="x"}} {numbers[0]}\nvllm:request_success_total{{r="stop"}} {numbers[1]}\n'
        )
        says(200, text.encode())(connection)

    (condition,) = conditions(tmp_path).begin([f"vllm:http://127.0.0.1:{serve(answer)}"])
    job = job_of(os.getpid())
    assert told_by(condition, job) is None
    numbers[0] = 1
    assert told_by(condition, job, lambda found: found is not None).kind == "metric_above"
    numbers[0] = 0
    assert told_by(condition, job, lambda found: found is None) is None
    numbers[1] = 6
    assert told_by(condition, job, lambda found: found is not None).kind == "metric_moved"


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


BODIES = st.one_of(
    st.binary(max_size=40),
    st.builds(
        'vllm:num_requests_running {}\nvllm:request_success_total{{a="b"}} {}\nup {}\n'.format,
        *(st.sampled_from(["0", "1", "7.5", "NaN", "+Inf", "-1", "x", ""]) for _ in range(3)),
    ).map(str.encode),
)
ANSWERS = st.lists(
    st.one_of(
        st.builds(HttpAnswer, st.sampled_from([200, 200, 200, 204, 302, 401, 404, 500, 503, 999]), BODIES),
        st.just(Unknown("the server at port 1 did not answer within 2 s")),
        st.just(ValueError("a mistake of ours")),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=PLANS)
@given(st.sampled_from(["http:{}", "metric:{} up", "metric:{} up>0", "vllm:{}"]), ANSWERS)
def test_no_answers_raise_and_a_no_needs_an_answer_that_says_it(
    kind: str, drawn: list[HttpAnswer | Unknown | Exception]
) -> None:
    clock = DrivenClock()
    servers = Servers(Proc(), Played(list(drawn)), Shared(AtOnce(clock, lambda _: None)))
    wanted = parse_job_condition(kind.format("http://127.0.0.1:1/"))
    match wanted:
        case HttpBusy():
            condition: AnswersBusy | MetricShowsWork | VllmWorks = AnswersBusy(wanted, servers)
        case Metric():
            condition = MetricShowsWork(wanted, servers)
        case Vllm():
            condition = VllmWorks(wanted, servers)
        case _:
            raise AssertionError
    job = job_of(os.getpid())
    condition(job)
    for answer in drawn:
        found = condition(job)
        if found is None:
            assert isinstance(answer, HttpAnswer)
            assert answer.status not in (401, 500, 503)
            assert answer.status == 200 or kind == "http:{}"
        elif isinstance(found, Unknown):
            assert found.why.isprintable()
        clock.sleep(1.0)
        condition(job)  # it is read again
