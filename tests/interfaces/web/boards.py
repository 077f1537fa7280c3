"""Boards to look at: one with a bit of everything, and the one who hangs them up."""

from typing import Any

from fallow.core.activity import Activity, Finding
from fallow.core.board import Board, Counting, Counts, FillerView, GuardView, Histogram
from fallow.core.gpu import Holder
from fallow.core.gpu_status import GpuStatus, Status, seen
from fallow.core.owner import Owner, OwnerKind
from fallow.core.parked import ParkedJob
from fallow.core.process import Process
from fallow.core.protections import OneGpu, Protection
from fallow.core.reservations import Claim
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from tests.core.gpus import GIB, held, idle
from tests.interfaces.web.clusters import small
from tests.reasons import said

NO_COUNTS = Counts({}, {}, {}, {}, {})
LOST = Unknown("the GPU is lost")


def board(status: Status, **changes: Any) -> Board:
    """A board with nothing on it but the cards."""
    plain = Board(status, (), (), (), NO_COUNTS, status.wall_s - 93_780, None, is_dry_run=False)
    return replace(plain, **changes)


def card(index: int, activity: Activity, because: str, for_s: float, **changes: Any) -> GpuStatus:
    """A card that was judged."""
    gpu = replace(held(index, memory_gib=24) if isinstance(changes.get("holders"), tuple) else idle(index), **changes)
    return seen(gpu, Finding(activity, said(because)), for_s, None)


SLURM = Owner(OwnerKind.SLURM, "90117", "90117")
CONTAINER = Owner(OwnerKind.CONTAINER, "f00dfeedbeef", "ddp-train")
NOTEBOOK = Owner(OwnerKind.NOTEBOOK, "4f1c", "train.ipynb")


def process(pid: int, user: str, command: str, gib: float, **more: Any) -> Holder:
    """A process on a card."""
    return Holder(pid, round(gib * GIB), utilization=0.0, user=user, command=command, **more)


def varied_gpus() -> tuple[GpuStatus, ...]:
    """Every activity, and cards of which little is known."""
    train = process(
        48211,
        "ada",
        "python train.py --config configs/large.yaml --resume",
        71.2,
        owner=SLURM,
    )
    notebook = process(50993, "bob", "python -m ipykernel_launcher -f kernel-4f1c.json", 22.5, owner=NOTEBOOK)
    hung = process(
        51800,
        "carol",
        "torchrun --nproc-per-node 1 ddp.py",
        64.0,
        owner=CONTAINER,
    )
    watts = {"power_w": 611.0, "power_limit_w": 700.0, "temperature_c": 64}
    quiet = {"power_w": 122.0, "power_limit_w": 700.0, "temperature_c": 34}
    free = {"power_w": 71.0, "power_limit_w": 700.0, "temperature_c": 29}
    busy = card(0, Activity.BUSY, "94% on average, 100% at most in the last 14 s", 15_120, holders=(train,), **watts)
    busy = replace(busy, recent=replace(busy.recent, mean=0.94, peak=1.0), utilization=0.97)
    fallow = card(
        1, Activity.IDLE, "held by 1 process, nothing ran in the last 14 s", 9_240, holders=(notebook,), **quiet
    )
    stuck = card(
        2,
        Activity.STUCK,
        "100% utilization at the power of rest for 12m: 121 W of 700 W",
        720,
        holders=(hung,),
        **quiet,
    )
    filling = process(53_777, "fold", "fah-client --gpu 3", 24)
    filled = replace(
        card(
            3,
            Activity.FILLED,
            "filled with fah-client, which leaves when the GPU is needed",
            64,
            holders=(filling,),
            **watts,
        ),
        filler=Claim(shared=False, pid=53_777, user="fold", command="fah-client --gpu 3"),
        filler_pids=(53_777,),
    )
    lost = card(
        5,
        Activity.UNKNOWN,
        "the card has fallen off the bus",
        310,
        utilization=LOST,
        memory=LOST,
        holders=LOST,
        temperature_c=LOST,
        power_w=LOST,
        recent=LOST,
        trouble="the card has fallen off the bus",
    )
    claimed = replace(
        card(
            4,
            Activity.IDLE,
            "claimed by dan for python (pid 52001), which has no process on the GPU",
            1_900,
            **free,
        ),
        claim=Claim(shared=False, pid=52001, user="dan", command="python eval.py --all", since_wall_s=1.7e9),
        waiting=2,
    )
    rest = (
        card(6, Activity.FREE, "nobody holds it", 31_000, **free),
        card(7, Activity.FREE, "nobody holds it", 31_000),
    )
    return (busy, fallow, stuck, filled, claimed, lost, *rest)


def varied(wall_s: float) -> Board:
    """A machine on which a lot goes on."""
    gpus = varied_gpus()
    uuids = [str(gpu.uuid) for gpu in gpus]
    fillers = (
        FillerView("folding", ("3",), (uuids[3],), "filled", said("nobody there for 30s"), 64.0, 53_777, 12, 0.31),
        FillerView("folding", ("6",), (uuids[6],), "yielding", said("dan has come"), 0.4, 53_778, 7, 0.28),
        FillerView(
            "nightly tests", ("6", "7"), tuple(uuids[6:8]), "quiet", said("not before 20:00"), 31_000.0, None, 0, None
        ),
    )
    guards = (GuardView("weekend", "armed", said("some GPU worked in the last 30m; all have been quiet for 0s")),)
    protections = (
        Protection(3, OneGpu(uuids[1]), wall_s + 5_400, "debugging a hang, please leave it", "bob"),
        Protection(4, OneGpu(uuids[2]), wall_s + 600, "looking at it", "root"),
    )
    counts = Counts(
        activity_s={
            (uuids[0], "busy", "ada"): 15_120.0,
            (uuids[1], "idle", "bob"): 9_240.5,
            (uuids[2], "stuck", "carol"): 720.0,
            (uuids[3], "free", "-"): 64.0,
        },
        energy_j={},
        yields={"folding": Histogram((0.1, 0.5, 1.0, 5.0), (2, 18, 19, 19), 19, 5.7)},
        actions={("ask", "done"): 3, ("insist", "done"): 1, ("ask", "refused"): 2},
        unknowns={
            ("power_w", "the GPU is lost"): 310,
            ("holders", "pid 512 is gone"): 2,
            ("holders", "pid 9 is gone"): 1,
        },
    )
    resting = Process(4711, 12345)
    parked = ParkedJob(resting, (resting,), "ada", "job 4711 (python)", ((str(gpus[0].uuid), 20 * 2**30),), wall_s)
    status = Status("box", False, wall_s, gpus, (parked,))
    return board(
        status,
        fillers=fillers,
        guards=guards,
        protections=protections,
        counts=counts,
        config="/etc/fallow/fallow.toml",
        cluster=small(wall_s - 3),
    )


def many(wall_s: float, size: int) -> Board:
    """A machine with many GPUs, most of them busy, with a rule that is about to stop one."""
    plain = varied(wall_s)
    kinds = (0, 0, 0, 1, 0, 6, 0, 2, 0, 0, 3, 0, 4, 0, 0, 7)
    gpus = tuple(
        replace(plain.status.gpus[kinds[index % len(kinds)]], index=index, uuid=f"GPU-{index:08d}")
        for index in range(size)
    )
    rule = Counting("nights", "bob's job 50993 (python)", (str(gpus[3].uuid),), (), "idle", 9_240.0, "ask", 18.0)
    return replace(plain, status=replace(plain.status, gpus=gpus), counting=(rule,), cluster=None)
