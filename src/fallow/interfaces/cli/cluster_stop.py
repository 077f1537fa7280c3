"""`fallow stop slurm:1234`: stop jobs of a cluster by hand, with the rights that the person has there."""

import argparse
from collections.abc import Sequence

from fallow.core.api import VERSION
from fallow.core.cluster import ClusterJob
from fallow.core.cluster_names import cluster_target, names_cluster, subject_of
from fallow.core.cluster_view import GpuState
from fallow.core.errors import NotPermitted, WrongUsage
from fallow.core.protections import ClusterPart, OneClusterJob
from fallow.core.reasons import Reason
from fallow.core.units import printable
from fallow.engine.answers.asker import Asker
from fallow.engine.answers.cluster import cluster_of, note_if_old
from fallow.engine.history.run import open_run
from fallow.engine.machine.world import World
from fallow.engine.stop.cluster_stop import ClusterStop, ClusterStopped, engine_of_key
from fallow.interfaces.cli.stop import agreed_to, demand_terminal
from fallow.interfaces.render.as_json import as_text
from fallow.interfaces.render.stop_text import way_to_release
from fallow.interfaces.signals import interruptible
from fallow.interfaces.stderr import Stderr

_KINDS = "name jobs, as slurm:1234, deployment:NAMESPACE/NAME or pod:NAMESPACE/NAME"


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Find the jobs, ask, stop them, and print what came of each."""
    targets = _targets(args.subjects)
    asks = not (args.yes or args.dry_run)
    if asks:
        demand_terminal(voice)
    with interruptible(), open_run(world, voice.note, dry_run=args.dry_run) as opened:
        stop = ClusterStop(opened, engine_of_key(opened, _key(targets[0])), args.grace)
        jobs = stop.meant(targets)
        left = {job.key: why for job in jobs if (why := _left(args, job, stop, world, voice)) is not None}
        plan = [_planned(job, stop, left.get(job.key)) for job in jobs]
        ready = [job for job in jobs if job.key not in left]
        if asks and ready and not agreed_to(plan, len(ready)):
            opened.say("nothing was stopped")
            return 1
        if args.dry_run:
            _print([_untouched(job, left.get(job.key)) for job in jobs], stop, plan, as_json=args.json, dry_run=True)
            return 1 if left else 0
        came = [
            stop.stop(job) if job.key not in left else ClusterStopped(job, False, str(left[job.key]), left[job.key])
            for job in jobs
        ]
        _print(came, stop, [_result(each) for each in came], as_json=args.json, dry_run=False)
        if any(each.not_permitted for each in came):
            return NotPermitted.exit_code
        return 0 if all(each.gone for each in came) else 1


def _targets(subjects: Sequence[str]) -> list[OneClusterJob | ClusterPart]:
    """Return the jobs that are named; raise WrongUsage for a node, or for jobs of this machine beside them."""
    others = [subject for subject in subjects if not names_cluster(subject)]
    if others:
        raise WrongUsage(
            f"{printable(others[0])!r} is of this machine, and the others of a cluster", "stop each alone"
        )
    found = [cluster_target(subject) for subject in subjects]
    wide = next((each for each in found if isinstance(each, ClusterPart) and each.kind != "pod"), None)
    if wide is not None:
        raise WrongUsage(f"{wide} is not one job", _KINDS)
    if len({_key(each).partition(":")[0] for each in found}) > 1:
        raise WrongUsage("these jobs are of two engines", "stop each alone")
    return found


def _key(target: OneClusterJob | ClusterPart) -> str:
    return target.key if isinstance(target, OneClusterJob) else f"kubernetes:Pod/{target.name}"


def _left(args: argparse.Namespace, job: ClusterJob, stop: ClusterStop, world: World, voice: Stderr) -> Reason | None:
    """Return why a job is left alone: it is protected, or with --idle not known to be idle."""
    why = stop.refusal(job)
    if why is not None or not args.idle:
        return why
    asker = Asker(world, voice.note, voice.detail)
    view = cluster_of(asker, job.key)
    if view.troubles or note_if_old(asker, view) or not view.jobs:
        return Reason("told", sentence="it is not known whether it is idle")
    return None if view.jobs[0].activity is GpuState.IDLE else Reason("told", sentence=view.jobs[0].because)


def _name(job: ClusterJob) -> str:
    return printable(f"{job.user}'s {subject_of(job.key)}" if job.user else subject_of(job.key))


def _planned(job: ClusterJob, stop: ClusterStop, left: Reason | None) -> str:
    if left is not None:
        return printable(f"left alone: {_name(job)}: {_with_way(left)}")
    gpus = f"{job.gpu_count} GPU{'' if job.gpu_count == 1 else 's'}"
    return printable(f"{_name(job)}: {gpus}; would {stop.way(job)}")


def _result(came: ClusterStopped) -> str:
    words = came.words if came.reason is None else _with_way(came.reason)
    return printable(f"{'stopped' if came.gone else 'left'} {_name(came.job)}: {words}")


def _with_way(reason: Reason) -> str:
    way = way_to_release(reason)
    return f"{reason}; {way}" if way else str(reason)


def _untouched(job: ClusterJob, left: Reason | None) -> ClusterStopped:
    return ClusterStopped(job, False, "" if left is None else str(left), left)


def _print(
    came: Sequence[ClusterStopped], stop: ClusterStop, lines: Sequence[str], *, as_json: bool, dry_run: bool
) -> None:
    if not as_json:
        for line in lines:
            print(line)
        return
    jobs = [
        {
            "key": each.job.key,
            "user": each.job.user,
            "gpus": each.job.gpu_count,
            "way": stop.way(each.job),
            "outcome": "stopped" if each.gone else "untouched" if dry_run and each.reason is None else "left",
            "because": each.words,
            "reason": None if each.reason is None else each.reason.kind,
        }
        for each in came
    ]
    print(as_text({"version": VERSION, "dry_run": dry_run, "jobs": jobs, "gpus": []}))
