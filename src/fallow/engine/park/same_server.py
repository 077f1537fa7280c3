"""Ask the server of a parked job only while it is the server that was parked.

A process number is given again, a port changes hands, and a program may become another user's. So each request is
preceded by a look at the kernel, and without its word nothing is sent.
"""

from collections.abc import Mapping

from fallow.core.http import Endpoint, Http, HttpAnswer
from fallow.core.parked import ParkedJob
from fallow.core.unknown import Unknown
from fallow.readers.listening import listening_ports
from fallow.readers.proc import Proc


class SameServer:
    """An Http for the server of one job."""

    def __init__(self, http: Http, proc: Proc, job: ParkedJob) -> None:
        self._http = http
        self._proc = proc
        self._job = job

    def __call__(
        self,
        to: Endpoint,
        method: str,
        target: str,
        headers: Mapping[str, str],
        limit_s: float,
        body: bytes = b"",
    ) -> HttpAnswer | Unknown:
        """Return the answer of the server, or why it was not asked or did not answer."""
        why_not = self._why_not()
        return self._http(to, method, target, headers, limit_s, body) if why_not is None else why_not

    def _why_not(self) -> Unknown | None:
        server, proc = self._job.server, self._proc
        stat = None if server is None else proc.stat(server.pid)
        if server is None or stat is None or stat.birth != server.birth:
            return Unknown("its server has ended")
        if self._job.server_uid is None or proc.uid(server.pid) != self._job.server_uid:
            return Unknown(f"its server, pid {server.pid}, is not the same user's any more")
        ports = listening_ports(proc, server.pid)
        if isinstance(ports, Unknown):
            return ports
        if self._job.port not in ports:
            return Unknown(f"its server, pid {server.pid}, does not listen at port {self._job.port} any more")
        after = proc.stat(server.pid)
        return None if after is not None and after.birth == server.birth else Unknown("its server has ended")
