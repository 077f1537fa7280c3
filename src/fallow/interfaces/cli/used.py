"""The last line of a watched `fallow run`: what the job used, and what that costs. What is not known is left out."""

from collections.abc import Sequence

from fallow.core.gpu import Gpu
from fallow.core.interval import Card
from fallow.core.money import Prices
from fallow.core.units import bytes_for_people, duration_for_people
from fallow.core.unknown import Unknown
from fallow.engine.answers.report import prices_in_force
from fallow.engine.jobs.usage import Used
from fallow.engine.machine.world import World
from fallow.interfaces.stderr import Stderr

_J_PER_WH = 3600.0
_WH_AS_KWH = 100.0
_FEW_WH = 10.0


def say_used(used: Used, gpus: Sequence[Gpu], world: World, voice: Stderr) -> None:
    """Print the line."""
    try:
        prices = prices_in_force(world, world.daemon(voice.detail), voice.detail)
    except Exception as error:  # noqa: BLE001  the job has ended, and its exit code must stay the last word
        voice.detail(f"without prices: {type(error).__name__}: {error}")
        prices = Prices()
    voice.note(line(used, gpus, prices))


def line(used: Used, gpus: Sequence[Gpu], prices: Prices) -> str:
    """Return `2 GPUs for 6h10m: 71% busy, at most 43.0 GiB, 4.1 kWh, 31.00 USD`."""
    facts: list[str] = []
    if not isinstance(used.busy, Unknown):
        facts.append(f"{used.busy:.0%} busy")
    if not isinstance(used.memory_bytes, Unknown):
        facts.append(f"at most {bytes_for_people(used.memory_bytes)}" if used.memory_bytes else "no memory")
    if not isinstance(used.energy_j, Unknown):
        facts.append(_energy(used.energy_j / _J_PER_WH))
    cost = _cost(used.for_s, gpus, prices)
    if cost is not None:
        facts.append(prices.in_words(cost) if prices.currency else f"cost {prices.in_words(cost)}")
    what = f"{len(gpus)} {'GPU' if len(gpus) == 1 else 'GPUs'} for {duration_for_people(used.for_s)}"
    return f"{what}: {', '.join(facts)}" if facts else what


def _energy(drawn_wh: float) -> str:
    if drawn_wh >= _WH_AS_KWH:
        return f"{drawn_wh / 1000:,.1f} kWh"
    return f"{drawn_wh:.0f} Wh" if drawn_wh >= _FEW_WH else f"{drawn_wh:.1f} Wh"


def _cost(for_s: float, gpus: Sequence[Gpu], prices: Prices) -> float | None:
    """Return what these GPUs cost for so long; None if one of them has no price."""
    total = 0.0
    for gpu in gpus:
        price = prices.of(Card(str(gpu.uuid), gpu.label, gpu.name if isinstance(gpu.name, str) else "?"))
        if isinstance(price, Unknown):
            return None
        total += price * for_s / 3600
    return total
