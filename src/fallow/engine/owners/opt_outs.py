"""What people wrote where they write things anyway: container labels, an environment variable, names in the config.

    fallow.protect=yes      a container that no rule stops
    fallow.idle-for=8h      a container that may be idle for so long
    FALLOW_PROTECT=1        a process that no rule stops, and all of its job
    [protect] units, notebooks    of the config

A label that cannot be read protects: its author wanted something, and nobody knows what.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from fallow.core.errors import WrongUsage
from fallow.core.owner import Owner, OwnerFacts, OwnerKind
from fallow.core.reasons import Reason
from fallow.core.units import printable, span_s
from fallow.core.unknown import Unknown
from fallow.core.value import value

PROTECT, IDLE_FOR, VARIABLE = "fallow.protect", "fallow.idle-for", "FALLOW_PROTECT"
_YES, _NO = frozenset(("", "1", "yes", "true", "on")), frozenset(("0", "no", "false", "off"))
_LONGEST_TEXT = 40


@value
class OptOuts:
    """The units and notebooks that the config protects, as shell patterns."""

    units: tuple[str, ...] = ()
    notebooks: tuple[str, ...] = ()


NONE = OptOuts()


def opted_out(
    owner: Owner, facts: OwnerFacts | None, pid: int, environ: Mapping[str, str], config: OptOuts = NONE
) -> Reason | None:
    """Return why the people of a job said that it must be left alone, or None. `environ` is that of its `pid`."""
    by_variable = opted_out_by_variable(pid, environ)
    if by_variable is not None or facts is None:
        return by_variable
    if owner.kind is OwnerKind.NOTEBOOK and any(_is_below(facts.path, pattern) for pattern in config.notebooks):
        return Reason("protected_notebook")
    label = facts.labels.get(PROTECT)
    if label is not None and label.strip().lower() not in _NO:
        if label.strip().lower() in _YES:
            return Reason("protected_label", label=PROTECT, text=_short(label), owner=owner.label)
        return _unclear(owner, PROTECT, label, f"{PROTECT}=yes or {PROTECT}=no")
    if isinstance(idle_for_s(facts), Reason):
        return _unclear(owner, IDLE_FOR, facts.labels[IDLE_FOR], f"{IDLE_FOR}=8h")
    return None


def opted_out_by_variable(pid: int, environ: Mapping[str, str]) -> Reason | None:
    """Return why a process that was started with these variables must be left alone, or None."""
    text = environ.get(VARIABLE)
    if text is None or text.strip().lower() in _NO:
        return None
    return Reason("opted_out", pid=pid, text=_short(text))


def protected_unit(owner: Owner | Unknown, config: OptOuts) -> Reason | None:
    """Return the protection of a unit that the config names, whether or not the unit is one job."""
    if isinstance(owner, Unknown) or owner.kind is not OwnerKind.SERVICE:
        return None
    fits = any(fnmatchcase(owner.id, pattern) for pattern in config.units)
    return Reason("protected_unit", owner=owner.label) if fits else None


def idle_for_s(facts: OwnerFacts | None) -> float | Reason | None:
    """Return how long a container may be idle by its label; a reason if that cannot be read, None without one."""
    text = None if facts is None else facts.labels.get(IDLE_FOR)
    if text is None:
        return None
    try:
        return span_s(text) or Reason("unknown", why="it is 0")
    except WrongUsage as error:
        return Reason("unknown", why=str(error))


def _unclear(owner: Owner, label: str, text: str, example: str) -> Reason:
    return Reason("label_unclear", label=label, text=_short(text), owner=owner.label, example=example)


def _is_below(path: str, pattern: str) -> bool:
    return fnmatchcase(path, pattern) or fnmatchcase(path, f"{pattern.rstrip('/')}/*")


def _short(text: str) -> str:
    return printable(text)[:_LONGEST_TEXT]
