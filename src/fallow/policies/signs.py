"""Signs of anybody on a GPU: what speaks against a filler there, the surest first.

    the card is in trouble, or who holds it is not known                              Unknown
    somebody else holds it                                                            a sign
    somebody has it open as only work does                                            a sign
    it is claimed, or was picked moments ago                                          a sign
    a person has asked to leave it alone                                              a sign
    it is too warm                                                                    a sign
    without a filler on it: something ran, or memory is held by no visible process        a sign

The filler's own processes, and programs that the person named to be ignored, are nobody.
"""

from fallow.core.activity import Activity, judge
from fallow.core.gpu import Gpu, Holder
from fallow.core.reservations import Reservations
from fallow.core.units import program_name
from fallow.core.unknown import Unknown
from fallow.core.value import value

_COOLER_BY_C = 5  # before a card that got too warm is filled again


@value
class Scene:
    """One GPU, and what was found around it."""

    gpu: Gpu
    nobody: frozenset[int] = frozenset()
    """Processes that do not count: the filler's own, and those to be ignored."""
    opened_by: str | None = None
    """Who has it open as only work does, in words."""
    promised: Reservations = Reservations()
    protection: str | None = None
    filled: bool = False
    max_temp_c: int | None = None


def sign(scene: Scene) -> str | Unknown | None:
    """The first sign of anybody; Unknown where it cannot be told; None where nobody is."""
    gpu = scene.gpu
    if gpu.trouble is not None:
        return Unknown(f"GPU {gpu.label}: {gpu.trouble}")
    if isinstance(gpu.holders, Unknown):
        return Unknown(f"who holds GPU {gpu.label} is {gpu.holders}")
    for holder in gpu.holders:
        if holder.pid not in scene.nobody:
            return f"{_who(holder)} is on GPU {gpu.label}"
    found = (
        scene.opened_by,
        _promised(gpu, scene.promised, scene.filled),
        scene.protection,
        _warmth(scene),
        None if scene.filled else _use(gpu),
    )
    return next((each for each in found if each is not None), None)


def in_hours(minute: int, first: int, last: int) -> bool:
    """Whether a minute of the day is between two others, over midnight too."""
    return first <= minute < last if first <= last else minute >= first or minute < last


def _who(holder: Holder) -> str:
    user = f" of {holder.user}" if isinstance(holder.user, str) else ""
    command = f" ({program_name(holder.command)})" if isinstance(holder.command, str) else ""
    return f"pid {holder.pid}{user}{command}"


def _promised(gpu: Gpu, promised: Reservations, filled: bool) -> str | None:
    if promised.filler is not None and not filled:
        return f"another filler is on GPU {gpu.label}: {promised.filler}"
    if promised.claim is not None:
        return f"GPU {gpu.label} is {promised.claim}"
    return f"somebody picked GPU {gpu.label} moments ago" if promised.reserved else None


def _warmth(scene: Scene) -> str | Unknown | None:
    gpu, limit_c = scene.gpu, scene.max_temp_c
    if limit_c is None:
        return None
    if isinstance(gpu.temperature_c, Unknown):
        return Unknown(f"the temperature of GPU {gpu.label} is {gpu.temperature_c}")
    if gpu.temperature_c > (limit_c if scene.filled else limit_c - _COOLER_BY_C):
        return f"GPU {gpu.label} is at {gpu.temperature_c} °C, and at most {limit_c} °C are allowed"
    return None


def _use(gpu: Gpu) -> str | Unknown | None:
    """Whether anything used a card that no process but those that are nobody holds."""
    if gpu.holders:  # only those to be ignored: their work is ignored too
        return None
    if not isinstance(gpu.recent, Unknown) and gpu.recent.peak > 0:
        return f"something ran on GPU {gpu.label} in the last {gpu.recent.seconds:.0f} s"
    finding = judge(gpu)
    if finding.activity is Activity.FREE:
        return None
    sentence = f"GPU {gpu.label}: {finding.because}"
    return Unknown(sentence) if finding.activity is Activity.UNKNOWN else sentence
