"""Find what a config asks for and this machine, or the user who runs fallow, cannot do.

`fallow check` and `fallow up` share these checks, so that a problem is reported at once, with its line.
"""

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

from fallow.actuators.host import notice
from fallow.actuators.host.hooks import unreadable
from fallow.actuators.process import py_spy
from fallow.core.account import RunAs
from fallow.core.actions import RunCommand
from fallow.core.did_you_mean import did_you_mean
from fallow.core.errors import FallowError, NoDriver, WrongUsage
from fallow.core.gpu import Gpu
from fallow.core.ports import Depth
from fallow.core.selection import select
from fallow.engine.config.crosschecks import Numbers
from fallow.engine.config.fillers import Filler, Terminals
from fallow.engine.config.messages import Fault, in_words
from fallow.engine.config.model import Config
from fallow.engine.config.persons import PersonFault, judged, shared_token
from fallow.engine.config.rules import Guard, Idle
from fallow.engine.config.toml_lines import Path
from fallow.engine.fill.filler import check_command
from fallow.engine.jobs.perform import each_shortcoming, host_actuators, nobody_to_signal
from fallow.engine.machine.world import World
from fallow.readers.accounts import account, group_names, group_number, names, run_as
from fallow.readers.file_trust import doubt, doubt_of_program

_SAY_WHO = 'add user = "NAME", or user = "root" if it shall be root'


class Feasible:
    """Checks whether this machine can do what a config asks for; given to `load`."""

    def __init__(self, world: World, tell: Callable[[str], None], *, dry_run: bool = False) -> None:
        self._world = world
        self._tell = tell
        self._dry_run = dry_run
        self._judged: dict[object, list[FallowError | None]] = {}
        """The results of checks that start a process, so that each is made once."""

    def __call__(self, config: Config, numbers: Numbers) -> Iterator[Fault]:
        """Yield every fault, at the key to change. Sections that are not enabled are not checked."""
        gpus = self._gpus()
        for number, filler in zip(numbers["filler"], config.filler, strict=True):
            path: Path = ("filler", number)
            if filler.enabled:
                yield from self._filler(path, filler)
                yield from _lists(path, filler.gpus, gpus)
                yield from _unknown((*path, "ignore_user"), filler.ignore_user, may_pass=True)
        for number, rule in zip(numbers["idle"], config.idle, strict=True):
            yield from self._idle(("idle", number), rule, gpus)
        for number, guard in zip(numbers["guard"], config.guard, strict=True):
            if guard.enabled:
                yield from self._guard(("guard", number), guard)
                yield from _lists(("guard", number), guard.gpus, gpus)
        yield from self._notices(("notices", "urls"), config.notices.urls)
        template = config.notices.people.template
        if template is not None:
            yield from self._notices(("notices", "people", "template"), (template.sample,))
        yield from _unknown(("protect", "users"), config.protect.users)
        for place, group in enumerate(config.protect.groups):
            yield from _unknown_group(("protect", "groups", place), group)
        yield from _unknown_group(("machine", "operators"), config.machine.operators, may_pass=True)
        yield from _unknown(("terminals", "ignore_user"), config.terminals.ignore_user, may_pass=True)
        if config.cluster.is_watched:
            yield from _programs_of_others(("cluster", "kubeconfig"), config.cluster.kubeconfig)
            yield from _programs_of_others(("cluster", "slurm_conf"), config.cluster.slurm_conf)
        if config.page.enabled:
            for each in judged(config.page.person, shared_token(config.page.token_file)):
                if isinstance(each, PersonFault):
                    yield Fault(("page", "person", each.number, each.key), each.sentence, each.way)

    def _gpus(self) -> Sequence[Gpu] | None:
        """Return the GPUs of this machine; None if there are none or no driver, and then they are not checked."""
        try:
            return self._world.gpu_reader.look(Depth.ALL).gpus or None
        except NoDriver:
            return None

    def _idle(self, path: Path, rule: Idle, gpus: Sequence[Gpu] | None) -> Iterator[Fault]:
        yield from _unknown((*path, "users"), rule.users)
        missing = py_spy.shortcoming(self._world.environ) if rule.act and rule.dump_stacks else None
        if missing is not None:
            yield from self._unless_dry_run((*path, "dump_stacks"), [missing], dry_run=self._dry_run)
        if rule.act and rule.before is not None:
            if rule.before not in self._judged:
                self._judged[rule.before] = [unreadable(rule.before, self._world.environ)]
            refused = [error for error in self._judged[rule.before] if error is not None]
            yield from self._unless_dry_run((*path, "before"), refused, dry_run=self._dry_run)
        yield from _lists(path, rule.gpus, gpus)

    def _filler(self, path: Path, filler: Filler) -> Iterator[Fault]:
        guise = yield from self._guise(path, filler.user)
        log, cwd = filler.at_home(filler.log), filler.at_home(filler.cwd)
        environ = {**(self._world.environ if guise is None else guise.environ), **filler.env}
        of_command, of_cwd = (*path, "command"), (*path, "cwd")
        if cwd is not None and not os.path.isdir(cwd):
            yield Fault(of_cwd, f"{cwd} is not a folder to run in", "make it, or name another", (of_command,))
        else:
            try:
                check_command(filler.spec(Terminals(), 0.0), environ)
            except FallowError as error:
                yield Fault(of_command, str(error), "", (of_cwd, (*path, "env")))
        if log is not None and "{" not in os.path.dirname(log) and not os.path.isdir(os.path.dirname(log)):
            yield Fault((*path, "log"), f"the folder {os.path.dirname(log)} is not there", "make it, or name another")
        if guise is not None and guise.account is None:
            why = doubt_of_program(filler.command, cwd, environ)
            if why is not None:
                yield Fault(of_command, why.sentence, why.suggestion, ((*path, "user"), of_cwd))

    def _guard(self, path: Path, guard: Guard) -> Iterator[Fault]:
        runs = any(isinstance(action, RunCommand) for action in guard.action)
        guise = (yield from self._guise(path, guard.user)) if runs else None
        dry_run = self._dry_run or guard.dry_run
        environ = self._world.environ if guise is None else guise.environ
        if guard not in self._judged:
            own = host_actuators(self._world, dry_run=dry_run)
            self._judged[guard] = each_shortcoming(guard.action, own, environ, nobody_to_signal)
        for place, error in enumerate(self._judged[guard]):
            if error is not None:
                yield from self._unless_dry_run((*path, "action", place), [error], dry_run=dry_run)

    def _notices(self, path: Path, urls: Sequence[str]) -> Iterator[Fault]:
        if urls not in self._judged:
            self._judged[urls] = list(notice.refusals(self._world.environ, urls))
        refused = [error for error in self._judged[urls] if error is not None]
        yield from self._unless_dry_run(path, refused, dry_run=self._dry_run)

    def _unless_dry_run(self, path: Path, found: Iterable[FallowError], *, dry_run: bool) -> Iterator[Fault]:
        """Yield each error as a fault; in a dry run, which would not act, only report it."""
        for error in found:
            if dry_run:
                self._tell(f"{in_words(path)}: {error}")
            else:
                yield Fault(path, str(error))

    def _guise(self, path: Path, user: str | None) -> Generator[Fault, None, RunAs | None]:
        """Return the user to run as; yield a fault if none is named where one must be, or it cannot be used."""
        me = os.geteuid()
        if user is None:
            if me == 0:
                yield Fault(path, "it does not say whom it runs as, and root's daemon never guesses", _SAY_WHO)
            return None
        found = account(user)
        if found is None:
            yield Fault((*path, "user"), *_no_such(user))
            return None
        if me not in (0, found.uid):
            yield Fault((*path, "user"), f"only root can run it as {user}", "leave it out, or let root run fallow up")
            return None
        return run_as(user, self._world.environ)


def _programs_of_others(path: Path, file: str | None) -> Iterator[Fault]:
    """Yield a fault if root would run the programs, or load the plugins, that a file of others names."""
    why = doubt(file) if file is not None and os.geteuid() == 0 else None
    if why is not None:
        yield Fault(path, why.sentence, why.suggestion)


def _unknown(path: Path, users: Sequence[str], *, may_pass: bool = False) -> Iterator[Fault]:
    """Yield users that do not exist: one that should be spared is a fault, one that should be ignored may pass."""
    for place, user in enumerate(users):
        if account(user) is None and not (user.isascii() and user.isdigit()):
            yield Fault((*path, place), *_no_such(user), may_pass=may_pass)


def _unknown_group(path: Path, group: str | None, *, may_pass: bool = False) -> Iterator[Fault]:
    """Yield a group that does not exist: one to be spared is a fault, one of operators has nobody till then."""
    if group is not None and group_number(group) is None:
        sentence = f"there is no group {group!r} on this machine"
        yield Fault(path, sentence, did_you_mean(group, group_names()), may_pass=may_pass)


def _no_such(user: str) -> tuple[str, str]:
    return f"there is no user {user!r} on this machine", did_you_mean(user, names())


def _lists(path: Path, named: str, gpus: Sequence[Gpu] | None) -> Iterator[Fault]:
    if gpus is None or named == "all":
        return
    try:
        select(named, gpus)
    except WrongUsage as error:
        yield Fault((*path, "gpus"), str(error), may_pass=True)
