"""The types of the config's keys: how each is parsed, and its JSON Schema.

The schema is for editors and accepts all that the parsers accept; the parsers decide.
"""

from collections.abc import Callable, Iterable
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BeforeValidator, GetJsonSchemaHandler, PlainValidator, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from fallow.core.actions import HostAction
from fallow.core.address_template import AddressTemplate
from fallow.core.errors import WrongUsage
from fallow.engine.config import parse_values
from fallow.engine.config.gpu_lists import gpu_list
from fallow.engine.config.listen_address import Address

T = TypeVar("T")


def _typed(read: Callable[[object], object], **schema: object) -> tuple[PlainValidator, WithJsonSchema]:
    return PlainValidator(read), WithJsonSchema(dict(schema))


def _several(value: Any) -> Any:  # noqa: ANN401  whatever TOML gave; the items are read by their own types
    return value if isinstance(value, list | tuple) else [value]


def _not_empty(found: tuple[T, ...]) -> tuple[T, ...]:
    if not found:
        raise WrongUsage("the list is empty", "name at least one")
    return found


class _Alone:
    """Declare in the JSON Schema of a list that a single item may be written without the list."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        return {"anyOf": [schema, schema["items"]]}


def _whole(least: int, most: int) -> tuple[PlainValidator, WithJsonSchema]:
    read = partial(parse_values.whole, least=least, most=most)
    return _typed(read, type="integer", minimum=least, maximum=most)


_TIME = [
    {"type": "number", "minimum": 0},
    {"type": "string", "pattern": r"^\s*[0-9][0-9.msdhMSDH]*\s*$"},
]
_MONEY = [
    {"type": "number", "minimum": 0},
    {"type": "string", "pattern": r"^\s*[0-9]{1,9}([.,][0-9]{1,6})?\s*(/\s*h)?\s*$"},
]
_PERCENT = [
    {"type": "number", "minimum": 0, "maximum": 100},
    {"type": "string", "pattern": r"^\s*[0-9.]+\s*%?\s*$"},
]
_SOME_PERCENT = [{"type": "number", "exclusiveMinimum": 0, "maximum": 100}, _PERCENT[1]]
_WORD = {"type": "string", "minLength": 1}
_WORDS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_GPU = {"type": ["string", "integer"], "minLength": 1, "minimum": 0}
_GPUS = [_GPU, {"type": "array", "items": _GPU, "minItems": 1}]
_ON_IDLE = [
    {"enum": ["stop", "park"]},
    {"type": "array", "items": {"enum": ["park", "stop"]}, "minItems": 1, "maxItems": 2},
]
_ACTION = r"^\s*([Rr][Uu][Nn]|[Nn][Oo][Tt][Ii][Ff][Yy]|[Ss][Hh][Uu][Tt]|[Rr][Ee][Bb])"

Flag = Annotated[bool, *_typed(parse_values.flag, type="boolean")]
Text = Annotated[str, *_typed(parse_values.text, **_WORD)]
Name = Annotated[str, *_typed(parse_values.name, type="string", pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")]
Duration = Annotated[float, *_typed(parse_values.duration, anyOf=_TIME, examples=["30s", "1h30m"])]
SomeTime = Annotated[float, *_typed(parse_values.some_time, anyOf=_TIME, examples=["30s", "1h30m"])]
UserIdle = Annotated[float, *_typed(parse_values.user_idle, anyOf=_TIME, examples=["30s", "1h30m"])]
OwnTick = Annotated[float, *_typed(parse_values.own_tick, anyOf=_TIME, examples=["1s", "500ms"])]
Tick = Annotated[float, *_typed(parse_values.tick, anyOf=_TIME, examples=["1s", "500ms"])]
Share = Annotated[float, *_typed(parse_values.share, anyOf=_PERCENT, examples=[5, "5%"])]
SomeShare = Annotated[float, *_typed(parse_values.some_share, anyOf=_SOME_PERCENT, examples=[5, "5%"])]
Priority = Annotated[int, *_whole(-100, 100)]
Count = Annotated[int, *_whole(1, 10000)]
Money = Annotated[float, *_typed(parse_values.money, anyOf=_MONEY)]
Currency = Annotated[str, *_typed(parse_values.currency, **_WORD, examples=["USD", "EUR"])]
Command = Annotated[tuple[str, ...], *_typed(parse_values.command, anyOf=[_WORDS, _WORD])]
Gpus = Annotated[str, *_typed(gpu_list, anyOf=_GPUS, examples=["all", "0-3", [0, 2]])]
Between = Annotated[
    tuple[int, int], *_typed(parse_values.between, type="string", pattern="-", examples=["22:00-06:00"])
]
Place = Annotated[str, *_typed(parse_values.place, type="string", pattern="^[/~]")]
HomePlace = Annotated[str, *_typed(parse_values.place_at_home, type="string", pattern="^[/~]")]
Host = Annotated[
    str, *_typed(parse_values.host, **_WORD, pattern=r"^([^/:]+|\[?[0-9A-Fa-f:.]+\]?)$", examples=["gpu-server"])
]
Url = Annotated[str, *_typed(parse_values.url, type="string", pattern="://", examples=["ntfy://my-topic"])]
HttpUrl = Annotated[
    str, *_typed(parse_values.http_url, type="string", pattern="^https?://", examples=["http://127.0.0.1:9090"])
]
Template = Annotated[
    AddressTemplate,
    *_typed(parse_values.template, type="string", pattern="://", examples=["mailto://{user}@example.org"]),
]
Listen = Annotated[Address, *_typed(parse_values.listen, type="string", pattern=":", examples=["127.0.0.1:8990"])]
Signal = Annotated[str, *_typed(parse_values.signal, **_WORD, examples=["TERM", "INT"])]
WarnSignal = Annotated[str, *_typed(parse_values.warn_signal, **_WORD, examples=["USR1"])]
Action = Annotated[
    HostAction, *_typed(parse_values.action, type="string", pattern=_ACTION, examples=["run:make", "shutdown"])
]
RunLine = Annotated[
    str, *_typed(parse_values.run_line, type="string", pattern=r"^\s*[Rr][Uu][Nn]\s*:", examples=["run:save-work"])
]
OnIdle = Annotated[tuple[str, ...], *_typed(parse_values.on_idle, anyOf=_ON_IDLE, examples=[["park", "stop"]])]
Condition = Annotated[str, *_typed(parse_values.condition, type="string", examples=["users", "cpu:20"])]
JobCondition = Annotated[str, *_typed(parse_values.job_condition, type="string", examples=["cpu:50", "jupyter"])]
Unit = Annotated[str, *_typed(parse_values.unit, **_WORD, examples=["ollama.service"])]
Notebooks = Annotated[str, *_typed(parse_values.notebooks, type="string", pattern="^[/*]")]
Variable = Annotated[str, *_typed(parse_values.variable, type="string")]
Setting = Annotated[str, *_typed(parse_values.setting, type=["string", "number"])]

_TIMES = (parse_values.duration, parse_values.some_time, parse_values.user_idle)


def is_time(annotation: object, metadata: Iterable[object] = ()) -> bool:
    """Return whether a key of this type is a time that may be counted in minutes as well as in seconds."""
    if any(isinstance(each, PlainValidator) and each.func in _TIMES for each in metadata):
        return True
    return any(is_time(each, getattr(each, "__metadata__", ())) for each in get_args(annotation))


Several = Annotated[tuple[T, ...], BeforeValidator(_several), _Alone()]
"""The type of a list; a single item may be written without its brackets."""

OneOrMore = Annotated[Several[T], AfterValidator(_not_empty)]
"""The type of such a list that must not be empty."""

FROZEN = AfterValidator(lambda found: MappingProxyType(dict(found)))
"""Makes a table of pairs immutable."""
