"""Get in contact with the owner of one process: what it says about the job, and how it stops it.

Everything here may wait for files and servers of other users, up to a limit, so a loop never calls it by itself: see
known.py.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice

from fallow.actuators.host.as_user import in_the_name_of
from fallow.actuators.owners import stop
from fallow.core.account import Account
from fallow.core.errors import NotPermitted
from fallow.core.findings import Outcome
from fallow.core.http import Http
from fallow.core.owner import Owner, OwnerFacts, OwnerKind
from fallow.core.process import DEEPEST
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.machine.world import World
from fallow.engine.owners.recent_answers import RecentAnswers
from fallow.readers.accounts import account
from fallow.readers.http import LocalHttp
from fallow.readers.owners import containers, jupyter, units
from fallow.readers.owners.traces import trace
from fallow.readers.proc import Proc

_ANSWERS_WITHIN_S = 2.0
Recent = RecentAnswers[Mapping[str, OwnerFacts]]
ENGINE = "FALLOW_CONTAINER_ENGINE"
"""The variable that names the socket of a container engine which is not in its usual place."""


@value
class Contact:
    """An owner that answers: what it said, and the two ways to stop the job, as sentences and as actions."""

    facts: OwnerFacts
    words: str
    """How it is stopped, after `would`: `have its Jupyter server shut the kernel down`."""
    stop: Callable[[float], Outcome]
    """Stop the job politely; it gets so many seconds before it is killed."""
    kill: Callable[[], Outcome] | None = None
    """Kill what is left through the owner; None where only signals are left."""


def contact(world: World, owner: Owner, pid: int, recent: Recent | None = None) -> Contact | Unknown | None:
    """Return the contact to the owner of a process; None if there is nobody to ask, so that signals stop it.

    `recent` has what servers and units listed a moment ago, so that one with many jobs is asked once for all.
    """
    if _is_around_us(world.proc, owner):
        return None
    http = LocalHttp(world.clock, _rights_of)
    match owner.kind:
        case OwnerKind.NOTEBOOK:
            return _notebook(world.proc, owner, pid, http, recent or Recent(world.clock))
        case OwnerKind.CONTAINER:
            return _container(world, owner, pid, http)
        case OwnerKind.SERVICE:
            return _unit(world, owner, pid, recent or Recent(world.clock))
        case _:
            return None


def _is_around_us(proc: Proc, owner: Owner) -> bool:
    """Return whether fallow itself is in that container or unit, so that stopping it would stop fallow."""
    ours = trace(proc, os.getpid())
    same = isinstance(ours, Owner) and (ours.kind, ours.id) == (owner.kind, owner.id)
    return same and owner.kind is not OwnerKind.NOTEBOOK


def _notebook(proc: Proc, owner: Owner, pid: int, http: Http, recent: Recent) -> Contact | Unknown | None:
    try:
        with _rights_of(owner.manager):
            server = jupyter.find_server(proc, pid)
    except NotPermitted as error:
        return Unknown(str(error))
    if server is None or isinstance(server, Unknown):
        return server

    def listed(what: jupyter.Listed) -> Mapping[str, OwnerFacts] | Unknown:
        return recent((server, what), lambda: jupyter.listed(http, server, what, _ANSWERS_WITHIN_S))

    facts = jupyter.facts_of(owner.id, listed)
    if isinstance(facts, Unknown):
        return facts

    def end(_: float) -> Outcome:
        return stop.stop_kernel(http, server.endpoint, server.base, server.headers, owner.id)

    return Contact(facts, "have its Jupyter server shut the kernel down", end)


def _container(world: World, owner: Owner, pid: int, http: Http) -> Contact | Unknown:
    engines = containers.endpoints(_users_above(world.proc, pid), world.environ.get(ENGINE, ""), _rights_of)
    found = containers.ask_about(http, world.proc, pid, owner.id, engines, _ANSWERS_WITHIN_S)
    if isinstance(found, Unknown):
        return found

    def end(grace_s: float) -> Outcome:
        return stop.stop_container(http, found.endpoint, containers.API, owner.id, grace_s)

    return Contact(found.facts, f"have its engine stop the container {found.facts.name}", end, lambda: end(0.0))


def _unit(world: World, owner: Owner, pid: int, recent: Recent) -> Contact | Unknown | None:
    def search(path: str) -> Mapping[str, OwnerFacts]:
        facts = units.one_job(world.proc, owner, path)
        return {} if facts is None else {path: facts}

    def listed(path: str) -> OwnerFacts | Unknown | None:
        """Search all processes once for all holders in the same cgroup."""
        found = recent(("unit", path), lambda: search(path))
        return found if isinstance(found, Unknown) else found.get(path)

    facts = units.facts_of(world.proc, owner, pid, listed)
    if facts is None or isinstance(facts, Unknown):
        return facts
    user = None if owner.manager is None else account(owner.manager)
    if owner.manager is not None and user is None:
        return Unknown(f"there is no user {owner.manager}, who runs {owner.id}")
    environ = _for_systemctl(world.environ, user)

    def end(_: float) -> Outcome:
        """Stop the unit if it is still one job: what it listed is some seconds old."""
        now = units.facts_of(world.proc, owner, pid, lambda path: units.one_job(world.proc, owner, path))
        if not isinstance(now, OwnerFacts):
            return Outcome(False, f"there is other work in {owner.id} now" if now is None else now.why)
        return stop.stop_unit(environ, owner.id, user)

    return Contact(
        facts,
        f"have systemd stop {owner.id}",
        end,
        lambda: stop.kill_unit(environ, owner.id, user),
    )


@contextmanager
def _rights_of(uid: int | None) -> Iterator[None]:
    """Take on the rights of that user, so that nobody has root read or open something for them."""
    if uid == os.geteuid():
        yield
        return
    user = None if uid is None else account(uid)
    if uid is None or user is None or os.geteuid() != 0:
        raise NotPermitted(f"the files of user {uid} cannot be read")
    with in_the_name_of(uid, user.gid):
        yield


def _users_above(proc: Proc, pid: int) -> frozenset[int]:
    """Return the users of the processes above, one of which is the user of a rootless engine."""
    uids = (proc.uid(each) for each in islice(proc.ancestors(pid), DEEPEST))
    return frozenset(uid for uid in uids if uid)


def _for_systemctl(environ: Mapping[str, str], user: Account | None) -> Mapping[str, str]:
    return environ if user is None else {"XDG_RUNTIME_DIR": f"/run/user/{user.uid}", **environ}
