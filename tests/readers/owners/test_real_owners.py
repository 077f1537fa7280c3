"""Whose a process is, asked of a real Jupyter server and of a real podman."""

import json
import os
import pathlib

import pytest

from fallow.core.owner import Owner, OwnerKind
from fallow.core.unknown import Unknown
from fallow.engine.machine.world import World
from fallow.engine.owners.contact import Contact, contact
from fallow.readers.owners.traces import trace
from tests.conftest import Fallow
from tests.real_owners import Jupyter, Podman, eventually

pytestmark = pytest.mark.engine


def owner_of(world: World, pid: int) -> Owner:
    found = trace(world.proc, pid)
    assert isinstance(found, Owner)
    return found


def reached(world: World, owner: Owner, pid: int) -> Contact:
    found = contact(world, owner, pid)
    assert isinstance(found, Contact), found
    return found


@pytest.mark.more
def test_a_kernel_is_its_notebooks_and_is_ended_by_its_server_and_not_restarted(
    jupyter: Jupyter, fallow: Fallow
) -> None:
    world = World(fallow.environ)
    kernel, pid = jupyter.open("proj/train.ipynb")
    owner = owner_of(world, pid)
    assert (owner.kind, owner.id, owner.manager) == (OwnerKind.NOTEBOOK, kernel, os.geteuid())
    its = reached(world, owner, pid)
    path = str(jupyter.notebooks / "proj/train.ipynb")
    assert (its.facts.name, its.facts.path, its.facts.busy) == ("train.ipynb", path, False)
    assert its.stop(5.0).ok
    eventually(lambda: world.proc.stat(pid) is None, "the end of the kernel")
    assert jupyter.kernels() == []
    assert jupyter.pid_of(kernel) is None


@pytest.mark.more
def test_a_server_that_refuses_its_token_is_unknown_in_one_sentence(jupyter: Jupyter, fallow: Fallow) -> None:
    world = World(fallow.environ)
    _, pid = jupyter.open("train.ipynb")
    jupyter.file.write_text(json.dumps({**json.loads(jupyter.file.read_text()), "token": "wrong"}))
    assert contact(world, owner_of(world, pid), pid) == Unknown("the Jupyter server refused its own token (403)")


@pytest.mark.more
def test_a_container_has_a_name_labels_and_is_stopped_by_its_engine_for_good(podman: Podman, fallow: Fallow) -> None:
    world = World({**fallow.environ, "FALLOW_CONTAINER_ENGINE": f"unix://{podman.socket}"})
    labels = ("--label", "fallow.protect=yes", "--label", "com.docker.compose.service=web")
    container, pid = podman.run("vllm-prod", "--restart=always", *labels)
    owner = owner_of(world, pid)
    assert (owner.kind, owner.id) == (OwnerKind.CONTAINER, container)
    its = reached(world, owner, pid)
    assert (its.facts.name, its.facts.service) == ("vllm-prod", "web")
    assert its.facts.labels["fallow.protect"] == "yes"
    assert its.facts.pids == {pid}
    os.kill(pid, 9)
    again = eventually(lambda: (now := podman.pid_of(container)) != pid and now, "the restart of the container")
    assert reached(world, owner, again).stop(0.0).ok
    eventually(lambda: world.proc.stat(again) is None, "the end of the container")
    assert podman.pid_of(container) == 0


@pytest.mark.more
def test_an_engine_that_is_not_there_leaves_the_container_unknown(
    podman: Podman, fallow: Fallow, tmp_path: pathlib.Path
) -> None:
    world = World({**fallow.environ, "FALLOW_CONTAINER_ENGINE": str(tmp_path / "nothing.sock")})
    _, pid = podman.run("vllm-prod")
    assert contact(world, owner_of(world, pid), pid) == Unknown("no container engine's socket is here")
