"""The calls: what the command line does, for Python programs and notebooks. None of them prints."""

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fallow.core.errors import WrongUsage
from fallow.core.units import program_name
from fallow.engine.allocate import claim as claiming
from fallow.engine.allocate import pick as choosing
from fallow.interfaces.python.arguments import Listed, demand, listed, machine_of, request, seconds, subject_of, texts
from fallow.interfaces.python.ask import asking
from fallow.interfaces.python.claimed import ClaimedGpus
from fallow.interfaces.python.gpus import Gpu, Gpus, GpuStatus
from fallow.interfaces.render import gpu_names
from fallow.interfaces.render.as_json import gpu_facts

if TYPE_CHECKING:
    from fallow.engine.answers.asker import Asker
    from fallow.engine.answers.status import Look
    from fallow.interfaces.python.answers import Explanation, Idle, Report, Status
    from fallow.interfaces.python.protections import Protection, Protections

_WEEK_S = 7 * 86400.0
_YEAR_S = 366 * 86400.0
_SHORTEST_S = 1e-9


def status(gpus: Listed = None, *, simulate: str | None = None) -> "Status":
    """Return all GPUs of this machine now, or those that are named, each with its activity and its holders.

    If `fallow up` runs it is asked, and knows for how long each has had its activity.
    """
    named = listed(gpus)
    with asking(machine_of(simulate)) as (asker, _):
        from fallow.engine.answers.status import looks

        return _status(asker, next(looks(asker, None)), named)


def gpus(*, simulate: str | None = None) -> list[GpuStatus]:
    """Return the GPUs of `status` as a list."""
    return list(status(simulate=simulate).gpus)


def watch(every: float = 1.0, *, simulate: str | None = None) -> "Iterator[Status]":
    """Yield a status every so many seconds, forever, with the observed time of each activity."""
    return _watched(seconds("every", every, least=_SHORTEST_S), machine_of(simulate))


def pick(
    n: int | None = None,
    *,
    gpus: Listed = None,
    name: str | None = None,
    max_util: float = 0.0,
    max_mem_util: float = 0.0,
    max_processes: int = 0,
    min_free: str | int = 0,
    order: str = "best",
    wait_s: float | None = None,
    simulate: str | None = None,
) -> Gpus:
    """Return idle GPUs, softly reserved for some seconds. Raises NotEnoughGpus.

    `max_util` and `max_mem_util` are ratios 0..1; `min_free` is a size with its unit, such as "40GiB".

    Without `n` it returns one GPU, or all of `gpus` where these are named.
    """
    limits = (max_util, max_mem_util, max_processes, min_free)
    wanted = request(n, gpus, name, limits, order, wait_s)
    with asking(machine_of(simulate)) as (asker, _):
        return Gpus(Gpu(gpu_facts(gpu)) for gpu in choosing.pick(asker.world, wanted))


def claim(
    n: int | None = None,
    *,
    gpus: Listed = None,
    name: str | None = None,
    max_util: float = 0.0,
    max_mem_util: float = 0.0,
    max_processes: int = 0,
    min_free: str | int = 0,
    order: str = "best",
    wait_s: float | None = None,
    shared: bool = False,
    set_environment: bool = False,
    simulate: str | None = None,
) -> ClaimedGpus:
    """Claim GPUs now, until the `with` block ends or `release()` is called, or this process ends.

    Forked processes inherit the claim, which lasts as long as one of them lives; those that `subprocess` starts do
    so with close_fds=False. `set_environment`: let CUDA see only these GPUs meanwhile, if it has not begun yet.
    """
    limits = (max_util, max_mem_util, max_processes, min_free)
    wanted = request(n, gpus, name, limits, order, wait_s, shared=shared)
    demand("set_environment", set_environment, bool, "True or False")
    with asking(machine_of(simulate)) as (asker, _):
        program = program_name(sys.argv[0] or "python")
        found = claiming.claim(asker.world, wanted, program=program)
        try:
            for held in found.claims:
                held.hand_to_job()
            return ClaimedGpus(found, gpu_names.environment(found.gpus) if set_environment else {})
        except BaseException:
            for held in found.claims:
                held.end()
            raise


def environment(gpus: Sequence[Gpu], *, indices: bool = False) -> dict[str, str]:
    """Return the environment variables that make CUDA see these GPUs and no others."""
    given: object = gpus
    if not isinstance(given, Sequence) or not all(isinstance(gpu, Gpu) for gpu in given):
        raise TypeError(f"gpus is {gpus!r}; give GPUs, as `pick` and `claim` do")
    by_index = [str(gpu.index) if gpu.mig_slot is None and indices else str(gpu.uuid) for gpu in gpus]
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(by_index)}


def protect(
    subject: str | int = "all",
    *,
    for_s: float,
    why: str = "",
    simulate: str | None = None,
) -> "Protection":
    """Keep rules away from a GPU, `pid:PID`, `user:NAME` or all for some time. It reserves nothing.

    It ends by itself, when it is released, or at the end of a `with` block.
    """
    lasts_s, meant = seconds("for_s", for_s, least=_SHORTEST_S, most=_YEAR_S), subject_of(subject)
    demand("why", why, str, "a text", optional=False)
    machine = machine_of(simulate)
    from fallow.engine.answers.protect import labels_for, place
    from fallow.interfaces.python.protections import of_engine

    with asking(machine) as (asker, notes):
        placed = place(asker, meant or "all", lasts_s, why)
        return of_engine(placed, labels_for(asker, [placed]), machine, notes)


def protections(*, simulate: str | None = None) -> "Protections":
    """Return the protections that are in force; each can be released by its owner and by root."""
    machine = machine_of(simulate)
    from fallow.engine.answers.protect import in_force, labels_for
    from fallow.interfaces.python.protections import Protections, of_engine

    with asking(machine) as (asker, _):
        found = in_force(asker)
        labels = labels_for(asker, found)
        return Protections(of_engine(each, labels, machine) for each in found)


def idle(
    subject: str | int | None = None,
    *,
    for_s: float = 0.0,
    unless: str | Sequence[str] = (),
    simulate: str | None = None,
) -> "Idle":
    """Return whether GPUs, or those of somebody, have been idle for so long. It is true only if they have.

    `subject` is as for `fallow idle`; None means all GPUs. `unless`: conditions such as "cpu:50" or "jupyter".
    """
    asked_s, meant, conditions = seconds("for_s", for_s), subject_of(subject), texts("unless", unless)
    machine = machine_of(simulate)
    from fallow.interfaces.python.answers import Idle

    with asking(machine) as (asker, notes):
        if meant is not None and _is_of_cluster(meant):
            from fallow.engine.answers.cluster_idle import ask_cluster_idle
            from fallow.interfaces.render.cluster_json import idle as cluster_facts

            if conditions:
                raise WrongUsage("unless is about the processes of this machine", "leave it out")
            return Idle(cluster_facts(ask_cluster_idle(asker, meant, asked_s)), notes=notes)
        from fallow.engine.answers.idle import ask_idle
        from fallow.interfaces.render.as_json import idle as facts_of

        found = ask_idle(asker, meant, asked_s, conditions)
        return Idle(facts_of(found.answers, asked_s, found.together), notes=notes)


def why(subject: str | int | None = None, *, simulate: str | None = None) -> "Explanation":
    """Explain a GPU, a process or a part of a cluster; without a subject, the last decision."""
    meant, machine = subject_of(subject), machine_of(simulate)
    if isinstance(subject, int):
        meant = f"gpu:{meant}"  # a bare number may be a process on the command line
    from fallow.interfaces.python.answers import Explanation

    with asking(machine) as (asker, notes):
        if meant is not None and _is_of_cluster(meant):
            from fallow.engine.answers.cluster_why import explain_cluster
            from fallow.interfaces.render import cluster_why_text

            part = explain_cluster(asker, meant)
            lines = tuple(cluster_why_text.lines(part, asker.world.clock.wall_s()))
            return Explanation(cluster_why_text.as_json(part), lines, notes=notes)
        from fallow.engine.answers.why import explain
        from fallow.interfaces.render import why_text

        found = explain(asker, meant)
        return Explanation(why_text.as_json(found), why_text.lines(found), notes=notes)


def report(
    since_s: float = _WEEK_S,
    until_s: float = 0.0,
    *,
    by: str = "gpu",
    price: str | Sequence[str] = (),
    simulate: str | None = None,
) -> "Report":
    """Return the hours of each activity since so many seconds ago, until so many ago, and what the idle ones cost.

    `by`: gpu, user, job, day or week. `price`: as on the command line, "2.50/h" or ["H100=2.50/h", "T4=0.40/h"];
    without one, the prices of the config.
    """
    from fallow.core.money import prices_from
    from fallow.engine.answers.report import open_report
    from fallow.interfaces.python.answers import Report
    from fallow.interfaces.render.report_text import facts_of
    from fallow.policies.cost import By

    end_s, machine = seconds("until_s", until_s), machine_of(simulate)
    begin_s = seconds("since_s", since_s, least=_SHORTEST_S)
    if begin_s <= end_s:
        raise WrongUsage(f"since_s is {begin_s:g} and until_s is {end_s:g}", "let it begin before it ends")
    demand("by", by, str, "a text", optional=False)
    if by not in set(By):
        raise WrongUsage(f"by is {by!r}; give one of {', '.join(By)}")
    given = prices_from(texts("price", price))
    with asking(machine) as (asker, notes):
        now_s = asker.world.clock.wall_s()
        with open_report(asker, now_s - begin_s, now_s - end_s, given) as found:
            return Report(facts_of(found, By(by)), notes=notes)


def _is_of_cluster(subject: str) -> bool:
    from fallow.core.cluster_names import names_cluster

    return ":" in subject and names_cluster(subject)


def _watched(every_s: float, machine: str | None) -> "Iterator[Status]":
    from fallow.engine.answers.status import looks

    with asking(machine) as (asker, _):
        for look in looks(asker, every_s):
            yield _status(asker, look, None)


def _status(asker: "Asker", look: "Look", named: str | None) -> "Status":
    from fallow.engine.answers.status import protections_at, shown
    from fallow.interfaces.python.answers import Status
    from fallow.interfaces.render import as_json

    rules = None if look.daemon is None else look.daemon.counting()
    facts = as_json.shown(shown(look, named, asker.world), protections_at(look, asker.world), rules or ())
    return Status(facts)
