"""Find keys of the config that contradict each other."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from fallow.engine.config.cluster import Cluster, ClusterIdle
from fallow.engine.config.fillers import Filler
from fallow.engine.config.gpu_lists import may_share
from fallow.engine.config.messages import Fault
from fallow.engine.config.model import Config, Page
from fallow.engine.config.rules import Guard, Idle
from fallow.engine.config.toml_lines import Path
from fallow.policies.idle import When

Numbers = Mapping[str, Sequence[int]]
"""For each section that may occur several times: the positions in the file of those that could be read."""

_MOST_PERSONS = 64


def contradictions(config: Config, numbers: Numbers) -> Iterator[Fault]:
    """Yield every contradiction, with the path of the key to change."""
    fillers = list(zip(numbers["filler"], config.filler, strict=True))
    rules = list(zip(numbers["idle"], config.idle, strict=True))
    guards = list(zip(numbers["guard"], config.guard, strict=True))
    yield from _same_names("filler", fillers)
    yield from _same_names("idle", rules)
    yield from _same_names("guard", guards)
    yield from _same_cards([(number, filler) for number, filler in fillers if filler.enabled])
    for number, rule in rules:
        yield from _idle_rule(("idle", number), rule)
    for number, guard in guards:
        yield from _guard(("guard", number), guard)
    yield from _page(config.page)
    yield from _cluster(config.cluster)


def _same_names(section: str, named: Iterable[tuple[int, Filler | Idle | Guard]]) -> Iterator[Fault]:
    first: dict[str, int] = {}
    for number, one in named:
        before = first.setdefault(one.name, number)
        if before != number:
            sentence, others = f"{section}[{before + 1}] is called {one.name!r} too", ((section, before, "name"),)
            yield Fault((section, number, "name"), sentence, "give each a name of its own", others)


def _same_cards(fillers: Sequence[tuple[int, Filler]]) -> Iterator[Fault]:
    """Yield fillers that may take GPUs from one that needs all of its GPUs at once, which would then never start."""
    for place, (number, later) in enumerate(fillers):
        for before, earlier in fillers[:place]:
            together = later.together or earlier.together
            if together and later.priority == earlier.priority and may_share(later.gpus, earlier.gpus):
                yield Fault(
                    ("filler", number, "priority"),
                    f"{earlier.name!r} has the same priority and shares cards with it, and one of them needs all"
                    " of its cards together",
                    "give one a higher priority, or each its own gpus",
                    tuple(
                        ("filler", one, key)
                        for one in (before, number)
                        for key in ("gpus", "priority", "together", "enabled")
                    ),
                )


def _idle_rule(path: Path, rule: Idle) -> Iterator[Fault]:
    both = ((*path, "idle_for"), (*path, "stuck_for"))
    if rule.idle_for is None and rule.stuck_for is None:
        yield Fault(path, "it looks for nothing", 'add idle_for = "2h", or stuck_for = "1h", or both', both)
    elif rule.idle_for is None and rule.when is When.WANTED:
        sentence = "it is about idle jobs alone, and this rule looks for jobs that hang"
        yield Fault((*path, "when"), sentence, 'add idle_for = "2h", or leave it out', both)
    if rule.unless and rule.idle_for is None:
        sentence = "conditions are about idle jobs, and this rule looks only for jobs that hang"
        yield Fault((*path, "unless"), sentence, 'add idle_for = "2h", or leave unless out', both)
    elif rule.idle_for is None and "stop" not in rule.action:
        sentence = "a job that hangs does not come to rest, so it cannot be parked"
        yield Fault((*path, "action"), sentence, 'write action = "stop", or add idle_for', both)
    if rule.before is None:
        given = (("before_limit", "before_limit" in rule.model_fields_set), ("before_as_root", rule.before_as_root))
        for key in [key for key, is_given in given if is_given]:
            sentence, remedy = "there is no command that it could be about", 'add before = "run:COMMAND"'
            yield Fault((*path, key), sentence, f"{remedy}, or leave it out", ((*path, "before"),))
    times = [time_s for time_s in (rule.idle_for, rule.stuck_for) if time_s is not None]
    if rule.warn_before is not None and times and rule.warn_before >= min(times):
        sentence = "the warning would come before there is anything to warn of"
        yield Fault((*path, "warn_before"), sentence, "make it shorter than idle_for and stuck_for", both)
    if rule.warn_signal == rule.signal:
        sentence = f"SIG{rule.signal} already asks the job to end"
        yield Fault((*path, "warn_signal"), sentence, "name another, as USR1", ((*path, "signal"),))


def _guard(path: Path, guard: Guard) -> Iterator[Fault]:
    for found in guard.rules(longest_gap_s=0.0).check():
        at: Path = (*path, found.key) if found.place is None else (*path, found.key, found.place)
        yield Fault(at, found.sentence, found.remedy, () if found.rests_on is None else ((*path, found.rests_on),))


def _page(page: Page) -> Iterator[Fault]:
    if len(page.person) > _MOST_PERSONS:
        yield Fault(("page", "person"), f"the page knows at most {_MOST_PERSONS} persons", "leave some out")
    for number, person in enumerate(page.person):
        before = next((at for at, other in enumerate(page.person[:number]) if other.user == person.user), None)
        if before is not None:
            sentence = f"page.person[{before + 1}] is {person.user!r} too"
            yield Fault(("page", "person", number, "user"), sentence, "name each person once")
    if page.enabled and not page.has_token and page.needs_token:
        others = (("page", "token_file"), ("page", "enabled"))
        remedy = 'add token_file = "/etc/fallow/token", or '
        if page.listen.is_loopback:
            sentence = f"{page.hosts[0]} may be reached from other machines, and there is no token_file"
            yield Fault(("page", "hosts"), sentence, f"{remedy}leave out hosts", others)
        else:
            sentence = f"{page.listen} can be reached from other machines, and there is no token_file"
            yield Fault(("page", "listen"), sentence, f"{remedy}listen on 127.0.0.1:8990", others)


def _cluster(cluster: Cluster) -> Iterator[Fault]:
    path: Path = ("cluster",)
    if cluster.engine is None and cluster.enabled and cluster.model_fields_set:
        key, sentence = min(cluster.model_fields_set), "no engine is named, so no cluster is looked at"
        yield Fault((*path, key), sentence, 'add engine = "slurm", or engine = "kubernetes"', ((*path, "engine"),))
    if cluster.kubeconfig is not None and cluster.engine == "slurm":
        sentence = "it is about Kubernetes, and the engine is Slurm"
        yield Fault((*path, "kubeconfig"), sentence, "leave it out", ((*path, "engine"),))
    if cluster.slurm_conf is not None and cluster.engine == "kubernetes":
        sentence = "it is about Slurm, and the engine is Kubernetes"
        yield Fault((*path, "slurm_conf"), sentence, "leave it out", ((*path, "engine"),))
    if cluster.background and cluster.engine == "kubernetes":
        sentence = "only Slurm has partitions, and the engine is Kubernetes"
        yield Fault((*path, "background"), sentence, "leave it out", ((*path, "engine"),))
    if cluster.token_file is not None and cluster.prometheus is None:
        sentence = "there is no Prometheus that it could be for"
        yield Fault((*path, "token_file"), sentence, "add prometheus = URL", ((*path, "prometheus"),))
    first: dict[str, int] = {}
    for number, rule in enumerate(cluster.idle):
        here: Path = (*path, "idle", number)
        before = first.setdefault(rule.name, number)
        if before != number:
            sentence = f"cluster.idle[{before + 1}] is called {rule.name!r} too"
            yield Fault((*here, "name"), sentence, "give each a name of its own")
        yield from _cluster_rule(here, rule, cluster)


def _cluster_rule(path: Path, rule: ClusterIdle, cluster: Cluster) -> Iterator[Fault]:
    if rule.act and cluster.prometheus is None:
        sentence = "without metrics nothing is known to be idle, so nothing would ever be stopped"
        way = 'add prometheus = "http://127.0.0.1:9090" under [cluster]'
        yield Fault((*path, "act"), sentence, way, (("cluster", "prometheus"),))
    if rule.warn_before is not None and rule.warn_before >= rule.idle_for:
        sentence = "the warning would come before there is anything to warn of"
        yield Fault((*path, "warn_before"), sentence, "make it shorter than idle_for", ((*path, "idle_for"),))
    if rule.idle_for < 2 * cluster.every:
        sentence = f"the cluster is looked at every {cluster.every:g} s, which is too seldom for it"
        yield Fault((*path, "idle_for"), sentence, "make it longer, or every shorter", (("cluster", "every"),))
    slurm, kubernetes = ("partitions", "accounts", "qos", "users"), ("namespaces",)
    wrong = {"slurm": kubernetes, "kubernetes": slurm}.get(cluster.engine or "", ())
    for key in (key for key in wrong if getattr(rule, key)):
        sentence = f"{'Slurm' if cluster.engine == 'slurm' else 'Kubernetes'} has none of these"
        yield Fault((*path, key), sentence, "leave it out", (("cluster", "engine"),))
    if rule.action == "requeue" and cluster.engine == "kubernetes":
        sentence = "only Slurm has a queue to put a job back into"
        yield Fault((*path, "action"), sentence, 'write action = "stop"', (("cluster", "engine"),))
