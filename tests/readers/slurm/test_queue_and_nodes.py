"""The queue and the nodes are read as Slurm prints them."""

import pytest

from fallow.core.unknown import Unknown
from fallow.readers.slurm import lists
from fallow.readers.slurm.nodes import nodes
from fallow.readers.slurm.queue import pending_gpus, rows

NODE = (
    "NodeName=n1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=3 CPUTot=16 AvailableFeatures=(null) ActiveFeatures=(null) "
    "Gres={gres} NodeAddr=127.0.0.1 NodeHostName=vm Version=22.05.8 OS=Linux 6.18 #1 SMP  RealMemory=1000 "
    "State={state} ThreadsPerCore=1 Owner=N/A MCS_label=N/A Partitions=normal,scavenger  BootTime=1794807199 "
    "ExtSensorsTemp=n/s{end}"
)


def test_rows_are_jobs() -> None:
    found = rows(
        "1|1|root|0|1794822102|COMPLETED|2\n9|9_[1-3]|a b|5|N/A|PENDING|1-2\n10|3_1|news|9|1794822104|RUNNING|1\n"
    )
    assert not isinstance(found, Unknown)
    assert [(row.number, row.id, row.user, row.state) for row in found] == [
        (1, "1", "root", "COMPLETED"),
        (9, "9_[1-3]", "a b", "PENDING"),
        (10, "3_1", "news", "RUNNING"),
    ]
    assert isinstance(found[1].start_wall_s, Unknown)


@pytest.mark.parametrize("text", ["x", "1|1|root|0", "1|1|root|0|1|RUNNING|1|more", "1|1|root|-1|1|RUNNING|1"])
def test_a_line_that_is_no_job_makes_the_queue_unknown(text: str) -> None:
    assert isinstance(rows(text), Unknown)


def test_gpus_that_are_waited_for_are_counted_however_they_were_asked_for() -> None:
    asked = (
        "6|2|2|N/A|gres:gpu:4|N/A|N/A|",
        "7|1|1|gres:gpu:3|N/A|N/A|N/A|",
        "8|1|2|N/A|N/A|N/A|gres:gpu:2|",
        "9|1|1|N/A|gres:gpu:a100:2|N/A|N/A|",
        "9|1|1|N/A|gres:gpu:a100|N/A|N/A|",
        "10|1|1|N/A|N/A|N/A|N/A|",
    )
    said = "".join(f"{each}{why}|gpu|\n" for each, why in zip(asked, ["Resources", *["Priority"] * 5], strict=True))
    assert pending_gpus(said) == 8 + 3 + 4 + 2 + 1
    assert isinstance(pending_gpus("6|2|2|N/A"), Unknown)
    assert isinstance(pending_gpus("6|2|2|N/A|gres:gpu:many:x|N/A|N/A|Priority|gpu|"), Unknown)


def test_a_background_job_that_waits_makes_nobody_wait_for_gpus() -> None:
    """Rules that act only while somebody waits would stop jobs of others for it."""
    waits = "6|2|2|N/A|gres:gpu:4|N/A|N/A|Resources|"
    assert pending_gpus(f"{waits}spare|\n", ["spare"]) == 0
    for others in ("gpu", "spare,gpu"):
        assert pending_gpus(f"{waits}{others}|\n", ["spare"]) == 8


@pytest.mark.parametrize("why", ["JobHeldUser", "BeginTime", "Dependency", "QOSMaxGRESPerUser", "None", ""])
def test_a_job_that_waits_for_something_else_wants_no_gpu(why: str) -> None:
    assert pending_gpus(f"6|2|2|N/A|gres:gpu:4|N/A|N/A|{why}|gpu|\n") == 0


@pytest.mark.parametrize(
    ("state", "end", "trouble"),
    [
        ("MIXED", "", None),
        ("IDLE", "", None),
        ("ALLOCATED+PLANNED", "", None),
        ("MIXED+COMPLETING+DRAIN", " Reason=fan is loud [root@1794822104]", "drain: fan is loud"),
        ("DOWN*", " Reason=Not responding [slurm@2026-11-16T09:30:34]", "down: Not responding"),
        ("IDLE*", "", "does not answer"),
        ("UNKNOWN", "", "unknown"),
        ("FUTURE", "", "future"),
        ("INVAL", "", "inval"),
        ("IDLE+CLOUD", "", None),
        ("MIXED+CLOUD", "", None),
        ("IDLE+DYNAMIC_NORM", "", None),
        ("IDLE+RESERVED", "", None),
        ("IDLE+PERFCTRS", "", "perfctrs"),
        ("IDLE+CLOUD+POWERED_DOWN", "", None),
        ("IDLE~", "", None),
        ("IDLE+CLOUD+POWERING_UP", "", None),
        ("IDLE+CLOUD+POWERING_DOWN", "", "powering_down"),
        ("IDLE+CLOUD+POWER_DOWN", "", "power_down"),
        ("IDLE+CLOUD+DRAIN", " Reason=fan [root@1794822104]", "drain: fan"),
        ("IDLE+MAINTENANCE", "", "maintenance"),
        ("IDLE+REBOOT_REQUESTED", "", "reboot_requested"),
        ("IDLE+INVALID_REG", "", "invalid_reg"),
        ("IDLE+BLOCKED", "", "blocked"),
    ],
)
def test_why_no_job_begins_on_a_node_is_said(state: str, end: str, trouble: str | None) -> None:
    found = nodes(NODE.format(gres="gpu:a100:4(S:0-1)", state=state, end=end))
    assert not isinstance(found, Unknown)
    assert (found[0].name, found[0].gpus, found[0].trouble) == ("n1", 4, trouble)
    assert found[0].labels == {"partition": "normal,scavenger"}


def test_a_node_without_gpus_is_left_out_and_a_line_that_is_none_is_unknown() -> None:
    assert nodes(NODE.format(gres="(null)", state="IDLE", end="")) == ()
    assert isinstance(nodes("No nodes in the system"), Unknown)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ("n1",)),
        ("n[1-2,7],g", ("n1", "n2", "n7", "g")),
        ("gpu-[09-11]a", ("gpu-09a", "gpu-10a", "gpu-11a")),
        ("r[1-2]n[3-4]", ("r1n3", "r1n4", "r2n3", "r2n4")),
        ("n[1-", None),
        ("n[2-1]", None),
        ("n[0-999999999]", None),
        ("", None),
    ],
)
def test_lists_of_nodes_are_expanded(text: str, names: tuple[str, ...] | None) -> None:
    assert lists.nodes(text) == names
