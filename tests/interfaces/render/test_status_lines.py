"""`fallow status` has one line for each GPU on a screen of any width, and says what is not known."""

import io
import re
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.core.activity import Activity, Finding
from fallow.core.gpu import Holder
from fallow.core.gpu_status import GpuStatus, Outlook, Shown, Status, seen
from fallow.core.reasons import Reason
from fallow.core.reservations import Claim
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.interfaces.render.grid import Screen, cells
from fallow.interfaces.render.status_lines import _PARTS, lines
from tests.core.gpus import GIB, held, idle
from tests.places import REPOSITORY

LOST = Unknown("the GPU is lost")
TRAIN = "/home/alice/venv/bin/python -u train.py --lr 3e-4 --model llama3-70b"
WORDS = st.text(st.characters(codec="utf-8"), max_size=60)
WIDTHS = (80, 120, 200)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def gpu(index: int, activity: Activity, for_s: float | None = None, **changes: Any) -> GpuStatus:
    reason = Reason("trouble", trouble="the GPU is lost")
    more = {name: changes.pop(name) for name in ("filler", "waiting") if name in changes}
    claim = changes.pop("claim", None)
    return seen(replace(held(index), **changes), Finding(activity, reason), for_s, claim, **more)


def holder(user: str, command: str, gib: int, pid: int = 4711) -> Holder:
    return Holder(pid, gib * GIB, user=user, command=command)


def machine(*gpus: GpuStatus, simulated: bool = False) -> Status:
    return Status("box", simulated, 1.0, gpus)


def every_kind() -> Status:
    several = (holder("alice", TRAIN, 70), holder("alice", "python3 eval.py", 1, 2), holder("bob", "nvtop", 0, 3))
    return machine(
        gpu(0, Activity.BUSY, 61.0, holders=several, utilization=0.87, power_w=612.0),
        gpu(1, Activity.IDLE, 9240.0, holders=(holder("bob", "python3 notebook.py", 20),)),
        seen(idle(2), Finding(Activity.FREE, Reason("not_judged")), 30.0, None),
        gpu(3, Activity.FILLED, 5.0, holders=(), filler=Claim(False, 9, "carol", "sweep.py")),
        gpu(
            4,
            Activity.UNKNOWN,
            **dict.fromkeys(("name", "holders", "memory", "utilization", "temperature_c", "power_w"), LOST),
        ),
        gpu(5, Activity.IDLE, 20.0, holders=(), claim=Claim(False, 8, "dave", "sh")),
        gpu(6, Activity.STUCK, 7200.0, holders=(holder("a" * 40, "vllm serve", 60),), waiting=2),
        gpu(7, Activity.BUSY, 1.0, holders=(Holder(5, LOST, user=LOST, command=LOST),)),
    )


def shown(status: Status, **more: Any) -> Shown:
    told = {"lines": status.gpus, "outlooks": {}, "visible_devices": None, "to_you": 0, **more}
    return Shown(status, **told)


def drawn(what: Shown, width: int, file: io.StringIO | None = None, **variables: str) -> list[str]:
    environ = {"TERM": "xterm", "NO_COLOR": "", "COLUMNS": str(width), **variables}
    return lines(Screen(Terminal() if file is None else file, environ), what)


@given(
    width=st.integers(16, 220),
    words=st.tuples(WORDS, WORDS, WORDS, WORDS),
    protected_s=st.sampled_from([None, 3.0, inf, LOST]),
)
def test_whatever_others_wrote_a_line_stays_a_line(
    width: int, words: tuple[str, ...], protected_s: float | Unknown | None
) -> None:
    user, command, name, host = words
    status = replace(every_kind(), host=host)
    odd = replace(status.gpus[0], name=name, holders=(holder(user, command, 3), holder(command, user, 2, 9)))
    told = shown(replace(status, gpus=(odd, *status.gpus[1:])), outlooks={"0": Outlook(5.0, protected_s)})
    made = drawn(told, width)
    assert len(made) == 1 + 1 + 8
    assert max(map(cells, made)) <= width
    assert all(line.isprintable() for line in made)


def test_what_is_left_out_first_is_what_matters_least() -> None:
    status = shown(every_kind(), outlooks={"1": Outlook(18.0)})
    heads = {width: drawn(status, width)[1].split() for width in (30, 50, 80, 100, 130, 200)}
    assert heads[30] == ["GPU", "activity", "for", "user"]
    assert heads[50] == ["GPU", "activity", "for", "util", "user", "note"]
    assert heads[80] == ["GPU", "activity", "for", "util", "memory", "user", "note", "job"]
    assert {"power", "temp"} <= set(heads[100])
    assert "pid" in heads[130]
    assert "because" in heads[200]


def test_the_documents_name_the_columns_in_the_order_in_which_they_are_left_out() -> None:
    page = (REPOSITORY / "docs" / "reference" / "cli.md").read_text()
    (told,) = re.findall(r"left out, in this order: (.*?)\. ", page, re.DOTALL)
    named = re.findall(r"`(\w+)`|the (bar)", told)
    ranked = sorted((part for part in _PARTS if part.rank > 1), key=lambda part: -part.rank)
    assert [word or bar for word, bar in named] == [part.head or "bar" for part in ranked]


def test_the_first_line_says_what_is_available_and_for_how_long_others_are_unused() -> None:
    assert drawn(shown(every_kind()), 200)[0] == (
        "box: 7 x H100, 1 x unknown: 2 available (1 free, 1 filled), 2 busy, 2 idle for up to 2h34m, "
        "1 stuck for 2h, 1 unknown"
    )
    assert drawn(shown(every_kind()), 80)[0] == (
        "box: 7 x H100, 1 x unknown: 2 available, 2 busy, 2 idle, 1 stuck, 1 unknown"
    )
    one = machine(gpu(0, Activity.IDLE, 25.0), simulated=True)
    assert drawn(shown(one), 80)[0] == "box: 1 x H100 (simulated): none available, 1 idle for 25s"


def test_of_several_jobs_the_largest_is_shown_with_the_number_of_the_others_at_every_width() -> None:
    for width in WIDTHS:
        first = drawn(shown(every_kind()), width)[2]
        assert "alice" in first
        assert " train.py" in first, "the folder of a program tells nobody anything, nor does python's name"
        assert "alice/venv" not in first
        assert "+2" in first


def test_an_unknown_reading_is_a_question_mark_and_never_zero_or_free() -> None:
    for width in WIDTHS:
        lost = drawn(shown(every_kind()), width)[6]
        assert lost.split()[1] == "unknown"
        assert "0" not in lost
        assert "free" not in lost
        assert lost.count("?") >= 3
        assert "the GPU is" in lost


def test_the_name_of_a_gpu_is_shown_where_it_differs() -> None:
    alike = machine(gpu(0, Activity.BUSY), gpu(1, Activity.BUSY, name="NVIDIA H100 80GB HBM3"))
    mixed = machine(gpu(0, Activity.BUSY), gpu(1, Activity.BUSY, name="Tesla T4"))
    sizes = machine(gpu(0, Activity.BUSY), gpu(1, Activity.BUSY, name="NVIDIA H100 96GB HBM3"))
    assert "H100" not in "".join(drawn(shown(alike), 120)[1:])
    assert drawn(shown(mixed), 80)[3].startswith("1    Tesla T4")
    assert "H100 96GB HBM3" in drawn(shown(sizes), 120)[3]


@pytest.mark.parametrize(
    ("outlook", "words"),
    [
        (Outlook(18.2), "stops in 18s"),
        (Outlook(2890.0, warns_in_s=2290.0), "stops in 48m (warned in 38m)"),
        (Outlook(None, 1799.0), "protected 30m"),
        (Outlook(None, inf), "protected"),
        (Outlook(left_alone="the environment of pid 7 has FALLOW_PROTECT=1"), "protected"),
        (Outlook(None, LOST), "protection unknown"),
        (Outlook(killed_in_s=8.4), "killed in 8s (asked to end)"),
        (Outlook(kept_back="5 were ended in the last 1h, and 5 may be"), "stop held back"),
    ],
)
def test_what_follows_for_a_gpu_is_in_its_line(outlook: Outlook, words: str) -> None:
    status = machine(gpu(0, Activity.IDLE, 60.0), gpu(1, Activity.BUSY))
    made = drawn(shown(status, outlooks={"0": outlook}), 120)
    assert words in made[2]
    assert words not in made[3]


def test_of_a_long_note_the_protection_is_kept_and_of_a_long_line_the_command_is_cut() -> None:
    line = gpu(
        0,
        Activity.IDLE,
        6900.0,
        holders=(holder("somebody", "python3 finetune.py --with a very long line of options", 3),),
        claim=Claim(False, 9, "somebody-else", "sh"),
        waiting=12,
    )
    made = drawn(shown(machine(line), outlooks={"0": Outlook(None, 6960.0)}), 80)[2]
    assert "protected 1h56m" in made
    assert " finetune.py" in made
    assert "options" not in made


def test_the_bar_is_for_terminals_and_is_empty_for_two_per_cent() -> None:
    for load, told in ((0.41, "██░░░   41%"), (0.02, "░░░░░    2%")):
        status = shown(machine(gpu(0, Activity.BUSY, utilization=load)))
        assert told in drawn(status, 80)[2]
        assert "░" not in drawn(status, 80, TERM="dumb")[2]
        assert "░" not in drawn(status, 80, io.StringIO())[2]


def test_colour_is_forced_and_forbidden_by_the_environment() -> None:
    status = shown(machine(gpu(0, Activity.IDLE)))
    assert "\x1b[33midle" in lines(Screen(Terminal(), {"TERM": "xterm"}), status)[2]
    assert "\x1b[33midle" in lines(Screen(io.StringIO(), {"FORCE_COLOR": "1"}), status)[2]
    assert "\x1b" not in "".join(lines(Screen(io.StringIO(), {}), status))
    assert "\x1b" not in "".join(lines(Screen(Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}), status))
    assert "\x1b" not in "".join(lines(Screen(io.StringIO(), {"FORCE_COLOR": "1", "NO_COLOR": "1"}), status))


def test_a_frame_that_is_too_high_for_the_screen_says_how_much_is_missing() -> None:
    made = Terminal()
    status = shown(machine(*(gpu(at, Activity.BUSY) for at in range(64))))
    screen = Screen(made, {"TERM": "xterm", "NO_COLOR": ""})  # 24 lines: a file has no size
    screen.redraw(iter([lines(screen, status)]))
    *frame, _ = made.getvalue().split("\n")
    assert len(frame) == 23
    assert frame[-1] == "and 44 more lines"
    assert len(lines(screen, shown(every_kind()))) < 23, "eight GPUs fit"
