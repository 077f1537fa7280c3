"""Parses what a person wants to protect: the machine, a GPU, a process, a user, a job or a part of a cluster."""

from collections.abc import Callable, Sequence

from fallow.core.did_you_mean import did_you_mean
from fallow.core.errors import WrongUsage
from fallow.core.gpu import Gpu
from fallow.core.ports import Depth
from fallow.core.process import ProcessTable
from fallow.core.protections import Everything, OneGpu, OneProcess, OneUser, Target
from fallow.core.selection import select
from fallow.core.units import is_number
from fallow.engine.machine.world import World
from fallow.readers.proc import user_name
from fallow.readers.users import is_user, user_names

_KINDS = ("gpu", "pid", "user")
_KIND_WORDS = {"gpu": "GPU", "pid": "process", "user": "user"}
_EXAMPLES = {
    "gpu": "write gpu:3, or gpu: and a UUID; `fallow status` lists the GPUs",
    "pid": "write pid:12345; `fallow status -l` lists the processes on GPUs",
    "user": "write user:NAME, as user:ada",
}
_OF_A_CLUSTER = "or of a cluster slurm:ID, deployment:NAMESPACE/NAME, node:NAME"
_TO_PROTECT = f"all, a GPU, pid:PID, user:NAME, {_OF_A_CLUSTER}"
_TO_ASK_ABOUT = f"a GPU, pid:PID, user:NAME, {_OF_A_CLUSTER}"


def target_of(text: str, world: World, *, gone_is_fine: bool = False, among: Sequence[Gpu] | None = None) -> Target:
    """Parse `all`, a GPU (`3`, `gpu:3`, a UUID), `pid:123`, `user:ada`, or a part of a cluster, as `slurm:123`.

    With `gone_is_fine` it is only asked about: the process may have ended, and a number that is no GPU is a process.
    The GPUs are those of `among`, or those that one look finds.
    """

    def gpus() -> Sequence[Gpu]:
        return world.gpu_reader.look(Depth.HOLDERS).gpus if among is None else among

    return target_among(text, gpus, world.proc, gone_is_fine=gone_is_fine)


def target_among(
    text: str, gpus: Callable[[], Sequence[Gpu]], table: ProcessTable, *, gone_is_fine: bool = False
) -> Target:
    """Parse the same as `target_of`; `gpus` is called only if a GPU may be meant."""
    kind, colon, rest = text.partition(":")
    if text == "all":
        return Everything()
    if colon and kind in _KINDS and not rest.strip():
        raise WrongUsage(f"{text!r} names no {_KIND_WORDS[kind]}", _EXAMPLES[kind])
    if kind == "user" and rest:
        return _user(rest, gone_is_fine=gone_is_fine)
    if kind == "pid" and rest:
        return _process(rest, table, gone_is_fine=gone_is_fine)
    if colon and kind.isalpha() and kind not in _KINDS:
        from fallow.core.cluster_names import KIND_WORDS, cluster_target, names_cluster

        if names_cluster(text):
            return cluster_target(text)
        way = did_you_mean(kind, (*_KINDS, *KIND_WORDS)) or f"write {_TO_ASK_ABOUT if gone_is_fine else _TO_PROTECT}"
        raise WrongUsage(f"{text!r} names nothing", way)
    word = rest if kind == "gpu" and colon else text
    there = gpus()
    cards = {gpu.mig.parent_uuid for gpu in there if gpu.mig is not None}
    if word in cards:
        return OneGpu(word)
    try:
        meant = select(word, there)
    except WrongUsage as error:
        if not is_number(text):
            raise WrongUsage(
                error.sentence, f"for a user write user:{text}" if is_user(text) else error.way
            ) from None
        if not gone_is_fine:  # somebody who mistypes a GPU must not believe that it is protected
            raise WrongUsage(error.sentence, f"{error.way}; for a process write pid:{text}") from None
        return _process(text, table, gone_is_fine=gone_is_fine)
    parents = {None if gpu.mig is None else gpu.mig.parent_uuid for gpu in meant}
    parent = next(iter(parents))
    if len(meant) > 1 and len(parents) == 1 and isinstance(parent, str):
        return OneGpu(parent)  # a card that is split: all its instances
    if len(meant) != 1 or not isinstance(meant[0].uuid, str):
        way = "name one at a time" if gone_is_fine else "name one at a time, or protect all"
        raise WrongUsage(f"{text!r} is not one GPU that can be named", way)
    return OneGpu(meant[0].uuid)


def _user(text: str, *, gone_is_fine: bool) -> OneUser:
    """Return the user by name; a number is a user too, even without a name."""
    if is_number(text):
        return OneUser(user_name(int(text)))
    if not gone_is_fine and not is_user(text):
        raise WrongUsage(f"there is no user {text!r} on this machine", did_you_mean(text, user_names()))
    return OneUser(text)


def _process(text: str, table: ProcessTable, *, gone_is_fine: bool) -> OneProcess:
    pid, at, birth = text.partition("@")
    if not is_number(pid) or (at and not is_number(birth)):
        raise WrongUsage(f"{text!r} is not a process; write pid:12345")
    stat = table.stat(int(pid))
    if at and (gone_is_fine or (stat is not None and stat.birth == int(birth))):
        return OneProcess(int(pid), int(birth))
    if (stat is None or at) and not gone_is_fine:
        raise WrongUsage(f"there is no process {text}")
    return OneProcess(int(pid), 0 if stat is None else stat.birth)
