"""Which of a job's processes may be a server that sleeps: found with a bounded number of looks, or it is unknown."""

import pathlib
from collections import Counter

from fallow.core.unknown import Unknown
from fallow.readers.owners.servers import find_server, may_be_server
from fallow.readers.proc import Proc

UID = 4001


class Counting(Proc):
    """Counts how often each process is looked at."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.looked = Counter[int]()

    def words(self, pid: int) -> list[str]:
        """Return the words, and count."""
        self.looked[pid] += 1
        return super().words(pid)


def process(root: pathlib.Path, pid: int, parent: int, *words: str) -> None:
    folder = root / str(pid)
    folder.mkdir()
    (folder / "stat").write_text(f"{pid} (x) S {parent} {pid} {pid} 0 -1 0 {'0 ' * 12}77 0 0\n")
    (folder / "status").write_text(f"Name:\tx\nUid:\t{UID}\t{UID}\t{UID}\t{UID}\n")
    (folder / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))


def test_each_process_above_many_holders_is_looked_at_once(tmp_path: pathlib.Path) -> None:
    for depth in range(1, 15):
        process(tmp_path, depth, depth - 1, "sh")
    for holder in range(100, 300):
        process(tmp_path, holder, 14, "train")
    proc = Counting(str(tmp_path))
    assert find_server(proc, range(100, 300)) is None
    assert not may_be_server(proc, range(100, 300))
    assert set(proc.looked.values()) == {2}
    assert len(proc.looked) == 214


def test_a_server_far_above_one_holder_is_found_although_it_was_passed_from_another(tmp_path: pathlib.Path) -> None:
    process(tmp_path, 1, 0, "vllm", "serve")
    for depth in range(2, 30):
        process(tmp_path, depth, depth - 1, "sh")
    assert not may_be_server(Proc(str(tmp_path)), [29])
    assert may_be_server(Proc(str(tmp_path)), [29, 10])


def test_a_command_line_is_enough_to_warn_of_parking_and_no_descriptor_is_read(tmp_path: pathlib.Path) -> None:
    process(tmp_path, 7, 1, "/usr/bin/python3", "/opt/vllm", "serve", "model")
    assert may_be_server(Proc(str(tmp_path)), [7]), "there is no folder of descriptors"


def test_of_endless_chains_a_part_is_looked_at_and_the_rest_is_in_doubt(tmp_path: pathlib.Path) -> None:
    for line in range(60):
        for depth in range(16):
            pid = 100 + 16 * line + depth
            process(tmp_path, pid, pid - 1 if depth else 0, "sh")
    proc = Counting(str(tmp_path))
    holders = range(115, 100 + 16 * 60, 16)
    assert may_be_server(proc, holders), "it is found out in the thread"
    assert isinstance(find_server(proc, holders), Unknown)
    assert proc.looked.total() <= 2 * 512


def test_of_many_processes_that_are_called_a_server_few_are_searched_for_their_ports(tmp_path: pathlib.Path) -> None:
    for pid in range(100, 200):
        process(tmp_path, pid, 1, "vllm", "serve")
    assert isinstance(find_server(Proc(str(tmp_path)), range(100, 200)), Unknown)
