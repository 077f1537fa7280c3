"""`fallow completion` prints scripts that shells can read, and bash completes with it."""

import pathlib
import subprocess

import pytest

from fallow.interfaces.cli.completion import SHELLS
from tests.conftest import Fallow
from tests.places import LIMIT_S


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("fallow pi", ["pick"]),
        ("fallow pick --ord", ["--order"]),
        ("fallow pick --order ", ["best", "random", "index"]),
        ("fallow pick --gpus ", ["all", "0", "1"]),
        ("fallow stop 1", ["1"]),
    ],
)
def test_bash_offers_commands_options_choices_and_gpus(
    fallow: Fallow, tmp_path: pathlib.Path, line: str, offered: list[str]
) -> None:
    for bus in ("0000:01:00.0", "0000:41:00.0"):
        (tmp_path / "gpus" / bus).mkdir(parents=True)
    script = fallow("completion", "bash").stdout.replace("/proc/driver/nvidia/gpus", str(tmp_path / "gpus"))
    words = f"{line}''" if line.endswith(" ") else line
    asks = f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _shtab_fallow"
    program = f'{script}\n{asks}\nprintf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert done.stdout.split() == offered


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script(fallow: Fallow, shell: str) -> None:
    assert "fallow" in fallow("completion", shell).stdout
