"""A process is in the cgroup of a container or a unit only by its whole name, and in a kernel by its own words."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from fallow.core.http import Endpoint, HttpAnswer
from fallow.core.owner import Owner, OwnerKind
from fallow.core.unknown import Unknown
from fallow.readers.owners import containers
from fallow.readers.owners.traces import container_cgroup, trace
from fallow.readers.owners.units import unit_cgroup
from fallow.readers.proc import Proc
from tests.places import LIMIT_S

CONTAINER = "3f2b" * 16


def in_cgroup(root: pathlib.Path, pid: int, raw: bytes) -> None:
    """Put a process into a /proc, with what the kernel says of its cgroup."""
    (root / str(pid)).mkdir()
    (root / str(pid) / "cgroup").write_bytes(raw)


# What str.splitlines takes for the end of a line; no cgroup can have a line feed in its name.
@pytest.mark.parametrize("end", ["\v", "\x1c", "\x85", "\u2028"], ids=ascii)
def test_a_cgroup_whose_name_pretends_to_be_another_line_is_no_unit(tmp_path: pathlib.Path, end: str) -> None:
    in_cgroup(tmp_path, 7, f"0::/mine/a{end}0::/system.slice/postgresql.service\n".encode())
    owner = trace(Proc(str(tmp_path)), 7)
    assert isinstance(owner, Owner)
    assert owner.kind is not OwnerKind.SERVICE
    assert unit_cgroup(Proc(str(tmp_path)), 7, "postgresql.service") != "/system.slice/postgresql.service"


def test_a_cgroup_with_more_in_its_name_than_the_containers_is_another_one(tmp_path: pathlib.Path) -> None:
    in_cgroup(tmp_path, 7, f"0::/mine/docker-{CONTAINER}.scope\n".encode())
    in_cgroup(tmp_path, 8, f"0::/mine/docker-{CONTAINER}.scope-mine\n".encode())
    proc = Proc(str(tmp_path))
    assert container_cgroup(proc, 7, CONTAINER) != container_cgroup(proc, 8, CONTAINER)


def test_a_process_in_a_cgroup_with_the_name_of_another_container_is_not_its(tmp_path: pathlib.Path) -> None:
    """A user who may make cgroups could otherwise have another user's container stopped."""
    in_cgroup(tmp_path, 7, f"0::/mine/libpod-{CONTAINER}\n".encode())
    in_cgroup(tmp_path, 8, f"0::/machine.slice/libpod-{CONTAINER}\n".encode())
    said = HttpAnswer(200, json.dumps({"Id": CONTAINER, "Name": "web", "State": {"Pid": 8}, "Config": {}}).encode())

    def asked_about(pid: int) -> object:
        engine = iter([Endpoint("/run/docker.sock")])
        return containers.ask_about(lambda *_: said, Proc(str(tmp_path)), pid, CONTAINER, engine, 2.0)

    assert asked_about(7) == Unknown("the engine's container is in another cgroup than the process")
    its = asked_about(8)
    assert isinstance(its, containers.Container)
    assert its.facts.pids == {8}


def test_a_kernel_is_found_by_the_file_in_its_words(tmp_path: pathlib.Path) -> None:
    kernel = "14489c42-a288-4893-b758-511312669828"
    program = "print('up', flush=True); input()"
    words = [sys.executable, "-S", "-c", program, "-f", str(tmp_path / f"kernel-{kernel}.json")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        owner = trace(Proc(), process.pid)
        assert isinstance(owner, Owner)
        assert (owner.kind, owner.id, owner.manager) == (OwnerKind.NOTEBOOK, kernel, os.geteuid())
        process.communicate("\n", timeout=LIMIT_S)
