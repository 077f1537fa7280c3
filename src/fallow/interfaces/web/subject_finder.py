"""Find the GPU, job or user that an address is about, as far as who asks may see it."""

from fallow.core.findings import USER, gpu_key, process_key
from fallow.core.gpu_status import GpuStatus
from fallow.core.interval import NOBODY, SOMEBODY
from fallow.core.units import is_number, shortened
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.daemon.sources import Sources
from fallow.engine.history.report import Report
from fallow.interfaces.web import dashboard, subject_views
from fallow.interfaces.web.caller import Caller
from fallow.interfaces.web.plots import Plotted
from fallow.interfaces.web.subject_reads import MONTH, SubjectReads
from fallow.interfaces.web.subject_views import Held, held_now
from fallow.policies.cost import By

_LONGEST = 96
_NOT_NAMES = (NOBODY.user, SOMEBODY.user)


@value
class Found:
    """A subject: what its page is called, what is read of it, and what is on GPUs now."""

    kind: str
    title: str
    address: str
    plotted: Plotted
    held: tuple[Held, ...]
    keys: tuple[str, ...]
    gpu: GpuStatus | None = None
    uuid: str | None = None
    tables: tuple[By, ...] = ()
    lead: str = ""


class SubjectFinder:
    """Finds what an address is about, as the caller may see it; None if nobody has heard of it."""

    def __init__(self, sources: Sources, reads: SubjectReads) -> None:
        self._sources = sources
        self._reads = reads

    async def gpu(self, name: str, caller: Caller) -> Found | None:
        """Find a GPU by its UUID or its index."""
        board = self._sources.board()
        gpus = () if board is None else board.as_seen_by(caller.viewer).gpus
        gpu = next((one for one in gpus if name in (one.uuid, one.label)), None)
        if gpu is None:
            card = next((report.cards[name] for report in await self._cached() if name in report.cards), None)
            if card is None:
                return None
            label, model, uuid = card.label, card.name, card.uuid
        else:
            label, uuid = gpu.label, gpu.uuid if isinstance(gpu.uuid, str) else ""
            model = "" if isinstance(gpu.name, Unknown) else gpu.name
        held = tuple(one for one in held_now(board, caller.viewer) if one.gpu.label == label and gpu is not None)
        return Found(
            kind="gpu",
            title=f"GPU {label}",
            address=f"/gpus/{uuid or label}",
            plotted=Plotted((uuid,) if uuid else ()),
            held=held,
            keys=(gpu_key(uuid),) if uuid else (),
            gpu=gpu,
            uuid=uuid,
            tables=(By.USER, By.JOB),
            lead=f"{shortened(model, _LONGEST)}{'' if gpu is not None else '; it is no longer in this machine'}",
        )

    async def job(self, name: str, caller: Caller) -> Found | None:
        """Find a process by its pid, or its pid and birth: one that holds a GPU, or of which the journal tells."""
        pid, dash, birth = name.partition("-")
        if not is_number(pid) or (dash and not is_number(birth)):
            return None
        held = tuple(
            one
            for one in held_now(self._sources.board(), caller.viewer)
            if str(one.holder.pid) == pid and birth in ("", str(one.holder.birth))
        )
        keys = subject_views.keys_of(held) or ((process_key(int(pid), int(birth)),) if birth else (f"pid:{pid}",))
        title, address = f"Job {pid}", f"/jobs/{name}"
        if not held:
            told = await self._reads.events(keys)
            if isinstance(told, str) or not told:
                return None
            return Found(
                *("job", title, address, Plotted(()), (), keys), lead=f"{told[0].subject}; it holds no GPU now"
            )
        party, seen = held[0].party, held[0].seen
        command = "" if isinstance(seen.command, Unknown) else shortened(seen.command, _LONGEST)
        return Found(
            *("job", title, address, Plotted(None, party.user, party.job), held, keys),
            tables=(By.GPU,),
            lead=command,
        )

    async def user(self, name: str, caller: Caller) -> Found | None:
        """Find a user who holds or has claimed a GPU now, or did in the last 30 days."""
        board = self._sources.board()
        held = tuple(one for one in held_now(board, caller.viewer) if one.holder.user == name)
        claims = board is not None and any(name in dashboard.users_of(gpu) for gpu in board.status.gpus)

        if name in _NOT_NAMES:
            return None
        is_here = bool(held) or claims or await self._was_there(name)
        if not is_here and not await self._is_told_of(f"{USER}{name}"):
            return None
        return Found(
            *("user", name, dashboard.user_address(name), Plotted(None, name), held),
            (f"{USER}{name}", *subject_views.keys_of(held)),
            tables=(By.GPU, By.JOB),
        )

    async def _is_told_of(self, key: str) -> bool:
        """Return whether the journal tells of such a thing."""
        told = await self._reads.events((key,))
        return not isinstance(told, str) and bool(told)

    async def _cached(self) -> list[Report]:
        reports = await self._reads.reports()
        return [] if isinstance(reports, str) else list(reports.values())

    async def _was_there(self, name: str) -> bool:
        """Return whether the last 30 days know such a user."""
        reports = await self._reads.reports()
        intervals = () if isinstance(reports, str) else reports[MONTH].intervals
        return any(party.user == name for one in intervals for party in one.parties)
