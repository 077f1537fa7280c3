"""Which jobs a person means by a word: what it names, and what it never names."""

import os

import pytest

from fallow.core.errors import WrongUsage
from fallow.core.gpu import MigPlace
from fallow.core.job import GpuKey, Job
from fallow.core.owner import NO_OWNER, Owner, OwnerKind
from fallow.core.process import Process
from fallow.core.protections import Everything, OneProcess, OneUser
from fallow.core.unknown import Unknown
from fallow.engine.allocate.job_subject import JobSubject, NamedOwner, SomeGpus, concerns, job_subject
from fallow.readers.proc import Proc
from tests.core.gpus import held, idle

CARDS = [idle(0), held(1), idle(2)]
VLLM = Owner(OwnerKind.CONTAINER, "4f1e" * 16, "vllm-prod")
OLLAMA = Owner(OwnerKind.SERVICE, "ollama.service", "ollama.service")
NOTEBOOK = Owner(OwnerKind.NOTEBOOK, "a-kernel", "train.ipynb")


def parse(text: str) -> JobSubject:
    return job_subject(text, lambda: CARDS, Proc(), "ada")


def job(user: str = "ada", pid: int = 100, gpus: tuple[int, ...] = (1,), owner: Owner = NO_OWNER) -> Job:
    keys = tuple(GpuKey("box", str(idle(index).uuid)) for index in gpus)
    return Job((user, pid), user, {Process(pid, 7): "python train.py"}, keys, frozenset({pid}), owner=owner)


def test_gpus_are_named_by_index_list_range_and_uuid() -> None:
    assert parse("1") == parse("gpu:1") == parse(str(CARDS[1].uuid)) == SomeGpus(frozenset({str(CARDS[1].uuid)}), "1")
    both = parse("0-1")
    assert concerns(both, job())
    assert not concerns(both, job(gpus=(2,)))
    assert concerns(parse("0,2"), job(gpus=(1, 2)))


def test_a_number_that_is_a_gpu_is_the_gpu_and_any_other_is_a_process() -> None:
    me = os.getpid()
    stat = Proc().stat(me)
    assert stat is not None
    assert isinstance(parse("1"), SomeGpus)
    assert parse("pid:1") == OneProcess(1, getattr(Proc().stat(1), "birth", 0))
    assert parse(str(me)) == parse(f"pid:{me}") == OneProcess(me, stat.birth)


def test_a_process_is_meant_with_its_birth_so_that_one_of_the_same_number_is_another() -> None:
    assert concerns(OneProcess(100, 7), job())
    assert not concerns(OneProcess(100, 8), job())


def test_mine_are_those_of_the_one_who_asks_and_a_user_is_known_by_name() -> None:
    assert parse("mine") == parse("user:ada") == OneUser("ada")
    assert concerns(parse("mine"), job())
    assert not concerns(parse("mine"), job(user="bob"))
    assert parse("all") == Everything()


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
    parts = [idle(0, uuid=f"MIG-{slot}", mig=MigPlace(slot, "GPU-card", slot)) for slot in (0, 1)]
    by_card = job_subject("GPU-card", lambda: parts, Proc(), "ada")
    assert (
        by_card
        == job_subject("0", lambda: parts, Proc(), "ada")
        == SomeGpus(frozenset({"MIG-0", "MIG-1"}), "0:0,0:1")
    )


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("contaner:x", "did you mean container?"),
        ("container:", "write it as container:NAME"),
        ("pid:soon", "is not a process"),
        ("tmux:0", "write a GPU, pid:PID"),
        ("slurm:2", "is of a cluster, and this is about jobs of this machine; write a GPU, pid:PID"),
        ("0-9", "there is no GPU 3 here"),
        ("min", "did you mean mine?"),
        ("nonsense", "write a GPU, pid:PID"),
        ("GPU-zzz", "there are 0, 1, 2"),
        ("", "there are 0, 1, 2"),
    ],
)
def test_what_can_mean_nothing_is_refused_with_what_to_write(word: str, says: str) -> None:
    with pytest.raises(WrongUsage, match=says.replace("?", r"\?")):
        parse(word)


def test_a_gpu_whose_uuid_is_not_known_cannot_be_named() -> None:
    with pytest.raises(WrongUsage, match="its UUID is unknown"):
        job_subject("0", lambda: [idle(0, uuid=Unknown("lost"))], Proc(), "ada")
