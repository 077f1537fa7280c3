"""The colour of each activity on a light and on a dark background, and what the activity means."""

from fallow.core.activity import Activity

LIGHT = {
    Activity.FREE: "#58a277",
    Activity.FILLED: "#2f9e9e",
    Activity.BUSY: "#2b6cb0",
    Activity.IDLE: "#d99a00",
    Activity.STUCK: "#c53030",
    Activity.UNKNOWN: "#85789a",
}
DARK = {
    Activity.FREE: "#4d9a6c",
    Activity.FILLED: "#4fb8b8",
    Activity.BUSY: "#5a9fe0",
    Activity.IDLE: "#f0b73a",
    Activity.STUCK: "#f2655c",
    Activity.UNKNOWN: "#a497b8",
}
MEANING = {
    Activity.FREE: "nobody holds it",
    Activity.FILLED: "only fillers are on it, which leave when needed",
    Activity.BUSY: "something ran",
    Activity.IDLE: "held, and nothing ran",
    Activity.STUCK: "looks busy and does nothing",
    Activity.UNKNOWN: "what the answer needs could not be read",
}
