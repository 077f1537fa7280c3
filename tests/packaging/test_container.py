"""The image for a node: built from its Containerfile, started as the guide says, and ended by podman."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import urllib.request
from collections.abc import Iterator

import pytest

from tests.conftest import Fallow
from tests.packaging.node_image import IMAGE, build
from tests.places import BIN, LIMIT_S, REPOSITORY
from tests.real_owners import Podman
from tests.waiting import until

pytestmark = pytest.mark.more

GUIDE = (REPOSITORY / "docs/guides/container.md").read_text()
GPUS = "3xL40S"
SIMULATED = {
    "FALLOW_SIMULATE": GPUS,
    "FALLOW_CLAIM_DIR": "/run/lock/fallow",
    "FALLOW_SOCKET": "/run/fallow/fallow.sock",
}
"""Simulated GPUs in the places of real ones, which the guide shares with the machine."""
OWN_PIDS = os.readlink("/proc/self/ns/pid") != "pid:[4026531836]"


def words_of_the_guide() -> list[str]:
    """Return the words of the `podman run` of the guide, without the GPUs, which this machine may not have."""
    (line,) = re.findall(r"^podman run -d (.*?[^\\])\n", GUIDE, re.MULTILINE | re.DOTALL)
    words = shlex.split(line.replace("\\\n", " "))
    at = words.index("--device")
    return words[:at] + words[at + 2 :]


def option(words: list[str], name: str) -> list[str]:
    """Return all values of an option that is written as two words."""
    return [words[at + 1] for at, word in enumerate(words) if word == name]


@pytest.fixture
def podman() -> Iterator[Podman]:
    made = Podman()
    yield made
    made.close()


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
        return str(answer.read().decode())


def checks(text: str) -> dict[str, dict[str, str]]:
    return {each["part"]: each for each in json.loads(text)["checks"]}


@pytest.mark.timeout(1200)
@pytest.mark.engine
def test_a_node_in_a_container_has_its_page_shares_folders_and_ends_in_order(
    podman: Podman, tmp_path: pathlib.Path, fallow: Fallow
) -> None:
    build(podman, tmp_path / "build")
    words = words_of_the_guide()
    assert words.pop() == IMAGE
    for shared in option(words, "-v"):
        source, target = shared.split(":")[:2]
        if source not in ("/etc/passwd", "/etc/group"):  # folders of the test instead of the machine's
            ours = tmp_path / target.strip("/").replace("/", "-")
            ours.mkdir()
            ours.chmod(0o1777 if target == "/run/lock" else 0o755)
            words[words.index(shared)] = f"{ours}:{target}"
    ulimits = [word for word in podman.limits if word not in ("--network", "host")]
    simulated = [word for name, value in SIMULATED.items() for word in ("-e", f"{name}={value}")]
    container = podman("run", "-d", *ulimits, *words, *simulated, IMAGE, "up", "--listen", "127.0.0.1:0")

    # The page answers on the loopback of the machine, and a fallow outside asks the daemon by its socket.
    said = until(lambda: re.search(r"the page is at (http://127\.0\.0\.1:\d+/)", podman.logs(container)), pause_s=0.5)
    assert said is not None
    assert "<html" in get(said[1])
    assert len(json.loads(get(f"{said[1]}api/v1/status"))["gpus"]) == 3
    outside = fallow("doctor", "--json", FALLOW_SIMULATE=GPUS, FALLOW_SOCKET=str(tmp_path / "run-fallow/fallow.sock"))
    assert checks(outside.stdout)["daemon"]["state"] == "ok", outside.stdout

    # Inside, nothing is missing that the guide promises.
    inside = checks(podman("exec", container, "fallow", "doctor", "--json"))
    shared_parts = ("shared claims", "shared socket", "shared state")
    assert [inside[part]["state"] for part in shared_parts] == ["ok"] * 3
    assert inside["container"]["state"] == ("lacking" if OWN_PIDS else "ok")
    assert {"signals", "open files", "daemon", "stacks"} <= {
        part for part, row in inside.items() if row["state"] == "ok"
    }

    # It has what fallow needs to run, and nothing that only builds or installs it.
    asked = "import importlib.metadata as m; print(*(each.name.lower() for each in m.distributions()))"
    has = set(podman("exec", container, "/opt/fallow/bin/python3", "-I", "-c", asked).split())
    only_builds = {"editables", "hatchling", "trove-classifiers", "pathspec", "pluggy", "pip", "setuptools"}
    assert {"fallow", "starlette", "py-spy"} <= has
    assert has & only_builds == set()

    # It is ended by SIGTERM, in its own time, and what it recorded is outside.
    podman("stop", "--time", str(LIMIT_S), container)
    assert podman("inspect", "--format", "{{.State.ExitCode}}", container) == "143", "by SIGTERM, not killed"
    assert podman.logs(container).rstrip().endswith("fallow: ended by SIGTERM")
    assert (tmp_path / "var-lib-fallow/simulated/history.db").exists()
    assert not (tmp_path / "run-fallow/fallow.sock").exists()
    podman("rm", container)

    # Started without any of it, doctor says what is missing, and how to give it.
    alone = podman("run", "-d", *podman.limits, IMAGE, "doctor", "--json")
    assert podman("wait", alone) == "1", "there is no driver"
    found = checks(podman("logs", alone))
    assert "--device nvidia.com/gpu=all" in found["driver"]["remedy"]
    assert "--pid=host" in found["container"]["remedy"]
    assert [found[part]["state"] for part in shared_parts] == ["lacking"] * 3
    given = [found[part]["remedy"].rpartition(" ")[2] for part in shared_parts]
    assert set(given) <= set(option(words_of_the_guide(), "-v"))


def test_a_folder_that_is_not_made_yet_below_a_mount_ends_no_doctor(
    simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    line = f"mount --bind {outside} {outside} && {BIN / 'fallow'} doctor --json || true"
    environ = {**simulated.environ, "container": "podman", "FALLOW_STATE_DIR": str(outside / "state")}
    words = ["unshare", "--mount", "sh", "-c", line]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert done.stdout, done.stderr
    assert checks(done.stdout)["shared state"]["state"] == "ok"


def test_the_guide_says_of_each_mount_and_right_what_it_is_for() -> None:
    words = words_of_the_guide()
    rows = re.findall(r"^\| (`.*?) \| (.{10,}?) \| (.{10,}?) \|$", GUIDE, re.MULTILINE)
    explained = " ".join(first for first, _, _ in rows)
    named = [
        *(shared.partition(":")[0] for shared in option(words, "-v")),
        *option(words, "--cap-add")[0].split(","),
        *("--pid host", "--network host", "--device"),
    ]
    assert [name for name in named if name not in explained] == []
