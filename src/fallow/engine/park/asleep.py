"""Park a job that is a server which can sleep: a vLLM in its development mode, or an ollama.

What came of it is asked from the server, not taken from its answer. A server that does not say it leaves a doubt: the
job is then neither parked nor stopped.
"""

from collections.abc import Sequence

from fallow.actuators.owners import sleep
from fallow.core.findings import Outcome
from fallow.core.http import Endpoint, Http
from fallow.core.parked import ParkedJob, ParkWay
from fallow.core.process import Process
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.jobs.ports import ParkResult
from fallow.engine.machine.world import World
from fallow.engine.park.same_server import SameServer
from fallow.readers.local_http import LocalHttp
from fallow.readers.owners.servers import SleepServer, find_server, is_sleeping, loaded_models, may_be_server

_LOOK_AGAIN_S = 0.2
_UNLOADED_WITHIN_S = 15.0
Parked = tuple[ParkedJob, ParkResult]


class Sleepers:
    """Asks servers to sleep and to wake."""

    def __init__(self, world: World, http: Http | None = None) -> None:
        self._world = world
        self._http = LocalHttp(world.clock) if http is None else http

    def may_sleep(self, holders: Sequence[Process]) -> bool:
        """Return whether this may be a server that can sleep, by its command line. It is not asked."""
        return may_be_server(self._world.proc, [process.pid for process in holders])

    def find(self, job: ParkedJob, holders: Sequence[Process]) -> ParkedJob | Unknown | None:
        """Return the job as that of a server that can sleep; None if it is none, Unknown if it is not known."""
        server = find_server(self._world.proc, [process.pid for process in holders])
        if server is None or isinstance(server, Unknown):
            return server
        doubt: Unknown | None = None
        for port in server.ports:
            found = _as_server(job, server, port)
            able = self._is_able(found)
            if able is True:
                return found
            doubt = able if isinstance(able, Unknown) else doubt
        return doubt

    def park(self, job: ParkedJob) -> Parked:
        """Have the server of a job sleep."""
        began_s = self._world.clock.monotonic_s()
        asked = self._have_sleep(job)
        state = self.is_parked(job)
        took_s = self._world.clock.monotonic_s() - began_s
        if isinstance(state, Unknown):
            said = "" if asked.ok else f"{asked.words}; "
            return job, ParkResult(False, f"{said}whether it sleeps is {state}", in_doubt=True)
        if not state:
            return job, ParkResult(False, f"it was asked to sleep and does not: {asked.words}")
        return job, ParkResult(True, f"{job.where}, after {took_s:.1f} s; {job.how_to_wake}")

    def wake(self, job: ParkedJob) -> Outcome:
        """Have the server wake; an ollama does so by itself."""
        if job.way is ParkWay.OLLAMA:
            return Outcome(True, "ollama loads a model at the next request for it")
        asked = sleep.have_vllm_wake(self._only(job), _endpoint(job))
        state = self.is_parked(job)
        if isinstance(state, Unknown):
            return Outcome(False, f"whether it is awake is {state}")
        return Outcome(False, asked.words) if state else Outcome(True, "vLLM is awake")

    def is_parked(self, job: ParkedJob) -> bool | Unknown:
        """Return whether the server sleeps, as it says."""
        http, to = self._only(job), _endpoint(job)
        if job.way is ParkWay.VLLM:
            found = is_sleeping(http, to)
            return Unknown("vLLM is not in its development mode any more") if found is None else found
        models = loaded_models(http, to)
        return models if isinstance(models, Unknown) else not models

    def _is_able(self, job: ParkedJob) -> bool | Unknown:
        http, to = self._only(job), _endpoint(job)
        if job.way is ParkWay.VLLM:
            found = is_sleeping(http, to)
            return found if isinstance(found, Unknown) else found is not None
        models = loaded_models(http, to)
        return models if isinstance(models, Unknown) else True

    def _have_sleep(self, job: ParkedJob) -> Outcome:
        http, to = self._only(job), _endpoint(job)
        if job.way is ParkWay.VLLM:
            if is_sleeping(http, to) is True:
                return Outcome(True, "vLLM sleeps already")
            return sleep.have_vllm_sleep(http, to)
        models = loaded_models(http, to)
        if isinstance(models, Unknown):
            return Outcome(False, models.why)
        done = [sleep.have_ollama_unload(http, to, model) for model in models]
        failed = next((outcome for outcome in done if not outcome.ok), None)
        until_s = self._world.clock.monotonic_s() + _UNLOADED_WITHIN_S
        while failed is None and self.is_parked(job) is False and self._world.clock.monotonic_s() < until_s:
            self._world.clock.sleep(_LOOK_AGAIN_S)  # it answers before its runner has ended
        return failed or Outcome(True, "ollama has unloaded its models")

    def _only(self, job: ParkedJob) -> Http:
        return SameServer(self._http, self._world.proc, job)


def _endpoint(job: ParkedJob) -> Endpoint:
    return Endpoint(port=job.port, users=frozenset(() if job.server_uid is None else (job.server_uid,)))


def _as_server(job: ParkedJob, server: SleepServer, port: int) -> ParkedJob:
    processes = tuple(dict.fromkeys((server.process, *job.processes)))
    return replace(job, way=server.way, server=server.process, port=port, server_uid=server.uid, processes=processes)
