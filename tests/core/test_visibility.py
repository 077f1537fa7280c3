"""V14: who may read a command line. Its owner and root; everybody else reads the name of the program."""

from hypothesis import given
from hypothesis import strategies as st

from fallow.core.activity import Activity
from fallow.core.gpu import Gpu, Holder
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.interval import MANY_JOBS, Interval, Party, in_order
from fallow.core.reservations import Claim
from fallow.core.units import program_name
from fallow.core.unknown import Unknown
from fallow.core.value import fields
from fallow.core.visibility import ANYBODY, EVERYTHING, Viewer, interval_seen_by, seen_by
from tests.core.gpus import held
from tests.reasons import said

SECRET = "s3cr3t"
USERS = st.sampled_from(["ada", "bob", "root", "1001"])
FIRST_WORDS = st.sampled_from(
    ["python", "/home/ada/.venv/bin/python3", "TOKEN=abc", "[kworker/0:1]", "-bash", "sshd:"]
)
COMMANDS = st.one_of(
    st.text(max_size=60),
    st.builds(lambda first, rest: f"{first} {rest}", FIRST_WORDS, st.text(max_size=40)),
    FIRST_WORDS,
)
HOLDERS = st.builds(
    Holder,
    pid=st.integers(1, 99999),
    memory_bytes=st.just(2**30),
    user=st.one_of(USERS, st.just(Unknown("hidden"))),
    command=st.one_of(COMMANDS, st.just(Unknown("hidden"))),
)
CLAIMS = st.one_of(
    st.none(),
    st.just(Unknown("no folder")),
    st.builds(Claim, st.booleans(), pid=st.integers(1, 9), user=st.one_of(st.none(), USERS), command=COMMANDS),
)


@st.composite
def statuses(draw: st.DrawFn) -> Status:
    holders = tuple(draw(st.lists(HOLDERS, max_size=4)))
    facts = {name: getattr(held(), name) for name in fields(Gpu)} | {"holders": holders}
    claim, filler = draw(CLAIMS), draw(CLAIMS)
    gpu = GpuStatus(
        **facts,
        activity=Activity.BUSY,
        reason=said("it runs"),
        claim=claim,
        filler=filler if isinstance(filler, Claim) else None,
    )
    return Status("host", False, 0.0, (gpu,))


def words_of(status: Status) -> list[tuple[object, object]]:
    """Owner and command of everything in it that has both."""
    (gpu,) = status.gpus
    assert not isinstance(gpu.holders, Unknown)
    claims = [one for one in (gpu.claim, gpu.filler) if isinstance(one, Claim)]
    return [(one.user, one.command) for one in (*gpu.holders, *claims)]


@given(COMMANDS)
def test_a_program_s_name_is_one_short_word_and_naming_it_again_changes_nothing(command: str) -> None:
    name = program_name(command)
    assert name
    assert name.isprintable()
    assert not any(letter.isspace() for letter in name)
    assert len(name) <= 40
    assert program_name(name) == name


@given(FIRST_WORDS, st.text(max_size=20))
def test_nothing_behind_the_first_word_is_in_a_program_s_name(first: str, rest: str) -> None:
    assert SECRET not in program_name(f"{first} {rest} --token={SECRET}")
    assert SECRET not in program_name(f"PASSWORD={SECRET} {first}")
    assert SECRET not in program_name(f"/home/{SECRET}/bin/train")


def test_programs_are_called_as_people_call_them() -> None:
    named = {
        "/usr/bin/python3 train.py": "python3",
        "python -c 'import x'": "python",
        "[kworker/0:1-events]": "[kworker/0:1-events]",
        "[ -f secret ]": "[",
        "": "?",
        "sshd: ada@pts/0": "sshd",
        "/": "?",
    }
    assert {line: program_name(line) for line in named} == named


@given(statuses(), USERS)
def test_a_viewer_reads_whole_lines_of_their_own_and_names_of_all_others(status: Status, user: str) -> None:
    for (owner, line), (owner_shown, shown) in zip(
        words_of(status), words_of(seen_by(status, Viewer(user))), strict=True
    ):
        assert owner_shown == owner
        if owner == user or isinstance(line, Unknown) or not line:
            assert shown == line
        else:
            assert shown == program_name(str(line))


@given(statuses())
def test_root_reads_everything_and_whom_nobody_knows_reads_names(status: Status) -> None:
    assert seen_by(status, EVERYTHING) == status
    for (_, line), (_, shown) in zip(words_of(status), words_of(seen_by(status, ANYBODY)), strict=True):
        assert shown == (program_name(line) if isinstance(line, str) and line else line)


def test_what_history_has_from_before_is_cut_the_same_way_and_names_that_are_no_commands_stay() -> None:
    jobs = (
        "python a.py",
        "python b.py",
        "slurm:12",
        "pod:ab",
        "container:cd",
        MANY_JOBS,
        "?",
        f"slurm:1 {SECRET}",
        f"notebook:{SECRET}.ipynb",
    )
    parties = in_order(Party("ada", job) for job in jobs)
    old = Interval("GPU-0", 0, 10, 10, Activity.BUSY, parties)
    shown = {party.job for party in interval_seen_by(old, Viewer("bob")).parties}
    assert shown == {"python", "slurm:12", "pod:ab", "container:cd", MANY_JOBS, "?", "slurm:1", "notebook"}
    assert interval_seen_by(old, Viewer("ada")) == old
