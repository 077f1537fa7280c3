"""Find signs that a GPU is in use, so that no filler may be on it; the surest comes first.

    the GPU is in trouble, or its holders are unknown                                 Unknown
    another process holds it                                                          a sign
    it is claimed, or was picked moments ago                                          a sign
    a protection applies                                                              a sign
    without a filler on it: something ran, or memory is held by no visible process    a sign

The filler's own processes, and programs that a person named to be ignored, are no sign.
"""

from fallow.core.activity import Activity, judge
from fallow.core.gpu import Gpu
from fallow.core.reasons import Reason
from fallow.core.reservations import Reservations
from fallow.core.units import program_name
from fallow.core.unknown import Unknown
from fallow.core.value import value


@value
class Scene:
    """One GPU, and what was read to decide whether a filler may use it."""

    gpu: Gpu
    """With those holders alone that are not to be ignored."""
    reservations: Reservations = Reservations()
    protection: Reason | None = None
    ignored: bool = False
    """Whether a filler or a program that is ignored is on it, so that what it does is no sign."""


def sign(scene: Scene) -> Reason | Unknown | None:
    """Return the first sign, Unknown if there may be one, or None."""
    gpu = scene.gpu
    if gpu.trouble is not None:
        return Unknown(f"GPU {gpu.label}: {gpu.trouble}")
    if isinstance(gpu.holders, Unknown):
        return Unknown(f"who holds GPU {gpu.label} is {gpu.holders}")
    for holder in gpu.holders:
        who = process_in_words(holder.pid, holder.user, holder.command)
        return Reason("occupied", process=who, pid=holder.pid, gpu=gpu.label)
    return _reserved(gpu, scene.reservations) or scene.protection or (None if scene.ignored else _use(gpu))


def in_hours(minute: int, first: int, last: int) -> bool:
    """Return whether a minute of the day is between two others, over midnight too."""
    return first <= minute < last if first <= last else minute >= first or minute < last


def process_in_words(pid: int, user: str | Unknown, command: str | Unknown) -> str:
    """Return `pid 7 of ada (python)`, as far as it is known."""
    whose = "" if isinstance(user, Unknown) else f" of {user}"
    what = "" if isinstance(command, Unknown) else f" ({program_name(command)})"
    return f"pid {pid}{whose}{what}"


def _reserved(gpu: Gpu, reservations: Reservations) -> Reason | None:
    if reservations.filler is not None:
        return Reason("other_filler", gpu=gpu.label, filler=str(reservations.filler))
    if reservations.claim is not None:
        return Reason("gpu_claimed", gpu=gpu.label, claim=str(reservations.claim))
    return Reason("picked", gpu=gpu.label) if reservations.picked else None


def _use(gpu: Gpu) -> Reason | Unknown | None:
    """Return the sign that a GPU without holders is used."""
    if not isinstance(gpu.recent, Unknown) and gpu.recent.peak > 0:
        return Reason("something_ran", gpu=gpu.label, seconds=gpu.recent.seconds)
    finding = judge(gpu)
    if finding.activity is Activity.FREE:
        return None
    in_use = Reason("in_use", gpu=gpu.label, found=finding.reason)
    return Unknown(str(in_use)) if finding.activity is Activity.UNKNOWN else in_use
