"""How each activity looks: its colour on a light and on a dark page and on a terminal, and what it means."""

from typing import NamedTuple

from fallow.core.activity import Activity


class Look(NamedTuple):
    """The colours of an activity, and its meaning."""

    light: str
    dark: str
    terminal: str
    meaning: str


LOOKS = {
    Activity.FREE: Look("#58a277", "#4d9a6c", "green", "nobody holds it"),
    Activity.FILLED: Look("#2f9e9e", "#4fb8b8", "cyan", "only fillers are on it, which leave when needed"),
    Activity.BUSY: Look("#2b6cb0", "#5a9fe0", "blue", "something ran"),
    Activity.IDLE: Look("#d99a00", "#f0b73a", "yellow", "held, and nothing ran"),
    Activity.STUCK: Look("#c53030", "#f2655c", "red", "looks busy and does nothing"),
    Activity.UNKNOWN: Look("#85789a", "#a497b8", "magenta", "what the answer needs could not be read"),
}
