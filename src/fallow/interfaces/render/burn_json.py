"""Render what `fallow burn --json` prints: the closing table, with unknown values as null and their reason."""

from collections.abc import Sequence
from typing import Any

from fallow.core.api import VERSION
from fallow.core.unknown import Unknown
from fallow.engine.burn.parent import Burned, BurnRequest
from fallow.interfaces.render.as_json import with_reasons


def as_json(request: BurnRequest, results: Sequence[Burned], *, simulated: bool) -> dict[str, Any]:
    """Return the whole run as JSON values."""
    return {
        "version": VERSION,
        "simulated": simulated,
        "load": request.ask.load.value,
        "verify": request.ask.verify,
        "errors": sum(card.tally.wrong_words for card in results),
        "gpus": [_card(card, simulated=simulated) for card in results],
    }


def _card(card: Burned, *, simulated: bool) -> dict[str, Any]:
    tally, seen = card.tally, card.measured
    none = Unknown("a simulated GPU has none" if simulated else "this load does none")
    facts = {
        "index": card.gpu.index,
        "mig_slot": card.gpu.mig.slot if card.gpu.mig is not None else None,
        "uuid": card.gpu.uuid,
        "name": card.gpu.name,
        "seconds": round(card.seconds, 3),
        "held_bytes": tally.held_bytes,
        "flop_per_s": _rate(tally.flop, card.seconds, none),
        "memory_bytes_per_s": _rate(tally.moved_bytes, card.seconds, none),
        "power_w": seen.power_w if isinstance(seen.power_w, Unknown) else round(seen.power_w, 1),
        "power_max_w": seen.power_max_w,
        "power_limit_w": seen.power_limit_w,
        "temperature_max_c": seen.temperature_max_c,
        "throttled_by": seen.throttled_by if isinstance(seen.throttled_by, Unknown) else list(seen.throttled_by),
        "checked_bytes": int(tally.checked_bytes),
        "wrong_words": tally.wrong_words,
        "freed_in_s": card.freed_in_s,
        "failed": card.failed,
    }
    return with_reasons(facts)


def _rate(amount: float, seconds: float, none: Unknown) -> float | Unknown:
    if not amount:
        return none
    return amount / seconds if seconds else Unknown("it was loaded for no time")
