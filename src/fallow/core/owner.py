"""The owner of a job: what started it and would start it again, so that it is stopped there and not by a signal."""

from collections.abc import Mapping
from enum import StrEnum

from fallow.core.unknown import NOT_ASKED, Unknown
from fallow.core.value import value

_SHORT_ID = 12


class OwnerKind(StrEnum):
    """What can own a job."""

    NOTEBOOK = "notebook"
    """A kernel of a Jupyter server."""
    KERNEL = "kernel"
    """A Jupyter kernel that another program started, such as VS Code."""
    CONTAINER = "container"
    SERVICE = "service"
    """A unit of systemd."""
    SLURM = "slurm"
    POD = "pod"
    TMUX = "tmux"
    SSH = "ssh"
    PROCESS = "process"
    """Nothing but the process itself."""


_IN_WORDS = {
    OwnerKind.NOTEBOOK: "notebook {}",
    OwnerKind.KERNEL: "kernel of {}",
    OwnerKind.CONTAINER: "container {}",
    OwnerKind.SERVICE: "{}",
    OwnerKind.SLURM: "Slurm job {}",
    OwnerKind.POD: "pod {}",
    OwnerKind.TMUX: "tmux session",
    OwnerKind.SSH: "ssh session",
    OwnerKind.PROCESS: "",
}


_LASTING = frozenset((OwnerKind.NOTEBOOK, OwnerKind.CONTAINER, OwnerKind.SERVICE, OwnerKind.SLURM, OwnerKind.POD))


@value
class Owner:
    """An owner, identified by its kind and its id."""

    kind: OwnerKind
    id: str
    """The kernel's or the container's id, the name of the unit, the number of the Slurm job, the UID of the pod."""
    name: str | Unknown = NOT_ASKED
    """What people call it: the notebook, the container. Unknown while its engine has not answered."""
    manager: int | None = None
    """The user whose engine, server or service manager runs it; None for the machine's own."""
    cgroup: str = ""
    """The cgroup of a container or a unit, which the kernel gives to no other, whatever others call theirs."""

    @property
    def label(self) -> str:
        """Return it for people: `notebook train.ipynb`, `container vllm-prod`; empty for a process."""
        return _IN_WORDS[self.kind].format(self.short_name)

    @property
    def public_label(self) -> str:
        """Return it for everybody: the name of a notebook is only for its user and root."""
        return "notebook" if self.kind is OwnerKind.NOTEBOOK else self.label

    @property
    def short_name(self) -> str:
        """Return its name, or the beginning of its id while the name is not known."""
        return self.id[:_SHORT_ID] if isinstance(self.name, Unknown) else self.name

    @property
    def is_lasting(self) -> bool:
        """Return whether it has a name by which people know it over days, as a session has not."""
        return self.kind in _LASTING

    @property
    def key(self) -> tuple[str, int | None, str, str]:
        """Return what all processes have in common that it ends together, and no others."""
        return self.kind, self.manager, self.id, self.cgroup

    @property
    def is_asked(self) -> bool:
        """Return whether something can be asked about it, and told to stop it."""
        return self.kind in (OwnerKind.NOTEBOOK, OwnerKind.CONTAINER, OwnerKind.SERVICE)


NO_OWNER = Owner(OwnerKind.PROCESS, "", "")


@value
class OwnerFacts:
    """What an owner says about the job that it runs."""

    name: str
    busy: bool | Unknown = NOT_ASKED
    """Whether a kernel runs a cell."""
    active_at_s: float | Unknown = NOT_ASKED
    """When a kernel last did anything, in seconds since the epoch."""
    path: str = ""
    """The whole path of a notebook, as its server says it."""
    image: str = ""
    service: str = ""
    """The service of a compose file."""
    labels: Mapping[str, str] = {}
    pids: frozenset[int] | Unknown = NOT_ASKED
    """The processes that end with it."""
