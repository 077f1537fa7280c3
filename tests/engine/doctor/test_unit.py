"""The unit for systemd is sound, gives away what fallow does not need, and leaves what it does."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

from tests.actuators.claims.test_users import ADA, Users
from tests.conftest import Fallow
from tests.interfaces.socket.conftest import start_daemon  # noqa: F401  a fixture
from tests.places import BIN, LIMIT_S, REPOSITORY

MOST_EXPOSED = 4.0
SHIPPED = (REPOSITORY / "src" / "fallow" / "examples" / "fallow.service").read_text()


def settings() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", SHIPPED, re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


@pytest.fixture
def unit(fallow: Fallow, tmp_path: pathlib.Path) -> pathlib.Path:
    printed = fallow("doctor", "--unit")
    assert printed.returncode == 0
    file = tmp_path / "fallow.service"
    file.write_text(printed.stdout)
    return file


def test_a_unit_is_never_printed_in_place_of_json(fallow: Fallow) -> None:
    done = fallow("doctor", "--unit", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--json is only for the checks; leave it out" in done.stderr


def test_who_could_change_what_root_would_run_is_told(tmp_path: pathlib.Path) -> None:
    """A unit of root that starts a file of ada's makes her root; so does one that all may write to."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "fallow").write_text(f"#!{sys.executable}\nfrom fallow.interfaces.cli import entry\nentry()\n")
    (bin_folder / "fallow").chmod(0o755)
    bin_folder.chmod(0o777)
    printed = subprocess.run(
        [bin_folder / "fallow", "doctor", "--unit"], capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    assert f"ExecStart={bin_folder}/fallow up" in printed.stdout
    assert "who can change this fallow becomes root by that unit; let root install one" in printed.stderr


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    return subprocess.run(
        ["systemd-analyze", *words],
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_it_starts_this_very_fallow(unit: pathlib.Path) -> None:
    (program,) = re.findall(r"^ExecStart=(\S+) up$", unit.read_text(), re.MULTILINE)
    assert program == shutil.which("fallow", path=str(pathlib.Path(sys.executable).parent))


def test_it_starts_a_fallow_whose_path_has_spaces_and_a_per_cent_sign(fallow: Fallow, tmp_path: pathlib.Path) -> None:
    """systemd would start the first word of the path, as root, and expand what a per cent sign begins."""
    program = tmp_path / "Größe und 100%i" / "fallow"
    program.parent.mkdir()
    program.symlink_to(BIN / "fallow")
    text, _ = fallow.start_other(str(program), "doctor", "--unit").communicate(timeout=LIMIT_S)
    assert r"/Größe\x20und\x20100%%i/fallow up" in text
    unit = tmp_path / "fallow.service"
    unit.write_text(text)
    assert analyze("verify", "--recursive-errors=no", str(unit)).stderr == ""
    program.unlink()
    assert f"Command {program} is not executable" in analyze("verify", str(unit)).stderr


def test_systemd_finds_no_mistake_in_it(unit: pathlib.Path) -> None:
    done = analyze("verify", "--recursive-errors=no", str(unit))
    assert (done.returncode, done.stderr) == (0, "")


def test_it_is_not_much_exposed(unit: pathlib.Path) -> None:
    done = analyze("security", "--offline=true", "--no-pager", str(unit))
    (level,) = re.findall(r"Overall exposure level for \S+ ([\d.]+)", done.stdout)
    assert float(level) < MOST_EXPOSED


def test_its_folders_are_those_that_fallow_looks_in() -> None:
    from fallow.engine.client.socket_path import sockets_to_ask

    assert sockets_to_ask({}) == [f"/run/{settings()['RuntimeDirectory'][0]}/fallow.sock"]
    assert settings()["StateDirectory"] == ["fallow"]
    assert settings()["PrivateTmp"] == ["no"], "claims may be in /tmp"
    assert "-/run/lock" in settings()["ReadWritePaths"][0].split()


def with_its_rights(*words: str) -> list[str]:
    """Root with the capabilities that the unit leaves, and no others."""
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    kept = [name.removeprefix("CAP_").lower() for name in settings()["CapabilityBoundingSet"][0].split()]
    return ["setpriv", f"--bounding-set=-all,{','.join(f'+{name}' for name in kept)}", "--no-new-privs", *words]


@pytest.mark.as_root
def test_its_capabilities_are_enough_to_see_and_stop_what_others_run() -> None:
    program = (
        "import json, os, signal, sys\n"
        "from fallow.readers.proc import Proc\n"
        "pid = int(sys.argv[1])\n"
        "seen = Proc().open_counts(pid, ['/dev/null']), (Proc().environ(pid) or {}).get('FALLOW_MARK')\n"
        "print(json.dumps(seen)); os.kill(pid, signal.SIGTERM)\n"
    )
    with subprocess.Popen(
        ["sleep", "600"], user=ADA, group=ADA, extra_groups=[], stdin=subprocess.DEVNULL, env={"FALLOW_MARK": "ada"}
    ) as job:
        words = with_its_rights(sys.executable, "-c", program, str(job.pid))
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr
        counts, mark = json.loads(done.stdout)
        assert counts["/dev/null"] >= 1
        assert mark == "ada"
        assert job.wait(LIMIT_S) == -signal.SIGTERM


@pytest.mark.as_root
def test_its_capabilities_are_enough_to_hold_in_the_name_of_others(open_folder: pathlib.Path) -> None:
    users = Users(open_folder)
    users.environ["FALLOW_STATE_DIR"] = str(open_folder / "state")
    (open_folder / "claims").mkdir()
    (open_folder / "claims").chmod(0o1777)
    with subprocess.Popen(
        with_its_rights(sys.executable, "-m", "tests.interfaces.socket.small_daemon"),
        env=users.environ,
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == "ready\n"
        users.environ["FALLOW_STATE_DIR"] = str(open_folder)
        users.environ["FALLOW_CLAIM_DIR"] = "/nonexistent/claims"
        assert users.run(ADA, "protect", "--for", "1h")[0] == 0
        (protection,) = (open_folder / "claims").glob("protection-*")
        assert protection.stat().st_uid == ADA
        protection.write_text(json.dumps({"target": "all", "until": 5.0, "why": "long over"}))
        assert users.run(ADA, "protect", "--list")[1] == "nothing is protected\n"
        assert not protection.exists(), "what is over is cleared away"
        daemon.communicate("\n", timeout=LIMIT_S)
