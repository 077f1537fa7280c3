"""The condition that a server of this machine answers 200 at an address.

Anybody may listen on a port that its server has left. So only servers of root, of the job's user and of fallow's own
user are asked, and an answer says no more than busy, not busy or unknown.
"""

import os

from fallow.core.http import Endpoint, Http
from fallow.core.job import Job
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.engine.conditions.parse import HttpBusy, Url
from fallow.engine.conditions.rate import Found
from fallow.engine.conditions.shared import Shared
from fallow.readers.proc import Proc

_ANSWERS_WITHIN_S = 2.0
_BUSY = 200
_CANNOT_SAY = frozenset((401, 403, 407, 408, 429))


class Servers:
    """Asks servers beside the loop; the jobs of one user share an answer."""

    def __init__(self, proc: Proc, http: Http, shared: Shared) -> None:
        self._proc = proc
        self._http = http
        self._shared = shared

    def status(self, url: Url, job: Job) -> tuple[int, float] | Unknown:
        """Return the status of the last answer, and when it was asked for."""
        users = self._users(job)
        return self._shared.latest((url, users), url.shown, lambda: self._status(url, users))

    def _users(self, job: Job) -> frozenset[int]:
        of_job = self._proc.uid(job.first.pid) if job.members else None
        return frozenset((0, os.geteuid())) | (frozenset() if of_job is None else {of_job})

    def _status(self, url: Url, users: frozenset[int]) -> int | Unknown:
        where = Endpoint(port=url.port, tls=url.tls, users=users)
        answer = self._http(where, "GET", url.target, {}, _ANSWERS_WITHIN_S)
        return answer if isinstance(answer, Unknown) else answer.status


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
