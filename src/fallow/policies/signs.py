"""Find signs that a GPU is in use, so that no filler may be on it; the surest comes first.

    the GPU is in trouble, or its holders are unknown                                 Unknown
    another process holds it                                                          a sign
    a process has it open as only CUDA does                                           a sign
    it is claimed, or was picked moments ago                                          a sign
    a protection applies                                                              a sign
    it is too warm                                                                    a sign
    without a filler on it: something ran, or memory is held by no visible process    a sign

The filler's own processes, and programs that a person named to be ignored, are no sign.
"""

from fallow.core.activity import Activity, judge
from fallow.core.gpu import Gpu, Holder
from fallow.core.reservations import Reservations
from fallow.core.units import program_name
from fallow.core.unknown import Unknown
from fallow.core.value import value

_COOLER_BY_C = 5  # before a GPU that got too warm is filled again


@value
class Scene:
    """One GPU, and what was read to decide whether a filler may use it."""

    gpu: Gpu
    ignored: frozenset[int] = frozenset()
    """The holders that are no sign: the filler's own processes, and programs to be ignored."""
    opened_by: str | None = None
    """The process that has it open as only CUDA does, in words."""
    reservations: Reservations = Reservations()
    protection: str | None = None
    filled: bool = False
    max_temp_c: int | None = None


def sign(scene: Scene) -> str | Unknown | None:
    """Return the first sign, Unknown if there may be one, or None."""
    gpu = scene.gpu
    if gpu.trouble is not None:
        return Unknown(f"GPU {gpu.label}: {gpu.trouble}")
    if isinstance(gpu.holders, Unknown):
        return Unknown(f"who holds GPU {gpu.label} is {gpu.holders}")
    for holder in gpu.holders:
        if holder.pid not in scene.ignored:
            return f"{_who(holder)} is on GPU {gpu.label}"
    found = (
        scene.opened_by,
        _reserved(gpu, scene.reservations, scene.filled),
        scene.protection,
        _temperature(scene),
        None if scene.filled else _use(gpu),
    )
    return next((each for each in found if each is not None), None)


def in_hours(minute: int, first: int, last: int) -> bool:
    """Return whether a minute of the day is between two others, over midnight too."""
    return first <= minute < last if first <= last else minute >= first or minute < last


def _who(holder: Holder) -> str:
    user = f" of {holder.user}" if isinstance(holder.user, str) else ""
    command = f" ({program_name(holder.command)})" if isinstance(holder.command, str) else ""
    return f"pid {holder.pid}{user}{command}"


def _reserved(gpu: Gpu, reservations: Reservations, filled: bool) -> str | None:
    if reservations.filler is not None and not filled:
        return f"another filler is on GPU {gpu.label}: {reservations.filler}"
    if reservations.claim is not None:
        return f"GPU {gpu.label} is {reservations.claim}"
    return f"somebody picked GPU {gpu.label} moments ago" if reservations.reserved else None


def _temperature(scene: Scene) -> str | Unknown | None:
    gpu, limit_c = scene.gpu, scene.max_temp_c
    if limit_c is None:
        return None
    if isinstance(gpu.temperature_c, Unknown):
        return Unknown(f"the temperature of GPU {gpu.label} is {gpu.temperature_c}")
    if gpu.temperature_c > (limit_c if scene.filled else limit_c - _COOLER_BY_C):
        return f"GPU {gpu.label} is at {gpu.temperature_c} °C, and at most {limit_c} °C are allowed"
    return None


def _use(gpu: Gpu) -> str | Unknown | None:
    """Return the sign that a GPU without holders is used."""
    if gpu.holders:  # all are ignored, so their work is ignored too
        return None
    if not isinstance(gpu.recent, Unknown) and gpu.recent.peak > 0:
        return f"something ran on GPU {gpu.label} in the last {gpu.recent.seconds:.0f} s"
    finding = judge(gpu)
    if finding.activity is Activity.FREE:
        return None
    sentence = f"GPU {gpu.label}: {finding.because}"
    return Unknown(sentence) if finding.activity is Activity.UNKNOWN else sentence
