"""Users whose names are numbers, which are the numbers of others."""

import pathlib
import subprocess
import sys

import pytest

NO_MOUNT = 99
USERS = "10234:x:20456:20456::/home/one:/bin/sh\nanna:x:10234:10234::/home/anna:/bin/sh\n"
SCRIPT = (
    f'mount --bind $1/passwd /etc/passwd && mount --bind $1/group /etc/group || exit {NO_MOUNT}; shift; exec "$@"'
)
ASKS = """
from fallow.readers.accounts import account, group_number
for who in ("10234", 10234, "20456", 20456, "anna"):
    print(account(who).uid)
print(account("30000"), group_number("10234"), group_number("20456"))
"""


@pytest.mark.as_root
def test_a_name_that_is_the_number_of_another_user_is_a_name_and_a_number_is_a_number(tmp_path: pathlib.Path) -> None:
    for name, added in (("passwd", USERS), ("group", "10234:x:20456:\nanna:x:10234:\n")):
        (tmp_path / name).write_text(pathlib.Path("/etc", name).read_text() + added)
    words = ["unshare", "--mount", "sh", "-c", SCRIPT, "sh", str(tmp_path), sys.executable, "-c", ASKS]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode == NO_MOUNT or "unshare failed" in done.stderr:
        pytest.skip(f"nothing can be mounted here: {done.stderr}")
    assert done.stdout.split() == ["20456", "10234", "20456", "20456", "10234", "None", "20456", "20456"]
