"""How much host memory processes can still get: small trees of files, and exact numbers."""

import pathlib

from fallow.core.unknown import Unknown
from fallow.readers.host_memory import room_bytes
from fallow.readers.proc import Proc

MIB = 2**20


def machine(root: pathlib.Path, cgroup: str, available_kb: int | None = 4096) -> Proc:
    (root / "7").mkdir(parents=True)
    (root / "7" / "cgroup").write_text(cgroup)
    text = "" if available_kb is None else f"MemTotal: 1 kB\nMemAvailable:    {available_kb} kB\n"
    (root / "meminfo").write_text(text)
    return Proc(str(root))


def limit(folder: pathlib.Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"memory.{name}").write_text(text)


def test_without_limits_it_is_what_the_machine_has(tmp_path: pathlib.Path) -> None:
    proc = machine(tmp_path / "proc", "0::/user.slice\n")
    limit(tmp_path / "cgroup" / "user.slice", max="max\n", current="99999999\n")
    assert room_bytes(proc, [7], str(tmp_path / "cgroup")) == 4 * MIB


def test_the_tightest_limit_above_a_process_counts_and_files_in_the_cache_make_room(tmp_path: pathlib.Path) -> None:
    proc, root = machine(tmp_path / "proc", "0::/a/b\n"), tmp_path / "cgroup"
    limit(root / "a" / "b", max=f"{3 * MIB}\n", current=f"{MIB}\n")
    limit(root / "a", max=f"{2 * MIB}\n", current=f"{2 * MIB}\n", stat=f"anon 5\ninactive_file {MIB}\n")
    assert room_bytes(proc, [7], str(root)) == MIB


def test_the_limit_of_an_old_cgroup_counts(tmp_path: pathlib.Path) -> None:
    proc, root = machine(tmp_path / "proc", "4:memory:/job\n0::/\n"), tmp_path / "cgroup"
    limit(root / "memory" / "job", limit_in_bytes=f"{2 * MIB}\n", usage_in_bytes=f"{3 * MIB}\n")
    limit(root / "memory", limit_in_bytes="9223372036854771712\n", usage_in_bytes="7\n")
    assert room_bytes(proc, [7], str(root)) == 0


def test_a_name_that_leads_out_of_the_tree_is_not_followed(tmp_path: pathlib.Path) -> None:
    proc = machine(tmp_path / "proc", "0::/../secret\n")
    limit(tmp_path / "secret", max="1\n", current="0\n")
    assert room_bytes(proc, [7], str(tmp_path / "cgroup")) == 4 * MIB


def test_what_the_machine_does_not_say_is_unknown(tmp_path: pathlib.Path) -> None:
    proc = machine(tmp_path / "proc", "0::/\n", available_kb=None)
    assert isinstance(room_bytes(proc, [7], str(tmp_path / "cgroup")), Unknown)
