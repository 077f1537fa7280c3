"""docs/contributing/claim-files.md says byte by byte what is in the claim folder."""

import json
import os
import pathlib
import re
import stat

import pytest

from fallow.actuators.claims.claims import ClaimFile, gate, seal_of, take
from fallow.actuators.claims.fill_marks import mark_filled
from fallow.actuators.claims.folder import ClaimFolder
from fallow.actuators.claims.protections import ProtectionFolder
from fallow.actuators.claims.queue import QueueEntry
from fallow.actuators.files import ofd_locks
from fallow.core.protections import parse_target
from fallow.core.reservations import Claim
from tests.places import REPOSITORY

PAGE = (REPOSITORY / "docs" / "contributing" / "claim-files.md").read_text()
UUID = "GPU-fa110000-0000-4000-8000-000000000000"
LABEL = Claim(False, pid=7, birth=9, since_wall_s=1.5, command="train")


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> ClaimFolder:
    return ClaimFolder(str(tmp_path / "claims"))


def documented_bytes(what: str) -> tuple[int, int]:
    """Return the first and the last byte of what a row of the page is about."""
    (row,) = re.findall(rf"^\| (\d+) \| (\d+) \| .*{what}.* \|$", PAGE, re.MULTILINE)
    return int(row[0]), int(row[1])


def documented_lock(what: str) -> str:
    """Return which byte is locked, in the words of the page."""
    (row,) = re.findall(rf"^\| (\S[^|]*?) \| {what}.* \|$", PAGE, re.MULTILINE)
    return str(row)


def documented_mode(name: str) -> int:
    (mode,) = re.findall(rf"^\| `{re.escape(name)}` \| (\d+) \|", PAGE, re.MULTILINE)
    return int(mode, 8)


def content(folder: ClaimFolder, name: str = UUID) -> bytes:
    return pathlib.Path(folder.path, name).read_bytes()


def locked(folder: ClaimFolder, first: int, last: int, name: str = UUID) -> list[int]:
    """Return which bytes of a file others have locked, as one sees it who opens the file."""
    found, fd = [], os.open(os.path.join(folder.path, name), os.O_RDWR)
    while (lock := ofd_locks.other(fd, first, last)) is not None:
        assert lock.start == lock.last, "a single byte"
        found.append(lock.start)
        first = lock.last + 1
    os.close(fd)
    return found


def parts(raw: bytes) -> set[str]:
    return set(json.loads(raw.rstrip()))


def test_a_claim_writes_its_label_and_locks_the_bytes_that_the_page_names(folder: ClaimFolder) -> None:
    held = take(folder, UUID, LABEL)
    assert held is not None
    first, last = documented_bytes("label of the claim")
    assert len(content(folder)) == last + 1
    assert parts(content(folder)[first : last + 1]) == {"pid", "birth", "since", "command"}
    assert documented_lock("the claim:") == "2**62"
    assert documented_lock("the seal of a claim") == "2**62 + 2**40 + n"
    seal = seal_of(folder.path, UUID)
    assert 2**62 + 2**40 <= seal < 2**62 + 2**41
    assert locked(folder, 0, 2**63 - 2) == [2**62, seal]
    held.end()
    assert locked(folder, 0, 2**63 - 2) == []


def test_a_pick_writes_its_reservation_where_the_page_says(folder: ClaimFolder) -> None:
    card = ClaimFile(folder.open(UUID))
    card.reserve(now_s=5.0)
    first, last = documented_bytes("until when a pick reserves")
    assert len(content(folder)) == last + 1
    assert int.from_bytes(content(folder)[first : last + 1], "little") == 15_000_000_000
    card.close()


def test_a_filler_writes_its_label_and_locks_the_byte_that_the_page_names(folder: ClaimFolder) -> None:
    mark = mark_filled(folder, UUID, LABEL)
    assert mark is not None
    first, last = documented_bytes("label of the filler")
    assert len(content(folder)) == last + 1
    assert parts(content(folder)[first : last + 1]) == {"pid", "birth", "since", "command"}
    assert documented_lock("the filler") == "2**62 + 1"
    assert locked(folder, 0, 2**63 - 2) == [2**62 + 1]
    mark.close()


@pytest.mark.parametrize("in_passing", [True, False])
def test_a_launch_that_waits_locks_its_time_of_arrival(folder: ClaimFolder, in_passing: bool) -> None:
    entry = QueueEntry(folder, LABEL, lambda: 20.0, lambda _: None, lambda _: True, in_passing=in_passing)
    entry.join([UUID])
    assert documented_lock("a launch that waits") == "10**9 to now"
    assert locked(folder, 0, 2**63 - 2) == [20 * 10**9]
    if not in_passing:
        assert parts(content(folder, f"waiting-{entry.ticket}")) == {"pid", "birth", "since", "command"}
    entry.leave()


def test_a_protection_has_the_fields_that_the_page_names(folder: ClaimFolder) -> None:
    number = ProtectionFolder(folder, str).place(parse_target(f"gpu:{UUID}"), 1e9, "debugging")
    (name,) = set(folder.names()) - {"gate"}
    assert re.fullmatch(r"protection-\d{9}", name)
    assert name.endswith(str(number))
    assert parts(content(folder, name)) == {"id", "target", "until", "why"}
    assert all(f"`{field}`" in PAGE.partition("## A protection")[2] for field in parts(content(folder, name)))


def test_everything_in_the_folder_has_the_mode_that_the_page_names(folder: ClaimFolder) -> None:
    entry = QueueEntry(folder, LABEL, lambda: 20.0, lambda _: None, lambda _: True, in_passing=False)
    entry.join([UUID])
    ProtectionFolder(folder, str).place(parse_target(f"gpu:{UUID}"), 1e9, "debugging")
    with gate(folder, lambda: 0.0, lambda _: None):
        assert locked(folder, 0, 2**63 - 2, "gate") == [0]
    kinds = {"GPU-": "GPU-…", "gate": "gate", "waiting-": "waiting-N", "protection-": "protection-N"}
    seen = {}
    for name in folder.names():
        (kind,) = (row for start, row in kinds.items() if name.startswith(start))
        seen[kind] = stat.S_IMODE(os.stat(os.path.join(folder.path, name)).st_mode)
    assert seen == {row: documented_mode(row) for row in kinds.values()}
    assert stat.S_IMODE(os.stat(folder.path).st_mode) == 0o1777
    assert "The folder has mode 1777" in PAGE
    entry.leave()
