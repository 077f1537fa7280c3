"""The names that exporters give to what GPUs do: fallow's own, and those of dcgm-exporter.

A query asks for all GPUs at once. `{w}` is the time since the last look, `{of}` the labels that are read.
"""

from collections.abc import Mapping
from typing import Literal, get_args

from fallow.core.value import value

TARGET = ("job", "instance")
"""The labels with which Prometheus says which exporter a series is from."""
HOSTS = (*TARGET, "exported_host", "host")
"""The labels of an exporter, and those of the host that it says it is on."""
OWNER = "owner"
FigureName = Literal["memory_used_bytes", "processes"]
FIGURES: tuple[FigureName, ...] = get_args(FigureName)


@value
class Load:
    """A metric of how much a GPU does."""

    metric: str
    whole: float
    """The value that means all the time."""
    of_instances: bool = True
    """Whether it says anything about a MIG instance."""
    of_moments: bool = False
    """Whether it shows moments alone: what the GPU did between two of them is not known."""


@value
class Figure:
    """Something else about a GPU, that may be missing."""

    query: str
    unit: float = 1.0
    """What its value is multiplied with."""


@value
class Vocabulary:
    """How one kind of exporter names GPUs and what they do."""

    name: str
    host: tuple[str, ...]
    """The labels with the GPU's host, the first that is there counts; empty if another series says it."""
    uuid: str
    index: str
    instance: str
    """The label of a MIG instance; empty if the UUID is its own."""
    loads: tuple[Load, ...]
    listed: tuple[str, ...]
    """Metrics that every GPU has one of."""
    figures: Mapping[FigureName, Figure]
    pods: tuple[tuple[str, str], ...] = ()
    """The labels of namespace and pod, the first pair that is there counts."""
    pod_query: str = ""
    """Says whose processes hold a GPU: the UID of a pod, in the label `OWNER`."""
    host_query: str = ""
    """Says which host an exporter is of, in the labels `HOSTS`."""
    age_query: str = ""
    """How old, in seconds, the exporter's own look at its GPUs was when it was last scraped."""
    busy_query: str = ""
    """For how many seconds of the time the exporter found the GPU busy; missing if it never did."""

    @property
    def of(self) -> tuple[str, ...]:
        """Return the labels that say which exporter saw which GPU."""
        return (*TARGET, *self.host, self.uuid, self.index, *filter(None, (self.instance,)))

    @property
    def of_listed(self) -> tuple[str, ...]:
        """Return these labels, then those of pods."""
        return (*self.of, *(name for pair in self.pods for name in pair))


def _now(metric: str) -> str:
    return f"max by ({{of}}) ({metric})"


def _highest(metric: str) -> str:
    return f"max by ({{of}}) (max_over_time({metric}[{{w}}]) and {metric})"


DCGM = Vocabulary(
    name="dcgm-exporter",
    host=("exported_Hostname", "Hostname"),
    uuid="UUID",
    index="gpu",
    instance="GPU_I_ID",
    # The first one is of the last second, or less, before dcgm-exporter looks. The second one is the mean of all the
    # time between two looks; it is there only where profiling is on.
    loads=(
        Load("DCGM_FI_DEV_GPU_UTIL", 100.0, of_instances=False, of_moments=True),
        Load("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1.0),
    ),
    listed=("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
    figures={"memory_used_bytes": Figure(_now("DCGM_FI_DEV_FB_USED"), 2**20)},
    # Where Prometheus has a namespace and a pod of its own for the exporter, it renames those of the GPU.
    pods=(("exported_namespace", "exported_pod"), ("namespace", "pod")),
)

OWN = Vocabulary(
    name="fallow",
    host=(),
    uuid="uuid",
    index="gpu",
    instance="",
    loads=(Load("fallow_gpu_utilization_ratio", 1.0),),
    listed=("fallow_gpu_info",),
    figures={
        "memory_used_bytes": Figure(_now("fallow_gpu_memory_used_bytes")),
        "processes": Figure(_highest("fallow_gpu_holders")),
    },
    pod_query='max by ({of}) (fallow_holder_idle_seconds{{owner_kind="pod"}})',
    host_query="max by ({of}) (fallow_info)",
    age_query="max by ({of}) (timestamp(fallow_last_look_time_seconds) - fallow_last_look_time_seconds)",
    busy_query='sum by ({of}) (increase(fallow_activity_seconds_total{{activity="busy"}}[{w}]))',
)
