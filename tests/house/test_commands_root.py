"""Commands in the documents that only root can give are run for real, where nothing that they change stays.

Each page has a mount namespace of its own, in which /etc, /usr, /var and so on are overlays: what is written there is
gone with the last process. systemd itself does not run there: what needs it is run by scripts/try-bare.
"""

import os
import pathlib
import shutil
import subprocess

import pytest

from tests import length
from tests.house.commands import Block, blocks_run_by
from tests.places import BIN, BUILD_S, REPOSITORY

pytestmark = pytest.mark.more

BLOCKS = blocks_run_by(__file__)
PAGES = list(dict.fromkeys(block.page for block in BLOCKS))
OVERLAID = ("/etc", "/opt", "/usr", "/var", str(pathlib.Path.home()), str(REPOSITORY))
_SCRIPT = """
set -eu
upper=$1; shift
mount -t tmpfs tmpfs "$upper"
for folder; do
    own=$upper/$(echo "$folder" | tr / _)
    mkdir -p "$own/upper" "$own/work"
    mount -t overlay overlay -o "lowerdir=$folder,upperdir=$own/upper,workdir=$own/work" "$folder"
done
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -m 1777 /run/lock
cd "$REPOSITORY"
set -x
"""
_LONG = ("python3 -m venv", "/opt/fallow/bin/pip")
"""How lines begin that build and install everything: they are run in full only."""


@pytest.fixture(autouse=True)
def _needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("a mount namespace needs root")
    for program in ("systemd-tmpfiles", "systemd-sysusers"):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}")


def lines_of(page: pathlib.Path) -> list[str]:
    """Return the lines of a page, with what is here in the place of what a reader has."""
    found = [line.partition(" # ")[0].strip() for block in BLOCKS if block.page == page for line in block.lines]
    found = [line.replace("fallow NAME", "fallow games") for line in found]
    found = [f"{line} --for 1s --listen 127.0.0.1:0" if line.startswith("fallow up") else line for line in found]
    return [line for line in found if length.MORE or not line.startswith(_LONG)]


def run_all(page: pathlib.Path, folder: pathlib.Path, more: str = "") -> "subprocess.CompletedProcess[str]":
    """Run the lines of a page, each of which must succeed, and then more."""
    environ = {name: text for name, text in os.environ.items() if not name.startswith("FALLOW")}
    environ |= {"FALLOW_CLAIM_DIR": "/run/lock/fallow", "FALLOW_SOCKET": "/run/fallow/fallow.sock"}
    environ |= {"FALLOW_SIMULATE": "8xH100", "REPOSITORY": str(REPOSITORY), "PATH": f"{BIN}:{os.environ['PATH']}"}
    script = "\n".join([_SCRIPT, *lines_of(page), more])
    return subprocess.run(
        ["unshare", "--mount", "bash", "-c", script, "bash", str(folder), *filter(os.path.isdir, OVERLAID)],
        env=environ,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=2 * BUILD_S,  # pip fetches and builds everything
        check=False,
    )


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "install.md"], ids=lambda page: str(page.relative_to(REPOSITORY))
)
def test_every_command_of_root_runs(page: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = run_all(page, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_machine_is_set_up_as_the_page_on_it_says_and_nothing_of_it_stays(tmp_path: pathlib.Path) -> None:
    page = REPOSITORY / "docs" / "guides" / "install.md"
    before = os.path.exists("/etc/tmpfiles.d/fallow.conf")
    looks = """
stat -c '%u %a' /run/lock/fallow
grep '^fallow:' /etc/group
test -s /etc/systemd/system/fallow.service
"""
    done = run_all(page, tmp_path, looks)
    assert done.returncode == 0, done.stderr[-3000:]
    folder, group = done.stdout.splitlines()[-2:]
    assert folder.startswith("0 ")
    assert "games" in group
    assert os.path.exists("/etc/tmpfiles.d/fallow.conf") == before


def test_a_config_that_is_there_outlives_the_page_on_the_daemon(tmp_path: pathlib.Path) -> None:
    """Its first lines, which write one, are pasted again once the reader has a config of their own."""
    page = REPOSITORY / "docs" / "guides" / "up.md"
    again = "\n".join(line for line in lines_of(page) if not line.startswith("fallow"))
    done = run_all(
        page, tmp_path, f"echo '# mine' > /etc/fallow/fallow.toml\nset +e\n{again}\ncat /etc/fallow/fallow.toml"
    )
    assert "cannot overwrite existing file" in done.stderr
    assert done.stdout.splitlines()[-1] == "# mine"


def test_a_command_of_root_that_fails_is_found(tmp_path: pathlib.Path) -> None:
    page = PAGES[0]
    BLOCKS.append(Block(page, 0, "sh", ["fallow doctor --nosuch"]))
    try:
        assert run_all(page, tmp_path).returncode != 0
    finally:
        BLOCKS.pop()
