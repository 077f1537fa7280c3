"""Which jobs a person means by a word: what it names, and what it never names."""

import os

import pytest

from fallow.core.errors import WrongUsage
from fallow.core.gpu import Gpu, Holder, MigPlace
from fallow.core.job import GpuKey, Job
from fallow.core.owner import NO_OWNER, Owner, OwnerKind
from fallow.core.process import Process
from fallow.core.protections import ClusterPart, Everything, OneClusterJob, OneGpu, OneProcess, OneUser
from fallow.core.reservations import Claim
from fallow.core.unknown import Unknown
from fallow.engine.allocate.subjects import (
    OF_ANOTHER,
    TO_ASK_IDLE,
    TO_EXPLAIN,
    TO_PROTECT,
    TO_STOP,
    TO_WAKE,
    JobSubject,
    NamedOwner,
    SomeGpus,
    Takes,
    job_subject,
    matches,
    target_of,
    who_claimed,
    who_holds,
    who_is,
)
from fallow.readers.proc import Proc
from tests.core.gpus import held, idle

CARDS = [idle(0), held(1), idle(2)]
PARTS = [idle(0, uuid=f"MIG-{slot}", mig=MigPlace(slot, "GPU-card", slot)) for slot in (0, 1)]
VLLM = Owner(OwnerKind.CONTAINER, "4f1e" * 16, "vllm-prod")
OLLAMA = Owner(OwnerKind.SERVICE, "ollama.service", "ollama.service")
NOTEBOOK = Owner(OwnerKind.NOTEBOOK, "a-kernel", "train.ipynb")
ME, GONE = os.getpid(), 999999999


def parse(text: str, takes: Takes = TO_STOP, gpus: list[Gpu] = CARDS) -> JobSubject:
    return job_subject(text, takes, lambda: gpus, Proc(), "ada")


def target(text: str, takes: Takes = TO_PROTECT, gpus: list[Gpu] = CARDS) -> object:
    return target_of(text, takes, lambda: gpus, Proc(), "ada")


def job(user: str = "ada", pid: int = 100, gpus: tuple[int, ...] = (1,), owner: Owner = NO_OWNER) -> Job:
    keys = tuple(GpuKey("box", str(idle(index).uuid)) for index in gpus)
    return Job((user, pid), user, {Process(pid, 7): "python train.py"}, keys, frozenset({pid}), owner=owner)


def concerns(subject: JobSubject, meant: Job) -> bool | None:
    return matches(subject, who_is(meant))


def test_gpus_are_named_by_index_list_range_and_uuid() -> None:
    uuid = str(CARDS[1].uuid)
    assert parse("1") == parse("gpu:1") == parse(uuid) == SomeGpus(frozenset({uuid}), "1", uuid)
    assert target("1") == OneGpu(uuid)
    assert concerns(parse("0-1"), job())
    assert not concerns(parse("0-1"), job(gpus=(2,)))
    assert concerns(parse("0,2"), job(gpus=(1, 2)))


def test_a_number_that_is_a_gpu_is_the_gpu_and_any_other_may_be_a_process() -> None:
    stat = Proc().stat(ME)
    assert stat is not None
    assert isinstance(parse("1"), SomeGpus)
    assert parse("pid:1") == OneProcess(1, getattr(Proc().stat(1), "birth", 0))
    assert parse(str(ME)) == parse(f"pid:{ME}") == parse(f"pid:{ME}@{stat.birth}") == OneProcess(ME, stat.birth)
    for takes in (TO_PROTECT, TO_ASK_IDLE):
        with pytest.raises(WrongUsage, match=f"there is no GPU '{ME}' here; .*; for a process write pid:{ME}"):
            target(str(ME), takes)


@pytest.mark.parametrize("takes", [TO_STOP, TO_WAKE, TO_ASK_IDLE, TO_PROTECT, TO_EXPLAIN, OF_ANOTHER])
@pytest.mark.parametrize("word", [f"pid:{GONE}", str(GONE), "user:nosuch"])
def test_what_is_gone_is_taken_only_where_it_may_be(takes: Takes, word: str) -> None:
    kind = word.partition(":")[0] if ":" in word else "number"
    if kind in takes.gone:
        assert target(word, takes) == (OneUser("nosuch") if kind == "user" else OneProcess(GONE, 0))
    else:
        with pytest.raises(WrongUsage, match="there is no "):
            target(word, takes)


def test_a_process_is_meant_with_its_birth_so_that_one_of_the_same_number_is_another() -> None:
    assert concerns(OneProcess(100, 7), job())
    assert not concerns(OneProcess(100, 8), job())


def test_mine_are_those_of_the_one_who_asks_and_a_user_is_known_by_name() -> None:
    assert parse("mine") == parse("user:ada", OF_ANOTHER) == OneUser("ada")
    assert concerns(parse("mine"), job())
    assert not concerns(parse("mine"), job(user="bob"))
    assert parse("all") == target("all") == Everything()


def test_of_who_holds_or_has_claimed_a_gpu_it_may_be_unknown_whether_they_are_meant() -> None:
    mine, unseen = Holder(ME, 0, user="ada", owner=VLLM), Holder(ME, 0)
    above, nobody = OneProcess(os.getppid(), 0), Claim(shared=False)
    claimed = Claim(shared=False, user="ada", pid=ME)
    for subject, holder in ((OneUser("ada"), True), (OneUser("bob"), False), (parse("container:vllm-prod"), True)):
        assert matches(subject, who_holds(mine, Proc())) is holder
        assert matches(subject, who_holds(unseen, Proc())) is None
    assert matches(above, who_holds(unseen, Proc())) is True
    assert matches(above, who_claimed(claimed, Proc())) is True
    assert matches(OneUser("ada"), who_claimed(claimed, Proc())) is True
    assert matches(above, who_claimed(nobody, Proc())) is None
    assert matches(parse("container:vllm-prod"), who_claimed(nobody, Proc())) is False


def test_a_part_of_a_cluster_can_be_protected() -> None:
    assert target("slurm:2") == OneClusterJob("slurm:2")
    assert target("node:n1") == ClusterPart("node", "n1")


@pytest.mark.parametrize(
    ("word", "owner"),
    [
        ("container:vllm-prod", VLLM),
        ("container:4f1e4f1e", VLLM),
        ("unit:ollama", OLLAMA),
        ("unit:ollama.service", OLLAMA),
        ("notebook:train.ipynb", NOTEBOOK),
        ("notebook:train", NOTEBOOK),
    ],
)
def test_an_owner_is_known_by_its_name_and_a_container_by_how_its_id_begins(word: str, owner: Owner) -> None:
    assert isinstance(parse(word), NamedOwner)
    assert concerns(parse(word), job(owner=owner))
    assert not concerns(parse(word), job())


def test_an_owner_of_another_kind_or_one_that_has_not_said_its_name_is_not_meant() -> None:
    assert not concerns(parse("unit:vllm-prod"), job(owner=VLLM))
    assert not concerns(parse("container:4f1"), job(owner=VLLM))
    silent = Owner(OwnerKind.CONTAINER, "4f1e" * 16, Unknown("it does not answer"))
    assert not concerns(parse("container:vllm-prod"), job(owner=silent))


def test_all_instances_of_a_split_card_are_meant_by_the_card() -> None:
    both = SomeGpus(frozenset({"MIG-0", "MIG-1"}), "0:0,0:1", "GPU-card")
    assert parse("GPU-card", gpus=PARTS) == parse("0", gpus=PARTS) == both
    assert target("0", gpus=PARTS) == target("GPU-card", gpus=PARTS[:1]) == OneGpu("GPU-card")
    assert target("0:1", gpus=PARTS) == OneGpu("MIG-1")


@pytest.mark.parametrize(
    ("takes", "word", "says"),
    [
        (TO_STOP, "contaner:x", "did you mean container?"),
        (TO_STOP, "container:", "write it as container:NAME"),
        (TO_STOP, "pid:soon", "is not a process"),
        (TO_STOP, "tmux:0", "write a GPU, pid:PID"),
        (TO_STOP, "slurm:2", "is of a cluster, and this is about jobs of this machine; write a GPU, pid:PID"),
        (TO_STOP, "0-9", "there is no GPU 3 here"),
        (TO_STOP, "min", "did you mean mine?"),
        (TO_STOP, "nonsense", "write a GPU, pid:PID"),
        (TO_STOP, "root", "for a user write user:root"),
        (TO_STOP, "GPU-zzz", "there are 0, 1, 2"),
        (TO_STOP, "", "there are 0, 1, 2"),
        (TO_PROTECT, "0,1", "is not one GPU that can be named; name one at a time, or all"),
        (TO_PROTECT, "mine", "'mine' names nothing here; write all, a GPU"),
        (TO_PROTECT, "unit:ollama", "'unit:ollama' names nothing; write all, a GPU"),
        (TO_EXPLAIN, "all", "'all' names nothing here; write a GPU"),
    ],
)
def test_what_can_mean_nothing_is_refused_with_what_to_write(takes: Takes, word: str, says: str) -> None:
    with pytest.raises(WrongUsage, match=says.replace("?", r"\?")):
        target(word, takes)


def test_a_gpu_whose_uuid_is_not_known_cannot_be_named() -> None:
    with pytest.raises(WrongUsage, match="its UUID is unknown"):
        parse("0", gpus=[idle(0, uuid=Unknown("lost"))])
