"""Conditions that a server of this machine answers: an address, or a metric of it.

Anybody may listen on a port that its server has left. So only servers of root, of the job's user and of fallow's own
user are asked, and an answer says no more than busy, not busy or unknown.
"""

import os
from collections.abc import Callable, Mapping

from fallow.core.http import Endpoint, Http, HttpAnswer
from fallow.core.job import Job
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.engine.conditions.metric_text import sums
from fallow.engine.conditions.parse import HttpBusy, Metric, Url, Vllm
from fallow.engine.conditions.rate import Found
from fallow.engine.conditions.shared import Shared
from fallow.engine.conditions.since import Since
from fallow.readers.proc import Proc

_ANSWERS_WITHIN_S = 2.0
_BUSY = 200
_CANNOT_SAY = frozenset((401, 403, 407, 408, 429))
_RUNNING, _SUCCESSES = "vllm:num_requests_running", "vllm:request_success_total"

Sums = Mapping[str, float | Unknown]


class Servers:
    """Asks servers beside the loop; the jobs of one user share an answer."""

    def __init__(self, proc: Proc, http: Http, shared: Shared) -> None:
        self._proc = proc
        self._http = http
        self._shared = shared

    def status(self, url: Url, job: Job) -> tuple[int, float] | Unknown:
        """Return the status of the last answer, and when it was asked for."""
        users = self._users(job)
        return self._shared.latest(("status", url, users), url.shown, lambda: self._status(url, users))

    def sums(self, url: Url, names: tuple[str, ...], job: Job) -> tuple[Sums, float] | Unknown:
        """Return the sums of these metrics in the last answer, and when it was asked for."""
        users = self._users(job)
        return self._shared.latest(("sums", url, names, users), url.shown, lambda: self._sums(url, names, users))

    def _users(self, job: Job) -> frozenset[int]:
        of_job = self._proc.uid(job.first.pid) if job.members else None
        return frozenset((0, os.geteuid())) | (frozenset() if of_job is None else {of_job})

    def _asked(self, url: Url, users: frozenset[int]) -> HttpAnswer | Unknown:
        return self._http(Endpoint(port=url.port, tls=url.tls, users=users), "GET", url.target, {}, _ANSWERS_WITHIN_S)

    def _status(self, url: Url, users: frozenset[int]) -> int | Unknown:
        answer = self._asked(url, users)
        return answer if isinstance(answer, Unknown) else answer.status

    def _sums(self, url: Url, names: tuple[str, ...], users: frozenset[int]) -> Sums | Unknown:
        answer = self._asked(url, users)
        if isinstance(answer, Unknown):
            return answer
        if answer.status != _BUSY:
            return Unknown(f"the server at port {url.port} answered {answer.status}")
        return sums(answer.body, names)


class AnswersBusy:
    """The condition that an address answers 200. Any other status is a no, except those that refuse or fail."""

    def __init__(self, wanted: HttpBusy, servers: Servers) -> None:
        self.text = f"http:{wanted.url.shown}"
        self._url = wanted.url
        self._servers = servers

    def __call__(self, job: Job) -> Found:
        """Return the reason if it is busy."""
        answer = self._servers.status(self._url, job)
        if isinstance(answer, Unknown):
            return answer
        status, _ = answer
        if status == _BUSY:
            return Reason("url_busy", url=self._url.shown)
        if status in _CANNOT_SAY or status >= 500:
            return Unknown(f"the server at port {self._url.port} answered {status}")
        return None


class MetricShowsWork:
    """The condition that a metric is above a number, or has moved since the last look."""

    def __init__(self, wanted: Metric, servers: Servers) -> None:
        number = "" if wanted.above is None else f">{wanted.above:g}"
        self.text = f"metric:{wanted.url.shown} {wanted.name}{number}"
        self._wanted = wanted
        self._servers = servers
        self._moved = Since(wanted.name, _moved(wanted.name))

    def __call__(self, job: Job) -> Found:
        """Return the reason if it shows work."""
        name, above = self._wanted.name, self._wanted.above
        answer = self._servers.sums(self._wanted.url, (name,), job)
        if isinstance(answer, Unknown):
            return answer
        amount = answer[0][name]
        if isinstance(amount, Unknown):
            return amount
        return self._moved((amount, answer[1])) if above is None else _above(name, amount, above)


class VllmWorks:
    """The condition that a vLLM server has requests, or has answered one since the last look."""

    def __init__(self, wanted: Vllm, servers: Servers) -> None:
        self.text = f"vllm:{wanted.url.shown}"
        self._url = wanted.url
        self._servers = servers
        self._moved = Since(_SUCCESSES, _moved(_SUCCESSES))

    def __call__(self, job: Job) -> Found:
        """Return the reason if it works."""
        answer = self._servers.sums(self._url, (_RUNNING, _SUCCESSES), job)
        if isinstance(answer, Unknown):
            return answer
        running, successes = answer[0][_RUNNING], answer[0][_SUCCESSES]
        answered = successes if isinstance(successes, Unknown) else self._moved((successes, answer[1]))
        runs = running if isinstance(running, Unknown) else _above(_RUNNING, running, 0.0)
        if isinstance(runs, Reason) or answered is None:
            return runs
        return answered


def _above(name: str, amount: float, above: float) -> Reason | None:
    return Reason("metric_above", metric=name, amount=amount, above=above) if amount > above else None


def _moved(name: str) -> Callable[[float, float], Found]:
    def changed(before: float, now: float) -> Found:
        return None if now == before else Reason("metric_moved", metric=name, before=before, amount=now)

    return changed
