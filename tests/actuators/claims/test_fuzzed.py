"""What others wrote into the folder of claims raises nothing, whatever it is: labels, marks, tickets. V2"""

import json
import os
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.actuators.claims.claims import read_label
from fallow.actuators.claims.folder import ClaimFolder
from fallow.actuators.claims.queue import sweep
from tests.conftest import Fallow

pytestmark = pytest.mark.more

TEXT = st.text(alphabet="ab1\x1b\ud800\u202e ²٣\n", max_size=9)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.sampled_from([10**400, -1, 2**63, 1e308]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
LABELS = st.fixed_dictionaries({}, optional=dict.fromkeys(("pid", "user", "command", "since", "birth"), JSON))
RAW = st.binary(max_size=200) | LABELS.map(lambda label: json.dumps(label).encode())
NASTY = [
    b'{"pid": %s}' % (b"9" * 400),
    b'{"pid": -1, "user": "root", "since": %s}' % (b"9" * 400),
    b'{"pid": true, "since": NaN, "command": "\\ud800"}',
    b"[" * 4000,
    b"\xff" * 4096,
]


@given(RAW | st.sampled_from(NASTY))
def test_a_label_raises_nothing_and_can_be_shown(raw: bytes) -> None:
    """V2"""
    claim = read_label(False, raw)
    json.dumps([claim.pid, claim.user, claim.command, claim.since_wall_s], ensure_ascii=False).encode()


@pytest.mark.parametrize("content", NASTY, ids=range(len(NASTY)))
def test_labels_of_nobody_are_swept_and_keep_nobody_from_anything(simulated: Fallow, content: bytes) -> None:
    """V2"""
    assert simulated("pick").returncode == 0
    folder = pathlib.Path(simulated.environ["FALLOW_CLAIM_DIR"])
    for card in folder.glob("GPU-*"):
        raw = content[:4096].ljust(4096)
        card.write_bytes(raw + raw + raw)
    (folder / "waiting-5").write_bytes(content)
    (folder / f"waiting-{'9' * 200}").write_bytes(content)
    (folder / "waiting-7").mkdir()
    os.mkfifo(folder / "waiting-8")
    sweep(ClaimFolder(str(folder)), lambda label: os.path.exists(f"/proc/{label.pid}"))
    for words in (("status",), ("pick",), ("run", "--wait", "5s", "--", "true")):
        done = simulated(*words)
        assert done.returncode == 0, done.stderr
