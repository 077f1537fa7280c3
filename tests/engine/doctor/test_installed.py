"""`fallow doctor` says how fallow was installed, which one is started, and whether its parts agree and are found."""

import json
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import sys
from typing import Any

import pytest

from fallow import __version__
from fallow.engine.doctor.finding import CheckFinding, Health
from fallow.engine.doctor.installed import agreement, completion_places, man_place
from fallow.engine.machine.installation import how_installed, own_program
from fallow.engine.machine.world import World
from fallow.interfaces.cli.completion import SHELLS
from tests.conftest import Fallow
from tests.places import BIN, LIMIT_S, REPOSITORY
from tests.typed import program_that_tells


def parts(fallow: Fallow, **variables: str) -> dict[str, dict[str, Any]]:
    done = fallow("doctor", "--json", **variables)
    return {each["part"]: each for each in json.loads(done.stdout)["checks"]}


def test_it_says_how_this_one_was_installed_and_that_it_is_the_one_on_the_path(simulated: Fallow) -> None:
    found = parts(simulated)
    assert f"{__version__} with Python " in found["fallow"]["means"]
    assert f"installed {how_installed(sys.prefix)}" in found["fallow"]["means"]
    assert found["command"]["state"] == "ok"
    assert found["agreement"]["state"] == "ok", found["agreement"]


def test_another_one_that_is_first_on_the_path_is_named(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    other = tmp_path / "bin" / "fallow"
    program_that_tells(other)
    (tmp_path / "ours").mkdir()
    ours = tmp_path / "ours" / "start"
    ours.symlink_to(BIN / "fallow")
    process = simulated.start_other(str(ours), "doctor", "--json", PATH=f"{other.parent}:{BIN}:/usr/bin:/bin")
    found = {each["part"]: each for each in json.loads(process.communicate(timeout=LIMIT_S)[0])["checks"]}
    assert found["command"]["state"] == "lacking"
    assert str(other) in found["command"]["means"]
    assert str(BIN) in found["command"]["remedy"]


@pytest.mark.parametrize(
    ("receipt", "how"), [("uv-receipt.toml", "by uv tool"), ("pipx_metadata.json", "by pipx")], ids=["uv", "pipx"]
)
def test_the_receipt_of_an_installer_tells_how(tmp_path: pathlib.Path, receipt: str, how: str) -> None:
    (tmp_path / receipt).touch()
    assert how_installed(str(tmp_path)) == how


def test_a_checkout_and_a_package_are_told_apart(tmp_path: pathlib.Path) -> None:
    listed = tmp_path / "fallow.list"
    if (REPOSITORY / "src") in pathlib.Path(sys.modules["fallow"].__file__ or "").parents:
        assert how_installed(sys.prefix) == f"from the source checkout {REPOSITORY}"
    assert how_installed("/usr/lib/fallow", str(listed)) != "by the Debian package"
    listed.touch()
    assert how_installed("/usr/lib/fallow", str(listed)) == "by the Debian package"
    assert how_installed("/usr/local", str(listed)) != "by the Debian package"


def agreed(tmp_path: pathlib.Path, starts: str | None) -> CheckFinding:
    unit = tmp_path / "fallow.service"
    if starts is not None:
        unit.write_text(f"[Service]\nExecStart={starts}\n")
    environ = {"HOME": str(tmp_path), "FALLOW_SOCKET": str(tmp_path / "none.sock")}
    (found,) = agreement(World(environ, simulate="2xT4"), [str(unit)])
    return found


def test_a_unit_that_starts_another_fallow_or_none_is_told(tmp_path: pathlib.Path) -> None:
    other = tmp_path / "bin" / "fallow"
    program_that_tells(other)
    assert agreed(tmp_path, None).health is Health.OK
    assert agreed(tmp_path, f"{own_program()} up").health is Health.OK
    assert agreed(tmp_path, f"{sys.executable} -P -m fallow up").health is Health.OK
    another = agreed(tmp_path, f"{other} up")
    assert (another.health, str(other) in another.means) == (Health.LACKING, True)
    assert agreed(tmp_path, f'-"{own_program()}" up').health is Health.OK, "in quotes"
    (tmp_path / "100 %").symlink_to(other.parent)
    spaced = agreed(tmp_path, rf"{tmp_path}/100\x20%%/fallow up")
    assert (spaced.health, f"'{tmp_path}/100 %/fallow'" in spaced.means) == (Health.LACKING, True)
    gone = agreed(tmp_path, f"{tmp_path}/gone up")
    assert (gone.health, "is not there" in gone.means) == (Health.BROKEN, True)
    assert "doctor --unit" in gone.remedy


def test_a_unit_that_an_older_fallow_wrote_is_told_and_one_of_your_own_is_not(
    simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    unit = tmp_path / "fallow.service"
    written = simulated("doctor", "--unit").stdout
    unit.write_text(written)
    assert agreed(tmp_path, None).health is Health.OK
    unit.write_text(re.sub(r"^(WatchdogSec|ExecReload)=.*\n", "", written, flags=re.MULTILINE))
    older = agreed(tmp_path, None)
    assert older.health is Health.LACKING
    assert "it has no ExecReload=fallow reload and 1 more" in older.means
    assert "doctor --unit" in older.remedy
    unit.write_text(f"{written}Nice=5\n")
    assert agreed(tmp_path, None).health is Health.OK, "more than fallow writes is no older unit"
    assert agreed(tmp_path, f"{own_program()} up").health is Health.OK, "a unit that is not fallow's"


@pytest.mark.as_root
def test_a_unit_that_somebody_has_masked_is_to_be_unmasked_not_written(simulated: Fallow) -> None:
    if shutil.which("systemctl") is None:
        pytest.skip("needs systemctl")
    folder = "/etc/systemd/system"
    line = f"mount -t tmpfs tmpfs {folder} && ln -s /dev/null {folder}/fallow.service && {BIN}/fallow doctor --json"
    words = ["unshare", "--mount", "sh", "-c", f"{line} || true"]
    done = subprocess.run(words, env=simulated.environ, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    (service,) = (each for each in json.loads(done.stdout)["checks"] if each["part"] == "service")
    assert "masked" in service["means"]
    assert service["remedy"] == "systemctl unmask fallow, then systemctl enable --now fallow"


def test_a_short_script_that_starts_this_one_is_this_one(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "bin" / "fallow"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m fallow "$@"\n')
    assert agreed(tmp_path, f"{script} up").health is Health.OK


def test_completion_is_found_where_its_own_advice_puts_it(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    shells = tmp_path / "shells"
    shells.mkdir()
    for shell in SHELLS:
        program_that_tells(shells / shell)
    variables = {"PATH": f"{shells}:{BIN}", "XDG_DATA_DIRS": str(tmp_path / "nothing")}
    lacking = parts(simulated, **variables)["completion"]
    assert lacking["state"] == "lacking"
    environ = {**simulated.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-e", "-c", lacking["remedy"]], env=environ, timeout=LIMIT_S, check=True)
    found = parts(simulated, **variables)["completion"]
    assert (found["state"], found["means"]) == ("ok", "found by bash, zsh, fish")


def test_completion_is_looked_for_where_packages_put_it() -> None:
    places = completion_places({"HOME": "/home/ada"})
    assert "/usr/share/bash-completion/completions/fallow" in places["bash"]
    assert "/usr/share/zsh/vendor-completions/_fallow" in places["zsh"]
    assert "/usr/share/fish/vendor_completions.d/fallow.fish" in places["fish"]


def test_completion_without_a_home_in_the_environment_is_for_the_home_of_the_user() -> None:
    mine = pwd.getpwuid(os.geteuid()).pw_dir
    assert completion_places({})["zsh"][0] == f"{mine}/.zfunc/_fallow"


def test_man_pages_are_found_or_the_way_to_them_is_told(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    """The prefix is one that has the page, as a wheel puts it there."""
    if shutil.which("man") is None:
        pytest.skip("needs man")
    page = tmp_path / "prefix" / "share" / "man" / "man1" / "fallow.1"
    page.parent.mkdir(parents=True)
    page.write_text(".TH FALLOW 1\n.SH NAME\nfallow \\- it\n")
    start = tmp_path / "start.py"
    start.write_text(
        f"import sys; sys.prefix = {str(tmp_path / 'prefix')!r}; from fallow.interfaces.cli import entry; entry()"
    )

    def man_pages(**variables: str) -> dict[str, Any]:
        process = simulated.start_other(sys.executable, str(start), "doctor", "--json", **variables)
        found = {each["part"]: each for each in json.loads(process.communicate(timeout=LIMIT_S)[0])["checks"]}
        return found["man pages"]

    assert man_pages(MANPATH=str(tmp_path / "prefix" / "share" / "man"))["state"] == "ok"
    elsewhere = man_pages(MANPATH=str(tmp_path))
    assert elsewhere["state"] == "lacking"
    place = man_place(simulated.environ, os.geteuid())
    makes = "" if os.path.isdir(place) else f"mkdir -p {place} && "
    assert elsewhere["remedy"] == f"{makes}ln -s {page.parent}/fallow*.1 {place}/"


def test_man_pages_are_linked_to_where_this_user_can_write() -> None:
    assert man_place({"HOME": "/home/ada"}, 0) == "/usr/local/share/man/man1"
    assert man_place({"HOME": "/home/ada"}, 1000) == "/home/ada/.local/share/man/man1"
